"""Files that a run which ended early has left in its directory."""

from __future__ import annotations

from launch.records.listing import Entry, find_videos
from launch.records.series import Latest
from learner.checkpoint_names import checkpoint_names, steps_of


def what_is_saved(entry: Entry, latest: Latest) -> str:
    """Return what a run has left, in words; "" if it has left nothing."""
    found = []
    steps = [steps_of(name) for name in _names(entry)]
    if steps:
        found.append(f"a checkpoint of {max(steps):,} env steps")
    if latest.moment is not None:
        found.append(f"numbers until {latest.moment.env_steps:,} env steps")
    videos = len(find_videos(entry))
    if videos:
        found.append(f"{videos} video{'s' if videos > 1 else ''}")
    return ", ".join(found)


def _names(entry: Entry) -> list[str]:
    try:
        return checkpoint_names(entry.path / "checkpoints")
    except OSError:  # none can be read
        return []
