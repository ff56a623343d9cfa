"""Selection of a page's changed parts: redrawing unchanged parts would be most of a browser's work in an update."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from dash import no_update
from dash.exceptions import PreventUpdate


def marked(*parts: Any) -> tuple[Sequence[Any], list[int]]:
    """Return components, texts or rows, one per output, and a checksum of each as its mark."""
    return parts, [zlib.crc32(repr(part).encode()) for part in parts]


def news(parts: Sequence[Any], marks: list[int], seen: Any) -> tuple[list[Any], list[int]]:
    """Return the parts that differ from those of the page, `no_update` for the others, and the new marks.

    Args:
        parts: one per output.
        marks: see `marked`.
        seen: marks that the page sent back; any value is possible.

    Raises:
        PreventUpdate: nothing differs.
    """
    before = seen if isinstance(seen, list) and len(seen) == len(marks) else [None] * len(marks)
    if before == marks:
        raise PreventUpdate
    return [no_update if old == mark else part for part, old, mark in zip(parts, before, marks, strict=True)], marks
