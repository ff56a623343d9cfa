"""The accounts of a run that was broken: what was lost under which reason, and what is unaccounted for."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launch.bench.chaos_run.victim import Look
from launch.records.metrics_db import read_names, read_series
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import check_saved_run
from learner.checkpoint import BadCheckpointError, list_checkpoints, load_checkpoint

_LEDGER = ("received", "inserted", "stored", "removed", "not_saved", "died", "rejected", "failed", "lost")
_REASONS = ("totals/restarts/", "totals/unrolls_lost/", "totals/updates_lost/", "totals/shards_lost")


def read_accounts(path: Path) -> dict[str, int]:
    """Return a run's numbers of unrolls at each stage, what was lost by reason, and what no reason explains.

    Unrolls that were sent are those that actors reported as made, and those that arrived and were not reported.
    """
    metrics = path / "metrics.db"
    names = [name for name in read_names(metrics) if name.startswith(("ledger/", "totals/"))]
    # What was first recorded after the checkpoint of a killed run has a name, and no point any more.
    newest = {name: int(points[-1][1]) for name in names if (points := read_series(metrics, name))}

    def total(prefix: str) -> int:
        return sum(value for name, value in newest.items() if name.startswith(prefix))

    made = newest["totals/unrolls"]
    sent = made + total("totals/unrolls_unreported/")
    lost_on_the_way = total("totals/unrolls_lost/") - newest.get("totals/unrolls_lost/shard", 0)
    arrived = sum(newest[f"ledger/{name}"] for name in ("inserted", "rejected", "failed", "lost"))
    return {
        "ledger/made": made,
        "ledger/sent": sent,
        **{f"ledger/{name}": newest[f"ledger/{name}"] for name in _LEDGER},
        **{name.removeprefix("totals/"): n for name, n in sorted(newest.items()) if name.startswith(_REASONS)},
        "unaccounted": sent - arrived - lost_on_the_way,
        "imbalance": total("ledger/imbalance/"),
        "duplicates": newest["ledger/duplicates"],
        "invalid_checkpoints": _num_invalid(path),
    }


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

    Deaths after which the run ended are left out.

    Args:
        deaths: for each the time, and how many deaths had been noticed before.
        looks: moments of the run, in their order.
    """
    seconds = [found for at, before in deaths if (found := _recovery_s(at, before, looks)) is not None]
    if not seconds:
        return {"learner_recoveries": 0}
    return {
        "learner_recoveries": len(seconds),
        "learner_recovery_s_median": statistics.median(seconds),
        "learner_recovery_s_worst": max(seconds),
    }


def _recovery_s(at: float, num_before: int, looks: Sequence[Look]) -> float | None:
    # Updates may still rise until the death is noticed: the last ones of the dead learner.
    noticed = [look for look in looks if look.at > at and look.num_deaths > num_before]
    for before, now in itertools.pairwise(noticed):
        if now.num_updates > before.num_updates:
            return now.at - at
    return None
