"""A session: from checked configs and opened run directories to a population at its end, with checkpoints on the way.

`laser train` is a session of one member, `laser sweep` one of several.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any

from actors.actor import EnvironmentBudgetError
from laser.algorithms.base import Algorithm
from laser.config import ConfigError, Problem, raise_problems
from laser.environments import describe_environment, task_ids
from laser.environments.base import EnvironmentFailedError
from laser.environments.config import EnvironmentConfig
from laser.ports import PortError, wait
from laser.specs import ArraySpec, EnvironmentSpec
from laser.unroll import UnrollSpec
from launch.config import TrainConfig
from launch.errors import LaunchError, NothingToResumeError
from launch.evaluation.videos import find_video_problems
from launch.program import (
    Member,
    Program,
    describe,
    find_sampler_problems,
    make_population,
    member_settings,
    unroll_spec,
)
from launch.recording.metrics_db import MetricsDb
from launch.recording.process_usage import ProcessUsage
from launch.recording.recorder import Recorder, Snapshot
from launch.recording.task_returns import bucket_frames
from launch.recording.tracker import Tracker
from launch.runtimes.local_runtime import LocalRuntime
from launch.runtimes.placement import Needs
from launch.runtimes.runtime import Runtime
from launch.sessions.attendant import Attendant, Outcome
from launch.sessions.checkpointing import SavedProgram, restore_program, save_program
from launch.sessions.memory import MemoryEstimate, available_memory, estimate_memory, find_memory_problems
from launch.sessions.pace import PaceLimit
from launch.sessions.run_directory import RunDirectory
from launch.sessions.schedules import Evolution, FreeSchedule, LockstepSchedule, Schedule
from launch.sessions.settings_schedule import find_schedule_problems
from launch.sessions.signals import StopSignal
from launch.sessions.tracking import open_trackers
from replay_server.memory import replay_bytes

LEASE_S = 30.0
"""Seconds without progress after which a member of a sweep no longer holds up the others."""
_SLACK_ROUNDS, _SLACK_SHARE = 4, 0.02


@dataclass(frozen=True)
class Plan:
    """Members that can run together on this machine.

    Args:
        configs: checked, one per member.
        environments: what each one's `env` offers.
        share_replay: one replay for all.
        memory: what they will need.
        carried_states: recurrent states that the unrolls of a shared replay have room for, by name.
    """

    configs: list[TrainConfig]
    environments: list[EnvironmentSpec]
    share_replay: bool
    memory: MemoryEstimate
    carried_states: Mapping[str, ArraySpec] = field(default_factory=dict)

    @property
    def config(self) -> TrainConfig:
        """The first member's config: what all members have in common."""
        return self.configs[0]


def make_plan(configs: Sequence[TrainConfig], share_replay: bool = False) -> Plan:
    """Return the plan of a session.

    Raises:
        ConfigError: mistakes in the configs, members that cannot share a replay, or too little memory.
    """
    for config in configs:
        config.check()
    known: dict[tuple[str, EnvironmentConfig], EnvironmentSpec] = {}
    for config in configs:
        key = (config.env, config.environment)
        if key not in known:
            known[key] = describe_environment(config.env, config.environment)
    environments = [known[config.env, config.environment] for config in configs]
    algorithms, problems = [], []
    for config, environment in zip(configs, environments, strict=True):
        try:
            algorithms.append(config.algorithm.build(environment, config.network))
            problems += find_schedule_problems(config)
            problems += find_sampler_problems(config, algorithms[-1])
        except ValueError as error:
            problems += _named_problems(error)
    for env, how in {(config.env, config.environment) for config in configs if config.capture_video}:
        problems += find_video_problems("capture-video", env, how)
    raise_problems(list(dict.fromkeys(problems)))
    specs = [unroll_spec(*parts) for parts in zip(configs, environments, algorithms, strict=True)]
    carried_states: dict[str, ArraySpec] = {}
    if share_replay:
        raise_problems(find_differences(specs))
        for spec in specs:
            carried_states |= spec.core_state
        raise_problems(_find_memoryless(configs, carried_states))
        specs = [dataclasses.replace(spec, core_state=carried_states) for spec in specs]
    try:
        memory = plan_memory(configs, specs, algorithms, share_replay)
    except ValueError as error:  # networks are built here for the first time
        raise ConfigError(_named_problems(error)) from error
    if configs[0].ray_address:
        from launch.runtimes.ray_cluster import check_cluster

        check_cluster(configs[0].ray_address, _needs(configs, share_replay, memory))
    return Plan(list(configs), environments, share_replay, memory, carried_states)


