"""Readers of a sweep's files beyond its members' metrics: lineage and schedules."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

from launch.records.inside import is_own_file

_MOST_BYTES = 20_000_000


@dataclass(frozen=True)
class Decision:
    """Decision of one member after a comparison (see `launch.records.lineage`, which writes it).

    Args:
        env_steps: of the member at that time.
        member: its number.
        copied: number of the member whose weights and settings it copied, or None.
        fitness: of members, by number.
        settings: of the member from then on.
    """

    env_steps: int
    member: int
    copied: int | None
    fitness: dict[int, float] = field(default_factory=dict)
    settings: dict[str, float] = field(default_factory=dict)


def read_decisions(path: Path) -> list[Decision]:
    """Return a population's decisions in the order of time; lines that cannot be read are left out."""
    found = []
    for line in _read_text(path).splitlines():
        try:
            value = json.loads(line)
            found.append(
                Decision(
                    int(value["env_steps"]),
                    int(value["member"]),
                    None if value.get("copied") is None else int(value["copied"]),
                    {int(member): float(fitness) for member, fitness in value.get("fitness", {}).items()},
                    {str(key): float(setting) for key, setting in value.get("settings", {}).items()},
                )
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # the last line may be half written
    return found


def read_schedule(path: Path) -> list[tuple[int, dict[str, float]]]:
    """Return a member's settings schedule, through all its ancestors, as (env steps, settings)."""
    try:
        changes = json.loads(_read_text(path) or "[]")
        return [
            (int(change["env_steps"]), {str(key): float(value) for key, value in change["settings"].items()})
            for change in changes
        ]
    except (ValueError, TypeError, KeyError, AttributeError):
        return []


def _read_text(path: Path) -> str:
    if not is_own_file(path, path.parent):
        return ""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""
