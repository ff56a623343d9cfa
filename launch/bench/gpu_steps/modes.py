"""The three ways in which an update runs on a GPU: eager, compiled, and compiled with one CUDA graph to launch."""

from __future__ import annotations

from typing import Any

MODES = ("eager", "compiled", "graphs")


def settings_of(mode: str) -> dict[str, Any]:
    """Return the learner's settings of a mode, by field."""
    return {"compile": "off" if mode == "eager" else "on", "cuda_graphs": "on" if mode == "graphs" else "off"}
