"""Finding strategies: every concrete subclass of a base class in the modules of a package."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from functools import cache
from typing import Any


def find_strategies(package: str, base: Any) -> list[Any]:
    """Return the concrete subclasses of `base` that have a `name`, defined in `package`, sorted by name."""
    return list(_find(package, base))


@cache
def _find(package: str, base: Any) -> tuple[Any, ...]:
    found = []
    for info in pkgutil.iter_modules(importlib.import_module(package).__path__):
        module = importlib.import_module(f"{package}.{info.name}")
        for _, kind in inspect.getmembers(module, inspect.isclass):
            here = kind.__module__ == module.__name__
            if here and issubclass(kind, base) and not inspect.isabstract(kind):
                found.append(kind)
    return tuple(sorted(found, key=lambda kind: (kind.name, kind.__qualname__)))
