"""What of a page's parts is news to it: drawing what has not changed is most of what an update costs a browser."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

from dash import no_update
from dash.exceptions import PreventUpdate


def news(parts: Sequence[Any], seen: Any) -> tuple[list[Any], list[int]]:
    """Return the parts that differ from what a page has, `no_update` for the others, and what to remember.

    Args:
        parts: components, texts or rows, one per output.
        seen: what the page was given to remember, as it came back: anything.

    Raises:
        PreventUpdate: nothing differs.
    """
    marks = [zlib.crc32(repr(part).encode()) for part in parts]
    before = seen if isinstance(seen, list) and len(seen) == len(marks) else [None] * len(marks)
    if before == marks:
        raise PreventUpdate
    return [no_update if old == mark else part for part, old, mark in zip(parts, before, marks, strict=True)], marks
