"""Samplers, one file per strategy with its settings; a sampler in a new file is found by its class."""

from __future__ import annotations

import inspect

from laser.discovery import find_strategies
from laser.prioritization.config import SamplerSettings
from laser.user_classes import find_class
from replay_server.samplers.base import Draw, Sampler, View

__all__ = ["Draw", "Sampler", "View", "find_samplers", "samplers_called"]


def find_samplers() -> list[type[Sampler]]:
    """Return every sampler in this folder, sorted by name."""
    return find_strategies(__name__, Sampler)


def samplers_called(name: str) -> dict[View, type[Sampler]]:
    """Return the samplers called `name` by the view they draw.

    Args:
        name: of a sampler in this folder, or "module:Name" of a user's own class, whose module is then imported.

    Raises:
        ValueError: there is none, or the class cannot be used; the message lists all names, or says why.
    """
    if ":" in name:
        kind = _find_own(name)
        return dict.fromkeys(sorted(kind.views), kind)
    found: dict[View, type[Sampler]] = {
        view: kind for kind in find_samplers() if kind.name == name for view in sorted(kind.views)
    }
    if not found:
        names = sorted({kind.name for kind in find_samplers()})
        raise ValueError(f"sampler must be one of {', '.join(names)}, or MODULE:CLASS of your own, got {name!r}")
    return found


def _find_own(place: str) -> type[Sampler]:
    remedy = "name a subclass of replay_server.samplers.Sampler as MODULE:CLASS"
    kind: type[Sampler] = find_class(place, Sampler, remedy)
    missing = sorted(getattr(kind, "__abstractmethods__", ()))
    if inspect.isabstract(kind):
        raise ValueError(f"{place} lacks {', '.join(missing)}; define the missing methods")
    if not kind.views:
        raise ValueError(f"{place} draws nothing; set its `views` to steps, unrolls or both")
    if not issubclass(kind.settings_class, SamplerSettings):
        raise ValueError(f"{place} has settings that are no SamplerSettings; derive their class from SamplerSettings")
    return kind
