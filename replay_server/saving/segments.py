"""Segments: files of a shard's contents, each written once, that several checkpoints refer to."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laser.directories import make_directory, sync_directory
from replay_server.saving.contents import Contents, join_contents

_UNFINISHED = ".writing-"
_LEAST_LIVE = 0.25
"""Share of a segment's unrolls that are still stored, below which they are written again and the file can go."""


class BadSegmentError(ValueError):
    """A segment is missing or damaged; the message names it."""


@dataclass(frozen=True)
class Segment:
    """A file of contents.

    Args:
        name: its name in the folder of segments.
        start: the least place of its unrolls in the order of insertion.
        stop: the number after the largest.
        num: number of its unrolls.
        bytes: size of the file.
        sha256: hash of the file.
    """

    name: str
    start: int
    stop: int
    num: int
    bytes: int
    sha256: str

    def verify(self, root: Path) -> None:
        """Raise `BadSegmentError` unless the file is there as it was written."""
        path = root / self.name
        try:
            size = path.stat().st_size
            if size != self.bytes:
                raise BadSegmentError(f"{path} has {size} bytes instead of {self.bytes}")
            with path.open("rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != self.sha256:
                    raise BadSegmentError(f"{path} is damaged (its hash differs)")
        except OSError as error:
            raise BadSegmentError(f"{path} cannot be read ({error.strerror})") from error

    def is_there(self, root: Path) -> bool:
        """Return whether a file of this name and size is there; it is not read."""
        try:
            return (root / self.name).stat().st_size == self.bytes
        except OSError:
            return False

    def read(self, root: Path) -> Contents:
        """Return the contents."""
        with np.load(root / self.name, allow_pickle=False) as arrays:
            return Contents.from_arrays(dict(arrays))


def write_segment(root: Path, shard: int, contents: Contents) -> Segment:
    """Write contents to a file whose name no other file has ever had, and flush it and its name.

    Raises:
        OSError: the file cannot be written.
    """
    make_directory(root)
    beside = root / f"{_UNFINISHED}{shard}"
    try:
        with beside.open("w+b") as file:
            np.savez(file, allow_pickle=False, **contents.to_arrays())
            file.flush()
            os.fsync(file.fileno())
            size = file.tell() if file.seek(0, os.SEEK_END) else 0
            file.seek(0)
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        beside.unlink(missing_ok=True)  # on a full disk its room is needed
        raise
    start, stop = int(contents.positions.min()), int(contents.positions.max()) + 1
    name = f"shard{shard}-{start:09d}-{stop:09d}-{digest[:8]}.npz"
    beside.rename(root / name)
    sync_directory(root)
    return Segment(name, start, stop, len(contents), size, digest)


class SegmentWriter:
    """Writes the contents of one shard that no segment holds yet. Used from one thread.

    Args:
        root: the folder of all segments of a run.
        shard: the shard's number.
    """

    def __init__(self, root: Path, shard: int):
        self._root, self._shard = root, shard
        self.life = 0
        self.newest: dict[str, Any] | None = None
        """The state that was saved last; None: none yet."""
        self._segments: list[Segment] = []
        self._live: dict[str, int] = {}

    def look(self) -> None:
        """Note which segments have lost their files, so that what these held is written anew."""
        self._live |= {each.name: 0 for each in self._segments if not each.is_there(self._root)}

    @property
    def known(self) -> list[tuple[int, int]]:
        """The ranges of places in the order of insertion that need not be written again."""
        return [(each.start, each.stop) for each in self._segments if self._share(each) >= _LEAST_LIVE]

    def _share(self, segment: Segment) -> float:
        return self._live.get(segment.name, segment.num) / segment.num

    def begin_from(self, state: dict[str, Any]) -> None:
        """Go on from a saved state that the shard was restored from, whose segments are there."""
        self.newest = {name: value for name, value in state.items() if name != "contents"}
        self._segments = segments_of(state)
        self.life = 0  # of a new shard

    def add(self, state: dict[str, Any], contents: Contents) -> dict[str, Any]:
        """Write contents, and return the state with the segments that hold everything that is stored.

        Args:
            state: the shard's state without contents, from `partial_state(known, life)`.
            contents: what `known` lacks.

        Raises:
            OSError: the segment cannot be written.
        """
        if state["life"] != self.life:
            self.life, self._segments = state["life"], []
        kept = [each for each in self._segments if self._share(each) >= _LEAST_LIVE]
        for sparse in (each for each in self._segments if each not in kept):
            # A file of its own, so that the ranges of no two segments overlap.
            again = (contents.positions >= sparse.start) & (contents.positions < sparse.stop)
            kept += self._written(contents.where(again))
            contents = contents.where(~again)
        kept += self._written(contents)
        pages = state["store"]["pages"]
        positions = pages["positions"][pages["used"]]
        self._live = {each.name: int(((positions >= each.start) & (positions < each.stop)).sum()) for each in kept}
        self._segments = [each for each in kept if self._live[each.name]]
        self.newest = {**state, "segments": [asdict(each) for each in self._segments]}
        return self.newest

    def _written(self, contents: Contents) -> list[Segment]:
        return [write_segment(self._root, self._shard, contents)] if len(contents) else []

    @property
    def names(self) -> set[str]:
        """The names of the segments that the newest state refers to."""
        return {each.name for each in self._segments}


def segments_of(state: dict[str, Any]) -> list[Segment]:
    """Return the segments that a saved state of a shard refers to."""
    return [Segment(**each) for each in state.get("segments", [])]


def with_contents(state: dict[str, Any], root: Path) -> dict[str, Any]:
    """Return a saved state for `Shard.load_state_dict`, with the contents from its segments.

    Raises:
        BadSegmentError: they lack an unroll.
    """
    pages, segments = state["store"]["pages"], segments_of(state)
    if not len(pages["used"]):
        return {**state, "contents": None}
    try:
        contents = join_contents([each.read(root) for each in segments], pages["positions"][pages["used"]])
    except ValueError as error:
        raise BadSegmentError(f"{root}: {error}") from error
    return {**state, "contents": contents}


def remove_unused(root: Path, used: Collection[str]) -> None:
    """Remove the files that are not in use, and what an interrupted write left behind."""
    if root.is_dir():
        for path in root.iterdir():
            if path.name not in used and (path.suffix == ".npz" or path.name.startswith(_UNFINISHED)):
                path.unlink()
