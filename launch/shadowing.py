"""Notices another package of the name of one of ours, before it causes an error that nobody understands."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

from launch.errors import LaunchError

PACKAGES = ("laser", "actors", "learner", "replay_server")


class ShadowedPackageError(LaunchError):
    """Python would import somebody else's package in place of one of LASER's."""


def check_packages() -> None:
    """Raise `ShadowedPackageError` if a package of ours is missing or would be imported from elsewhere."""
    for name, found in find_shadowed():
        raise ShadowedPackageError(
            name,
            f"Python finds {found} instead of LASER's package {name}" if found else f"the package {name} is missing",
            "rename or move it, or start from another directory" if found else "reinstall LASER",
        )


def find_shadowed() -> Iterator[tuple[str, str]]:
    """Yield (package, where it was found instead) for each that does not lie beside this one; "" if nowhere."""
    home = Path(__file__).resolve().parent.parent
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        places = [Path(place).resolve() for place in (spec.submodule_search_locations or [])] if spec else []
        if home / name not in places:
            origin = spec.origin if spec and spec.origin else ""
            yield name, str(places[0]) if places else origin
