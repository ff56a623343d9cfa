"""Sessions: the training of a population, from configs and opened run directories to its end, with checkpoints.

`laser train` is a session of one member, `laser sweep` a session of several.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from actors.actor import Actor
from laser.environments import task_ids
from laser.ports import wait
from launch.errors import LaunchError, NothingToResumeError, OutputError
from launch.planning.busy_cores import note_busy_cores
from launch.planning.member_plan import MemberPlan
from launch.planning.needs import Needs
from launch.planning.plan import Plan, make_plan
from launch.recording.process_usage import ProcessUsage
from launch.recording.recorder import Recorder, Snapshot
from launch.recording.task_returns import bucket_frames
from launch.recording.tracker import Tracker
from launch.records.metrics_db import MetricsDb
from launch.records.run_directory import RunDirectory
from launch.runtimes.hangs import wait_unless_hung
from launch.runtimes.local_runtime import LocalRuntime
from launch.runtimes.runtime import Runtime
from launch.settings.train_config import TrainConfig
from launch.standard_output import say
from launch.supervision.checkpointing import restore_all, save_member
from launch.supervision.ending import Ending
from launch.supervision.failures import as_launch_error, explained, log_failure
from launch.supervision.free import FreeSchedule
from launch.supervision.lockstep import LockstepSchedule
from launch.supervision.member_supervisor import MemberSupervisor, Outcome
from launch.supervision.pace import PaceLimit
from launch.supervision.schedule import Evolution, Save, Schedule
from launch.supervision.signals import StopSignal
from launch.supervision.tracking import note_missing_tensorboard, open_trackers
from launch.topology import Topology, place_population
from learner.learner import Learner

START_DEADLINE_S = 600.0
"""Seconds for a worker to compile, or to make its environments."""
LEASE_S = 30.0
"""Seconds without progress after which a member of a sweep no longer delays the others."""
_POINTS_OF_A_CURVE, _MOST_BETWEEN_POINTS = 250, 5_000  # the limit, in env steps, lets the curve of a long run grow soon
_SLACK_ROUNDS, _SLACK_SHARE = 4, 0.02


def plan_session(configs: Sequence[TrainConfig], share_replay: bool = False) -> Plan:
    """Return the plan of a session that fits on this machine or on its cluster.

    Raises:
        ConfigError: the configs have mistakes, the members cannot share a replay, or there is too little memory.
        LaunchError: the cluster cannot be used.
    """
    plan = make_plan(configs, share_replay)
    if plan.config.ray_address:
        from launch.runtimes.ray_cluster import check_cluster

        check_cluster(plan.config.ray_address, plan.needs)
    return plan


def run_session(
    plan: Plan,
    runs: Sequence[RunDirectory],
    stop: StopSignal,
    show: Callable[[Sequence[Recorder]], AbstractContextManager[Any]],
    make_evolution: Callable[[Sequence[MemberSupervisor]], Evolution] | None = None,
) -> list[Outcome]:
    """Train all members until each has done its steps, is solved or has failed, or a signal stops the session.

    A checkpoint of each member is written at its end, whatever the ending.

    Args:
        plan: a plan from `plan_session`.
        runs: the members' run directories.
        stop: the signal that may stop the session.
        show: returns a context manager that displays the progress of these recorders.
        make_evolution: returns a rule that may change members while they train.

    Returns:
        the outcome of each member.

    Raises:
        LaunchError: no member could be trained to its end, e.g. because of a checkpoint or an environment.
    """
    config = plan.config
    with ExitStack() as stack:
        # Workers on Ray have processes of their own, which report their own usage.
        usage = ProcessUsage(with_children=not config.has_processes)
        recorders = [
            stack.enter_context(_open_recorder(stack, run, member, usage, trackers))
            for run, member, trackers in zip(runs, plan.members, open_trackers(stack, runs, plan.configs), strict=True)
        ]
        saved, lost = restore_all(runs, plan.members)
        for state in saved:
            for warning in state.warnings if state and not config.quiet else ():
                say(f"warning: {warning}")
        runtime = make_runtime(config, plan.needs)
        stack.callback(runtime.close)
        for run, recorder in zip(runs, recorders, strict=True):
            for tracker in runtime.trackers(str(run.path)):
                recorder.track(tracker)
        if not config.quiet:
            for note in dict.fromkeys(member.device.note for member in plan.members if member.device.note):
                say(f"note: {note}")
            busy = note_busy_cores(plan.members[0])
            for note in filter(None, [*runtime.notes, note_missing_tensorboard(), busy]):
                say(f"warning: {note}")
        members = [
            dataclasses.replace(member, first_incarnation=state.next_incarnation if state else 0)
            for member, state in zip(plan.members, saved, strict=True)
        ]
        topologies = place_population(members, recorders, runtime, plan.share_replay)
        try:
            descriptions = warm_up(topologies)
        except Exception as error:
            for run in runs:
                log_failure(run, error)
            raise as_launch_error(error, config, runs) from error
        for run, topology, recorder, state, how in zip(runs, topologies, recorders, saved, descriptions, strict=True):
            if state is not None:
                owner = next(place for place, each in enumerate(topologies) if each.shards is topology.shards)
                kept = saved[owner]
                state.load_into(topology, recorder, replay_restored=kept is not None and kept.has_replay)
            run.goes_on = True
            run.log(f"running: {topology.describe()}; learner: {how}")
        supervisors = [
            MemberSupervisor(topology, recorder, run.videos_path)
            for topology, recorder, run in zip(topologies, recorders, runs, strict=True)
        ]
        for supervisor, nothing in zip(supervisors, lost, strict=True):
            if nothing is not None:
                supervisor.stop(Ending.FAILED, nothing)
        directories = {supervisor.number: run for supervisor, run in zip(supervisors, runs, strict=True)}

        def save(supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
            run = directories[supervisor.number]
            _check_in_place([run])
            save_member(run, supervisor.topology, supervisor.recorder, snapshot)

        evolution = make_evolution(supervisors) if make_evolution is not None else None
        schedule = make_schedule(plan.configs, supervisors, lambda: stop.requested, save, evolution)
        _check_in_place(runs)
        for recorder in recorders:
            recorder.begin()
        try:
            with show(recorders):
                schedule.run()
        except Exception as error:
            for supervisor in supervisors:
                log_failure(directories[supervisor.number], error)
                _save_what_can_be_saved(directories[supervisor.number], supervisor)
            _check_in_place(runs)  # whatever failed because files are gone, this explains more
            raise as_launch_error(error, config, runs) from error
        for supervisor in supervisors:
            run = directories[supervisor.number]
            if supervisor.error is None:
                _save_the_end(supervisor, save)
            if supervisor.error is None:
                run.log(f"finished: {supervisor.finished}")
            else:
                log_failure(run, supervisor.error)
                _save_what_can_be_saved(run, supervisor)
        errors = [supervisor.error for supervisor in supervisors if supervisor.error is not None]
        if len(errors) == len(supervisors):
            # A member without a checkpoint does not explain why the others, which continued, failed.
            first = next((error for error in errors if not isinstance(error, NothingToResumeError)), errors[0])
            raise as_launch_error(first, config, runs) from first
        outcomes = [supervisor.outcome for supervisor in supervisors]
        return [explained(outcome, each) for outcome, each in zip(outcomes, plan.configs, strict=True)]


def warm_up(topologies: Sequence[Topology]) -> list[str]:
    """Compile networks and make environments; return how each learner computes.

    All workers start at the same time: a learner compiles while actors make their environments. In lockstep they start
    one after the other, since environments of a user's own may draw from global random numbers.

    Raises:
        EnvironmentBudgetError: an environment failed too often before its first step.
        HungEnvironmentError: an environment did not return from its construction or first reset.
    """
    in_turns = topologies[0].config.takes_turns
    begun = [_Starting(topology, in_turns) for topology in topologies]
    return [starting.wait() for starting in begun]


class _Starting:
    """The start of one member's workers."""

    def __init__(self, topology: Topology, in_turns: bool):
        self._topology = topology
        self._learner = topology.learner.call(Learner.warm_up)
        self._actors = [] if in_turns else [actor.call(Actor.warm_up) for actor in topology.actors]

    def wait(self) -> str:
        how: str = wait(self._learner, START_DEADLINE_S, "the learner to start")
        for number, actor in enumerate(self._topology.actors):
            call = self._actors[number] if self._actors else actor.call(Actor.warm_up)
            wait_unless_hung(call, actor, self._topology.config, START_DEADLINE_S, f"{actor.name} to start")
        return how


