"""The three modes of an update on a GPU: eager, compiled, and compiled and replayed as one CUDA graph."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

MODES = ("eager", "compiled", "graphs")


def settings_of(mode: str) -> dict[str, Any]:
    """Return the learner's settings of a mode, by field."""
    return {"compile": "off" if mode == "eager" else "on", "cuda_graphs": "on" if mode == "graphs" else "off"}


@contextmanager
def as_asked() -> Iterator[None]:
    """Raise if code inside cannot be compiled or recorded and falls back to a slower mode; without this it only warns.

    Raises:
        RuntimeError: with the text of the warning.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".* cannot be (compiled|recorded)", RuntimeWarning)
        try:
            yield
        except RuntimeWarning as warning:
            raise RuntimeError(str(warning)) from warning
