"""A whole training run: directory, recorder, program, schedule, checkpoints, result."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from actors.actor import EnvironmentBudgetError
from laser.algorithms.base import Algorithm
from laser.config import ConfigError, Problem, raise_problems
from laser.environments import describe_environment
from laser.environments.base import EnvironmentFailedError
from laser.ports import PortError, wait
from laser.unroll import UnrollSpec
from launch.checkpointing import restore_program, save_program
from launch.config import TrainConfig
from launch.errors import LaunchError
from launch.event_file import EventFile
from launch.local_runtime import LocalRuntime
from launch.memory import MemoryEstimate, available_memory, estimate_memory, find_memory_problems
from launch.metrics_db import MetricsDb
from launch.program import Program, describe, make_program, member_settings, unroll_spec
from launch.progress import Progress, closing_message
from launch.recorder import Recorder, Snapshot
from launch.run_directory import RunDirectory, open_run
from launch.runtime import Runtime
from launch.schedules import FreeSchedule, LockstepSchedule
from launch.signals import stop_on_signals
from replay_server.memory import replay_bytes


@dataclass(frozen=True)
class TrainResult:
    """What a run came to.

    Args:
        env_steps: agent decisions.
        frames: env steps times action repeat.
        seconds: of training, without imports, construction and the wait for the first data.
        learner_steps: updates.
        mean_return: mean undiscounted return of the last 20 training episodes.
        episodes: training episodes finished.
        run_dir: where everything was left.
        finished: "steps", "solved" or "stopped".
    """

    env_steps: int
    frames: int
    seconds: float
    learner_steps: int
    mean_return: float
    episodes: int
    run_dir: Path
    finished: str

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        values = dataclasses.asdict(self) | {"run_dir": str(self.run_dir)}
        values["mean_return"] = None if math.isnan(self.mean_return) else self.mean_return
        values["env_steps_per_second"] = self.env_steps / self.seconds if self.seconds > 0 else 0.0
        return values


def train(config: TrainConfig, command: Sequence[str] | None = None) -> TrainResult:
    """Train one agent from a config until it has made its steps, is solved, or is asked to stop.

    Args:
        config: see `TrainConfig`; checked here before anything starts.
        command: what the user typed, for the record.

    Raises:
        ConfigError: mistakes in the config, all of them.
        LaunchError: the run directory, a checkpoint, memory or an environment stood in the way.
        StoppedError: a signal came; the state was saved.
    """
    config.check()
    environment = describe_environment(config.env, config.environment)
    try:
        algorithm = config.algorithm.build(environment, config.network)
        memory = plan_memory(config, unroll_spec(config, environment, algorithm), algorithm)
    except ValueError as error:
        problem = _named_problem(error)
        if problem is None:
            raise
        raise ConfigError([problem]) from error
    with ExitStack() as stack:
        run = stack.enter_context(open_run(config, command))
        stop = stack.enter_context(stop_on_signals())
        metrics = stack.enter_context(MetricsDb(run.metrics_path))
        events = stack.enter_context(EventFile(run.events_path))
        recorder = stack.enter_context(Recorder(metrics, events, background=config.runtime != "lockstep"))
        saved = restore_program(run, config, environment) if config.resume else None
        if not config.quiet:
            _say(f"training in {run.path}; it will need about {memory}")
            for warning in saved.warnings if saved else ():
                _say(f"warning: {warning}")
        runtime = make_runtime(config)
        stack.callback(runtime.close)
        program = make_program(config, environment, runtime, recorder, saved.next_incarnation if saved else 0)
        try:
            how = warm_up(program)
        except Exception as error:
            run.log(f"failed: {type(error).__name__}: {error}")
            raise _as_launch_error(error, config) from error
        if saved is not None:
            saved.load_into(program, recorder)
        run.log(f"running: {describe(program)}; learner: {how}")
        schedule_type = LockstepSchedule if config.runtime == "lockstep" else FreeSchedule
        schedule = schedule_type(
            program,
            recorder,
            should_stop=lambda: stop.requested,
            save=lambda snapshot: save_program(run, program, recorder, snapshot),
        )
        recorder.begin()
        with Progress(recorder.snapshot, config.steps, config.env, config.quiet):
            try:
                finished = schedule.run()
            except Exception as error:
                run.log(f"failed: {type(error).__name__}: {error}")
                _save_what_can_be_saved(run, program, recorder)
                raise _as_launch_error(error, config) from error
        snapshot = recorder.snapshot()
        save_program(run, program, recorder, snapshot)
        run.log(f"finished: {finished}")
        if stop.requested:
            raise stop.error(f"saved at {snapshot.env_steps:,} env steps; --resume --run-dir {run.path} continues")
        if not config.quiet:
            _say(closing_message(snapshot, run.path, config.preset, config.steps))
        return _result(snapshot, run, finished)


def warm_up(program: Program) -> str:
    """Compile and make environments, one component after the other; return how the learner computes.

    Raises:
        EnvironmentFailedError: an environment failed before its first step.
    """
    how: str = wait(program.learner.call("warm_up"), 600.0, "the learner to start")
    for actor in program.actors:
        wait(actor.call("warm_up"), 600.0, f"{actor.name} to start")
    return how


def _save_what_can_be_saved(run: RunDirectory, program: Program, recorder: Recorder) -> None:
    """Write a checkpoint after a failure; where that fails too, only the log says so: the first error is shown."""
    if program.learner.failure() is not None:
        return
    for worker in program.workers:
        worker.stop()
    try:
        save_program(run, program, recorder, recorder.snapshot())
    except Exception as error:  # noqa: BLE001 - the failure that led here is raised by the caller
        run.log(f"no checkpoint could be written: {type(error).__name__}: {error}")


def make_runtime(config: TrainConfig) -> Runtime:
    """Return the runtime the config names; Ray is imported only if it is the one."""
    if config.runtime == "ray":
        from launch.ray_runtime import RayRuntime

        return RayRuntime()
    return LocalRuntime()


def plan_memory(config: TrainConfig, spec: UnrollSpec, algorithm: Algorithm) -> MemoryEstimate:
    """Return what the run will need.

    Raises:
        ConfigError: it cannot fit on this machine.
    """
    num_parameters = sum(item.numel() for item in algorithm.seeded_networks(0).parameters())
    held = replay_bytes(spec, config.replay, member_settings(config, algorithm))
    estimate = estimate_memory(config, spec, num_parameters, held)
    raise_problems(list(find_memory_problems(estimate, available_memory())))
    return estimate


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _result(snapshot: Snapshot, run: RunDirectory, finished: str) -> TrainResult:
    return TrainResult(
        env_steps=snapshot.env_steps,
        frames=snapshot.frames,
        seconds=snapshot.seconds,
        learner_steps=snapshot.learner_steps,
        mean_return=snapshot.mean_return,
        episodes=snapshot.episodes,
        run_dir=run.path,
        finished=finished,
    )


def _named_problem(error: ValueError) -> Problem | None:
    """Return what an algorithm or a network says about the user's choice, e.g. "network.torso: ..."."""
    named = re.fullmatch(r"((?:algorithm|network|env)[\w.-]*): (.*)", str(error), re.DOTALL)
    return None if named is None or isinstance(error, ConfigError) else Problem(*named.groups())


def _as_launch_error(error: Exception, config: TrainConfig) -> Exception:
    """Return the one line a user reads, for errors that are not the program's own mistakes."""
    if isinstance(error, (EnvironmentBudgetError, EnvironmentFailedError)):
        return LaunchError("env", f"{config.env}: {error}", "mend the environment")
    if isinstance(error, PortError):
        return LaunchError("runtime", str(error), "log.txt in the run directory says what came before")
    return error
