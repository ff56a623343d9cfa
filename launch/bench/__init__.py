"""Benches: one file each, with `Options` (a frozen config) and `run(options)`, which returns numbers by name and unit.

Every file in this folder is a bench; it needs no registration. Options have at least `json: bool`.
"""

from __future__ import annotations

import importlib
import os
import platform
from pathlib import Path
from typing import Any, Protocol

from laser.config import ConfigError, Problem
from laser.discovery import read_first_lines
from launch.settings.values import nearest


class Bench(Protocol):
    """Interface of a bench's module."""

    Options: type[Any]

    def run(self, options: Any) -> dict[str, Any]:
        """Measure, and return numbers by name; "bottleneck" names the limit in words."""


def find_benches() -> dict[str, str]:
    """Return the benches' names, each with a line of description, without importing them."""
    return read_first_lines(__name__)


def load_bench(name: str) -> Bench:
    """Return a bench's module.

    Raises:
        ConfigError: there is no such bench; the error suggests the nearest name.
    """
    benches = find_benches()
    known = name.replace("-", "_")
    if known not in benches:
        best = nearest(known, list(benches))
        remedy = f"did you mean {best}?" if best else f"benches are {', '.join(benches)}"
        raise ConfigError([Problem("bench", f"there is no bench {name!r}", remedy)])
    module: Bench = importlib.import_module(f"{__name__}.{known}")
    return module


def machine() -> dict[str, Any]:
    """Return a description of this machine, for a bench's result."""
    return {"machine": f"{processor()}, {os.cpu_count()} cores, {platform.system()}"}


def processor() -> str:
    """Return the name of the processor."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
