"""The balances of a run's accounts, read from its record."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path

from launch.bench.chaos_run.accounts import num_unaccounted

_NEEDED = {
    "totals/unrolls",
    *(f"ledger/{name}" for name in ("inserted", "rejected", "failed", "lost", "received", "waiting")),
}
_ONLY_RISE = ("received", "inserted", "rejected", "failed")


def imbalances_in(path: Path) -> dict[str, float]:
    """Return the differences in a run's accounts at its last moment that are not 0; {} where they cannot be read.

    Of a run that has ended, that is also what was sent and has neither arrived nor is lost, and what waits. Members
    that share a replay sent it together, so there these two are differences of the one that ended last.
    """
    values = _newest(path)
    differences = {name: value for name, value in values.items() if name.startswith("ledger/imbalance/")}
    of_all = _of_all_members(path.parent) if _shares_its_replay(path.parent) else [path.parent]
    records = [_newest(run / "metrics.db") for run in of_all]
    if all(map(_has_ended, of_all)) and all(record.keys() >= _NEEDED for record in records):
        newest = max(records, key=lambda record: sum(record[f"ledger/{name}"] for name in _ONLY_RISE))
        if newest == values:
            differences |= {"unaccounted": _num_unaccounted(records, newest), "waiting": values["ledger/waiting"]}
    return {name: value for name, value in differences.items() if value}


def _num_unaccounted(records: list[dict[str, float]], newest: dict[str, float]) -> int:
    totals = Counter[str]()
    for record in records:
        totals.update({name: n for name, n in record.items() if name.startswith("totals/")})
    return num_unaccounted({**newest, **totals})


def _newest(path: Path) -> dict[str, float]:
    newest = (
        "SELECT n.name, (SELECT p.value FROM points p WHERE p.id = n.id ORDER BY p.tick DESC LIMIT 1) AS newest "
        "FROM names n WHERE (n.name LIKE 'ledger/%' OR n.name LIKE 'totals/%') AND newest IS NOT NULL"
    )
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return dict(connection.execute(newest))
    except sqlite3.Error:  # a test that breaks the file
        return {}


def _has_ended(run: Path) -> bool:
    """Return whether the last thing that a run's log tells of it is its end; a killed run says nothing of its own."""
    try:
        last = (run / "log.txt").read_text().rpartition(" running: ")[2]
    except (OSError, UnicodeError):
        return False
    return " finished: " in last


def _shares_its_replay(run: Path) -> bool:
    """Return whether a run is a member of a sweep whose members draw from one replay, which holds all their unrolls."""
    try:
        return bool(json.loads((run.parents[1] / "config.json").read_text())["sweep"]["options"]["share_replay"])
    except (OSError, ValueError, LookupError):
        return False


def _of_all_members(run: Path) -> list[Path]:
    return sorted(run.parent.iterdir())
