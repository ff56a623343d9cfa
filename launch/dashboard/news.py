"""What of a page's parts is news to it: drawing what has not changed is most of what an update costs a browser."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from dash import no_update
from dash.exceptions import PreventUpdate


def marked(*parts: Any) -> tuple[Sequence[Any], list[int]]:
    """Return components, texts or rows, one per output, and a mark of each that differs when it does."""
    return parts, [zlib.crc32(repr(part).encode()) for part in parts]


def news(parts: Sequence[Any], marks: list[int], seen: Any) -> tuple[list[Any], list[int]]:
    """Return the parts that differ from what a page has, `no_update` for the others, and what to remember.

    Args:
        parts: one per output.
        marks: see `marked`.
        seen: what the page was given to remember, as it came back: anything.

    Raises:
        PreventUpdate: nothing differs.
    """
    before = seen if isinstance(seen, list) and len(seen) == len(marks) else [None] * len(marks)
    if before == marks:
        raise PreventUpdate
    return [no_update if old == mark else part for part, old, mark in zip(parts, before, marks, strict=True)], marks
