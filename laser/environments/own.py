"""Environments that a user gives as a class or a function: `module:Name`, or an object of this process."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from laser.user_classes import class_path, import_object

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec

# Classes and functions that no other process can import, by the id that stands for them.
_KEPT: dict[str, Callable[..., Any]] = {}


def id_of(maker: Callable[..., Any]) -> str:
    """Return the id of an environment's class, or of a function that makes one: `module:Name`.

    What cannot be imported (made inside a function, a lambda, a partial) is kept for this process.
    """
    name = getattr(maker, "__qualname__", type(maker).__name__)
    if "<" not in name and hasattr(maker, "__qualname__"):
        path = class_path(maker)
        if import_object(path) is maker:
            return path
    kept = next((path for path, other in _KEPT.items() if other is maker), None)
    if kept is None:
        kept = f"{getattr(maker, '__module__', '__main__')}:{name}#{len(_KEPT) + 1}"
        _KEPT[kept] = maker
    return kept


def is_only_here(id: str) -> bool:
    """Return whether other processes cannot make this environment: it belongs to this process or to a notebook."""
    return "#" in id or id.startswith("__main__:")


def find_own(module: str, name: str) -> EnvSpec | None:
    """Return a description of the class or function `name` of a module; None if there is none."""
    from gymnasium.envs.registration import EnvSpec  # slow to import, and only needed where an environment is made

    id = f"{module}:{name}"
    maker = _KEPT.get(id) if "#" in id else import_object(id)
    if not callable(maker):
        return None
    # Gymnasium allows only words in an id.
    return EnvSpec("-".join(re.findall(r"\w+", name)), entry_point=maker)


def takes(maker: Any, argument: str) -> bool:
    """Return whether a class or function takes an argument of this name; True if that is not known."""
    try:
        parameters = inspect.signature(maker).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(each.name == argument or each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
