"""`laser train`: one agent, from its config to its result."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from laser.config import raise_mistyped
from laser.torch_threads import torch_threads
from launch.commands import resume_command
from launch.recording.progress import Progress, closing_message
from launch.recording.recorder import Recorder
from launch.records.run_directory import open_run
from launch.restart_link import announce
from launch.settings.train_config import TrainConfig
from launch.standard_output import name_long_waits, say
from launch.start_directory import paths_from_here
from launch.supervision.callbacks import Caller, TrainingRun, check_callbacks
from launch.supervision.ending import Ending, why_ended
from launch.supervision.session import plan_session, run_session
from launch.supervision.signals import stop_on_signals
from launch.supervision.training_result import TrainResult, result_of


@torch_threads(1)
def train(config: TrainConfig, command: Sequence[str] | None = None, *, callbacks: Sequence[Any] = ()) -> TrainResult:
    """Train one agent from a config until its env steps are done, its task is solved, or a signal or callback stops it.

    Args:
        config: see `TrainConfig`; checked here before anything starts.
        command: the command line that the user typed, for the record.
        callbacks: objects with methods of `laser.Callback`, which are called on this thread.

    Raises:
        ConfigError: the config has mistakes; the error lists all of them.
        LaunchError: the run directory, a checkpoint, memory or an environment makes the run impossible.
        Interrupted: Ctrl-C stopped the run, after its state was saved; it is a KeyboardInterrupt.
        StoppedError: SIGTERM stopped the run, after its state was saved. A signal that comes when the training is over
            already, during the last evaluation or checkpoint, changes nothing of the result.
    """
    raise_mistyped({"config": (config, TrainConfig)}, _remedy(config))
    raise_mistyped({"command": (command, Sequence[str] | None)}, "callbacks=[...] takes callbacks")
    check_callbacks(callbacks)
    with ExitStack() as stack:
        stack.enter_context(paths_from_here())
        stack.enter_context(name_long_waits(config.quiet))
        plan = plan_session([config])
        run = stack.enter_context(open_run(config, command))
        announce(run.place)
        stop = stack.enter_context(stop_on_signals())
        if not config.quiet:
            say(f"training in {run.path}{plan.where}; it will need {plan.needs_in(run.place)}")
            for line in plan.seen_as:
                say(line)
        callers: list[Caller] = []

        def make_caller(recorder: Recorder) -> Caller:
            callers.append(Caller(callbacks, TrainingRun(config, run.path, recorder), recorder))
            return callers[0]

        (outcome,) = run_session(
            plan,
            [run],
            stop,
            lambda recorders: Progress(recorders[0].snapshot, config.steps, config.env, config.quiet),
            make_caller=make_caller,
        )
        snapshot, result = outcome.snapshot, result_of(outcome, run.path)
        callers[0].end(result)
        if stop.requested and outcome.finished is Ending.STOPPED:  # otherwise it came when all was done
            raise stop.error(f"saved at {snapshot.env_steps:,} env steps; to continue: {resume_command(run.path)}")
        if not config.quiet:
            say(closing_message(snapshot, run.path, config.preset, config.steps, why_ended(outcome.finished, config)))
        return result


def _remedy(config: Any) -> str:
    return f"use laser.load_preset({config!r})" if isinstance(config, str) else "use one of laser.load_preset"