def find_differences(specs: Sequence[UnrollSpec]) -> list[Problem]:
    """Return why members cannot learn from each other's unrolls: the first difference of each to member 0.

    Recurrent states may be different ones, since nobody needs those of others; but not under one name.
    """
    first, problems = specs[0], []
    states = {name: array for spec in reversed(specs) for name, array in spec.core_state.items()}
    for number, spec in enumerate(specs[1:], start=1):
        for what, ours, theirs in (
            ("observations", first.environment.observations, spec.environment.observations),
            ("actions", first.environment.actions, spec.environment.actions),
            ("behaviour statistics", first.behaviour, spec.behaviour),
            ("recurrent states", {name: states[name] for name in spec.core_state}, spec.core_state),
            ("unroll lengths", first.unroll_length, spec.unroll_length),
            # Last: equal shapes are not equal meanings. Two games may both have six actions.
            ("environments", first.environment.id, spec.environment.id),
            ("action repeats", first.environment.action_repeat, spec.environment.action_repeat),
        ):
            if ours != theirs:
                wrong = f"members 0 and {number} cannot learn from each other: their {what} are {ours} and {theirs}"
                problems.append(Problem("share-replay", wrong, "use --no-share-replay"))
                break
    return problems


def _find_memoryless(configs: Sequence[TrainConfig], states: Mapping[str, ArraySpec]) -> list[Problem]:
    """Return which members draw single steps from a replay of recurrent agents, which keeps no state for them."""
    remedy = "use --no-share-replay, or network.core none"
    return [
        Problem(
            "share-replay",
            f"single steps, which member {number} learns from, are not kept where others have a memory",
            remedy,
        )
        for number, config in enumerate(configs)
        if states and config.algorithm.view == "steps"
    ]


def plan_memory(
    configs: Sequence[TrainConfig], specs: Sequence[UnrollSpec], algorithms: Sequence[Algorithm], share_replay: bool
) -> MemoryEstimate:
    """Return what a session will need.

    Raises:
        ConfigError: it cannot fit on this machine.
    """
    settings = [
        member_settings(config, algorithm, number)
        for number, (config, algorithm) in enumerate(zip(configs, algorithms, strict=True))
    ]
    if share_replay:
        held = replay_bytes(specs[0], configs[0].replay, settings)
    else:
        held = sum(
            replay_bytes(spec, config.replay, [mine])
            for spec, config, mine in zip(specs, configs, settings, strict=True)
        )
    counts: dict[object, int] = {}
    for config, algorithm in zip(configs, algorithms, strict=True):
        key = (config.env, config.environment, config.algorithm, config.network)
        if key not in counts:
            counts[key] = sum(item.numel() for item in algorithm.seeded_networks(0).parameters())
    of_each = [counts[config.env, config.environment, config.algorithm, config.network] for config in configs]
    estimate = estimate_memory(configs, specs, of_each, held)
    if not configs[0].ray_address:  # a cluster's nodes are asked for theirs
        raise_problems(list(find_memory_problems(estimate, available_memory(), len(configs), share_replay)))
    return estimate


