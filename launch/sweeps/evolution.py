"""Population based training of running members: weights are copied in memory, settings change in running learners."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from laser.ports import wait
from launch.recording.recorder import Snapshot
from launch.recording.return_curve import NUM_RETURNS
from launch.records.lineage import Decision, Lineage, schedules
from launch.records.run_directory import RunDirectory
from launch.records.settings_schedule import SCHEDULE_NAME, field_names, write_changes
from launch.runtimes.runtime import Worker
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.sweeps.population import PbtConfig, choose_model, live_settings, perturbed, within_bounds
from learner.learner import Learner

P = ParamSpec("P")
R = TypeVar("R")

_CALL_DEADLINE_S = 120.0


class PopulationTraining:
    """Compares members when due, and carries out the decisions of `launch.sweeps.population`. Used from one thread.

    A member's fitness is its mean return over the last 20 training episodes (see `Recorder.fitness`). Env steps and
    episodes determine when a member is due. Random numbers depend on the seed, the member and the number of its
    decisions. So a lockstep sweep repeats, and a resumed sweep continues as if it had not been interrupted.

    Args:
        config: see `PbtConfig`.
        supervisors: of all members.
        runs: the members' run directories, which hold their `schedule.json`.
        lineage: of this population.
        seed: of all decisions.
        grid_keys: keys of settings that differ between members from the start; those that can change are copied too.
    """

    def __init__(
        self,
        config: PbtConfig,
        supervisors: Sequence[MemberSupervisor],
        runs: Sequence[RunDirectory],
        lineage: Lineage,
        seed: int,
        grid_keys: Sequence[str] = (),
    ):
        self._config = config
        self._supervisors = {supervisor.number: supervisor for supervisor in supervisors}
        self._runs = {supervisor.number: run for supervisor, run in zip(supervisors, runs, strict=True)}
        self._paths = {number: run.place / SCHEDULE_NAME for number, run in self._runs.items()}
        self._lineage = lineage
        self._seed = seed
        algorithms = {number: each.topology.config.algorithm for number, each in self._supervisors.items()}
        live = live_settings(algorithms[0])
        self._changing = config.changing(list(algorithms.values()))
        keys = [*self._changing, *(key for key in grid_keys if key in live and key not in self._changing)]
        self._first_settings = {
            number: {
                key: float(getattr(algorithm, name))
                for key, name in zip(keys, field_names(dict.fromkeys(keys, 0.0)), strict=True)
            }
            for number, algorithm in algorithms.items()
        }
        snapshots = {number: each.recorder.snapshot() for number, each in self._supervisors.items()}
        lineage.forget_after({number: snapshot.env_steps for number, snapshot in snapshots.items()})
        self._settings = {number: dict(settings) for number, settings in self._first_settings.items()}
        self._decided_at = dict.fromkeys(self._supervisors, 0)
        self._episodes_at = dict.fromkeys(self._supervisors, 0)
        for decision in lineage.decisions:
            self._settings[decision.member] = dict(decision.settings)
            self._decided_at[decision.member] = decision.env_steps
            self._episodes_at[decision.member] = decision.episodes
        self._write_schedules()

    def consider(self, supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
        """Compare a member with the others if it is due; copy another member and change settings as decided."""
        number, config = supervisor.number, self._config
        if snapshot.env_steps < config.burn_in or snapshot.env_steps - self._decided_at[number] < config.interval:
            return
        if snapshot.episodes - self._episodes_at[number] < NUM_RETURNS:
            return
        fitness = self._fitness()
        if number not in fitness:  # one of several tasks may have no episode yet
            return
        self._decided_at[number], self._episodes_at[number] = snapshot.env_steps, snapshot.episodes
        num_decisions = sum(decision.member == number for decision in self._lineage.decisions)
        generator = np.random.Generator(np.random.PCG64([self._seed, number, num_decisions]))
        model = choose_model(config, number, fitness, generator)
        before = self._settings[number]
        learner = supervisor.topology.learner
        if model is not None:
            weights = self._weights_of(model)
            if weights is None:
                model = None
            else:
                before = self._settings[model]
                _call(learner, Learner.adopt, weights)
                supervisor.copied(snapshot)
        changing = {key: before[key] for key in self._changing}
        wanted = before | perturbed(config, changing, model is not None, generator)
        settings = within_bounds(wanted, before, type(supervisor.topology.config.algorithm))
        if settings != self._settings[number]:
            _call(learner, Learner.change_settings, field_names(settings))
        self._settings[number] = settings
        self._lineage.add(Decision(snapshot.env_steps, snapshot.episodes, number, model, fitness, dict(settings)))
        self._write_schedules()

    def recovered(self, supervisor: MemberSupervisor) -> None:
        """Give a new learner, which continues from a checkpoint, the settings of its member's last decision."""
        number = supervisor.number
        if any(decision.member == number for decision in self._lineage.decisions):
            _call(supervisor.topology.learner, Learner.change_settings, field_names(self._settings[number]))

    def _weights_of(self, model: int) -> Any:
        """Return a member's weights; None if its learner does not answer: that must not fail the copying member."""
        try:
            return _call(self._supervisors[model].topology.learner, Learner.weights)
        except Exception as error:  # noqa: BLE001 - that learner's own supervisor meets the same error and fails it
            self._runs[model].log(f"its weights cannot be copied: {type(error).__name__}: {error}")
            return None

    def _fitness(self) -> dict[int, float]:
        living = [each for each in self._supervisors.values() if each.finished is not Ending.FAILED]
        found = {supervisor.number: supervisor.recorder.fitness() for supervisor in living}
        return {number: fitness for number, fitness in found.items() if fitness is not None}

    def _write_schedules(self) -> None:
        for number, changes in schedules(self._first_settings, self._lineage.decisions).items():
            write_changes(self._paths[number], changes)


def _call(
    learner: Worker[Learner], method: Callable[Concatenate[Learner, P], R], *arguments: P.args, **options: P.kwargs
) -> R:
    answer = learner.call(method, *arguments, **options)
    return wait(answer, _CALL_DEADLINE_S, f"{learner.name} to finish {method.__name__}")
