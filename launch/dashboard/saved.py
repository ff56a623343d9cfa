"""Files that a run which ended early has left in its directory."""

from __future__ import annotations

import re

from launch.records.listing import Entry, find_videos
from launch.records.series import Latest

_CHECKPOINT = re.compile(r"\d+-step-(\d+)")


def what_is_saved(entry: Entry, latest: Latest) -> str:
    """Return what a run has left, in words; "" if it has left nothing."""
    found = []
    steps = [int(match[1]) for name in _names(entry) if (match := _CHECKPOINT.fullmatch(name))]
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
        return [path.name for path in (entry.path / "checkpoints").iterdir()]
    except OSError:  # there are none
        return []
