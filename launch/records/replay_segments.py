"""The saved replay of a run: files in `replay/` that its checkpoints refer to, written once and removed when unused.

    replay/shard0-000000000-000004096-1f2e3d4c.npz      unrolls 0 to 4,095 of shard 0

Names in checkpoints are relative, so that a run whose directory is moved continues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from learner.checkpoint import Checkpoint, list_checkpoints
from replay_server.saving.segments import SegmentWriter, remove_unused, segments_of, with_contents


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

        Args:
            shards: ports to the shards (see `launch.runtimes.runtime.ShardPort`).

        Raises:
            OSError: a file cannot be written.
        """
        states = []
        for number, shard in enumerate(shards):
            writer = self._writer(number)
            states.append(writer.add(*shard.partial_state(writer.known, writer.life)))
        return states

    def remove_unused(self) -> None:
        """Remove the files that neither a checkpoint nor the newest states refer to."""
        kept = {path.name: path for path in list_checkpoints(self._checkpoints)}
        for name in kept.keys() - self._names.keys():
            tree = json.loads((kept[name] / "state.json").read_text())["tree"]
            self._names[name] = {each.name for state in tree["replay"] for each in segments_of(state)}
        self._names = {name: names for name, names in self._names.items() if name in kept}
        remove_unused(self._root, set.union(set(), *self._names.values(), *(each.names for each in self._all())))

    def _all(self) -> list[SegmentWriter]:
        return list(self._writers.values())

    def _writer(self, shard: int) -> SegmentWriter:
        return self._writers.setdefault(shard, SegmentWriter(self._root, shard))


def folder_of(checkpoint: Checkpoint) -> Path:
    """Return the folder of the files that a checkpoint refers to."""
    return checkpoint.path.parents[1] / "replay"


def has_segments(checkpoint: Checkpoint) -> bool:
    """Whether the files of a checkpoint are there at all: an agent that was pushed and pulled has none."""
    return folder_of(checkpoint).is_dir()


def check_segments(checkpoint: Checkpoint) -> None:
    """Check that the files that a checkpoint refers to are as they were written.

    Raises:
        ValueError: one is missing or damaged; the message names it.
    """
    if has_segments(checkpoint):
        for state in checkpoint.state["tree"]["replay"]:
            for segment in segments_of(state):
                segment.verify(folder_of(checkpoint))


def complete(checkpoint: Checkpoint, states: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a checkpoint's states of shards with their contents; [] if its files were left behind."""
    if any("segments" in state for state in states) and not has_segments(checkpoint):
        return []
    return [with_contents(state, folder_of(checkpoint)) if "segments" in state else state for state in states]
