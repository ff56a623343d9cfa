"""Sessions: the training of a population, from configs and opened run directories to its end, with checkpoints.

`laser train` is a session of one member, `laser sweep` a session of several.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from laser.config import ConfigError
from laser.environments import task_ids
from laser.waiting import waiting_for
from launch.commands import resume_command
from launch.errors import LaunchError, NothingToResumeError, StoppedError
from launch.factories import note_fitted_behaviour
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
from launch.restart_link import is_connected
from launch.runtimes.local_runtime import LocalRuntime
from launch.runtimes.runtime import Runtime, ShardPort
from launch.settings.train_config import TrainConfig
from launch.standard_output import say
from launch.start_directory import as_typed
from launch.supervision.callbacks import Caller
from launch.supervision.checkpointing import SavedMember, read_newest, restore_all, save_member
from launch.supervision.ending import Ending
from launch.supervision.entering import enter
from launch.supervision.failures import as_launch_error, explained, log_failure
from launch.supervision.free import FreeSchedule
from launch.supervision.initial_weights import find_missing_weights, read_initial_weights
from launch.supervision.last_saves import check_in_place, save_what_can_be_saved, try_to_save
from launch.supervision.lockstep import LockstepSchedule
from launch.supervision.member_supervisor import MemberSupervisor, Outcome
from launch.supervision.node_watch import NodeWatch
from launch.supervision.pace import PaceLimit
from launch.supervision.places import OpenRun, Places
from launch.supervision.saved_replay import SavedReplay
from launch.supervision.schedule import Evolution, Pruner, Save, SaveReplay, Schedule, Tuner, Waiting
from launch.supervision.shared_replay import SharedReplay
from launch.supervision.signals import StopSignal
from launch.supervision.starting import start_all
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
    try:
        plan = make_plan(configs, share_replay, concurrent)
    except ConfigError as error:
        raise ConfigError([*error.problems, *find_missing_weights(configs)]) from error
    for member in plan.members:
        if not member.config.resume:
            read_initial_weights(member)  # now, since a run directory is not made for nothing
    if plan.config.ray_address:
        from launch.runtimes.ray_cluster import check_cluster

        room = check_cluster(plan.config.ray_address, plan.needs)
        if plan.needs.may_wait:
            plan = dataclasses.replace(plan, num_at_begin=max(1, min(plan.num_at_once, room)))
    return plan


def run_session(
    plan: Plan,
    runs: Sequence[RunDirectory],
    stop: StopSignal,
    show: Callable[[Sequence[Recorder]], AbstractContextManager[Any]],
    make_evolution: Callable[[Sequence[MemberSupervisor]], Evolution] | None = None,
    openers: Sequence[OpenRun] = (),
    make_caller: Callable[[Recorder], Caller] | None = None,
    pruner: Pruner | None = None,
    tuner: Tuner | None = None,
    further: Sequence[Path] = (),
    sweep_run: RunDirectory | None = None,
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
        pruner: a rule that may end members early.
        tuner: a search that chooses the settings of members that wait.
        further: run directories of the members that wait; the sweep has begun those before that exist.
        sweep_run: the directory of the sweep, where a replay that all members share is saved; checked like the runs'.

    Returns:
        the outcome of each member that has begun, in the order of their numbers: all of them without a stop.

    Raises:
        LaunchError: no member could be trained to its end, e.g. because of a checkpoint or an environment.
    """
    with ExitStack() as stack:
        session = _Session(plan, runs, stop, stack, tuner, sweep_run)
        supervisors = session.begin(further)
        return session.train(supervisors, show, make_evolution, openers, make_caller, pruner)


