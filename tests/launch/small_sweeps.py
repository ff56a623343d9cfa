"""Settings of sweeps that last a second or two, and what they have counted."""

from pathlib import Path

from launch.records.metrics_db import read_names, read_series

SMALL = {
    "steps": 384,
    "quiet": True,
    "num_envs": 4,
    "replay.capacity-steps": 2000,
    "replay.min-steps": 128,
    "stop_at_return": float("inf"),
}


def newest_counts(sweep: Path, number: int) -> dict[str, float]:
    """Return the newest ledger and totals of a sweep's member, by name."""
    metrics = sweep / "members" / str(number) / "metrics.db"
    names = [name for name in read_names(metrics) if name.startswith(("ledger/", "totals/"))]
    return {name: read_series(metrics, name)[-1][1] for name in names}