def run_session(
    plan: Plan,
    runs: Sequence[RunDirectory],
    stop: StopSignal,
    show: Callable[[Sequence[Recorder]], AbstractContextManager[Any]],
    make_evolution: Callable[[Sequence[Attendant]], Evolution] | None = None,
) -> list[Outcome]:
    """Train all members until each has made its steps, is solved, has failed, or a signal asks to stop.

    A checkpoint of each is written at the end, whatever the end was.

    Args:
        plan: from `make_plan`.
        runs: the members' directories.
        stop: whether to stop.
        show: returns what shows the progress of these recorders while it is entered.
        make_evolution: returns what changes members while they train.

    Returns:
        what became of each.

    Raises:
        LaunchError: a checkpoint or an environment stood in the way of all members.
    """
    config = plan.config
    with ExitStack() as stack:
        # Workers on Ray have processes of their own, and say themselves what they use.
        usage = ProcessUsage(with_children=config.runtime != "ray")
        recorders = [
            stack.enter_context(_open_recorder(stack, run, each, environment, usage, trackers))
            for run, each, environment, trackers in zip(
                runs, plan.configs, plan.environments, open_trackers(stack, runs, plan.configs), strict=True
            )
        ]
        saved, lost = _restore_all(runs, plan)
        for state in saved:
            for warning in state.warnings if state and not config.quiet else ():
                say(f"warning: {warning}")
        runtime = make_runtime(config, _needs(plan.configs, plan.share_replay, plan.memory))
        stack.callback(runtime.close)
        for run, recorder in zip(runs, recorders, strict=True):
            for tracker in runtime.trackers(str(run.path)):
                recorder.track(tracker)
        for note in runtime.notes if not config.quiet else ():
            say(f"warning: {note}")
        members = _number_members(plan, [state.next_incarnation if state else 0 for state in saved])
        programs = make_population(members, recorders, runtime, plan.share_replay)
        try:
            descriptions = [warm_up(program) for program in programs]
        except Exception as error:
            for run in runs:
                run.log(f"failed: {type(error).__name__}: {error}")
            raise as_launch_error(error, config) from error
        for run, program, recorder, state, how in zip(runs, programs, recorders, saved, descriptions, strict=True):
            if state is not None:
                state.load_into(program, recorder)
            run.log(f"running: {describe(program)}; learner: {how}")
        attendants = [
            Attendant(program, recorder, run.videos_path)
            for program, recorder, run in zip(programs, recorders, runs, strict=True)
        ]
        for attendant, nothing in zip(attendants, lost, strict=True):
            if nothing is not None:
                attendant.stop("failed", nothing)
        directories = {attendant.number: run for attendant, run in zip(attendants, runs, strict=True)}

        def save(attendant: Attendant, snapshot: Snapshot) -> None:
            save_program(directories[attendant.number], attendant.program, attendant.recorder, snapshot)

        evolution = make_evolution(attendants) if make_evolution is not None else None
        schedule = _make_schedule(plan, attendants, lambda: stop.requested, save, evolution)
        for recorder in recorders:
            recorder.begin()
        try:
            with show(recorders):
                schedule.run()
        except Exception as error:
            for attendant in attendants:
                directories[attendant.number].log(f"failed: {type(error).__name__}: {error}")
                _save_what_can_be_saved(directories[attendant.number], attendant)
            raise as_launch_error(error, config) from error
        for attendant in attendants:
            run = directories[attendant.number]
            if attendant.error is None:
                _save_the_end(attendant, save)
            if attendant.error is None:
                run.log(f"finished: {attendant.finished}")
            else:
                run.log(f"failed: {type(attendant.error).__name__}: {attendant.error}")
                _save_what_can_be_saved(run, attendant)
        errors = [attendant.error for attendant in attendants if attendant.error is not None]
        if len(errors) == len(attendants):
            raise as_launch_error(errors[0], config) from errors[0]
        return [attendant.outcome for attendant in attendants]


def warm_up(program: Program) -> str:
    """Compile and make environments, one component after the other; return how the learner computes.

    Raises:
        EnvironmentFailedError: an environment failed before its first step.
    """
    how: str = wait(program.learner.call("warm_up"), 600.0, "the learner to start")
    for actor in program.actors:
        wait(actor.call("warm_up"), 600.0, f"{actor.name} to start")
    return how


def make_runtime(config: TrainConfig, needs: Needs) -> Runtime:
    """Return the runtime the config names; Ray is imported only if it is the one."""
    if config.runtime == "ray":
        from launch.runtimes.ray_runtime import RayRuntime

        return RayRuntime(config.ray_address, needs)
    return LocalRuntime()


def _needs(configs: Sequence[TrainConfig], share_replay: bool, memory: MemoryEstimate) -> Needs:
    num_shards = configs[0].replay.num_shards if share_replay else sum(each.replay.num_shards for each in configs)
    return Needs(
        len(configs),
        sum(config.num_actors for config in configs),
        configs[0].device,
        num_shards,
        memory.replay // num_shards,
    )


def slack_steps(configs: Sequence[TrainConfig]) -> int:
    """Return how far a member may run ahead: a few unrolls of its actors, and not more than 2 % of a short run."""
    one_round = max(config.num_actors * config.num_envs * config.unroll_length for config in configs)
    share = int(_SLACK_SHARE * min(config.steps for config in configs))
    return max(one_round, min(_SLACK_ROUNDS * one_round, share))


def say(text: str) -> None:
    """Tell the user something that is no result."""
    print(text, file=sys.stderr, flush=True)


