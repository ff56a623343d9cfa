"""Runs and sweeps below a directory, and the status of each as its files show it.

A page names a run by its key, which this module maps to a path; no part of a request ever becomes a path.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from launch.records.inside import is_inside, is_own_file
from launch.records.record import load_record

Status = Literal["running", "finished", "pruned", "stopped", "failed", "interrupted"]

FRESH_S = 20.0
"""A run with newer numbers than this counts as running even if its lock cannot be seen, as on a network disk."""

MOST = 5000
"""Runs and sweeps that a listing has at most."""

_DEPTH = 4
_INSIDE = frozenset({"checkpoints", "videos", "replay"})
_LOG_TAIL_BYTES = 16_384  # fifty lines with room for a traceback's long ones


@dataclass(frozen=True)
class Entry:
    """A run, a member of a sweep, or a sweep.

    Args:
        key: its identifier in page addresses; letters and digits.
        path: its directory.
        name: its path below the listed directory, for display; untrusted, so show it only as plain text.
        record: its `config.json`; {} if that cannot be read.
        problem: why the record cannot be read, or "".
        sweep: key of the sweep that it is a member of, or "".
        sweep_options: options of the sweep that it is, or is a member of; {} of a run alone, or if they are unreadable.
    """

    key: str
    path: Path
    name: str
    record: dict[str, Any]
    problem: str = ""
    sweep: str = ""
    sweep_options: dict[str, Any] = field(default_factory=dict)

    @property
    def is_sweep(self) -> bool:
        """Whether the entry is a sweep, which has members instead of numbers of its own."""
        return "sweep" in self.record

    @property
    def config(self) -> dict[str, Any]:
        """The resolved config as JSON values; {} if it cannot be read."""
        config = self.record.get("config")
        return config if isinstance(config, dict) else {}

    @property
    def overrides(self) -> dict[str, Any]:
        """The settings that distinguish a member from the others of its sweep; {} if they cannot be read."""
        member = self.record.get("member")
        overrides = member.get("overrides") if isinstance(member, dict) else None
        return overrides if isinstance(overrides, dict) else {}

    @property
    def metrics_path(self) -> Path:
        """The file of the entry's numbers."""
        return self.path / "metrics.db"


def find_entries(root: Path) -> dict[str, Entry]:
    """Return the runs and sweeps at or below a directory by key, in the order of their names.

    Args:
        root: a directory of runs, or the directory of one run or sweep.
    """
    found: dict[str, Entry] = {}
    for path, sweep in _directories(root, 0, ""):
        entry = _entry(root, path, sweep)
        own = found[entry.sweep].sweep_options if entry.sweep else _options_of(entry)
        found[entry.key] = replace(entry, sweep_options=own)
        if len(found) >= MOST:
            break
    return found


def members_of(sweep: Entry, entries: dict[str, Entry]) -> list[Entry]:
    """Return a sweep's members in the order of their numbers."""
    return sorted((entry for entry in entries.values() if entry.sweep == sweep.key), key=member_number)


def member_number(entry: Entry) -> int:
    """Return a member's number; a large one if the record has none."""
    member = entry.record.get("member")
    number = member.get("index") if isinstance(member, dict) else None
    return number if isinstance(number, int) else 1 << 30


def read_status(entry: Entry, newest_wall_time: float | None, now: float | None = None) -> Status:
    """Return a run's status, from its lock, the last state in its log, and the age of its numbers, in this order.

    Args:
        entry: the run.
        newest_wall_time: unix time of the run's newest numbers, or None.
        now: unix time, for tests.
    """
    if _is_locked(entry.path / "lock"):
        return "running"
    if was_pruned(entry.path):
        return "pruned"
    words = last_state(entry.path)
    if words.startswith("finished: "):
        return "failed" if "failed" in words else "stopped" if "stop" in words else "finished"
    if words.startswith("failed: "):
        return "failed"
    now = time.time() if now is None else now
    if newest_wall_time is not None and abs(now - newest_wall_time) < FRESH_S:
        return "running"
    return "interrupted"


