"""Learning rules, one per file."""

from __future__ import annotations

from laser.algorithms.base import AlgorithmConfig
from laser.discovery import find_subclasses


def find_algorithms() -> dict[str, type[AlgorithmConfig]]:
    """Return the config class of every algorithm in this folder by its name.

    An algorithm is found through its config: a subclass of `AlgorithmConfig` that sets a `name` of its own.

    Raises:
        ValueError: two configs claim the same name.
    """
    found: dict[str, type[AlgorithmConfig]] = {}
    for config in find_subclasses(__name__, AlgorithmConfig):
        name = vars(config).get("name", "")
        if not name:
            continue
        if name in found:
            raise ValueError(f"algorithm names must be unique, but {found[name]} and {config} are both {name!r}")
        found[name] = config
    return dict(sorted(found.items()))
