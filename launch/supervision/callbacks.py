"""Callbacks: a user's own functions that a run calls while it trains, all on the thread that called `laser.train`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem
from laser.ports import EpisodeResult
from launch.recording.recorder import Recorder, Snapshot
from launch.settings.train_config import TrainConfig
from launch.supervision.training_result import TrainResult

_REPORT_INTERVAL_S = 1.0


@dataclass(frozen=True)
class Evaluated:
    """The result of an evaluation during training.

    Args:
        env_steps: env steps of the run when the evaluation began.
        episodes: the episodes played.
    """

    env_steps: int
    episodes: tuple[EpisodeResult, ...]

    @property
    def mean_return(self) -> float:
        """Mean undiscounted return of the episodes."""
        return sum(episode.episode_return for episode in self.episodes) / len(self.episodes)


class TrainingRun:
    """The run that calls a callback.

    Args:
        config: its config.
        path: its directory.
        recorder: its recorder.
    """

    def __init__(self, config: TrainConfig, path: Path, recorder: Recorder):
        self.config = config
        self.path = path
        self._recorder = recorder
        self.is_stopping = False
        """Whether a callback has asked the run to stop."""

    def snapshot(self) -> Snapshot:
        """Return the state of the run now: env steps, updates, mean return, rates, every metric."""
        return self._recorder.snapshot()

    def stop(self) -> None:
        """End the training soon, after a checkpoint; the result's `finished` is then "stopped"."""
        self.is_stopping = True


class Callback:
    """Functions that a run calls; override what you need. An error in one ends the run after a checkpoint."""

    def on_start(self, run: TrainingRun) -> None:
        """Learn that training begins; networks and environments are ready, and a resumed run has its state."""

    def on_report(self, run: TrainingRun, snapshot: Snapshot) -> None:
        """Receive the state of the run, about once a second and at its end."""

    def on_episode(self, run: TrainingRun, episode: EpisodeResult) -> None:
        """Receive a finished training episode."""

    def on_evaluation(self, run: TrainingRun, evaluated: Evaluated) -> None:
        """Receive the result of an evaluation."""

    def on_checkpoint(self, run: TrainingRun, path: Path) -> None:
        """Learn that a checkpoint was written; `path` is its directory."""

    def on_end(self, run: TrainingRun, result: TrainResult) -> None:
        """Receive the run's result, also of one that was stopped or interrupted, but not after an error."""


_METHODS = [name for name in vars(Callback) if name.startswith("on_")]


def check_callbacks(callbacks: Sequence[Any]) -> None:
    """Check that every callback has methods that are called, and no other whose name begins with `on_`.

    Raises:
        ConfigError: one has not, or they are no list.
    """
    if not isinstance(callbacks, Sequence):
        wrong = f"must be a list of objects, got {callbacks!r}"
        raise ConfigError([Problem("callbacks", wrong, "put it into brackets: callbacks=[...]")])
    problems = []
    for callback in callbacks:
        own = [name for name in dir(callback) if name.startswith("on_")]
        unknown = [name for name in own if name not in _METHODS]
        if unknown or not own:
            what = f"has {unknown[0]}, which is never called" if unknown else "has no method that is called"
            problems.append(Problem("callbacks", f"{callback!r} {what}", f"methods are {', '.join(_METHODS)}"))
    if problems:
        raise ConfigError(problems)


class Caller:
    """Calls a run's callbacks. Used from one thread.

    Args:
        callbacks: objects with some of the methods of `Callback`.
        run: the run.
        recorder: its recorder, which hears of episodes and evaluations from now on.
    """

    def __init__(self, callbacks: Sequence[Any], run: TrainingRun, recorder: Recorder):
        self._callbacks = list(callbacks)
        self._run = run
        self._recorder = recorder
        self._reported_at = time.monotonic()
        if callbacks:
            recorder.listen()

    @property
    def is_stopping(self) -> bool:
        """Whether a callback has asked the run to stop."""
        return self._run.is_stopping

    def look(self) -> None:
        """Pass on what has happened since the last look."""
        if not self._callbacks:
            return
        for report in self._recorder.take_heard():
            if report.at_env_steps is not None:
                self._call("on_evaluation", Evaluated(report.at_env_steps, report.episodes))
                continue
            for episode in report.episodes:
                self._call("on_episode", episode)
        if time.monotonic() - self._reported_at >= _REPORT_INTERVAL_S:
            self._report()

    def start(self) -> None:
        """Say that training begins."""
        self._call("on_start")

    def saved(self, path: Path) -> None:
        """Say that a checkpoint was written."""
        self.look()
        self._call("on_checkpoint", path)

    def finish(self) -> None:
        """Pass on the rest."""
        self.look()
        if self._callbacks:
            self._report()

    def end(self, result: TrainResult) -> None:
        """Say that training has ended."""
        self._call("on_end", result)

    def _report(self) -> None:
        self._reported_at = time.monotonic()
        self._call("on_report", self._recorder.snapshot())

    def _call(self, name: str, *values: Any) -> None:
        for callback in self._callbacks:
            method = getattr(callback, name, None)
            if method is not None:
                method(self._run, *values)
