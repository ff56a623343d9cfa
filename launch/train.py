"""`laser train`: one agent, from its config to its result."""

from __future__ import annotations

import dataclasses
import math
import shlex
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laser.torch_threads import torch_threads
from launch.recording.progress import Progress, closing_message
from launch.recording.replay_gauges import summarise_ledger
from launch.records.run_directory import RunDirectory, open_run
from launch.settings.train_config import TrainConfig
from launch.standard_output import say
from launch.supervision.member_supervisor import Outcome
from launch.supervision.session import plan_session, run_session
from launch.supervision.signals import stop_on_signals


@dataclass(frozen=True)
class TrainResult:
    """The result of a run.

    Args:
        env_steps: agent decisions.
        frames: env steps times action repeat.
        seconds: seconds of training, without imports, construction and the wait for the first data.
        learner_steps: updates.
        mean_return: mean undiscounted return of the last 20 training episodes.
        episodes: training episodes finished.
        run_dir: the directory of the run's files.
        finished: "steps", "solved", "stopped" or "failed".
        normalised_score: median over the tasks, of their last 20 training episodes; None without reference scores.
        task_returns: mean return of the last 20 training episodes of each task that has any.
        ledger: numbers of unrolls by name, as `stages`, `reasons` and `imbalance` (see `summarise_ledger`).
    """

    env_steps: int
    frames: int
    seconds: float
    learner_steps: int
    mean_return: float
    episodes: int
    run_dir: Path
    finished: str
    normalised_score: float | None = None
    task_returns: dict[str, float] = field(default_factory=dict)
    ledger: dict[str, dict[str, int]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        values = dataclasses.asdict(self) | {"run_dir": str(self.run_dir)}
        values["mean_return"] = None if math.isnan(self.mean_return) else self.mean_return
        values["env_steps_per_second"] = self.env_steps / self.seconds if self.seconds > 0 else 0.0
        return values


@torch_threads(1)
def train(config: TrainConfig, command: Sequence[str] | None = None) -> TrainResult:
    """Train one agent from a config until its env steps are done, its task is solved, or a signal stops it.

    Args:
        config: see `TrainConfig`; checked here before anything starts.
        command: the command line that the user typed, for the record.

    Raises:
        ConfigError: the config has mistakes; the error lists all of them.
        LaunchError: the run directory, a checkpoint, memory or an environment makes the run impossible.
        StoppedError: a signal stopped the run, after its state was saved.
    """
    plan = plan_session([config])
    with ExitStack() as stack:
        run = stack.enter_context(open_run(config, command))
        stop = stack.enter_context(stop_on_signals())
        if not config.quiet:
            say(f"training in {run.path}{plan.where}; it will need {plan.needs_in(run.path)}")
        (outcome,) = run_session(
            plan,
            [run],
            stop,
            lambda recorders: Progress(recorders[0].snapshot, config.steps, config.env, config.quiet),
        )
        snapshot = outcome.snapshot
        if stop.requested:
            here = shlex.quote(str(run.path))
            raise stop.error(f"saved at {snapshot.env_steps:,} env steps; --resume --run-dir {here} continues")
        if not config.quiet:
            say(closing_message(snapshot, run.path, config.preset, config.steps))
        return result_of(outcome, run)


def result_of(outcome: Outcome, run: RunDirectory) -> TrainResult:
    """Return the result of a member that has ended."""
    snapshot = outcome.snapshot
    return TrainResult(
        env_steps=snapshot.env_steps,
        frames=snapshot.frames,
        seconds=snapshot.seconds,
        learner_steps=snapshot.learner_steps,
        mean_return=snapshot.mean_return,
        episodes=snapshot.episodes,
        run_dir=run.path,
        finished=outcome.finished,
        normalised_score=snapshot.normalised_score,
        task_returns=snapshot.task_returns,
        ledger=summarise_ledger(snapshot),
    )
