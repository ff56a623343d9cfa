"""A search by Optuna's TPE sampler, whose study lies in the sweep's directory. The only module that imports Optuna.

Source: Bergstra et al. 2011, Algorithms for Hyper-Parameter Optimization, section 4.
"""

from __future__ import annotations

import math
import sqlite3
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.exceptions import ExperimentalWarning, StorageInternalError
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.exc import DatabaseError, OperationalError

from launch.errors import NothingToResumeError, OutputError
from launch.settings.seeds import seed_for
from launch.sweeps.search_space import Choice, Dimension, rounded
from launch.sweeps.value_lists import value_text

STUDY = "laser"
"""Name of the study in the file; beside lists of values each point has one, whose name goes on with its values."""

_SETTING, _STEPS = "setting", "env-steps"
_PATIENCE_S = 60.0
"""Seconds that another process may hold the file, such as a dashboard."""
_LEAST_RANDOM, _MOST_RANDOM = 2, 10
"""Settings of a study that are drawn at random before scores decide."""


class OptunaSearch:
    """Studies with one trial for each setting. Implements `launch.sweeps.tuning.Search`; used from one thread.

    The sampler of each trial has a seed of its own, so that a choice depends only on the seed and on the trials before:
    a resumed search goes on as if it had not been interrupted. Settings that train meanwhile count as bad ones, so that
    several at once do not all try the same ("constant liar"). Each point of a grid or of zipped lists has a study of
    its own, since the best settings of one point need not be those of another. So has each number of env steps, if a
    search is resumed with more: settings that go on are compared by their new scores. A setting that failed is scored
    once it has been trained.

    Args:
        space: ranges and choices by key.
        whole: keys whose values are whole numbers.
        path: the studies' file; optuna-dashboard opens it.
        seed: of all choices.
        steps: env steps of each member; `given` values may name others.
        num_settings: settings that each study chooses. A quarter of them is drawn at random, at most ten: a choice by
            scores needs some to compare.
        resume: continue the studies in the file.

    Raises:
        NothingToResumeError: there is no such file to resume, it is no database, or it holds no study.
        OutputError: the file cannot be written.
    """

    def __init__(
        self,
        space: Mapping[str, Dimension],
        whole: set[str],
        path: Path,
        seed: int,
        steps: int,
        num_settings: int,
        resume: bool,
    ):
        if resume and not path.exists():
            raise NothingToResumeError("run-dir", f"{path}, the tuner's study, is missing", "start a new sweep")
        self._space = space
        self._num_random = max(_LEAST_RANDOM, min(_MOST_RANDOM, num_settings // 4))
        self._distributions = {key: _distribution(dimension, key in whole) for key, dimension in space.items()}
        self._path = path
        self._seed = seed
        self._steps = steps
        # Not by its URL, in which signs of a path such as "?" mean something else.
        connect = partial(sqlite3.connect, str(path), timeout=_PATIENCE_S, check_same_thread=False)
        with self._writing():
            self._storage = optuna.storages.RDBStorage(f"sqlite:///{path.name}", engine_kwargs={"creator": connect})
            self._trials = self._take_up_trials()
            if resume and not optuna.get_all_study_names(self._storage):
                raise _unusable(path, "it holds no study")

    def __enter__(self) -> OptunaSearch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._storage.remove_session()
        self._storage.engine.dispose()

    def values(self, setting: int, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of a setting by key; see `Search.values`."""
        with self._writing():
            study = self._study(given)
            if setting in self._trials:
                self._take_along(setting, study)
            else:
                study.sampler = _sampler(seed_for(self._seed, "tuner", self._num_trials()), self._num_random)
                trial = study.ask(self._distributions)
                trial.set_user_attr(_SETTING, setting)
                self._trials[setting] = study, trial.number
            params = self._trial(setting).params
        return {key: _value(dimension, params[key]) for key, dimension in self._space.items()}

    def reject(self, setting: int) -> None:
        """Forget the values of a setting; see `Search.reject`."""
        with self._writing():
            self._storage.set_trial_user_attr(self._id(setting), _SETTING, None)
            study, number = self._trials.pop(setting)
            study.tell(number, state=TrialState.FAIL)

    def is_told(self, setting: int) -> bool:
        """Return whether the study knows how a setting ended."""
        with self._writing():
            return setting in self._trials and self._trial(setting).state.is_finished()

    def tell(self, setting: int, score: float | None, rung: int | None) -> None:
        """Take in how a setting ended; see `Search.tell`. A setting without a finite score has failed."""
        study, number = self._trials[setting]
        with self._writing():
            if score is None or not math.isfinite(score):
                study.tell(number, state=TrialState.FAIL)
            elif rung is None:
                study.tell(number, score)
            else:
                self._storage.set_trial_intermediate_value(self._id(setting), rung, score)
                study.tell(number, state=TrialState.PRUNED)

    def _study(self, given: Mapping[str, Any]) -> optuna.Study:
        """Return the study of a point and of the present number of env steps."""
        steps, name = int(given.get("steps", self._steps)), _study_name(given)
        study = _open_study(self._storage, name)
        if study.user_attrs.get(_STEPS, steps) != steps:
            study = _open_study(self._storage, f"{name}, env-steps={steps}")
        if _STEPS not in study.user_attrs:
            study.set_user_attr(_STEPS, steps)
        return study

    def _take_along(self, setting: int, study: optuna.Study) -> None:
        """Let a setting that trains again be scored in a study: one that failed, or that had fewer env steps."""
        trial = self._trial(setting)
        if self._trials[setting][0].study_name == study.study_name and trial.state is not TrialState.FAIL:
            return
        distributions = {key: self._distributions[key] for key in trial.params}
        again = optuna.trial.create_trial(
            state=TrialState.RUNNING,
            params=trial.params,
            distributions=distributions,
            user_attrs={_SETTING: setting},
        )
        study.add_trial(again)
        self._trials[setting] = study, max(each.number for each in study.get_trials(deepcopy=False))

    def _take_up_trials(self) -> dict[int, tuple[optuna.Study, int]]:
        """Return the study and number of each setting's newest trial; a trial of no setting has failed."""
        trials: dict[int, tuple[optuna.Study, int]] = {}
        studies = [_open_study(self._storage, name) for name in optuna.get_all_study_names(self._storage)]
        for study in sorted(studies, key=lambda study: int(study.user_attrs.get(_STEPS, 0))):
            for trial in study.get_trials(False):
                setting = trial.user_attrs.get(_SETTING)
                if setting is not None:
                    trials[setting] = study, trial.number
                elif not trial.state.is_finished():
                    study.tell(trial.number, state=TrialState.FAIL)
        return trials

    def _num_trials(self) -> int:
        """Return the number of trials of all studies, rejected ones included."""
        return sum(study.n_trials for study in optuna.get_all_study_summaries(self._storage, include_best_trial=False))

    def _trial(self, setting: int) -> FrozenTrial:
        return self._storage.get_trial(self._id(setting))

    def _id(self, setting: int) -> int:
        """Return the key of a setting's trial in the file."""
        study, number = self._trials[setting]
        key: int = self._storage.get_trial_id_from_study_id_trial_number(
            self._storage.get_study_id_from_name(study.study_name), number
        )
        return key

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (StorageInternalError, OperationalError) as error:
            first = str(error.__cause__ or error).splitlines()[0]
            is_held = "locked" in first
            cure = "end the process that holds it" if is_held else "free space or repair the disk"
            remedy = f"{cure}, then continue with --resume"
            raise OutputError("run-dir", f"{self._path}: {first}", remedy) from error
        except DatabaseError as error:
            raise _unusable(self._path, str(error.orig or error)) from error


def _study_name(given: Mapping[str, Any]) -> str:
    """Return the name of a point's study."""
    return ", ".join([STUDY, *(f"{key}={value_text(value)}" for key, value in given.items())])


def _open_study(storage: optuna.storages.RDBStorage, name: str) -> optuna.Study:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # it would say that a study was created
    try:
        return optuna.create_study(
            storage=storage, sampler=_sampler(0, 0), study_name=name, direction="maximize", load_if_exists=True
        )
    finally:
        optuna.logging.set_verbosity(before)


def _sampler(seed: int, num_random: int) -> optuna.samplers.BaseSampler:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=num_random, constant_liar=True)


def _unusable(path: Path, why: str) -> NothingToResumeError:
    return NothingToResumeError("run-dir", f"{path}, the tuner's study, cannot be used: {why}", "start a new sweep")


def _distribution(dimension: Dimension, is_whole: bool) -> BaseDistribution:
    if isinstance(dimension, Choice):
        return CategoricalDistribution(list(dict.fromkeys(map(value_text, dimension.values))))
    is_log = dimension.kind == "log"
    if is_whole:
        return IntDistribution(int(dimension.low), int(dimension.high), log=is_log)
    return FloatDistribution(dimension.low, dimension.high, log=is_log)


def _value(dimension: Dimension, param: Any) -> Any:
    """Return the value of a key for a parameter of a trial."""
    if isinstance(dimension, Choice):
        return {value_text(value): value for value in dimension.values}[param]
    return param if isinstance(param, int) else rounded(param, dimension)
