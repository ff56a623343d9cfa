"""Notices another package of the name of one of ours, before it causes an error that nobody understands."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

# Nothing of LASER's is imported here, since that may be the wrong one.
PACKAGES = ("laser", "actors", "learner", "replay_server")


def shadowing_error() -> str | None:
    """Return the line a user reads if a package of ours is missing or would be imported from elsewhere, else None."""
    for name, place in find_shadowed():
        if place:
            wrong = f"Python finds {place} instead of LASER's package {name}"
            return f"error: {name}: {wrong}; rename or move it, or start from another directory"
        return f"error: {name}: the package {name} is missing; reinstall LASER"
    return None


def find_shadowed() -> Iterator[tuple[str, str]]:
    """Yield (package, where it was found instead) for each that does not lie beside this one; "" if nowhere."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [Path(place).resolve() for place in (spec.submodule_search_locations or [])] if spec else []
        if home / name not in places:
            origin = spec.origin if spec and spec.origin else ""
            yield name, str(places[0]) if places else origin
