"""Checked values of requests: for any input these functions return only allowed values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")

MOST_RUNS = 1000
"""Most runs in one comparison; a page that leaves some out says so."""


def one_of(value: Any, allowed: Sequence[T], default: T) -> T:
    """Return the allowed value that equals `value`, else the default."""
    return next((item for item in allowed if type(item) is type(value) and item == value), default)


def whole(value: Any, least: int, most: int, default: int) -> int:
    """Return a number as an integer within bounds, else the default."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value:
        return default
    return int(min(max(value, least), most))


def texts(value: Any, most: int) -> list[str]:
    """Return the texts that are not empty among the first `most` items of a list."""
    return [item for item in value[:most] if isinstance(item, str) and item] if isinstance(value, list) else []
