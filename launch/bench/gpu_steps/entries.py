"""Entries of the GPU check: numbers, failures and omissions, one line of JSON each, written to disk at once."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from laser.config import ConfigError, Problem
from launch.standard_output import finite

Kind = Literal["machine", "result", "skipped", "failed", "warned", "ended"]


@dataclass(frozen=True)
class Entry:
    """A number of a step, or the reason why one is missing.

    Args:
        kind: machine of the check, number, omission, error, warning, or end of a step.
        part: A or B.
        step: the step's name.
        name: of the number, or of the measurement that was skipped or failed.
        value: the number.
        unit: of the number.
        beside: a published number to compare with, and its hardware.
        note: reason of an omission or failure; for a number, a remark on how to read it.
        stand_in: measured on a CPU in place of a part that only a GPU has.
        details: further JSON values.
    """

    kind: Kind
    part: str = ""
    step: str = ""
    name: str = ""
    value: float | None = None
    unit: str = ""
    beside: str = ""
    note: str = ""
    stand_in: bool = False
    details: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object of the fields that are not empty."""
        values = dataclasses.asdict(self)
        # 0 is a number, and not empty.
        return {key: value for key, value in values.items() if value or (key == "value" and value is not None)}

    def __str__(self) -> str:
        """Return one readable line."""
        if self.kind == "machine":
            return describe_machine(self.details)
        if self.kind == "result":
            note = f" ({self.note})" if self.note else ""
            return f"{self.step}: {self.name}: {readable(self.value)} {self.unit}{self._marks}{note}"
        what = f"{self.step}: {self.name}" if self.name else self.step
        return f"{what}: {self.kind}: {self.note}"

    @property
    def _marks(self) -> str:
        marks = ["stand-in"] if self.stand_in else []
        marks += [f"beside: {self.beside}"] if self.beside else []
        return f" [{'; '.join(marks)}]" if marks else ""


def entry_from_json(values: Any) -> Entry:
    """Return the entry of a line; keys of newer versions are ignored.

    Raises:
        ValueError: the values are not an entry.
    """
    if not isinstance(values, dict) or values.get("kind") not in get_args(Kind):
        raise ValueError(f"not an entry: {values!r}")
    known = {item.name for item in dataclasses.fields(Entry)}
    return Entry(**{key: value for key, value in values.items() if key in known})


def readable(value: float | None) -> str:
    """Return a number with about four significant digits."""
    if value is None or not math.isfinite(value):
        return "unknown"
    if value == 0 or (float(value).is_integer() and abs(value) < 1e6):
        return f"{value:,.0f}"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.2e}" if abs(value) < 1e-3 else f"{value:.4g}"


def describe_machine(facts: dict[str, Any]) -> str:
    """Return one line about the machine of the check."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


class EntriesFile:
    """A file of entries, a line each; every line is on the disk before the next measurement begins.

    Args:
        path: of the file; None: write nothing.

    Raises:
        ConfigError: the file cannot be written.
    """

    def __init__(self, path: Path | None):
        self._file: int | None = None
        if path is None:
            return
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
            size = os.fstat(self._file).st_size
            if size and os.pread(self._file, 1, size - 1) != b"\n":
                os.write(self._file, b"\n")  # an earlier run was cut off inside a line
        except OSError as error:
            raise ConfigError(
                [Problem("out", f"{path} cannot be written: {error.strerror}", "give a file in a folder that exists")]
            ) from error

    def append(self, entry: Entry) -> None:
        """Write an entry through to the disk."""
        if self._file is None:
            return
        line = json.dumps(finite(entry.to_json())) + "\n"
        os.write(self._file, line.encode())  # one call: a reader, or a kill, never finds half a line
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def __enter__(self) -> EntriesFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_entries(path: Path) -> Iterator[Entry]:
    """Yield the entries of a file; lines that were cut off are skipped."""
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            yield entry_from_json(json.loads(line))
        except ValueError:
            continue
