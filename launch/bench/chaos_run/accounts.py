"""The accounts of a run that was broken: what was lost under which reason, and what is unaccounted for."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from launch.bench.chaos_run.victim import Look
from launch.records.metrics_db import read_names, read_series
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import check_saved_run
from learner.checkpoint import BadCheckpointError, list_checkpoints, load_checkpoint

_LEDGER = ("received", "inserted", "stored", "removed", "not_saved", "died", "rejected", "failed", "lost")
_REASONS = ("totals/restarts/", "totals/unrolls_lost/", "totals/updates_lost/", "totals/shards_lost")
_IN_SHARDS = "totals/unrolls_lost/shard"
"""Unrolls that had arrived."""


def read_accounts(path: Path) -> dict[str, int]:
    """Return a run's numbers of unrolls at each stage, what was lost by reason, and what no reason explains."""
    metrics = path / "metrics.db"
    names = [name for name in read_names(metrics) if name.startswith(("ledger/", "totals/"))]
    # What was first recorded after the checkpoint of a killed run has a name, and no point any more.
    newest = {name: int(points[-1][1]) for name in names if (points := read_series(metrics, name))}

    def total(prefix: str) -> int:
        return sum(value for name, value in newest.items() if name.startswith(prefix))

    return {
        "ledger/made": newest["totals/unrolls"],
        "ledger/sent": num_sent(newest),
        **{f"ledger/{name}": newest[f"ledger/{name}"] for name in _LEDGER},
        **{name.removeprefix("totals/"): n for name, n in sorted(newest.items()) if name.startswith(_REASONS)},
        "unaccounted": num_unaccounted(newest),
        "imbalance": total("ledger/imbalance/"),
        "duplicates": newest["ledger/duplicates"],
        "invalid_checkpoints": _num_invalid(path),
    }


def num_sent(values: Mapping[str, float]) -> int:
    """Return how many unrolls actors sent: those that they reported as made, and those that arrived and were not.

    Args:
        values: the newest of a run's totals and of its ledger, by their names in the record.
    """
    unreported = sum(n for name, n in values.items() if name.startswith("totals/unrolls_unreported/"))
    return int(values["totals/unrolls"] + unreported)


def num_unaccounted(values: Mapping[str, float]) -> int:
    """Return how many unrolls were sent and neither arrived nor are lost under a reason; 0 once nothing is under way.

    Args:
        values: the newest of a run's totals and of its ledger, by their names in the record.
    """
    lost = {name: n for name, n in values.items() if name.startswith("totals/unrolls_lost/") and name != _IN_SHARDS}
    arrived = sum(values[f"ledger/{name}"] for name in ("inserted", "rejected", "failed", "lost"))
    return int(num_sent(values) - arrived - sum(lost.values()))


def _num_invalid(path: Path) -> int:
    num = 0
    for checkpoint in list_checkpoints(RunDirectory(path, resumed=True).checkpoints_path):
        try:
            check_saved_run(load_checkpoint(checkpoint))
        except (BadCheckpointError, ValueError):
            num += 1
    return num


def summarise_recoveries(deaths: Sequence[tuple[float, int]], looks: Sequence[Look]) -> dict[str, Any]:
    """Return the median and the longest time from a learner's death to the next update, in seconds.

    Beside it stands the longest time without a recorded env step between the two: whether actors go on without a
    learner. The record has a moment for each second, so actors that never stop have 1 s. Deaths after which the run
    ended are left out.

    Args:
        deaths: for each the time, and how many deaths had been noticed before.
        looks: moments of the run, in their order.
    """
    spans = [(at, end) for at, before in deaths if (end := _next_update(at, before, looks)) is not None]
    if not spans:
        return {"learner_recoveries": 0}
    seconds = [end - at for at, end in spans]
    stops = [_longest_stop_s(at, end, looks) for at, end in spans]
    return {
        "learner_recoveries": len(spans),
        "learner_recovery_s_median": statistics.median(seconds),
        "learner_recovery_s_worst": max(seconds),
        "actors_stop_s_median": statistics.median(stops),
        "actors_stop_s_worst": max(stops),
    }


def _next_update(at: float, num_before: int, looks: Sequence[Look]) -> float | None:
    # Updates may still rise until the death is noticed: the last ones of the dead learner.
    noticed = [look for look in looks if look.at > at and look.num_deaths > num_before]
    for before, now in itertools.pairwise(noticed):
        if now.num_updates > before.num_updates:
            return now.at
    return None


def _longest_stop_s(begin: float, end: float, looks: Sequence[Look]) -> float:
    """Return the longest time without a recorded env step from `begin` to `end`, in seconds."""
    pairs = itertools.pairwise(looks)
    acted = [now.at for before, now in pairs if now.num_steps > before.num_steps and begin < now.at < end]
    return max(after - before for before, after in itertools.pairwise([begin, *acted, end]))
