"""Trials of Optuna around `laser.train`, each with a replay of its own: the best run and the env steps of all, as JSON.

python optuna_trials.py DIRECTORY PRESET [--KEY VALUE ...] KEY=log(LOW,HIGH) ...
"""

from __future__ import annotations

import json
import re
import sys
from collections import deque
from pathlib import Path

import laser

# isort: split
import optuna

from laser.ports import EpisodeResult

_NUM_TRIALS, _INTERVAL = 40, 2000


class Pruning(laser.Callback):
    """Reports the mean return of the last 20 episodes every so many env steps, and stops a run that is pruned."""

    def __init__(self, trial: optuna.Trial):
        self.is_pruned = False
        self._trial = trial
        self._returns: deque[float] = deque(maxlen=20)
        self._num_reports = 0

    def on_episode(self, run: laser.TrainingRun, episode: EpisodeResult) -> None:
        """Report if a report is due."""
        self._returns.append(episode.episode_return)
        due = run.snapshot().env_steps // _INTERVAL
        if due <= self._num_reports or self.is_pruned:
            return
        self._num_reports = due
        self._trial.report(sum(self._returns) / len(self._returns), due)
        if self._trial.should_prune():
            self.is_pruned = True
            run.stop()


def main() -> None:
    """Run the trials one after the other."""
    directory, preset, *rest = sys.argv[1:]
    ranges = [re.fullmatch(r"(.+)=log\((.+),(.+)\)", word) for word in rest]
    spaces = {found[1]: (float(found[2]), float(found[3])) for found in ranges if found}
    flags = [word for word, found in zip(rest, ranges, strict=True) if not found]
    values = {flag.removeprefix("--"): value for flag, value in zip(flags[::2], flags[1::2], strict=True)}
    seed, total = int(values.pop("seed")), 0

    def objective(trial: optuna.Trial) -> float:
        nonlocal total
        settings = {key: trial.suggest_float(key, *ends, log=True) for key, ends in spaces.items()}
        where = {"seed": 1000 * seed + trial.number, "run-dir": str(Path(directory) / str(trial.number)), "quiet": True}
        pruning = Pruning(trial)
        result = laser.train(laser.load_preset(preset, {**values, **where, **settings}), callbacks=[pruning])
        total += result.env_steps
        if pruning.is_pruned:
            raise optuna.TrialPruned
        return result.mean_return

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed), pruner=optuna.pruners.MedianPruner()
    )
    study.optimize(objective, _NUM_TRIALS)
    print(json.dumps({"best": str(Path(directory) / str(study.best_trial.number)), "env_steps": total}))


if __name__ == "__main__":
    main()
