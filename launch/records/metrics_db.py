"""`metrics.db`: the numbers of one run over time, in a SQLite file that other processes may read meanwhile.

    ticks   one row per moment: training seconds, wall clock, env steps, frames, learner steps
    names   name <-> small integer
    points  (name, tick) -> value; a value equal to the name's last point is not repeated, except for evaluations, whose
            values hold for one moment and not until the next
    notes   (name, tick) -> text, for the few metrics that are words
    exchange    whose experience was learned from (`launch.records.exchange`)

So any column of `ticks` can be the x axis. One point takes about 20 bytes.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from laser.regular_files import check_regular
from launch.errors import OutputError
from launch.records.exchange import COUNTS, Exchange, ExchangeTable
from launch.records.run_summary import EPISODES, RETURN, RunSummary, is_drawn, write_ahead_log
from launch.records.tick import Tick

SCHEMA_VERSION = 1

_SCHEMA = f"""
CREATE TABLE meta (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE ticks (tick INTEGER PRIMARY KEY, seconds REAL NOT NULL, wall_time REAL NOT NULL,
                    env_steps INTEGER NOT NULL, frames INTEGER NOT NULL, learner_steps INTEGER NOT NULL);
CREATE TABLE names (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE);
CREATE TABLE points (id INTEGER, tick INTEGER, value REAL, PRIMARY KEY (id, tick)) WITHOUT ROWID;
CREATE TABLE notes (id INTEGER, tick INTEGER, value TEXT, PRIMARY KEY (id, tick)) WITHOUT ROWID;
INSERT INTO meta VALUES ('schema_version', {SCHEMA_VERSION});
"""

_NUMBER_TYPES = "'integer', 'real'"
_KINDS = (
    ("names", ("name",), "text", "'text'"),
    ("notes", ("value",), "text", "'text'"),
    ("points", ("value",), "number", _NUMBER_TYPES),
    ("ticks", ("seconds", "wall_time", "env_steps", "frames", "learner_steps"), "number", _NUMBER_TYPES),
    ("exchange", ("maker", *COUNTS), "number", _NUMBER_TYPES),
)
"""Columns that the writer reads when a run goes on, what they hold in words, and how SQLite calls that."""

Axis = Literal["env_steps", "frames", "learner_steps", "seconds", "wall_time"]


def is_measured(name: str) -> bool:
    """Return whether each of a name's points is a measurement of one moment; others hold until the next point."""
    return name.startswith("evaluation/")


class MetricsDb:
    """The writer of a `metrics.db` and of its summary (`run_summary`). One per file; may be used from any thread.

    Every method raises `OutputError` if the file cannot be written or is damaged.
    """

    def __init__(self, path: Path):
        self._path = path
        self._lock = threading.Lock()
        self._summary = RunSummary(path)
        try:
            _check_file(path)
            if write_ahead_log(path) is None:
                for kind in ("-wal", "-shm"):
                    path.with_name(path.name + kind).unlink(missing_ok=True)  # left over from an earlier copy
            self._connection = sqlite3.connect(path, check_same_thread=False, timeout=10.0)
            try:
                self._open()
            except BaseException:
                self._connection.close()
                raise
        except (sqlite3.Error, OSError) as error:
            raise self._error(error) from error

    def _open(self) -> None:
        connection = self._connection
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name='meta'").fetchone():
            connection.executescript(f"BEGIN;{_SCHEMA}COMMIT;")
        (found,) = connection.execute("SELECT value FROM meta WHERE name='schema_version'").fetchone() or (None,)
        if not isinstance(found, int):
            raise sqlite3.DataError(f"it is damaged: its schema_version must be a whole number, got {found!r:.40}")
        if found != SCHEMA_VERSION:
            raise OutputError(
                "run-dir",
                f"{self._path} has schema {found}, this LASER writes {SCHEMA_VERSION}",
                "use the other version",
            )
        self._exchange = ExchangeTable(connection)
        _check_kinds(connection)
        self._ids: dict[str, int] = {name: key for key, name in connection.execute("SELECT id, name FROM names")}
        self._read_position()

    def _read_position(self) -> None:
        (newest,) = self._connection.execute("SELECT max(tick) FROM ticks").fetchone()
        self._next_tick = 0 if newest is None else newest + 1
        self._last: dict[str, float | str] = {}
        self._exchange.load()
        self._read_summary()

    def _read_summary(self) -> None:
        """Let the summary continue from what the file holds."""
        self._summary.forget()
        buckets: dict[int, dict[str, float]] = {}
        for name in filter(is_drawn, self._ids.keys() - {RETURN, EPISODES}):
            query = "SELECT tick, value FROM points WHERE id = ? AND value IS NOT NULL"
            for number, value in self._connection.execute(query, (self._ids[name],)):
                buckets.setdefault(number, {})[name] = value
        moments = self._connection.execute(
            "SELECT t.tick, t.seconds, t.wall_time, t.env_steps, t.frames, t.learner_steps, r.value, e.value "
            "FROM ticks t LEFT JOIN points r ON r.id = ? AND r.tick = t.tick "
            "LEFT JOIN points e ON e.id = ? AND e.tick = t.tick ORDER BY t.tick",
            (self._ids.get(RETURN, -1), self._ids.get(EPISODES, -1)),
        )
        for number, *moment, mean_return, episodes in moments:
            found = {RETURN: mean_return, EPISODES: episodes}
            values = {name: value for name, value in found.items() if value is not None}
            self._summary.add(number, Tick(*moment), values | buckets.get(number, {}), {})
        newest = (
            "SELECT n.name, (SELECT p.value FROM {} p WHERE p.id = n.id ORDER BY p.tick DESC LIMIT 1) AS newest "
            "FROM names n WHERE newest IS NOT NULL"
        )
        self._summary.update(*(dict(self._connection.execute(newest.format(each))) for each in ("points", "notes")))
        self._summary.exchange = self._exchange.sums

    def write(
        self,
        tick: Tick,
        values: Mapping[str, float],
        notes: Mapping[str, str] | None = None,
        drawn: Exchange | None = None,
    ) -> None:
        """Add one moment with its values; NaN values are left out.

        Args:
            tick: the moment.
            values: numbers by name.
            notes: texts by name.
            drawn: by then, over the whole run; None: not counted now.
        """
        self.write_all([(tick, values, notes or {})], drawn)

    def write_all(
        self, moments: Iterable[tuple[Tick, Mapping[str, float], Mapping[str, str]]], drawn: Exchange | None = None
    ) -> None:
        """Add all moments with their values and notes, or none; many cost little more than one.

        Args:
            moments: with their values and notes.
            drawn: by the last of them, over the whole run; None: not counted now.
        """
        with self._lock:
            first, added = self._next_tick, list(moments)
            try:
                with self._connection:
                    for moment in added:
                        self._write(*moment)
                    if drawn:
                        self._exchange.write(self._next_tick - 1, drawn)
                for number, moment in enumerate(added, first):
                    self._summary.add(number, *moment)
                if self._summary.is_due():
                    self._summary.write()
            except (sqlite3.Error, OSError) as error:
                raise self._error(error) from error

    def _write(self, tick: Tick, values: Mapping[str, float], notes: Mapping[str, str]) -> None:
        number = self._next_tick
        moment = (number, tick.seconds, tick.wall_time, tick.env_steps, tick.frames, tick.learner_steps)
        self._connection.execute("INSERT INTO ticks VALUES (?, ?, ?, ?, ?, ?)", moment)
        for table, items in (("points", values), ("notes", notes)):
            new = {
                name: value
                for name, value in items.items()
                if value == value and (is_measured(name) or self._last.get(name) != value)
            }
            rows = [(self._id(name), number, value) for name, value in new.items()]
            self._connection.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
            self._last.update(new)
        self._next_tick += 1

    def forget_after(self, env_steps: int) -> None:
        """Remove all moments after `env_steps`: a resumed run records them again."""
        with self._lock:
            try:
                with self._connection:
                    for table in ("points", "notes", "exchange"):
                        self._connection.execute(
                            f"DELETE FROM {table} WHERE tick IN (SELECT tick FROM ticks WHERE env_steps > ?)",
                            (env_steps,),
                        )
                    self._connection.execute("DELETE FROM ticks WHERE env_steps > ?", (env_steps,))
                self._read_position()
            except sqlite3.Error as error:
                raise self._error(error) from error

    def close(self) -> None:
        """Close the file and write the last summary."""
        with self._lock:
            self._connection.close()
            try:
                self._summary.write()
            except OSError as error:
                raise self._error(error) from error

    def __enter__(self) -> MetricsDb:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _id(self, name: str) -> int:
        if name not in self._ids:
            self._ids[name] = len(self._ids)
            self._connection.execute("INSERT INTO names VALUES (?, ?)", (self._ids[name], name))
        return self._ids[name]

    def _error(self, error: sqlite3.Error | OSError) -> OutputError:
        words = str(error)
        if "locked" in words:
            cure = "end the program that holds it"
        elif isinstance(error, (OSError, sqlite3.OperationalError)):
            cure = "free space or repair the disk"
        else:  # it is damaged
            cure = "move the file away, and the history that it holds"
        return OutputError("run-dir", f"{self._path}: {words}", f"{cure}, then continue with --resume")


def _check_kinds(connection: sqlite3.Connection) -> None:
    """Raise `sqlite3.DataError` if a column holds a value of another kind, which SQLite lets anybody write."""
    for table, columns, kind, types in _KINDS:
        for column in columns:
            query = f"SELECT {column} FROM {table} WHERE typeof({column}) NOT IN ({types}, 'null') LIMIT 1"
            for (value,) in connection.execute(query):
                raise sqlite3.DataError(f"it is damaged: {table}.{column} must be a {kind}, got {value!r:.40}")


def read_series(path: Path, name: str, axis: Axis = "env_steps") -> list[tuple[float, float]]:
    """Return one name's points as (axis, value), in time order.

    Raises:
        OutputError: the file is missing or damaged.
    """
    query = (
        f"SELECT t.{axis}, p.value FROM points p JOIN names n USING (id) JOIN ticks t USING (tick) "
        "WHERE n.name = ? ORDER BY t.tick"
    )
    return [(x, value) for x, value in _query(path, query, (name,))]


def read_names(path: Path) -> list[str]:
    """Return the names that a run has recorded, sorted."""
    return [name for (name,) in _query(path, "SELECT name FROM names ORDER BY name", ())]


def newest_env_steps(path: Path) -> int:
    """Return the most env steps of a recorded moment; 0 if there is none.

    Raises:
        OutputError: the file is missing or damaged.
    """
    ((newest,),) = _query(path, "SELECT max(env_steps) FROM ticks", ())
    return newest or 0


@contextmanager
def open_to_read(path: Path, timeout_s: float = 10.0) -> Iterator[sqlite3.Connection]:
    """Open a `metrics.db` without writing anything, not even beside it: its directory may be read-only.

    Raises:
        sqlite3.Error: the file is missing, damaged or locked.
    """
    _check_file(path)
    # SQLite writes files beside a database that it does not open as immutable. With a -wal file a writer has it open.
    mode = "mode=ro&immutable=1" if write_ahead_log(path) is None else "mode=ro"
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=timeout_s)) as connection:
        connection.execute("PRAGMA query_only=1")
        yield connection


def _check_file(path: Path) -> None:
    """Raise `sqlite3.OperationalError` for a pipe in place of a file, for which SQLite would wait for ever."""
    try:
        check_regular(path)
    except FileNotFoundError:
        return  # it is made, or SQLite has words for it
    except OSError as error:
        raise sqlite3.OperationalError(str(error.strerror)) from error


def _query(path: Path, query: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    try:
        with open_to_read(path) as connection:
            return connection.execute(query, arguments).fetchall()
    except sqlite3.Error as error:
        raise OutputError("run-dir", f"{path}: {error}", "check that it is a run's metrics.db") from error
