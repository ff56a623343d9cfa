"""Values by names that LASER does not know, such as the arguments of a user's environment: JSON values, hashable."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_WORDS = {"true": True, "false": False, "none": None}


class FreeValues(Mapping[str, Any]):
    """An immutable table of JSON values by name; hashable, so that a config that holds one stays hashable.

    Args:
        values: by name; tuples become lists, as in JSON.
    """

    def __init__(self, values: Mapping[str, Any] | None = None):
        self._values: dict[str, Any] = dict(values or {})
        if self.find_unreadable() is None:
            self._values = json.loads(json.dumps(self._values))

    def find_unreadable(self) -> str | None:
        """Return the name of a value that JSON cannot hold, or None."""
        for name, value in self._values.items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                return name
        return None

    def with_value(self, path: str, value: Any) -> FreeValues:
        """Return a copy with one value put in.

        Args:
            path: the value's name; dots separate the names of nested tables.
            value: a JSON value.
        """
        name, _, rest = path.partition(".")
        if rest:
            inner = self.get(name)
            value = dict(FreeValues(inner if isinstance(inner, Mapping) else {}).with_value(rest, value))
        return FreeValues({**self._values, name: value})

    def at(self, path: str) -> Any:
        """Return the value at a path of names with dots between them.

        Raises:
            KeyError: there is none.
        """
        value: Any = self._values
        for name in path.split("."):
            value = value[name]
        return value

    def __getitem__(self, name: str) -> Any:
        """Return one value."""
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def __hash__(self) -> int:
        """Return a hash of the values' JSON text."""
        return hash(json.dumps(self._values, sort_keys=True, default=repr))

    def __repr__(self) -> str:
        """Return the values as Python writes a dict."""
        return repr(self._values)

    def __str__(self) -> str:
        """Return the values as JSON text, as they are written on the command line."""
        return json.dumps(self._values, default=repr)


def read_value(value: Any) -> Any:
    """Return the value that a text means: a JSON value if it is one, else the text itself.

    `9` is a whole number, `0.5` and `.5` are reals, `true` a truth value, `none` nothing; `"9"` in quotes is text.
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    try:
        return json.loads(text)
    except ValueError:
        pass
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    return float(text) if re.fullmatch(r"[+-]?(\d+\.\d*|\.\d+)", text) else value


def read_table(value: Any) -> FreeValues:
    """Return a table that is given as a whole, as a mapping or as JSON text.

    Raises:
        ValueError: "must be ..., got ...".
    """
    read = read_value(value)
    if read is None or read == "":
        return FreeValues()
    if not isinstance(read, Mapping):
        raise ValueError(f'must be a table of values by name, such as {{"size": 9}}, got {value!r}')
    return FreeValues(read)
