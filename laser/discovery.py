"""Discovery of strategies and of single-file commands: a file in a package's folder needs no registration."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
import threading
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

_PARSING = threading.Lock()
"""Python 3.11 raises SystemError now and then where two threads parse at once."""


def import_modules(package: str) -> list[ModuleType]:
    """Import every module of a package, and return the modules sorted by name."""
    found = pkgutil.iter_modules(importlib.import_module(package).__path__)
    return [importlib.import_module(f"{package}.{info.name}") for info in found]


def find_strategies(package: str, base: Any) -> list[Any]:
    """Return the concrete subclasses of `base` that have a `name`, defined in `package`, sorted by name."""
    return list(_find_strategies(package, base))


def find_subclasses(package: str, base: Any) -> list[Any]:
    """Return every direct and indirect subclass of `base` that is defined in `package`, each once."""
    import_modules(package)
    found: list[Any] = list(dict.fromkeys(_subclasses(base)))  # a class with two parents is reached through both
    return [kind for kind in found if kind.__module__.startswith(f"{package}.")]


def read_first_lines(package: str) -> dict[str, str]:
    """Return the first line of the docstring of every module whose name has no leading underscore, by name.

    Files are read, not imported, so that help is fast.
    """
    with _PARSING:
        return dict(_read_first_lines(package))


@cache
def _read_first_lines(package: str) -> dict[str, str]:
    folder = Path(str(importlib.import_module(package).__file__)).parent
    lines = {}
    for path in sorted(folder.glob("*.py")):
        if not path.stem.startswith("_"):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            lines[path.stem] = text.partition("\n")[0]
    return lines


@cache
def _find_strategies(package: str, base: Any) -> tuple[Any, ...]:
    found = []
    for module in import_modules(package):
        for _, kind in inspect.getmembers(module, inspect.isclass):
            here = kind.__module__ == module.__name__
            if here and issubclass(kind, base) and not inspect.isabstract(kind):
                found.append(kind)
    return tuple(sorted(found, key=lambda kind: (kind.name, kind.__qualname__)))


def _subclasses(parent: Any) -> list[Any]:
    children: list[Any] = parent.__subclasses__()
    return children + [grandchild for child in children for grandchild in _subclasses(child)]
