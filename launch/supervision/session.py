"""Sessions: the training of a population, from configs and opened run directories to its end, with checkpoints.

`laser train` is a session of one member, `laser sweep` a session of several.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from typing import Any

from laser.environments import task_ids
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
from launch.runtimes.local_runtime import LocalRuntime
from launch.runtimes.runtime import Runtime
from launch.settings.train_config import TrainConfig
from launch.standard_output import say
from launch.supervision.callbacks import Caller
from launch.supervision.checkpointing import restore_all, save_member
from launch.supervision.ending import Ending
from launch.supervision.failures import as_launch_error, explained, log_failure
from launch.supervision.free import FreeSchedule
from launch.supervision.initial_weights import read_initial_weights
from launch.supervision.lockstep import LockstepSchedule
from launch.supervision.member_supervisor import MemberSupervisor, Outcome
from launch.supervision.pace import PaceLimit
from launch.supervision.places import OpenRun, Places, Starting
from launch.supervision.schedule import Evolution, Save, Schedule, Waiting
from launch.supervision.signals import StopSignal
from launch.supervision.tracking import note_missing_tensorboard, open_trackers
from launch.topology import Topology, place_population

LEASE_S = 30.0
"""Seconds without progress after which a member of a sweep no longer delays the others."""
_POINTS_OF_A_CURVE, _MOST_BETWEEN_POINTS = 250, 5_000  # the limit, in env steps, lets the curve of a long run grow soon
_SLACK_ROUNDS, _SLACK_SHARE = 4, 0.02


def plan_session(configs: Sequence[TrainConfig], share_replay: bool = False, concurrent: int = 0) -> Plan:
    """Return the plan of a session that fits on this machine or on its cluster; see `make_plan`.

    Raises:
        ConfigError: the configs have mistakes, the members cannot share a replay, there is too little memory, or the
            weights to start from do not fit.
        LaunchError: the cluster cannot be used.
    """
    plan = make_plan(configs, share_replay, concurrent)
    for member in plan.members:
        read_initial_weights(member)  # now, since a run directory is not made for nothing
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
    openers: Sequence[OpenRun] = (),
    make_caller: Callable[[Recorder], Caller] | None = None,
) -> list[Outcome]:
    """Train all members until each has done its steps, is solved or has failed, or a signal stops the session.

    A checkpoint of each member is written at its end, whatever the ending.

    Args:
        plan: a plan from `plan_session`.
        runs: run directories of the members that begin at once.
        stop: the signal that may stop the session.
        show: returns a context manager that displays the progress of these recorders.
        make_evolution: returns a rule that may change members while they train.
        openers: opens the run directory of each further member, which waits until another one has ended.
        make_caller: returns what calls the callbacks of a session of one member.

    Returns:
        the outcome of each member that has begun, in the order of their numbers: all of them without a stop.

    Raises:
        LaunchError: no member could be trained to its end, e.g. because of a checkpoint or an environment.
    """
    config, at_once = plan.config, plan.members[: len(runs)]
    with ExitStack() as stack:
        # Workers on Ray have processes of their own, which report their own usage.
        usage = ProcessUsage(with_children=not config.has_processes)
        recorders: list[Recorder] = []
        all_files = []
        opened = open_trackers(stack, runs, [member.config for member in at_once])
        for run, member, trackers in zip(runs, at_once, opened, strict=True):
            all_files.append(stack.enter_context(ExitStack()))
            recorders.append(all_files[-1].enter_context(_open_recorder(all_files[-1], run, member, usage, trackers)))
        saved, lost = restore_all(runs, at_once)
        for state in saved:
            for warning in state.warnings if state and not config.quiet else ():
                say(f"warning: {warning}")
        closing = stack.enter_context(ExitStack())  # of members that began later: after the runtime
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
            for member, state in zip(at_once, saved, strict=True)
        ]
        waiting = plan.members[len(runs) :]
        topologies = place_population(members, recorders, runtime, plan.share_replay, waiting)
        try:
            descriptions = warm_up(topologies)
        except Exception as error:
            for run in runs:
                log_failure(run, error)
            raise as_launch_error(error, config, runs) from error
        taken: list[str] = []
        for run, topology, recorder, state, how in zip(runs, topologies, recorders, saved, descriptions, strict=True):
            if state is not None:
                owner = next(place for place, each in enumerate(topologies) if each.shards is topology.shards)
                kept = saved[owner]
                state.load_into(topology, recorder, replay_restored=kept is not None and kept.has_replay)
            initial = read_initial_weights(topology.member)
            if initial is not None:
                initial.load_into(topology.learner)
                run.log(initial.words)
                taken.append(initial.words)
            run.goes_on = True
            run.log(f"running: {topology.describe()}; learner: {how}")
        for words in () if config.quiet else dict.fromkeys(taken):
            say(words)
        supervisors = [
            MemberSupervisor(topology, recorder, run.videos_path)
            for topology, recorder, run in zip(topologies, recorders, runs, strict=True)
        ]
        for supervisor, nothing in zip(supervisors, lost, strict=True):
            if nothing is not None:
                supervisor.stop(Ending.FAILED, nothing)
        outcomes: dict[int, Outcome] = {}

        def open_recorder(files: ExitStack, run: RunDirectory, member: MemberPlan) -> Recorder:
            (trackers,) = open_trackers(files, [run], [member.config])
            recorder = files.enter_context(_open_recorder(files, run, member, usage, trackers))
            for tracker in runtime.trackers(str(run.path)):
                recorder.track(tracker)
            recorders.append(recorder)
            return recorder

        def save(supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
            run = places.runs[supervisor.number]
            _check_in_place([run])
            path = save_member(run, supervisor.topology, supervisor.recorder, snapshot)
            if caller is not None:
                caller.saved(path)

        def should_stop() -> bool:
            return stop.requested or (caller is not None and caller.is_stopping)

        def save_now(supervisor: MemberSupervisor) -> None:
            _save_unless_lost(supervisor, save)

        def finish(supervisor: MemberSupervisor) -> None:
            run = places.runs[supervisor.number]
            if supervisor.error is None:
                save_now(supervisor)
            if supervisor.error is None:
                run.log(f"finished: {supervisor.finished}")
            else:
                log_failure(run, supervisor.error)
                _save_what_can_be_saved(run, supervisor)
            outcomes[supervisor.number] = supervisor.outcome

        shared = topologies[0].shards if plan.share_replay else None
        places = closing.enter_context(Places(waiting, openers, open_recorder, runtime, shared, finish, save_now))
        for supervisor, run, files in zip(supervisors, runs, all_files, strict=True):
            places.hold(supervisor.number, run, files)
        evolution = make_evolution(supervisors) if make_evolution is not None else None
        caller = make_caller(recorders[0]) if make_caller is not None else None
        schedule = make_schedule(
            [member.config for member in at_once],
            supervisors,
            should_stop,
            save,
            evolution,
            places if waiting else None,
            (lambda: None) if caller is None else caller.look,
        )
        _check_in_place(runs)
        for supervisor in supervisors:
            supervisor.recorder.begin()
            if waiting and not supervisor.finished:
                save_now(supervisor)
        try:
            if caller is not None:
                caller.start()
            with show(recorders):
                schedule.run()
        except Exception as error:
            for supervisor in schedule.supervisors:
                log_failure(places.runs[supervisor.number], error)
                _save_what_can_be_saved(places.runs[supervisor.number], supervisor)
            _check_in_place(runs)  # whatever failed because files are gone, this explains more
            raise as_launch_error(error, config, runs) from error
        for supervisor in schedule.supervisors:
            finish(supervisor)
        ended = [outcomes[number] for number in sorted(outcomes)]
        errors = [outcome.error for outcome in ended if outcome.error is not None]
        if len(errors) == len(ended):
            # A member without a checkpoint does not explain why the others, which continued, failed.
            first = next((error for error in errors if not isinstance(error, NothingToResumeError)), errors[0])
            raise as_launch_error(first, config, runs) from first
        if caller is not None:
            caller.finish()
        return [explained(outcome, plan.configs[number]) for number, outcome in sorted(outcomes.items())]


def warm_up(topologies: Sequence[Topology]) -> list[str]:
    """Compile networks and make environments; return how each learner computes.

    Raises:
        EnvironmentBudgetError: an environment failed too often before its first step.
        HungEnvironmentError: an environment did not return from its construction or first reset.
    """
    in_turns = topologies[0].config.takes_turns
    begun = [Starting(topology, in_turns) for topology in topologies]
    return [starting.wait() for starting in begun]


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
    waiting: Waiting | None = None,
    look: Callable[[], None] = lambda: None,
) -> Schedule:
    """Return the schedule that the configs name; see `Schedule` for the arguments."""
    if configs[0].takes_turns:
        return LockstepSchedule(supervisors, should_stop, save, evolution, waiting, look)
    # A member that begins late would hold back the others.
    paces = len(supervisors) > 1 and waiting is None
    pace = PaceLimit(len(supervisors), slack_steps(configs), LEASE_S) if paces else None
    return FreeSchedule(supervisors, should_stop, save, evolution, waiting, look, pace)


def _check_in_place(runs: Sequence[RunDirectory]) -> None:
    """Raise `OutputError` if a run's directory or one of its files was deleted or moved while it trained."""
    for run in runs:
        gone = run.find_gone()
        if gone is not None:
            raise OutputError(gone.key, gone.wrong, gone.remedy)


def _save_unless_lost(supervisor: MemberSupervisor, save: Save) -> None:
    """Write a checkpoint before a member's first step or after its last; if its learner was lost, only it fails."""
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
