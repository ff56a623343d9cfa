"""Checked values of requests: for any input these functions return only allowed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs

T = TypeVar("T")

MOST_RUNS = 100
"""Most runs in one comparison."""


def one_of(value: Any, allowed: Sequence[T], default: T) -> T:
    """Return the allowed value that equals `value`, else the default."""
    return next((item for item in allowed if type(item) is type(value) and item == value), default)


def whole(value: Any, least: int, most: int, default: int) -> int:
    """Return a number as an integer within bounds, else the default."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return default
    return int(min(max(value, least), most))


def texts(value: Any, most: int) -> list[str]:
    """Return the texts among the first `most` items of a list."""
    return [item for item in value[:most] if isinstance(item, str)] if isinstance(value, list) else []


def keys_of_rows(rows: Any) -> list[str]:
    """Return the keys of a table's selected rows."""
    if not isinstance(rows, list):
        return []
    found = [row.get("key") for row in rows[:MOST_RUNS] if isinstance(row, dict)]
    return [key for key in found if isinstance(key, str)]


def query_value(search: Any, name: str) -> str:
    """Return one value of an address's query, or ""."""
    if not isinstance(search, str):
        return ""
    try:
        return parse_qs(search.lstrip("?"), max_num_fields=50).get(name, [""])[0]
    except ValueError:
        return ""
