"""Removers, one file per strategy; a remover in a new file is found by its class."""

from __future__ import annotations

from laser.discovery import find_strategies
from replay_server.removers.base import Remover

__all__ = ["Remover", "find_removers", "make_remover"]


def find_removers() -> list[type[Remover]]:
    """Return every remover in this folder, sorted by name."""
    return find_strategies(__name__, Remover)


def make_remover(name: str) -> Remover:
    """Return the remover called `name`.

    Raises:
        ValueError: there is none; the message lists all names.
    """
    for kind in find_removers():
        if kind.name == name:
            return kind()
    raise ValueError(f"remover must be one of {', '.join(kind.name for kind in find_removers())}, got {name!r}")
