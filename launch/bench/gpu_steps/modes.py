"""The three ways in which an update runs on a GPU: eager, compiled, and compiled with one CUDA graph to launch."""

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
    """Raise where what is compiled inside falls back to something slower, which else only warns.

    Raises:
        RuntimeError: says what could not be done.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".* cannot be (compiled|recorded)", RuntimeWarning)
        try:
            yield
        except RuntimeWarning as warning:
            raise RuntimeError(str(warning)) from warning
