"""Downloads of the pages: points as CSV, and videos. Addresses name runs by their keys, never by file paths."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Iterator, Sequence
from typing import Any

from flask import Flask, Response, abort, request, send_file

from launch.dashboard.library import Library
from launch.records.exchange_reader import read_exchange_rows
from launch.records.listing import VIDEO_TYPES, Entry, find_videos
from launch.records.series import UnreadableError, read_rows

_HEAD = ("run", "metric", "env_steps", "frames", "learner_steps", "seconds", "wall_time", "value")
_ROWS_PER_PIECE = 2000


def install(server: Flask, library: Library) -> None:
    """Add the addresses `/csv` and `/video` to a server; the key of a sweep stands for all its members."""

    @server.get("/csv")
    def points() -> Any:
        keys = [key for key in dict.fromkeys(request.args.get("runs", "").split(",")) if key]
        found = {key: library.find(key) for key in keys}
        entries = [
            run
            for entry in found.values()
            if entry is not None
            for run in (library.members(entry) if entry.is_sweep else [entry])
        ]
        if not entries:
            abort(404)
        missing = [key for key, entry in found.items() if entry is None]
        pieces = csv_pieces(entries, request.args.getlist("metric") or None, missing)
        return Response(pieces, mimetype="text/csv", headers={"Content-Disposition": "attachment; filename=laser.csv"})

    @server.get("/video")
    def video() -> Any:
        entry = library.find(request.args.get("run"))
        name = request.args.get("name")
        # The name only selects among existing files; it never becomes part of a path.
        found = next((path for path in find_videos(entry) if path.name == name), None) if entry else None
        if found is None:
            abort(404)
        return send_file(found, mimetype=VIDEO_TYPES[found.suffix.lower()], conditional=True)


def csv_pieces(entries: Sequence[Entry], names: Sequence[str] | None, missing: Sequence[str] = ()) -> Iterator[str]:
    """Yield every point of runs as CSV, piece by piece; a run that cannot be read has a line with the reason.

    Args:
        entries: the runs.
        names: of metrics; None: all.
        missing: keys of which there is no run; each has a line.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_HEAD)
    for entry in entries:
        try:
            exchange = _exchange_rows(entry) if names is None else ()
            points = itertools.chain(read_rows(entry.metrics_path, names), exchange)
            for place, (name, *numbers) in enumerate(points):
                writer.writerow([harmless(entry.name), harmless(name), *numbers])
                if place % _ROWS_PER_PIECE == 0:
                    yield _taken(text)
        except UnreadableError as error:
            writer.writerow([harmless(entry.name), harmless(error.problem.wrong)])
    for key in missing:
        writer.writerow([harmless(key), "there is no such run here (any more)"])
    yield _taken(text)


def harmless(text: str) -> str:
    """Return text that a spreadsheet does not read as a formula."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _exchange_rows(entry: Entry) -> Iterator[tuple[Any, ...]]:
    """Yield what a run drew of each maker between two moments, a row for each count as `read_rows` yields points."""
    for moment, maker, counts in read_exchange_rows(entry.metrics_path):
        for name, value in counts.items():
            yield f"learned_from/{maker}/{name}", *moment, value


def _taken(text: io.StringIO) -> str:
    piece = text.getvalue()
    text.seek(0)
    text.truncate()
    return piece
