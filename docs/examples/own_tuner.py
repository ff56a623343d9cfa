"""A tuner of your own around `laser.train`: Optuna chooses settings, and its pruner ends runs that fall behind.

python own_tuner.py

Start it several times, also at once: the processes share the study in `study.log`, which optuna-dashboard shows.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import optuna
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

import laser
from laser.ports import EpisodeResult


class Pruning(laser.Callback):
    """Reports the mean return of the last 20 episodes to Optuna again and again, and stops a run that it prunes.

    Args:
        trial: of the run.
        interval: env steps between two reports.
    """

    def __init__(self, trial: optuna.Trial, interval: int = 1000):
        self.is_pruned = False
        self._trial = trial
        self._interval = interval
        self._returns: deque[float] = deque(maxlen=20)
        self._num_reports = 0

    def on_episode(self, run: laser.TrainingRun, episode: EpisodeResult) -> None:
        """Report if a report is due; trials are compared at the same number of intervals."""
        self._returns.append(episode.episode_return)
        num_intervals = run.snapshot().env_steps // self._interval
        if num_intervals <= self._num_reports or self.is_pruned:
            return
        self._num_reports = num_intervals
        self._trial.report(sum(self._returns) / len(self._returns), num_intervals)
        if self._trial.should_prune():
            self.is_pruned = True
            run.stop()


def objective(trial: optuna.Trial, **values: Any) -> float:
    """Train on CartPole with the settings of a trial, and return the mean return of the last 20 episodes."""
    settings = {
        "steps": 20_000,
        "seed": trial.number,
        "algorithm.learning-rate": trial.suggest_float("learning rate", 1e-4, 1e-2, log=True),
        "algorithm.entropy-cost": trial.suggest_float("entropy cost", 0.0, 0.05),
    }
    pruning = Pruning(trial)
    result = laser.train(laser.load_preset("cartpole", settings | values), callbacks=[pruning])
    if pruning.is_pruned:
        raise optuna.TrialPruned
    return result.mean_return


def main(num_trials: int = 20, num_threads: int = 1, sampler_seed: int | None = None, **values: Any) -> optuna.Study:
    """Run trials, several at a time in threads if asked for; `values` change the preset as flags do.

    Processes that share the study need samplers of different seeds, or none: with one seed they try the same settings.
    """
    study = optuna.create_study(
        study_name="cartpole",
        storage=JournalStorage(JournalFileBackend("study.log")),  # unlike SQLite, it lets processes begin it at once
        load_if_exists=True,
        direction="maximize",
        sampler=optuna.samplers.TPESampler(seed=sampler_seed),
        pruner=optuna.pruners.MedianPruner(n_startup_trials=3),
    )
    study.optimize(lambda trial: objective(trial, **values), num_trials, n_jobs=num_threads)
    return study


if __name__ == "__main__":
    print(main().best_params)
