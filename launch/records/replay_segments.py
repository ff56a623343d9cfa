"""The saved replay of a run: files in `replay/` that its checkpoints refer to, written once and removed when unused.

    replay/shard0-000000000-000004096-1f2e3d4c.npz      unrolls 0 to 4,095 of shard 0

Names in checkpoints are relative, so that a run whose directory is moved continues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laser.ports import PortClosedError
from launch.records.forms import check_form
from launch.records.saved_state import put_arrays_back
from learner.checkpoint import Checkpoint, NoCheckpointError, list_checkpoints
from replay_server.saving.segments import (
    BadSegmentError,
    Segment,
    SegmentWriter,
    remove_unused,
    segments_of,
    with_contents,
)

_SEGMENT = {"name": str, "start": int, "stop": int, "num": int, "bytes": int, "sha256": str}


class ReplaySegments:
    """Saves the shards of a run's replay, and removes files that no kept checkpoint needs. Used from one thread.

    Args:
        root: the folder of the files.
        checkpoints: the folder of the run's checkpoints.
    """

    def __init__(self, root: Path, checkpoints: Path):
        self._root, self._checkpoints = root, checkpoints
        self._writers: dict[int, SegmentWriter] = {}
        self._names: dict[str, set[str]] = {}  # by checkpoint

    def begin_from(self, states: Sequence[dict[str, Any]]) -> None:
        """Go on from the saved states that the shards were restored from: what they hold is not written again."""
        for shard, state in enumerate(states):
            self._writer(shard).begin_from(state)

    def save(self, shards: Sequence[Any]) -> list[dict[str, Any]]:
        """Write what has been inserted since the last time; return the shards' states with the names of the files.

        A shard that has ended for good keeps the state that was saved of it last.

        Args:
            shards: ports to the shards (see `launch.runtimes.runtime.ShardPort`).

        Raises:
            OSError: a file cannot be written.
            PortClosedError: a shard has ended for good, and nothing was saved of it.
        """
        states = []
        for number, shard in enumerate(shards):
            writer = self._writer(number)
            writer.look()
            try:
                state, contents = shard.partial_state(writer.known, writer.life)
            except PortClosedError:
                if writer.newest is None:
                    raise
                states.append(writer.newest)
            else:
                states.append(writer.add(state, contents))
        return states

    def remove_unused(self) -> None:
        """Remove the files that neither a checkpoint nor the newest states refer to; none while that cannot be known.

        Nothing is raised: the checkpoint has been written by then, and the next one tries again.
        """
        with suppress(OSError, NoCheckpointError):
            self._remove_unused()

    def _remove_unused(self) -> None:
        kept = {path.name: path for path in list_checkpoints(self._checkpoints)}
        for name in kept.keys() - self._names.keys():
            self._names[name] = _names_in(kept[name] / "state.json")
        self._names = {name: names for name, names in self._names.items() if name in kept}
        remove_unused(self._root, set.union(set(), *self._names.values(), *(each.names for each in self._all())))

    def _all(self) -> list[SegmentWriter]:
        return list(self._writers.values())

    def _writer(self, shard: int) -> SegmentWriter:
        return self._writers.setdefault(shard, SegmentWriter(self._root, shard))


def _names_in(path: Path) -> set[str]:
    """Return the names of the files that a checkpoint's state refers to; none if nobody can continue from it.

    Raises:
        OSError: the state is there and cannot be read.
    """
    try:
        return {each.name for state in json.loads(path.read_text())["tree"]["replay"] for each in _segments_in(state)}
    except (ValueError, KeyError, TypeError, RecursionError, FileNotFoundError, NotADirectoryError):
        return set()


def _segments_in(state: Any) -> list[Segment]:
    """Return the segments that a saved state of a shard refers to.

    Raises:
        ValueError: the state does not have the form of one.
    """
    check_form(state, {"segments?": [_SEGMENT]}, "a shard's state")
    unknown = {name for each in state.get("segments", []) for name in each} - set(_SEGMENT)
    if unknown:
        raise ValueError(
            f"a segment must have {', '.join(_SEGMENT)} and nothing else, got {', '.join(sorted(unknown))}"
        )
    return segments_of(state)


def folder_of(checkpoint: Checkpoint) -> Path:
    """Return the folder of the files that a checkpoint refers to."""
    return checkpoint.path.parents[1] / "replay"


def has_segments(checkpoint: Checkpoint) -> bool:
    """Whether the files of a checkpoint are there at all: an agent that was pushed and pulled has none."""
    return folder_of(checkpoint).is_dir()


def check_segments(checkpoint: Checkpoint) -> None:
    """Check that the files that a checkpoint refers to are as they were written, and hold all that is stored.

    Raises:
        ValueError: one is missing, damaged or not described as a file is; the message names it.
    """
    check_lists_of_segments(checkpoint)
    if has_segments(checkpoint):
        _verify_files(checkpoint)


def check_lists_of_segments(checkpoint: Checkpoint) -> None:
    """Check what a checkpoint says of its replay's files, without a look at the files.

    Raises:
        ValueError: a file is not described as one is, or no file has what is stored.
    """
    for state in checkpoint.state["tree"]["replay"]:
        segments = _segments_in(state)
        if "segments" in state:
            pages = put_arrays_back(state["store"]["pages"], checkpoint.arrays)
            _check_all_there(segments, pages["positions"], pages["used"])


def find_fault(checkpoint: Checkpoint) -> str:
    """Return what is wrong with the replay's files, each of which is read; empty if nothing is."""
    if _refers_to_files(checkpoint.state["tree"]["replay"]) and not has_segments(checkpoint):
        return f"{folder_of(checkpoint)} is missing"
    try:
        _verify_files(checkpoint)
    except BadSegmentError as error:
        return str(error)
    return ""


def _verify_files(checkpoint: Checkpoint) -> None:
    for state in checkpoint.state["tree"]["replay"]:
        for segment in segments_of(state):
            segment.verify(folder_of(checkpoint))


def _refers_to_files(states: Sequence[dict[str, Any]]) -> bool:
    return any(state.get("segments") for state in states)


def _check_all_there(segments: Sequence[Segment], positions: np.ndarray, used: np.ndarray) -> None:
    """Check that some segment has each unroll that is stored."""
    if len(used) and not (used.dtype.kind == "i" and used.min() >= 0 and used.max() < len(positions)):
        raise ValueError(f"used pages must be numbers from 0 to {len(positions) - 1}")
    stored = positions[used]
    held = np.zeros(len(stored), bool)
    for segment in segments:
        held |= (stored >= segment.start) & (stored < segment.stop)
    if not held.all():
        raise ValueError(f"{int((~held).sum())} of {len(stored)} stored unrolls are in none of the replay's files")


def complete(checkpoint: Checkpoint, states: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a checkpoint's states of shards with their contents; [] if its files were left behind."""
    if _refers_to_files(states) and not has_segments(checkpoint):
        return []
    return [with_contents(state, folder_of(checkpoint)) if "segments" in state else state for state in states]


@dataclass(frozen=True)
class SavedShards:
    """A checkpoint that holds a replay, alone or beside a member's state, read and verified."""

    checkpoint: Checkpoint
    warnings: list[str]

    @property
    def replay_fault(self) -> str:
        """The fault of the replay's files in words; empty without one, or if they were verified with the checkpoint."""
        return ""

    def replay(self) -> list[dict[str, Any]]:
        """Return the saved state of each shard; empty if the checkpoint holds none."""
        states = self.checkpoint.state["tree"]["replay"]
        return complete(self.checkpoint, [put_arrays_back(state, self.checkpoint.arrays) for state in states])