class _Session:
    """The files, components and members of a session. Used from one thread.

    Args:
        plan: see `run_session`.
        runs: see `run_session`.
        stop: see `run_session`.
        stack: closes everything, in the order opposite to that in which it was opened.
        tuner: see `run_session`.
        sweep_run: see `run_session`.
    """

    def __init__(
        self,
        plan: Plan,
        runs: Sequence[RunDirectory],
        stop: StopSignal,
        stack: ExitStack,
        tuner: Tuner | None,
        sweep_run: RunDirectory | None,
    ):
        self._plan, self._runs, self._stop, self._stack, self._tuner = plan, runs, stop, stack, tuner
        self._config = plan.config
        self._sweep_run = sweep_run
        self._shared: SharedReplay | None = None
        if plan.share_replay and sweep_run is not None:
            self._shared = SharedReplay(sweep_run, self._config, self._say)
        self._saved: SavedReplay | None = None  # of a shared replay
        # Workers on Ray have processes of their own, which report their own usage.
        self._usage = ProcessUsage(with_children=not self._config.has_processes)
        self._recorders: list[Recorder] = []
        self._outcomes: dict[int, Outcome] = {}
        self._caller: Caller | None = None
        self._logged: set[RunDirectory] = set()

    def begin(self, further: Sequence[Path]) -> list[MemberSupervisor]:
        """Start the members that begin at once, and return their supervisors; a member that is lost has ended."""
        at_once = self._plan.members[: len(self._runs)]
        trackers = open_trackers(self._stack, self._runs, [member.config for member in at_once])
        self._files = [self._stack.enter_context(ExitStack()) for _ in self._runs]
        for files, run, member, of_run in zip(self._files, self._runs, at_once, trackers, strict=True):
            self._recorders.append(files.enter_context(_open_recorder(files, run, member, self._usage, of_run)))
        saved, lost = restore_all(self._runs, at_once)
        self._say([f"warning: {words}" for state in saved if state for words in state.warnings])
        self._closing = self._stack.enter_context(ExitStack())  # of members that began later: after the runtime
        with waiting_for("Ray to start"):
            self._runtime = make_runtime(self._config, self._plan.needs)
        self._stack.callback(self._close_runtime)
        self._end_if_stopped()
        for run, recorder in zip(self._runs, self._recorders, strict=True):
            self._track(recorder, run)
        self._say(self._notes())
        self._nodes = NodeWatch(self._runtime, self._plan.num_at_once, self._plan.num_at_begin, self._say)
        topologies = self._place(at_once, saved, further)
        supervisors = []
        for run, topology, recorder, nothing in zip(self._runs, topologies, self._recorders, lost, strict=True):
            supervisors.append(self._supervise(topology, recorder, run))
            if nothing is not None:
                supervisors[-1].stop(Ending.FAILED, nothing)
        return supervisors

    def _supervise(self, topology: Topology, recorder: Recorder, run: RunDirectory) -> MemberSupervisor:
        """Return a member's supervisor, which reads the run's checkpoints and writes to its log."""
        newest = partial(read_newest, run, topology.member)
        return MemberSupervisor(
            topology,
            recorder,
            run.videos_path,
            newest,
            partial(self._say_and_log, run),
            partial(self._note_failure, run),
            self._plan.share_replay and topology.member.population > 1,
            None if self._shared is None else self._shared.newest,
            lambda: self._schedule.watch_replay(),
        )

    def _say_and_log(self, run: RunDirectory, line: str) -> None:
        run.log(line)
        self._say([line])

    def _note_failure(self, run: RunDirectory, supervisor: MemberSupervisor) -> None:
        """Say at once, on the terminal and in its log, that a member of several has failed."""
        error = supervisor.error
        assert error is not None
        self._log_failure(run, error)
        if len(self._plan.members) > 1:
            why = explained(supervisor.outcome, supervisor.topology.config).error
            words = " ".join(str(why).split()) or type(error).__name__
            steps = supervisor.recorder.position().env_steps
            self._say([f"member {supervisor.number} failed after {steps:,} env steps: {words}"])

    def _log_failure(self, run: RunDirectory, error: Exception) -> None:
        """Write the error that ended a member into its log, once."""
        if run not in self._logged:
            self._logged.add(run)
            log_failure(run, error)

    def _close_runtime(self) -> None:
        with waiting_for("all processes to end"):
            complaints = self._runtime.close()
        for complaint in complaints:
            for run in self._runs:
                if run.is_in_place:
                    run.log(complaint)
        self._say([f"warning: {complaint}" for complaint in complaints])

    def _place(
        self, at_once: Sequence[MemberPlan], saved: Sequence[SavedMember | None], further: Sequence[Path]
    ) -> list[Topology]:
        """Place the members' components, and put saved states or the weights of another run into them."""
        members = [
            dataclasses.replace(member, first_incarnation=state.next_incarnation if state else 0)
            for member, state in zip(at_once, saved, strict=True)
        ]
        waiting = self._plan.members[len(members) :]
        topologies = place_population(members, self._recorders, self._runtime, self._plan.share_replay, waiting)
        compiles = self._config.learner.compile != "off" and not self._config.takes_turns
        self._say(["preparing: compiling the networks, which takes up to a minute the first time"] if compiles else [])
        try:
            descriptions = start_all(topologies, self._look_at_start)
        except StoppedError:
            raise
        except Exception as error:
            for run in self._runs:
                self._log_failure(run, error)
            raise as_launch_error(error, self._config, self._runs) from error
        taken: list[str] = []
        shared = [] if self._shared is None else self._shared.content()
        for owner in [each for each in topologies if each.owns_replay]:
            its = [place for place, each in enumerate(topologies) if each.shards is owner.shards]
            replay = SavedReplay([(members[place], saved[place]) for place in its], shared)
            if self._plan.share_replay:
                self._saved = replay
                replay.read_further(waiting[: len(further)], further)
            replay.load_into(owner.shards)
            if replay.has_keys_for(owner.shards):
                if self._shared is None:
                    self._runs[its[0]].replay.begin_from(replay.content)
                else:
                    self._shared.begin_from(replay)
            replay.release()
            for place in its:
                run, recorder, how = self._runs[place], self._recorders[place], descriptions[place]
                taken += enter(run, topologies[place], recorder, saved[place], replay, how, self._end_if_stopped)
            replay.count_in_transit(self._recorders[its[0]])
        self._say(list(dict.fromkeys(taken)))  # members of a sweep say the same
        return topologies

    def _look_at_start(self) -> None:
        self._runtime.check()
        self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        if self._stop.requested:
            path = self._config.run_dir
            again = f"to continue: {resume_command(path)}" if self._config.resume and path else "start it again"
            raise self._stop.error(f"nothing was trained yet; {again}")

    def train(
        self,
        supervisors: Sequence[MemberSupervisor],
        show: Callable[[Sequence[Recorder]], AbstractContextManager[Any]],
        make_evolution: Callable[[Sequence[MemberSupervisor]], Evolution] | None,
        openers: Sequence[OpenRun],
        make_caller: Callable[[Recorder], Caller] | None,
        pruner: Pruner | None,
    ) -> list[Outcome]:
        """Train all members to their ends; see `run_session` for the arguments."""
        waiting = self._plan.members[len(supervisors) :]
        shared = supervisors[0].topology.shards if self._plan.share_replay else None
        self._places = self._closing.enter_context(
            Places(
                waiting,
                openers,
                self._nodes.room,
                self._open_later,
                self._runtime,
                shared,
                self._finish,
                self._save_now,
                self._supervise,
                self._say_and_log,
                self._choose,
                self._saved,
            )
        )
        for supervisor, run, files in zip(supervisors, self._runs, self._files, strict=True):
            self._places.hold(supervisor.number, run, files)
        evolution = make_evolution(supervisors) if make_evolution is not None else None
        self._caller = make_caller(self._recorders[0]) if make_caller is not None else None
        self._schedule = schedule = make_schedule(
            [supervisor.topology.config for supervisor in supervisors],
            supervisors,
            lambda: self._stop.requested or (self._caller is not None and self._caller.is_stopping),
            self._save,
            evolution,
            self._places if waiting else None,
            self._look,
            pruner,
            partial(self._save_replay, supervisors[0].topology.shards),
        )
        self._check_in_place(self._runs)
        for supervisor in supervisors:
            supervisor.recorder.begin()
            is_first = is_connected() and not self._run_of(supervisor).has_checkpoint
            if (waiting or is_first) and not supervisor.finished:
                self._save_now(supervisor)  # whatever ends the session, the member continues from it
        try:
            if self._caller is not None:
                self._caller.start()
            with show(self._recorders):
                schedule.run()
        except Exception as error:
            for supervisor in schedule.supervisors:
                self._log_failure(self._run_of(supervisor), error)
                save_what_can_be_saved(self._run_of(supervisor), supervisor, self._shared is None)
            self._check_in_place(self._runs)  # whatever failed because files are gone, this explains more
            if self._shared is not None:
                try_to_save(self._runs[0], partial(self._save_replay, supervisors[0].topology.shards, ()))
            raise as_launch_error(error, self._config, self._runs) from error
        for supervisor in schedule.supervisors:
            self._finish(supervisor)
        self._save_replay(supervisors[0].topology.shards, schedule.supervisors)
        return self._end()

    def _look(self) -> None:
        self._runtime.check()
        self._nodes.move_actors(self._schedule.running)
        if self._caller is not None:
            self._caller.look()

    def _end(self) -> list[Outcome]:
        """Return the outcomes of all members; raise if none was trained to its end."""
        ended = [self._outcomes[number] for number in sorted(self._outcomes)]
        errors = [outcome.error for outcome in ended if outcome.error is not None]
        if len(errors) == len(ended):
            # A member without a checkpoint does not explain why the others, which continued, failed.
            first = next((error for error in errors if not isinstance(error, NothingToResumeError)), errors[0])
            raise as_launch_error(first, self._config, self._runs) from first
        if self._caller is not None:
            self._caller.finish()
        return [explained(outcome, self._plan.configs[number]) for number, outcome in sorted(self._outcomes.items())]

    def _run_of(self, supervisor: MemberSupervisor) -> RunDirectory:
        return self._places.runs[supervisor.number]

    def _check_in_place(self, runs: Sequence[RunDirectory]) -> None:
        """Raise `OutputError` if the sweep's directory, or one of these, or one of their files has gone."""
        check_in_place([*([] if self._sweep_run is None else [self._sweep_run]), *runs])

    def _save(self, supervisor: MemberSupervisor, snapshot: Snapshot) -> None:
        run = self._run_of(supervisor)
        self._check_in_place([run])
        has_own = self._shared is None
        topology, accounts = supervisor.topology, supervisor.parts.replay.accounts
        path = save_member(run, topology, supervisor.recorder, snapshot, accounts, with_replay=has_own)
        if has_own:
            supervisor.account_for_saved_replay()
        if self._caller is not None:
            self._caller.saved(Path(as_typed(str(path))))

    def _save_replay(self, shards: Sequence[ShardPort], supervisors: Sequence[MemberSupervisor]) -> None:
        """Save a replay that members share, for the next start of the sweep."""
        if self._shared is not None:
            env_steps = sum(recorder.position().env_steps for recorder in self._recorders)
            self._shared.save(shards, env_steps, supervisors)

    def _save_now(self, supervisor: MemberSupervisor) -> None:
        """Write a checkpoint before a member's first step or after its last; if its learner was lost, only it fails."""
        try:
            supervisor.despite_deaths(lambda: self._save(supervisor, supervisor.recorder.snapshot()))
        except LaunchError:
            raise  # a full disk concerns all members
        except Exception as error:  # noqa: BLE001 - kept in the outcome, and raised if no member is left
            supervisor.stop(Ending.FAILED, error)

    def _finish(self, supervisor: MemberSupervisor) -> None:
        """Write the last checkpoint of a member that has ended, and its log; keep its outcome."""
        run = self._run_of(supervisor)
        if supervisor.error is None:
            self._save_now(supervisor)
        if supervisor.error is None:
            by = f" {self._stop.by}" if supervisor.finished is Ending.STOPPED else ""
            run.log(f"finished: {supervisor.outcome.words}{by}")
        else:
            self._log_failure(run, supervisor.error)
            save_what_can_be_saved(run, supervisor, self._shared is None)
        self._outcomes[supervisor.number] = supervisor.outcome
        if self._tuner is not None:
            self._tuner.ended(supervisor)

    def _choose(self, member: MemberPlan) -> MemberPlan:
        """Return the plan of a member whose turn has come."""
        return member if self._tuner is None else self._tuner.begins(member)

    def _open_later(self, files: ExitStack, run: RunDirectory, member: MemberPlan) -> Recorder:
        """Open the recorder of a member that waited; the stack closes it."""
        (trackers,) = open_trackers(files, [run], [member.config])
        recorder = files.enter_context(_open_recorder(files, run, member, self._usage, trackers))
        self._track(recorder, run)
        self._recorders.append(recorder)
        return recorder

    def _track(self, recorder: Recorder, run: RunDirectory) -> None:
        for tracker in self._runtime.trackers(str(run.path)):
            recorder.track(tracker)

    def _notes(self) -> list[str]:
        """Return what the user should know about devices, logs, cores and missing packages."""
        devices = dict.fromkeys(member.device.note for member in self._plan.members if member.device.note)
        fitted = note_fitted_behaviour(self._plan.members[0])
        busy = note_busy_cores(self._plan.members[0])
        warnings = filter(None, [*self._runtime.notes, note_missing_tensorboard(), busy])
        notes = [*devices, *([fitted] if fitted else [])]
        return [*(f"note: {note}" for note in notes), *(f"warning: {note}" for note in warnings)]

    def _say(self, lines: Sequence[str]) -> None:
        for line in () if self._config.quiet else dict.fromkeys(lines):
            say(line)


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
    width = config.bucket_frames or bucket_frames(tasks, config.steps * environment.action_repeat)
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
    pruner: Pruner | None = None,
    save_replay: SaveReplay = lambda supervisors: None,
) -> Schedule:
    """Return the schedule that the configs name; see `Schedule` for the arguments."""
    if configs[0].takes_turns:
        return LockstepSchedule(supervisors, should_stop, save, evolution, waiting, look, pruner, save_replay)
    # A member that begins late would hold back the others.
    paces = len(supervisors) > 1 and waiting is None
    pace = PaceLimit(len(supervisors), slack_steps(configs), LEASE_S) if paces else None
    return FreeSchedule(supervisors, should_stop, save, evolution, waiting, look, pruner, save_replay, pace)
