"""Samplers, one file per strategy; a new file is found by its class."""

from __future__ import annotations

from laser.discovery import find_strategies
from replay_server.samplers.base import Draw, Sampler, View

__all__ = ["Draw", "Sampler", "View", "find_samplers", "samplers_called"]


def find_samplers() -> list[type[Sampler]]:
    """Return every sampler in this folder, sorted by name."""
    return find_strategies(__name__, Sampler)


def samplers_called(name: str) -> dict[View, type[Sampler]]:
    """Return the samplers called `name` by the view they draw.

    Raises:
        ValueError: there is none; lists those there are.
    """
    found: dict[View, type[Sampler]] = {
        view: kind for kind in find_samplers() if kind.name == name for view in sorted(kind.views)
    }
    if not found:
        names = sorted({kind.name for kind in find_samplers()})
        raise ValueError(f"sampler must be one of {', '.join(names)}, got {name!r}")
    return found
