"""The content of a `metrics.db` for display: the newest value of every name, and curves with few enough points.

Of a curve of 100,000 points a few hundred are needed, so SQLite averages neighbours. Nothing is written.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from launch.errors import OutputError
from launch.records.inside import is_inside
from launch.records.listing import printable
from launch.records.metrics_db import is_measured, open_to_read
from launch.records.run_summary import EPISODES, NUM_RETURNS, RETURN, Best
from launch.records.tick import Tick

Axis = Literal["env_steps", "frames", "seconds", "learner_steps"]
AXES: tuple[Axis, ...] = get_args(Axis)

_TICK_COLUMNS = ("seconds", "wall_time", "env_steps", "frames", "learner_steps")
_MOST = 1e18  # more than any run has of anything
# Counters, and values that rarely change: the mean of neighbours would be a value that never occurred.
_COUNTERS = ("totals/", "buckets/", "ledger/")
_TIMEOUT_S = 1.0
_NEIGHBOURS = 32
"""The most points that one drawn point averages, so that a curve costs the same however long the run is."""


class UnreadableError(OutputError):
    """A `metrics.db` is missing, damaged or locked; `problem.wrong` gives the reason in one line."""


@dataclass(frozen=True)
class Latest:
    """The newest value of every name that a run has recorded.

    Args:
        moment: moment of the newest row; None before the first.
        values: numbers by name.
        notes: texts by name.
        best: the highest mean return of 20 episodes; None before there are 20, and where nobody asked for it.
    """

    moment: Tick | None = None
    values: dict[str, float] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    best: Best | None = None


@dataclass(frozen=True)
class Series:
    """One name's values over time.

    Args:
        ticks: int64 [N] rows of the file, ascending.
        values: float64 [N] values.
        axes: float64 [N] each: training seconds, env steps, frames, learner steps.
    """

    ticks: np.ndarray
    values: np.ndarray
    axes: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.ticks)


EMPTY = Series(np.zeros(0, np.int64), np.zeros(0), {axis: np.zeros(0) for axis in AXES})


def read_latest(path: Path, ticks_ago: int = 0) -> Latest:
    """Return the newest value of every name, or its value some rows ago (a row is about a second).

    Args:
        path: the path of `metrics.db`.
        ticks_ago: rows before the newest.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        columns = ", ".join(_TICK_COLUMNS)
        row = connection.execute(
            f"SELECT tick, {columns} FROM ticks WHERE tick <= (SELECT max(tick) FROM ticks) - ? "
            "ORDER BY tick DESC LIMIT 1",
            (ticks_ago,),
        ).fetchone()
        if row is None:
            return Latest()
        found: dict[str, dict[str, Any]] = {}
        for table in ("points", "notes"):
            query = (
                f"SELECT n.name, (SELECT p.value FROM {table} p WHERE p.id = n.id AND p.tick <= ? "
                "ORDER BY p.tick DESC LIMIT 1) FROM names n"
            )
            rows = connection.execute(query, (row[0],))
            found[table] = {str(name): value for name, value in rows if value is not None}
        values = {name: float(value) for name, value in found["points"].items() if isinstance(value, (int, float))}
        notes = {name: str(value) for name, value in found["notes"].items()}
        return Latest(moment_of(row[1:]), values, notes)


def read_best(path: Path) -> Best | None:
    """Return the highest mean return of 20 episodes that a run has recorded; None if it has not had 20 episodes.

    Args:
        path: the path of `metrics.db`.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        row = connection.execute(
            "SELECT p.value, t.env_steps FROM points p JOIN names n USING (id) JOIN ticks t USING (tick) "
            "WHERE n.name = ? AND p.tick >= (SELECT min(e.tick) FROM points e JOIN names m USING (id) "
            "WHERE m.name = ? AND e.value >= ?) ORDER BY p.value DESC, p.tick LIMIT 1",
            (RETURN, EPISODES, NUM_RETURNS),
        ).fetchone()
        return None if row is None else Best(float(row[0]), int(row[1]))


def moment_of(row: Sequence[Any]) -> Tick:
    """Return seconds, unix time, env steps, frames and learner steps as a moment.

    Raises:
        ValueError: one of them is no number that a run can have.
    """
    named = dict(zip(_TICK_COLUMNS, row, strict=True))
    for name, value in named.items():
        if not isinstance(value, (int, float)) or not 0 <= value < _MOST:
            raise ValueError(f"{name} is {value!r}")
    seconds, wall_time, *counts = named.values()
    return Tick(float(seconds), float(wall_time), *map(int, counts))


def read_series(path: Path, names: Iterable[str], limit: int | None = 400) -> dict[str, Series]:
    """Return curves by name, each with at most about `limit` points; names without points are left out.

    A point stands for its neighbours: it is the mean of the last 32 of them, or the last value of a counter. An
    unchanged value is recorded only once, so gaps are filled with the value before them, except between evaluations.

    Args:
        path: the path of `metrics.db`.
        names: the names of the curves.
        limit: points per curve; None: every point.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        ids = {str(name): number for number, name in connection.execute("SELECT id, name FROM names")}
        (newest,) = connection.execute("SELECT max(tick) FROM ticks").fetchone()
        read = {
            name: _read_one(connection, ids[name], limit, name.startswith(_COUNTERS), newest, is_measured(name))
            for name in dict.fromkeys(names)
            if name in ids and newest is not None
        }
    return {name: series for name, series in read.items() if len(series)}


