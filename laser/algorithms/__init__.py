"""Learning rules, one per file."""

from __future__ import annotations

import importlib
import pkgutil

from laser.algorithms.base import AlgorithmConfig


def find_algorithms() -> dict[str, type[AlgorithmConfig]]:
    """Return the config class of every algorithm in this folder by its name.

    An algorithm is found through its config: a subclass of `AlgorithmConfig` that sets a `name` of its own.

    Raises:
        ValueError: two configs claim the same name.
    """
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")
    found: dict[str, type[AlgorithmConfig]] = {}
    # Once each: a class with two parents is reached through both.
    for config in dict.fromkeys(_subclasses(AlgorithmConfig)):  # type: ignore[type-abstract]
        name = vars(config).get("name", "")
        if not name or not config.__module__.startswith(f"{__name__}."):
            continue
        if name in found:
            raise ValueError(f"algorithm names must be unique, but {found[name]} and {config} are both {name!r}")
        found[name] = config
    return dict(sorted(found.items()))


def _subclasses(parent: type[AlgorithmConfig]) -> list[type[AlgorithmConfig]]:
    children = parent.__subclasses__()
    return children + [grandchild for child in children for grandchild in _subclasses(child)]
