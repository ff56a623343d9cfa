"""Exchange of experience: the table `exchange` in the `metrics.db` of a learner that draws other members' experience.

    exchange    (maker, tick) -> of the steps drawn since the maker's row before, the counts of `COUNTS`

The counts over the whole run are the sums of the rows. What an algorithm does not count is NULL.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Mapping

COUNTS = {
    "steps": ("steps", "steps drawn that the maker made"),
    "accepted": ("steps", "of these, steps that the loss learned from"),
    "abs_log_rho": ("nats", "sum of |log pi - log mu| over the steps drawn"),
    "kl": ("nats", "sum of KL(pi || implied policy) over the steps drawn"),
    "lag": ("versions", "sum over the steps drawn of their maker's newer parameter versions"),
}
"""Unit and meaning of the counts, by name."""

Exchange = Mapping[int, Mapping[str, float]]
"""Counts of what a learner has drawn so far, by name, by the maker's number."""

_TABLE = f"""
CREATE TABLE IF NOT EXISTS exchange (maker INTEGER, tick INTEGER, {", ".join(f"{name} REAL" for name in COUNTS)},
                                     PRIMARY KEY (maker, tick)) WITHOUT ROWID
"""
_COLUMNS = ", ".join(COUNTS)
# Until 2026-11 the counts over the run so far were points, five names for each maker.
_NAME = "totals/learned_from/"
_OLD = f"""
SELECT maker, tick, {", ".join(f"sum(CASE WHEN count = '{name}' THEN growth END) AS {name}" for name in COUNTS)}
FROM (SELECT CAST(key AS INTEGER) AS maker, substr(key, 1 + instr(key, '/')) AS count, tick,
             value - lag(value, 1, 0.0) OVER (PARTITION BY id ORDER BY tick) AS growth
      FROM (SELECT substr(n.name, {1 + len(_NAME)}) AS key, p.id, p.tick, p.value
            FROM names n JOIN points p USING (id) WHERE n.name GLOB '{_NAME}*'))
GROUP BY maker, tick
"""


class ExchangeTable:
    """The writer of the table. Guarded by the lock of its owner, which also commits.

    Args:
        connection: to the `metrics.db`; the table is made if it is missing.
    """

    def __init__(self, connection: sqlite3.Connection):
        self._connection = connection
        self.sums: defaultdict[int, dict[str, float]] = defaultdict(dict)
        """The counts over the whole run, by maker."""
        connection.execute(_TABLE)

    def load(self) -> None:
        """Let the sums continue from what the file holds."""
        self.sums = defaultdict(dict, read_sums(self._connection))

    def write(self, number: int, drawn: Exchange) -> None:
        """Add a row for each maker whose counts have changed.

        Args:
            number: of the moment, in the file.
            drawn: over the whole run. Counts fall where a learner died and another repeats its updates.
        """
        rows = []
        for maker, counts in drawn.items():
            before = self.sums[maker]
            growth = {name: total - before.get(name, 0.0) for name, total in counts.items()}
            if any(growth.values()):
                rows.append((maker, number, *map(growth.get, COUNTS)))
            before.update(counts)
        self._connection.executemany(f"INSERT INTO exchange VALUES (?, ?{', ?' * len(COUNTS)})", rows)


def rows_of(connection: sqlite3.Connection) -> str:
    """Return a query of all rows (maker, tick, counts), which a run of any age answers."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'exchange'").fetchone()
    return f"{_OLD} UNION ALL SELECT maker, tick, {_COLUMNS} FROM exchange" if found else _OLD


def read_sums(connection: sqlite3.Connection) -> dict[int, dict[str, float]]:
    """Return the counts over the whole run, by maker; what the algorithm does not count is left out."""
    sums = ", ".join(f"sum({name})" for name in COUNTS)
    rows = connection.execute(f"SELECT maker, {sums} FROM ({rows_of(connection)}) GROUP BY maker ORDER BY maker")
    return {
        int(maker): {name: float(value) for name, value in zip(COUNTS, values, strict=True) if value is not None}
        for maker, *values in rows
    }
