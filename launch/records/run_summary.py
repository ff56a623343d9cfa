"""`metrics.summary.json`: the newest numbers of a run, so that a table of many runs need not open each `metrics.db`.

The writer of `metrics.db` replaces it every few seconds and when the run ends. It holds the newest value of every name,
the best mean return of 20 episodes with the env steps at which it was reached, what the run has drawn of each member,
and the curves that a sweep of hundreds of members draws, with few points. A reader uses it only if `metrics.db` has not
changed since.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from launch.records.exchange import Exchange
from launch.records.inside import is_own_file
from launch.records.tick import Tick

NUM_RETURNS = 20
"""Episodes in the mean return that counts as a run's best."""

INTERVAL_S = 5.0
"""Seconds between two summaries."""

NUM_POINTS = 128
"""A curve has at least as many points as this, or all that there are; and at most twice as many."""

SCHEMA_VERSION = 1

RETURN, EPISODES, BUCKETS = "charts/mean_return", "totals/episodes", "buckets/"
_MOST_BYTES = 5_000_000


@dataclass(frozen=True)
class Best:
    """The highest mean return of the last 20 episodes that a run has reached.

    Args:
        mean_return: the mean.
        env_steps: of the run at that moment.
    """

    mean_return: float
    env_steps: int


class ThinCurve:
    """A curve with few points, however many are added: neighbours are joined, two by two.

    Args:
        counts: a counter, of which a joined point is the last value; else it is the mean.
    """

    def __init__(self, counts: bool):
        self._counts = counts
        self.width = 1
        """Points that are joined to one."""
        self._rows: list[tuple[float, ...]] = []
        self._waiting: list[tuple[float, ...]] = []

    def add(self, row: tuple[float, ...]) -> None:
        """Add a point: its place on every axis, and its value as the last number."""
        self._waiting.append(row)
        if len(self._waiting) < self.width:
            return
        self._rows.append(self._joined(self._waiting))
        self._waiting = []
        if len(self._rows) == 2 * NUM_POINTS:
            pairs = zip(self._rows[::2], self._rows[1::2], strict=True)
            self._rows = [self._joined(pair) for pair in pairs]
            self.width *= 2

    def rows(self) -> list[tuple[float, ...]]:
        """Return the points."""
        return [*self._rows, *([self._joined(self._waiting)] if self._waiting else [])]

    def _joined(self, rows: Sequence[tuple[float, ...]]) -> tuple[float, ...]:
        value = rows[-1][-1] if self._counts else math.fsum(row[-1] for row in rows) / len(rows)
        return *rows[-1][:-1], value


@dataclass
class _Content:
    tick: Tick | None = None
    values: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    best: Best | None = None
    curves: dict[str, ThinCurve] = field(default_factory=dict)


class RunSummary:
    """The writer of a run's summary. Guarded by its owner's lock.

    Args:
        metrics_path: path of the `metrics.db` that it stands beside.
        clock: seconds, for tests.
    """

    def __init__(self, metrics_path: Path, clock: Callable[[], float] = time.monotonic):
        self._metrics_path, self._clock = metrics_path, clock
        self._written = clock()
        self._content = _Content()
        self.exchange: Exchange = {}
        """Counts of what the run has drawn of each maker; its owner keeps them up to date."""

    def forget(self) -> None:
        """Start again with nothing."""
        self._content = _Content()

    def add(self, number: int, tick: Tick, values: Mapping[str, float], notes: Mapping[str, str]) -> None:
        """Add a moment; NaN values are left out.

        Args:
            number: of the moment, in the file.
            tick: the moment.
            values: numbers by name.
            notes: texts by name.
        """
        content = self._content
        content.tick = tick
        content.values.update((name, value) for name, value in values.items() if value == value)
        content.notes.update(notes)
        for name in (RETURN, EPISODES, *(name for name in values if name.startswith(BUCKETS))):
            # An unchanged return is a point too, so that the curve does not slope; a bucket counts once.
            if name in content.values and is_drawn(name):
                curve = content.curves.setdefault(name, ThinCurve(name != RETURN))
                moment = (number, tick.seconds, tick.env_steps, tick.frames, tick.learner_steps)
                curve.add((*moment, content.values[name]))
        mean_return = values.get(RETURN, math.nan)
        is_mean = content.values.get(EPISODES, 0.0) >= NUM_RETURNS
        if is_mean and mean_return > (-math.inf if content.best is None else content.best.mean_return):
            content.best = Best(float(mean_return), tick.env_steps)

    def update(self, values: Mapping[str, float], notes: Mapping[str, str]) -> None:
        """Set the newest values of names that are older than the newest moment."""
        self._content.values |= values
        self._content.notes |= notes

    def is_due(self) -> bool:
        """Whether the summary should be written again."""
        return self._clock() - self._written >= INTERVAL_S

    def write(self) -> None:
        """Replace the file; nothing before the first moment, and where `metrics.db` is gone.

        Raises:
            OSError: the file cannot be written.
        """
        self._written = self._clock()
        content = self._content
        if content.tick is None or not self._metrics_path.exists():  # a run without its files says so by itself
            return
        curves = {name: [curve.width, list(zip(*curve.rows(), strict=True))] for name, curve in content.curves.items()}
        written = {
            "schema_version": SCHEMA_VERSION,
            "sizes": [path.stat().st_size for path in _files(self._metrics_path)],
            "tick": asdict(content.tick),
            "values": {name: value for name, value in content.values.items() if math.isfinite(value)},
            "notes": content.notes,
            "best": None if content.best is None else [content.best.mean_return, content.best.env_steps],
            "curves": curves,
            "exchange": {
                maker: {name: value for name, value in counts.items() if math.isfinite(value)}
                for maker, counts in self.exchange.items()
            },
        }
        path = summary_path(self._metrics_path)
        beside = path.with_name(f"{path.name}.writing")
        # Without fsync, which would hold up a run in lockstep: after a crash of the machine readers use metrics.db.
        beside.write_text(json.dumps(written), encoding="utf-8")
        os.replace(beside, path)