def make_runtime(config: TrainConfig, needs: Needs) -> Runtime:
    """Return the runtime that the config names; Ray is imported only if it is needed."""
    if config.has_processes:
        from launch.runtimes.ray_runtime import RayRuntime

        return RayRuntime(config.ray_address, needs)
    return LocalRuntime()


def slack_steps(configs: Sequence[TrainConfig]) -> int:
    """Return the env steps that a member may be ahead: a few unrolls of its actors, at most 2 % of a short run."""
    one_round = max(config.num_actors * config.num_envs * config.unroll_length for config in configs)
    share = int(_SLACK_SHARE * min(config.steps for config in configs))
    return max(one_round, min(_SLACK_ROUNDS * one_round, share))


def _open_recorder(
    stack: ExitStack,
    run: RunDirectory,
    member: MemberPlan,
    usage: ProcessUsage,
    trackers: Sequence[Tracker],
) -> Recorder:
    config, environment = member.config, member.environment
    metrics = stack.enter_context(MetricsDb(run.metrics_path))
    tasks = task_ids(config.env)
    width = bucket_frames(tasks, config.steps * environment.action_repeat)
    in_turns = config.takes_turns
    return Recorder(
        metrics,
        trackers,
        in_turns=in_turns,
        tasks=tasks,
        bucket_frames=width,
        usage=usage,
        log=run.log,
        curve_steps=min(max(1, config.steps // _POINTS_OF_A_CURVE), _MOST_BETWEEN_POINTS) if in_turns else 0,
    )


def make_schedule(
    configs: Sequence[TrainConfig],
    supervisors: Sequence[MemberSupervisor],
    should_stop: Callable[[], bool],
    save: Save,
    evolution: Evolution | None = None,
) -> Schedule:
    """Return the schedule that the configs name; see `Schedule` for the arguments."""
    if configs[0].takes_turns:
        return LockstepSchedule(supervisors, should_stop, save, evolution)
    pace = PaceLimit(len(supervisors), slack_steps(configs), LEASE_S) if len(supervisors) > 1 else None
    return FreeSchedule(supervisors, should_stop, save, evolution, pace)


def _check_in_place(runs: Sequence[RunDirectory]) -> None:
    """Raise `OutputError` if a run's directory or one of its files was deleted or moved while it trained."""
    for run in runs:
        gone = run.find_gone()
        if gone is not None:
            raise OutputError(gone.key, gone.wrong, gone.remedy)


def _save_the_end(supervisor: MemberSupervisor, save: Callable[[MemberSupervisor, Snapshot], None]) -> None:
    """Write a member's last checkpoint; if its learner was lost after its end, only this member fails."""
    try:
        save(supervisor, supervisor.recorder.snapshot())
    except LaunchError:
        raise  # a full disk concerns all members
    except Exception as error:  # noqa: BLE001 - kept in the outcome, and raised if no member is left
        supervisor.stop(Ending.FAILED, error)


def _save_what_can_be_saved(run: RunDirectory, supervisor: MemberSupervisor) -> None:
    """Write a checkpoint after a failure; log an error of this write, since the user sees the first error."""
    if isinstance(supervisor.error, NothingToResumeError) or not run.is_in_place:
        return
    for worker in supervisor.topology.workers:
        worker.stop()
    try:
        supervisor.end_accounts()
    except Exception as error:  # noqa: BLE001 - as below
        run.log(f"the accounts of unrolls are incomplete: {type(error).__name__}: {error}")
    if supervisor.topology.learner.failure() is not None:
        return
    try:
        save_member(run, supervisor.topology, supervisor.recorder, supervisor.recorder.snapshot(), with_actors=False)
    except Exception as error:  # noqa: BLE001 - the failure that led here is raised by the caller
        run.log(f"no checkpoint could be written: {type(error).__name__}: {error}")
