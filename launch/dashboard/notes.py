"""Notes of users about runs, their tags, and which runs are archived, in one file of the dashboard's own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

FILE_NAME = ".dashboard.sqlite"
MOST_CHARACTERS = 10_000

_TABLE = "CREATE TABLE IF NOT EXISTS notes (run TEXT PRIMARY KEY, note TEXT, tags TEXT, archived INTEGER)"
_PATIENCE_S = 2.0


@dataclass(frozen=True)
class Note:
    """Note, tags and archive mark of a run.

    Args:
        note: any text.
        tags: words with commas between them.
        archived: whether the table leaves the run out.
    """

    note: str = ""
    tags: str = ""
    archived: bool = False


class Notes:
    """The notes about the runs of a directory. May be used from any thread; nothing is ever written into a run.

    Args:
        root: of the runs; for a run or a sweep by itself the file is beside it.
        read_only: write nothing at all.
    """

    def __init__(self, root: Path, read_only: bool = False):
        is_run = (root / "config.json").exists()
        self._place = root.absolute().parent if is_run else root.absolute()
        self.read_only = read_only

    @property
    def path(self) -> Path:
        """The file; it exists from the first note on."""
        return self._place / FILE_NAME

    def read(self) -> dict[str, Note]:
        """Return all notes by the path of the run below the directory; none if the file cannot be read."""
        if not self.path.is_file() or self.path.is_symlink():
            return {}
        found: dict[str, Note] = {}
        with suppress(sqlite3.Error), closing(sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True)) as file:
            for run, note, tags, archived in file.execute("SELECT run, note, tags, archived FROM notes"):
                found[str(run)] = Note(str(note or ""), str(tags or ""), bool(archived))
        return found

    def of(self, run: Path) -> Note:
        """Return what is written about a run."""
        return self.among(self.read(), run)

    def among(self, notes: Mapping[str, Note], run: Path) -> Note:
        """Return what is written about a run in notes that were read."""
        return notes.get(self._name(run), Note())

    def write(self, run: Path, note: Note) -> str:
        """Write a note; return why it could not be written, or ""."""
        if self.read_only:
            return "this dashboard is read-only"
        if self.path.is_symlink():
            return f"not saved: {self.path} is a link"
        try:
            with self._open() as file:
                values = (note.note[:MOST_CHARACTERS], note.tags[:MOST_CHARACTERS], int(note.archived))
                file.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?)", (self._name(run), *values))
        except (sqlite3.Error, OSError) as error:
            return f"not saved: {self.path}: {error}"
        return ""

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_PATIENCE_S)) as file, file:
            file.execute(_TABLE)
            yield file

    def _name(self, run: Path) -> str:
        path = run.absolute()
        return path.relative_to(self._place).as_posix() if path.is_relative_to(self._place) else path.as_posix()
