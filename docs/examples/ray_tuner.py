"""Ray Tune around `laser.train`: each trial is a process, Optuna chooses settings, and ASHA ends what falls behind.

python ray_tuner.py

Tune's results lie in `ray_results/`, and LASER's runs in `ray_runs/`. On a cluster (`RAY_ADDRESS=auto`) the trials
spread over its nodes, which need this directory on a disk that they share.
"""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import laser  # before ray and torch: it sets how threads wait

# isort: split
from ray import tune
from ray.tune.schedulers import ASHAScheduler
from ray.tune.search import Searcher
from ray.tune.search.optuna import OptunaSearch

from laser.ports import EpisodeResult

STEPS = 20_000


class Reporting(laser.Callback):
    """Reports the mean return of the last 20 episodes to Tune again and again; Tune ends a trial by its process.

    Args:
        interval: env steps between two reports.
    """

    def __init__(self, interval: int = 1000):
        self._interval = interval
        self._returns: deque[float] = deque(maxlen=20)
        self._num_reports = 0

    def on_episode(self, run: laser.TrainingRun, episode: EpisodeResult) -> None:
        """Report if a report is due."""
        self._returns.append(episode.episode_return)
        env_steps = run.snapshot().env_steps
        if env_steps // self._interval > self._num_reports:
            self._num_reports = env_steps // self._interval
            tune.report({"mean_return": sum(self._returns) / len(self._returns), "env_steps": env_steps})


def trial(settings: dict[str, Any], runs: Path) -> None:
    """Train on CartPole with the settings of a trial; its run is in `runs`, under the trial's id."""
    # Not in the trial's own directory: Tune copies that one file by file while the run writes to its database.
    run_dir = runs / tune.get_context().get_trial_id()
    config = laser.load_preset("cartpole", {"steps": STEPS, "quiet": True, "run_dir": run_dir, **settings})
    result = laser.train(config, callbacks=[Reporting()])
    tune.report({"mean_return": result.mean_return, "env_steps": result.env_steps})


def main(num_trials: int = 20, search: Searcher | None = None, **settings: Any) -> tune.ResultGrid:
    """Run trials, as many at a time as there are cores; `settings` change the preset as flags do.

    Without a search the settings are drawn at random.
    """
    space = {
        "algorithm.learning-rate": tune.loguniform(1e-4, 1e-2),
        "algorithm.entropy-cost": tune.uniform(0.0, 0.05),
        "seed": tune.randint(0, 2**31),
    }
    return tune.Tuner(
        tune.with_resources(tune.with_parameters(trial, runs=Path("ray_runs").resolve()), {"cpu": 1}),
        param_space=space | settings,
        tune_config=tune.TuneConfig(
            metric="mean_return",
            mode="max",
            num_samples=num_trials,
            search_alg=search,
            scheduler=ASHAScheduler(time_attr="env_steps", max_t=STEPS, grace_period=2000, reduction_factor=3),
        ),
        run_config=tune.RunConfig(storage_path=str(Path("ray_results").resolve())),
    ).fit()


if __name__ == "__main__":
    best = main(search=OptunaSearch()).get_best_result()
    print(best.config, best.metrics["mean_return"] if best.metrics else "")
