"""Notices another package of the name of one of ours, before it causes an error that nobody understands.

`laser` loads this file by its place, since the name `launch` may be another's, too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

# Nothing of LASER's is imported here, since that may be the wrong one.
PACKAGES = ("laser", "actors", "learner", "replay_server", "launch")


def shadowing_error() -> str | None:
    """Return the line a user of the command reads if a package of ours is missing or would be imported from elsewhere.

    Returns:
        None if all is well.
    """
    for name, place in find_shadowed():
        elsewhere = ", or start from another directory" if place else ""
        return f"error: {name}: {explain(name, place)}{elsewhere}"
    return None


def check_packages() -> None:
    """See that the packages of ours are the ones that would be imported.

    Raises:
        ImportError: one is missing or would be imported from elsewhere; the message says which and where.
    """
    for name, place in find_shadowed():
        raise ImportError(explain(name, place), name=name, path=place or None)


def explain(name: str, place: str) -> str:
    """Return what is wrong with a package that `find_shadowed` found, and what to do."""
    if place:
        return f"Python finds {place} instead of LASER's package {name}; rename or move it"
    return f"the package {name} is missing; reinstall LASER"


def find_shadowed() -> Iterator[tuple[str, str]]:
    """Yield (package, where it was found instead) for each that does not lie beside this one; "" if nowhere."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [Path(place).resolve() for place in (spec.submodule_search_locations or [])] if spec else []
        if home / name not in places:
            origin = spec.origin if spec and spec.origin else ""
            yield name, str(places[0]) if places else origin
