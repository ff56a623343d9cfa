"""The lineage of a population: every copy and every change of settings, one line of JSON each, in time order.

    {"env_steps": 6000, "episodes": 210, "member": 2, "copied": 0, "fitness": {"0": 31.5, "2": 18.0}, "settings": {...}}

`copied` is null if the member kept its own weights. The settings schedule of a member follows its ancestors: a member
that copied another at 6,000 env steps has the other's settings before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from launch.records.json_lines import append_line, read_lines, replace_lines
from launch.records.settings_schedule import SettingsChange


@dataclass(frozen=True)
class Decision:
    """The decision for one member at one comparison.

    Args:
        env_steps: the member's env steps at the comparison.
        episodes: the member's episodes at the comparison.
        member: the member's number.
        copied: number of the member whose weights and settings it took over, or None.
        fitness: the compared fitness, by member.
        settings: the settings that hold from then on, by the command line's keys.
    """

    env_steps: int
    episodes: int
    member: int
    copied: int | None
    fitness: dict[int, float]
    settings: dict[str, float]


class Copy(Protocol):
    """What `ancestry` reads of a decision."""

    @property
    def env_steps(self) -> int:
        """The member's env steps."""

    @property
    def member(self) -> int:
        """The member's number."""

    @property
    def copied(self) -> int | None:
        """Number of the member that it copied, or None."""


def ancestry(member: int, decisions: Sequence[Copy], end: float) -> list[tuple[float, float, int]]:
    """Return the ancestry of a member's weights: pieces (from, to, member) in env steps, newest first."""
    pieces: list[tuple[float, float, int]] = []
    who, until = member, end
    for decision in reversed(decisions):
        if decision.member == who and decision.copied is not None and decision.env_steps <= until:
            pieces.append((decision.env_steps, until, who))
            who, until = decision.copied, decision.env_steps
    return [*pieces, (0, until, who)]


class Lineage:
    """The decisions of a population, kept in a file that only grows. Used from one thread.

    Args:
        path: the file; earlier decisions in it are read. A last line that is half written is left out: no checkpoint
            refers to it.

    Raises:
        NothingToResumeError: the file cannot be read.
    """

    def __init__(self, path: Path):
        self._path = path
        self.decisions: list[Decision] = read_lines(path, _decision)

    def add(self, decision: Decision) -> None:
        """Append a decision.

        Raises:
            OutputError: the file cannot be written.
        """
        self.decisions.append(decision)
        append_line(self._path, asdict(decision))

    def forget_after(self, env_steps: Mapping[int, int]) -> None:
        """Remove decisions after each member's env steps: a resumed population takes them again."""
        kept = [item for item in self.decisions if item.env_steps <= env_steps.get(item.member, 0)]
        if len(kept) == len(self.decisions):
            return
        self.decisions = kept
        replace_lines(self._path, map(asdict, kept))


def schedules(
    first_settings: Mapping[int, Mapping[str, float]], decisions: Sequence[Decision]
) -> dict[int, list[SettingsChange]]:
    """Return every member's settings schedule, traced back through its ancestors.

    Args:
        first_settings: each member's first settings.
        decisions: the decisions in time order.
    """
    traced = {member: [SettingsChange(0, dict(settings))] for member, settings in first_settings.items()}
    for decision in decisions:
        if decision.copied is not None:
            # The copied member may have been a few steps ahead.
            traced[decision.member] = [
                SettingsChange(min(change.env_steps, decision.env_steps), change.settings)
                for change in traced[decision.copied]
            ]
        history = traced[decision.member]
        if history[-1].settings != decision.settings:
            history.append(SettingsChange(decision.env_steps, decision.settings))
    return traced


def _decision(value: dict[str, Any]) -> Decision:
    fitness = {int(member): fitness for member, fitness in value["fitness"].items()}
    return Decision(**value | {"fitness": fitness})