def is_drawn(name: str) -> bool:
    """Return whether the summary holds the curve of a name: returns, episodes, and buckets over all tasks."""
    return name in (RETURN, EPISODES) or (name.startswith(BUCKETS) and name.count("/") == 1)


def summary_path(metrics_path: Path) -> Path:
    """Return the path of the summary of a `metrics.db`."""
    return metrics_path.with_suffix(".summary.json")


def write_ahead_log(metrics_path: Path) -> Path | None:
    """Return the log that SQLite keeps beside a `metrics.db` while a writer has it open; None if there is none.

    The log of an earlier copy counts as none. A directory that is copied again while its run trains keeps it, although
    the writer removed its own when it closed; and SQLite would take it for newer than the `metrics.db`.
    """
    beside = metrics_path.with_name(metrics_path.name + "-wal")
    return None if not beside.exists() or _is_left_over(beside, metrics_path) else beside


def read_content(metrics_path: Path) -> tuple[dict[str, Any], float, bool]:
    """Return a run's summary as it stands in the file, the unix time of writing, and whether `metrics.db` is older.

    Returns:
        {} if there is no summary, or it cannot be read.
    """
    content, written_ns = _load(metrics_path)
    try:
        files = [path.stat() for path in _files(metrics_path)]
    except OSError:
        return {}, 0.0, False
    is_newest = all(file.st_mtime_ns <= written_ns for file in files)
    return content, written_ns / 1e9, is_newest and content.get("sizes") == [file.st_size for file in files]


def _load(metrics_path: Path) -> tuple[dict[str, Any], int]:
    """Return the content of a run's summary, and when it was written, in unix ns; ({}, 0) if it cannot be read."""
    path = summary_path(metrics_path)
    if not is_own_file(path, metrics_path.parent):
        return {}, 0
    try:
        with path.open("rb") as file:
            written_ns = os.fstat(file.fileno()).st_mtime_ns
            content = orjson.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError):  # half copied, not JSON; JSON has no infinite numbers
        return {}, 0
    is_known = isinstance(content, dict) and content.get("schema_version") == SCHEMA_VERSION
    return (content, written_ns) if is_known else ({}, 0)


def _files(metrics_path: Path) -> list[Path]:
    """Return a `metrics.db` and the log that SQLite keeps beside it while it is open."""
    beside = write_ahead_log(metrics_path)
    return [metrics_path] if beside is None else [metrics_path, beside]


def _is_left_over(beside: Path, metrics_path: Path) -> bool:
    """Return whether the last writer closed this `metrics.db` without a log, and the log beside it is older."""
    try:
        database = metrics_path.stat()
        is_older = beside.stat().st_mtime_ns < database.st_mtime_ns
    except OSError:
        return False
    # Without a summary nothing says that it is left over.
    return is_older and _load(metrics_path)[0].get("sizes") == [database.st_size]
