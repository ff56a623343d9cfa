"""Tuning of a running sweep: a search chooses settings when places come free, and hears how earlier ones scored."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from laser.config import ConfigError, Problem
from launch.errors import LaunchError
from launch.planning.member_plan import MemberPlan
from launch.planning.replanning import replan
from launch.settings.values import show
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.sweeps.halving import Verdict
from launch.sweeps.scores import last_score
from launch.sweeps.search_space import ends, whole_keys
from launch.sweeps.sweep_config import SweepConfig, SweepMember

STUDY_NAME = "optuna.db"
"""File in a sweep's directory with the tuner's study."""

_MOST_TRIES = 20


def find_unfit_ends(sweep: SweepConfig, members: Sequence[SweepMember], plans: Sequence[MemberPlan]) -> list[Problem]:
    """Return why a member could not have the ends of a range, or a value of a choice, in place of its own value.

    Args:
        sweep: the sweep.
        members: of the sweep; one of each point of its grid is tried.
        plans: of the members.
    """
    points: dict[str, tuple[SweepMember, MemberPlan]] = {}
    for member, plan in zip(members, plans, strict=True):
        given = {key: show(value) for key, value in member.overrides.items() if key not in (*sweep.space, "seed")}
        points.setdefault(" ".join(f"{key}={value}" for key, value in given.items()), (member, plan))
    whole = whole_keys(sweep.space, sweep.base)
    return [
        problem
        for given, (member, plan) in points.items()
        for key, dimension in sweep.space.items()
        if (problem := _unfit_end(sweep, member, plan, key, ends(dimension, key in whole), given)) is not None
    ]


def _unfit_end(
    sweep: SweepConfig, member: SweepMember, plan: MemberPlan, key: str, values: Iterable[Any], given: str
) -> Problem | None:
    for value in values:
        try:
            changed = sweep.member(member.number, member.setting, member.overrides | {key: value})
            replan(plan, changed.config, sweep.options.share_replay)
        except ConfigError as error:
            first = error.problems[0]
            beside = f" with {given}" if given else ""
            return Problem("space", f"{key}={show(value)}{beside}: {first.key}: {first.wrong}", first.remedy)
    return None


class Search(Protocol):
    """A search for settings with a high score, which keeps its state in a file."""

    def values(self, setting: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the chosen values of a setting by key: those of before, or new ones.

        Args:
            setting: its number.
            given: values by key that the setting has in any case, from a grid or from zipped lists.
        """

    def reject(self, setting: int) -> None:
        """Forget the values of a setting, which cannot be trained."""

    def is_told(self, setting: int) -> bool:
        """Return whether the search knows how a setting ended."""

    def tell(self, setting: int, score: float | None, rung: int | None) -> None:
        """Take in how a setting ended.

        Args:
            setting: its number.
            score: mean over its seeds; None: it has none.
            rung: env steps at which it was pruned with this score; None: it was not.
        """


class Tuning:
    """Chooses the settings of members whose turn has come, and scores settings that have ended. Used from one thread.

    A setting that breaks a rule is rejected, and the search chooses again, at most 20 times in a row.

    Args:
        sweep: the sweep.
        members: all members, with any settings; those of members that begin are replaced in this list.
        search: chooses settings.
        by_evaluation: see `last_score`.
        verdict: returns the verdict that pruned a member's setting, or None.
    """

    def __init__(
        self,
        sweep: SweepConfig,
        members: list[SweepMember],
        search: Search,
        by_evaluation: bool,
        verdict: Callable[[int], Verdict | None] = lambda number: None,
    ):
        self._sweep = sweep
        self._members = members
        self._search = search
        self._by_evaluation = by_evaluation
        self._verdict = verdict
        self._scores: defaultdict[int, dict[int, float | None]] = defaultdict(dict)

    def begins(self, plan: MemberPlan) -> MemberPlan:
        """Return the plan of a member whose turn has come, with its setting.

        Raises:
            LaunchError: all settings that the search chose break a rule.
        """
        setting, overrides = self._members[plan.number].setting, self._members[plan.number].overrides
        given = {key: overrides[key] for key in self._sweep.listed}
        for _ in range(_MOST_TRIES):
            try:
                member = self._sweep.member(plan.number, setting, given | self._search.values(setting, given))
                chosen = replan(plan, member.config, self._sweep.options.share_replay)
            except ConfigError as error:
                self._search.reject(setting)
                first = error.problems[0]
                continue
            self._members[plan.number] = member
            return chosen
        wrong = f"{_MOST_TRIES} settings in a row break a rule, the last one: {first.key}: {first.wrong}"
        raise LaunchError("space", wrong, "narrow the space")

    def ended(self, supervisor: MemberSupervisor) -> None:
        """Score a member that has ended; the search hears of its setting once all seeds have ended."""
        setting = self._members[supervisor.number].setting
        if supervisor.finished is Ending.STOPPED or self._search.is_told(setting):
            return
        has_failed = supervisor.finished is Ending.FAILED
        scores = self._scores[setting]
        scores[supervisor.number] = None if has_failed else last_score(supervisor.recorder, self._by_evaluation)
        if len(scores) < self._sweep.options.seeds:
            return
        verdict = self._verdict(supervisor.number)
        if verdict is not None:
            self._search.tell(setting, verdict.score, verdict.rung)
            return
        known = [score for score in scores.values() if score is not None]
        self._search.tell(setting, math.fsum(known) / len(known) if known else None, None)
