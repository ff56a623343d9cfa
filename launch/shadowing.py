"""Detection of files and packages that have the name of one of LASER's packages and hide it.

`laser` runs this file by its path, since the name `launch` may be hidden, too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

# This file imports nothing of LASER, which may be hidden.
PACKAGES = ("laser", "actors", "learner", "replay_server", "launch")


def shadowing_error() -> str | None:
    """Return the command's line about a package of LASER that is missing or hidden; None if there is none."""
    for name, place in find_shadowed():
        elsewhere = ", or start from another directory" if place else ""
        return f"error: {name}: {explain(name, place)}{elsewhere}"
    return None


def check_packages() -> None:
    """Check that no package of LASER is missing or hidden.

    Raises:
        ImportError: one is; the message names it, the file that hides it and the remedy.
    """
    for name, place in find_shadowed():
        raise ImportError(explain(name, place), name=name, path=place or None)


def explain(name: str, place: str) -> str:
    """Return the problem and the remedy, for a pair from `find_shadowed`."""
    if place:
        return f"Python finds {place} instead of LASER's package {name}; rename or move it"
    return f"the package {name} is missing; reinstall LASER"


def find_shadowed() -> Iterator[tuple[str, str]]:
    """Yield (package, path of what hides it) for each package that is hidden; the path is "" if it is missing."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [Path(place).resolve() for place in (spec.submodule_search_locations or [])] if spec else []
        if home / name not in places:
            origin = spec.origin if spec and spec.origin else ""
            yield name, str(places[0]) if places else origin