def read_rows(path: Path, names: Sequence[str] | None = None) -> Iterator[tuple[Any, ...]]:
    """Yield every point as (name, env steps, frames, learner steps, training seconds, unix time, value).

    Args:
        path: the path of `metrics.db`.
        names: the names to read; None: all.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        known = [str(name) for (name,) in connection.execute("SELECT name FROM names ORDER BY name")]
        for name in known if names is None else [name for name in known if name in names]:
            yield from connection.execute(
                "SELECT n.name, t.env_steps, t.frames, t.learner_steps, t.seconds, t.wall_time, p.value "
                "FROM names n JOIN points p USING (id) JOIN ticks t USING (tick) WHERE n.name = ? ORDER BY p.tick",
                (name,),
            )


def signature(path: Path) -> tuple[int, ...]:
    """Return a value that changes whenever the `metrics.db` at a path changes; () if there is none."""
    found: list[int] = []
    for file in (path, path.with_name(path.name + "-wal")):
        try:
            status = file.stat()
        except OSError:
            continue
        found += [status.st_mtime_ns, status.st_size]
    return tuple(found)


def _read_one(
    connection: sqlite3.Connection, number: int, limit: int | None, counts: bool, newest: int, measured: bool
) -> Series:
    low, high = connection.execute("SELECT min(tick), max(tick) FROM points WHERE id = ?", (number,)).fetchone()
    if low is None:
        return EMPTY
    width = 1 if limit is None else max(1, -(-(high - low + 1) // limit))
    value = "p.value" if counts else "avg(p.value)"
    if width <= _NEIGHBOURS:
        query = f"SELECT max(p.tick), {value} FROM points p WHERE p.id = ? GROUP BY (p.tick - ?) / ?"
        found = connection.execute(query, (number, low, width)).fetchall()
    else:
        query = (
            f"SELECT max(p.tick), {value} FROM (SELECT tick, value FROM points WHERE id = ? AND tick BETWEEN ? AND ? "
            f"ORDER BY tick DESC LIMIT {_NEIGHBOURS}) p"
        )
        begins = range(low, high + 1, width)
        found = [connection.execute(query, (number, begin, begin + width - 1)).fetchone() for begin in begins]
    moments = "SELECT tick, seconds, env_steps, frames, learner_steps FROM ticks WHERE tick = ?"
    rows = [(value, *connection.execute(moments, (at,)).fetchone()) for at, value in found if at is not None]
    if not measured:
        rows = _close_gaps(connection, rows, width, newest)
    table = np.array(rows, np.float64).reshape(len(rows), 6)
    values = np.where(np.isfinite(table[:, 0]), table[:, 0], np.nan)
    axes = {"seconds": table[:, 2], "env_steps": table[:, 3], "frames": table[:, 4], "learner_steps": table[:, 5]}
    return Series(table[:, 1].astype(np.int64), values, axes)


def _close_gaps(connection: sqlite3.Connection, rows: list[Any], width: int, newest: int) -> list[Any]:
    """Repeat each unchanged value just before the next change and at the end."""
    patience = max(2 * width, 3)
    ends = [row[1] - width for row in rows[1:]] + [newest]
    wanted = {end: row[0] for row, end in zip(rows, ends, strict=True) if end - row[1] > patience}
    added = []
    for end, value in wanted.items():
        moment = connection.execute(
            "SELECT tick, seconds, env_steps, frames, learner_steps FROM ticks WHERE tick <= ? ORDER BY tick DESC "
            "LIMIT 1",
            (end,),
        ).fetchone()
        added.append((value, *moment))
    return sorted([*rows, *added], key=lambda row: row[1])


@contextmanager
def open_metrics(path: Path) -> Iterator[sqlite3.Connection]:
    """Open the `metrics.db` of anybody's run to read it.

    Raises:
        UnreadableError: the file is missing, damaged or locked, or leads out of the run's directory.
    """
    if not path.is_file():
        raise _unreadable(path, "is missing: the run has not recorded anything yet")
    if not is_inside(path, path.parent):
        raise _unreadable(path, "cannot be read: it leads out of the run's directory")
    try:
        with open_to_read(path, _TIMEOUT_S) as connection:
            yield connection
    except sqlite3.Error as error:
        raise _unreadable(path, f"cannot be read: {error}") from error
    except (OverflowError, TypeError, ValueError) as error:  # SQLite keeps any value in any column
        raise _unreadable(path, f"has a damaged row: {printable(str(error))}") from error


def _unreadable(path: Path, wrong: str) -> UnreadableError:
    return UnreadableError("run-dir", f"metrics.db {wrong}", f"check that {path} is the metrics.db of a run")