def as_launch_error(error: Exception, config: TrainConfig) -> Exception:
    """Return the one line a user reads, for errors that are not the program's own mistakes."""
    if isinstance(error, (EnvironmentBudgetError, EnvironmentFailedError)):
        return LaunchError("env", f"{config.env}: {error}", "mend the environment")
    if isinstance(error, PortError):
        return LaunchError("runtime", str(error), "log.txt in the run directory says what came before")
    return error


def _open_recorder(
    stack: ExitStack,
    run: RunDirectory,
    config: TrainConfig,
    environment: EnvironmentSpec,
    usage: ProcessUsage,
    trackers: Sequence[Tracker],
) -> Recorder:
    metrics = stack.enter_context(MetricsDb(run.metrics_path))
    tasks = task_ids(config.env)
    width = bucket_frames(tasks, config.steps * environment.action_repeat)
    background = config.runtime != "lockstep"
    return Recorder(metrics, trackers, background=background, tasks=tasks, bucket_frames=width, usage=usage)


def _number_members(plan: Plan, incarnations: Sequence[int]) -> list[Member]:
    members: list[Member] = []
    first_actor = 0
    for number, (config, environment) in enumerate(zip(plan.configs, plan.environments, strict=True)):
        members.append(
            Member(
                config,
                environment,
                number,
                first_actor,
                incarnations[number],
                len(plan.configs),
                plan.carried_states,
            )
        )
        first_actor += config.num_actors
    return members


def _make_schedule(
    plan: Plan,
    attendants: Sequence[Attendant],
    should_stop: Callable[[], bool],
    save: Callable[[Attendant, Snapshot], None],
    evolution: Evolution | None,
) -> Schedule:
    if plan.config.runtime == "lockstep":
        return LockstepSchedule(attendants, should_stop, save, evolution)
    pace = PaceLimit(len(attendants), slack_steps(plan.configs), LEASE_S) if len(attendants) > 1 else None
    return FreeSchedule(attendants, should_stop, save, evolution, pace)


def _restore_all(
    runs: Sequence[RunDirectory], plan: Plan
) -> tuple[list[SavedProgram | None], list[NothingToResumeError | None]]:
    """Read all members' checkpoints; a member without one, which failed early, does not keep the others from going on.

    Returns:
        what was saved, None where nothing was asked for or found; and why nothing was found, None elsewhere.

    Raises:
        NothingToResumeError: no member has a checkpoint.
    """
    saved: list[SavedProgram | None] = []
    lost: list[NothingToResumeError | None] = []
    for run, config, environment in zip(runs, plan.configs, plan.environments, strict=True):
        state, error = None, None
        if config.resume:
            try:
                state = restore_program(run, config, environment)
            except NothingToResumeError as reason:
                error = reason
        saved.append(state)
        lost.append(error)
    errors = [error for error in lost if error is not None]
    if errors and not any(saved):
        raise errors[0]
    return saved, lost


def _save_the_end(attendant: Attendant, save: Callable[[Attendant, Snapshot], None]) -> None:
    """Write the last checkpoint; a member whose learner is lost since its end has failed, and the others have not."""
    try:
        save(attendant, attendant.recorder.snapshot())
    except LaunchError:
        raise  # a full disk is everybody's
    except Exception as error:  # noqa: BLE001 - kept in the outcome, and raised where nobody else is left
        attendant.stop("failed", error)


def _save_what_can_be_saved(run: RunDirectory, attendant: Attendant) -> None:
    """Write a checkpoint after a failure; where that fails too, only the log says so: the first error is shown."""
    if attendant.program.learner.failure() is not None or isinstance(attendant.error, NothingToResumeError):
        return
    for worker in attendant.program.workers:
        worker.stop()
    try:
        save_program(run, attendant.program, attendant.recorder, attendant.recorder.snapshot(), with_actors=False)
    except Exception as error:  # noqa: BLE001 - the failure that led here is raised by the caller
        run.log(f"no checkpoint could be written: {type(error).__name__}: {error}")


def _named_problems(error: ValueError) -> list[Problem]:
    """Return what an algorithm or a network says about the user's choice, e.g. "network.torso: ..."; raise the rest."""
    if isinstance(error, ConfigError):
        return error.problems
    named = re.fullmatch(r"((?:algorithm|network|env)[\w.-]*): (.*)", str(error), re.DOTALL)
    if named is None:
        raise error
    return [Problem(*named.groups())]
