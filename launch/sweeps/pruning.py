"""Pruning of running members: scores are read at rungs, and members of settings that fall behind end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from launch.records.json_lines import append_line, read_lines
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.sweeps.halving import Rungs, Verdict
from launch.sweeps.scores import read_score

RECORD_NAME = "pruner.jsonl"
"""File in a sweep's directory with every score at a rung and every verdict, in time order."""


class Pruning:
    """Judges members at the rungs of `launch.sweeps.halving`, and keeps a record. Used from one thread.

    A member that is solved needs no further step, so its score then counts at all its later rungs. A member that fails
    leaves no further scores, and the other seeds of its setting do not wait for it.

    A resumed sweep goes on with the record: settings that were pruned stay so, and a member that trains some steps
    again keeps the score that it left first.

    Args:
        reduction: see `Rungs`.
        rungs: env steps of each member's rungs, ascending, by the member's number.
        setting_of: number of each member's setting, by the member's number.
        by_evaluation: see `read_score`.
        path: the record; a resumed sweep has one.
        log: receives a line about each setting that is pruned.

    Raises:
        NothingToResumeError: the record cannot be read.
    """

    def __init__(
        self,
        reduction: int,
        rungs: Mapping[int, Sequence[int]],
        setting_of: Mapping[int, int],
        by_evaluation: bool,
        path: Path,
        log: Callable[[str], None],
    ):
        self._rungs = Rungs(reduction, setting_of)
        self._rungs_of = rungs
        self._setting_of = setting_of
        self._by_evaluation = by_evaluation
        self._path = path
        self._log = log
        self._training: dict[int, MemberSupervisor] = {}
        read_lines(path, self._take)

    def judge(self, supervisor: MemberSupervisor, why: Ending) -> Ending:
        """Return the ending of a member at this point: its own, or `Ending.PRUNED` if its setting does not go on.

        Args:
            supervisor: of the member.
            why: its own ending, or `Ending.NONE` if it would continue.
        """
        number = supervisor.number
        self._training = {each: other for each, other in self._training.items() if not other.finished}
        self._training[number] = supervisor
        self._leave_scores(supervisor, why is Ending.SOLVED)
        setting = self._setting_of[number]
        for verdict in self._rungs.judge(setting, self._training):
            members = [member for member, its_setting in self._setting_of.items() if its_setting == setting]
            judged = [member for member in members if self._rungs.has(member, verdict.rung)]
            append_line(self._path, asdict(verdict) | {"members": judged})
            if not verdict.goes_on:
                who = f"member{'s' if len(members) > 1 else ''} {', '.join(map(str, members))}"
                self._log(f"pruned: {who} at {verdict.words()}")
        return why or (Ending.PRUNED if setting in self._rungs.pruned else Ending.NONE)

    def verdict(self, member: int) -> Verdict | None:
        """Return the verdict that ended the member's setting; None if the setting was not pruned."""
        return self._rungs.pruned.get(self._setting_of[member])

    def _leave_scores(self, supervisor: MemberSupervisor, is_solved: bool) -> None:
        number, recorder = supervisor.number, supervisor.recorder
        env_steps = recorder.position().env_steps
        for rung in self._rungs_of[number]:
            if self._rungs.has(number, rung):
                continue
            if env_steps < rung and not is_solved:
                return
            score = read_score(recorder, self._by_evaluation, 0 if is_solved else rung)
            if score is None:
                return
            self._rungs.leave(number, rung, score)
            append_line(self._path, {"member": number, "rung": rung, "env_steps": env_steps, "score": score})

    def _take(self, event: dict[str, Any]) -> None:
        """Take in a line of the record."""
        if "member" in event:
            self._rungs.leave(int(event["member"]), int(event["rung"]), float(event["score"]))
        else:
            num_seeds = len(event.pop("members"))
            self._rungs.take(Verdict(**event), num_seeds)