def was_pruned(directory: Path) -> bool:
    """Return whether a run is a member that its sweep ended early; the line of a sweep itself lists all endings."""
    return last_state(directory).startswith("finished: pruned at ")


def last_state(directory: Path) -> str:
    """Return the last state in a run's log, e.g. "finished: steps" or "failed: ValueError: ..."; or ""."""
    try:
        status = (directory / "log.txt").stat()
    except OSError:
        return ""
    return _last_state(directory, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=2 * MOST)
def _last_state(directory: Path, changed_ns: int, num_bytes: int) -> str:
    """Return the last state in a log that has not changed since: pages need those of hundreds of runs."""
    for line in reversed(log_tail(directory).splitlines()):
        words = line.split(" ", 2)[-1]
        if words.startswith(("started", "resumed", "running: ", "finished: ", "failed: ")):
            return words
    return ""


def log_tail(directory: Path) -> str:
    """Return the end of a run's log, or ""."""
    if not is_own_file(directory / "log.txt", directory):
        return ""
    try:
        with (directory / "log.txt").open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - _LOG_TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def find_videos(entry: Entry) -> list[Path]:
    """Return a run's videos, newest first."""
    try:
        found = [path for path in (entry.path / "videos").iterdir() if path.suffix.lower() in VIDEO_TYPES]
        own = [path for path in found if is_own_file(path, entry.path)]
        return sorted(own, key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return []


VIDEO_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif"}
"""Media types of video files, by suffix."""


def printable(text: str, most: int = 200) -> str:
    """Return text without control characters and lone surrogates, at most `most` characters long."""
    clean = "".join(letter if letter.isprintable() else "�" for letter in text)
    return clean if len(clean) <= most else clean[: most - 1] + "…"


def _directories(path: Path, depth: int, sweep: str) -> Iterator[tuple[Path, bool]]:
    """Yield directories with a record, members after their sweep."""
    if _has_record(path):
        yield path, False
        for child in _children(path / "members"):
            if _has_record(child) and is_inside(child, path):
                yield child, True
        return
    if depth < _DEPTH:
        for child in _children(path):
            yield from _directories(child, depth + 1, sweep)


def _has_record(path: Path) -> bool:
    try:
        return (path / "config.json").is_file()
    except OSError:  # another user's directory
        return False


def _children(path: Path) -> list[Path]:
    try:
        with os.scandir(path) as items:
            names = [item.name for item in items if item.is_dir() and item.name not in _INSIDE]
    except OSError:
        return []
    return [path / name for name in sorted(names) if not name.startswith(".")]


def _entry(root: Path, path: Path, is_member: bool) -> Entry:
    name = str(path.relative_to(root)) if path != root else path.resolve().name
    record, problem = _load_record(path / "config.json")
    sweep = key_of_path(path.parent.parent) if is_member else ""
    if is_member:
        name = name.replace("members" + os.sep, "member ")
    return Entry(key_of_path(path), path, printable(name), record, problem, sweep)


def _options_of(entry: Entry) -> dict[str, Any]:
    sweep = entry.record.get("sweep")
    options = sweep.get("options") if isinstance(sweep, dict) else None
    return options if isinstance(options, dict) else {}


def key_of_path(path: Path) -> str:
    """Return the key of the run or sweep at a path."""
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:16]


def _load_record(path: Path) -> tuple[dict[str, Any], str]:
    if not is_own_file(path, path.parent):
        return {}, "config.json cannot be read: it leads out of the run's directory"
    try:
        return load_record(path), ""
    except (OSError, ValueError) as error:
        return {}, f"config.json cannot be read: {error}"


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock, without taking it: that could keep a run from starting."""
    try:
        status = path.stat()
        with open("/proc/locks", encoding="ascii") as file:
            locks = file.read()
    except OSError:
        return False
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    return any(device in line.split() and "FLOCK" in line for line in locks.splitlines())
