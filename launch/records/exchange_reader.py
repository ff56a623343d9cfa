"""Exchange of experience, for display: counts of a learner over the whole run and over time. Nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from launch.records.exchange import COUNTS, read_sums, rows_of
from launch.records.metrics_db import Axis
from launch.records.series import AXES, open_metrics

MOMENT = get_args(Axis)
"""Numbers of a row's moment."""


@dataclass(frozen=True)
class Course:
    """Experience that a learner drew in each of several spans, by its maker.

    Args:
        axes: float64 [N] each, by name: where each span ends, ascending.
        makers: the makers' numbers, [M].
        counts: float64 [N, M] each, by name; names that the algorithm does not count are left out.
    """

    axes: dict[str, np.ndarray]
    makers: list[int]
    counts: dict[str, np.ndarray]


def read_exchange_sums(path: Path) -> dict[int, dict[str, float]]:
    """Return what a learner drew over the whole run: counts by name, by the maker's number.

    Args:
        path: the path of `metrics.db`.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        return read_sums(connection)


def read_course(path: Path, num_points: int) -> Course:
    """Return what a learner drew over time, in at most about `num_points` spans.

    Args:
        path: the path of `metrics.db`.
        num_points: the most spans.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        rows = rows_of(connection)
        first, last = connection.execute("SELECT min(tick), max(tick) FROM ticks").fetchone()
        width = 1 if first is None else max(1, -(-(last - first + 1) // num_points))
        sums = ", ".join(f"sum({name})" for name in COUNTS)
        found = connection.execute(
            f"SELECT (tick - ?) / ?, maker, max(tick), {sums} FROM ({rows}) GROUP BY 1, 2", (first, width)
        ).fetchall()
        table = np.array(found, np.float64).reshape(len(found), 3 + len(COUNTS))
        spans, row = np.unique(table[:, 0], return_inverse=True)
        makers, column = np.unique(table[:, 1], return_inverse=True)
        ends = np.zeros(len(spans), np.int64)
        np.maximum.at(ends, row, table[:, 2].astype(np.int64))
        moments = [
            connection.execute(f"SELECT {', '.join(AXES)} FROM ticks WHERE tick = ?", (int(end),)).fetchone()
            for end in ends
        ]
        counts = {}
        for name, values in zip(COUNTS, table[:, 3:].T, strict=True):
            if np.isfinite(values).any():
                counts[name] = np.zeros((len(spans), len(makers)))
                counts[name][row, column] = np.nan_to_num(values)
        axes = np.array(moments, np.float64).reshape(len(spans), len(AXES)).T
        return Course(dict(zip(AXES, axes, strict=True)), makers.astype(int).tolist(), counts)


def read_exchange_rows(path: Path) -> Iterator[tuple[tuple[Any, ...], int, dict[str, float]]]:
    """Yield every row: its moment (the numbers of `MOMENT`), its maker, and its counts by name.

    Args:
        path: the path of `metrics.db`.

    Raises:
        UnreadableError: the file is missing, damaged or locked.
    """
    with open_metrics(path) as connection:
        for row in connection.execute(
            f"SELECT {', '.join(f't.{name}' for name in MOMENT)}, e.maker, {', '.join(COUNTS)} "
            f"FROM ({rows_of(connection)}) e JOIN ticks t USING (tick) ORDER BY t.tick, e.maker"
        ):
            counts = zip(COUNTS, row[6:], strict=True)
            yield row[:5], int(row[5]), {name: float(value) for name, value in counts if value is not None}
