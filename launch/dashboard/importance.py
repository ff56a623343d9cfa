"""Permutation importance of a sweep's settings for the return, with its interval."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from laser.scoring.statistics import mean_interval
from launch.dashboard.outcomes import Outcome, ordered, varied

LEAST_SETTINGS = 12
"""With fewer settings an importance would say nothing."""

_MOST_PARTS = 24
_NUM_TREES = 60
_NUM_SHUFFLES = 16
# A forest sets Python's filters of warnings aside, which all threads have in common: two of them would print warnings.
_ONE_AT_A_TIME = threading.Lock()


@dataclass(frozen=True)
class Importance:
    """The importance of one setting.

    Args:
        key: of the setting.
        mean: growth of the squared error of predicted returns if the setting is shuffled, as a share of the returns'
            variance.
        low: lower end of its 95 % interval.
        high: upper end.
    """

    key: str
    mean: float
    low: float
    high: float


def importances(outcomes: Sequence[Outcome]) -> tuple[list[Importance], float]:
    """Return the importance of each setting that has several values, and how well returns can be predicted at all.

    A forest learns the return from the settings of almost all rows and predicts it for the others, as they are and
    with one setting shuffled; each row is left out once. The interval is over the rows. A value of a small grid has few
    rows, so as many as possible must be seen, and leaves are small; where the forest explains nothing, importances say
    nothing.

    Args:
        outcomes: rows with a finite value; at least `LEAST_SETTINGS`.

    Returns:
        the importances, greatest first, and the share of the variance that the forest explains in rows it has not seen;
        no importances if all returns are equal.

    Raises:
        ImportError: scikit-learn is not installed.

    Source:
        Breiman 2001, section 10; Williamson et al. 2021, section 3, for left-out rows and their interval.
    """
    keys = varied(outcomes)
    values = np.array([one.value for one in outcomes])
    variance = float(values.var())
    if not keys or variance <= 0.0:
        return [], 0.0
    with _ONE_AT_A_TIME:
        return _importances(outcomes, keys, values, variance)


def _importances(
    outcomes: Sequence[Outcome], keys: Sequence[str], values: np.ndarray, variance: float
) -> tuple[list[Importance], float]:
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.model_selection import KFold

    inputs = np.column_stack([_codes([one.settings.get(key) for one in outcomes]) for key in keys])
    generator = np.random.default_rng(0)
    errors = np.zeros(len(values))
    growth = np.zeros((len(keys), len(values)))
    parts = KFold(min(_MOST_PARTS, len(values)), shuffle=True, random_state=0)
    for seen, unseen in parts.split(inputs):
        forest = ExtraTreesRegressor(_NUM_TREES, bootstrap=True, random_state=0, n_jobs=1)
        forest.fit(inputs[seen], values[seen])
        error = (forest.predict(inputs[unseen]) - values[unseen]) ** 2
        errors[unseen] = error
        for place in range(len(keys)):
            shuffled = np.tile(inputs[unseen], (_NUM_SHUFFLES, 1, 1))
            shuffled[:, :, place] = generator.choice(inputs[:, place], shuffled.shape[:2])
            guesses = forest.predict(shuffled.reshape(-1, len(keys))).reshape(shuffled.shape[:2])
            growth[place, unseen] = ((guesses - values[unseen]) ** 2).mean(0) - error
    growth /= variance
    table = []
    for key, row in zip(keys, growth, strict=True):
        mean, half = mean_interval(row.tolist())
        table.append(Importance(key, mean, mean - half, mean + half))
    return sorted(table, key=lambda one: -one.mean), 1.0 - float(errors.mean()) / variance


def too_few(outcomes: Sequence[Outcome]) -> str:
    """Return why these outcomes say nothing about importance, or ""."""
    known = [one for one in outcomes if math.isfinite(one.value)]
    if len(known) >= LEAST_SETTINGS:
        return ""
    number = f"{len(known)} setting{' has' if len(known) == 1 else 's have'} a return"
    return f"{number}: fewer than {LEAST_SETTINGS} are too few to tell which of them matter"


def _codes(values: Sequence[float | str | None]) -> np.ndarray:
    """Return values as numbers: a number's place among the others, which is all that trees use of it."""
    places = {value: float(place) for place, value in enumerate(ordered(values))}
    return np.array([-1.0 if value is None else places[value] for value in values])
