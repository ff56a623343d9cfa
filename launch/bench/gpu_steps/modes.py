"""The three ways in which an update runs on a GPU: eager, compiled, and compiled with one CUDA graph to launch."""

from __future__ import annotations

import dataclasses
from typing import Any

from learner.config import LearnerConfig

MODES = ("eager", "compiled", "graphs")


def settings_of(mode: str) -> dict[str, Any]:
    """Return the learner's settings of a mode, by field."""
    settings = {"compile": "off" if mode == "eager" else "on"}
    if "cuda_graphs" in {item.name for item in dataclasses.fields(LearnerConfig)}:
        settings["cuda_graphs"] = "on" if mode == "graphs" else "off"
    return settings
