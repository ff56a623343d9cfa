"""Running statistics of wrappers, such as NormalizeObservation's: they belong to the policy, and checkpoints hold them.

Every environment of a vector has wrappers of its own, with statistics of its own. What is saved is their union, as if
one wrapper had seen the experience of all environments of a task. Each environment that gets it back takes an equal
share of the count, so that the union stays what it was. A single NaN spoils an environment's statistics for good; such
statistics are neither part of the union nor given to any environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Moments:
    """Mean and variance of the numbers that one wrapper has seen, or several.

    Args:
        name: the wrapper's class and the attribute, as in "NormalizeObservation.obs_rms".
        mean: of the numbers, [...].
        var: their variance, [...].
        count: how many were seen.
        num: number of wrappers that saw them.
    """

    name: str
    mean: np.ndarray
    var: np.ndarray
    count: float
    num: int = 1


_NUMBERS = (int, float, np.number, np.ndarray)

Statistics = dict[int, list[Moments]]
"""By task, the statistics of an environment's wrappers, the outermost first; tasks without any are left out."""


def read_statistics(environment: Any) -> Statistics:
    """Return the statistics of a vector of environments; {} for suites without wrappers."""
    read = getattr(environment, "statistics", None)
    found: Statistics = {} if read is None else read()
    return found


def give_statistics(environment: Any, statistics: Statistics, frozen: bool = False) -> bool:
    """Put statistics into the wrappers of a vector of environments; return whether they fit.

    Args:
        environment: the vector, before its next reset.
        statistics: from `read_statistics`; {} changes nothing.
        frozen: whether they stay as they are from now on, as in an evaluation.
    """
    if not statistics:
        return True
    give = getattr(environment, "give_statistics", None)
    return give is not None and bool(give(statistics, frozen))


def merge(parts: Sequence[Statistics]) -> Statistics:
    """Return the statistics of all numbers that the wrappers of several vectors have seen, where these are finite."""
    tasks = sorted({task for part in parts for task in part})
    merged = {task: merge_moments([part[task] for part in parts if task in part]) for task in tasks}
    return {task: moments for task, moments in merged.items() if moments}


def merge_moments(parts: Sequence[Sequence[Moments]]) -> list[Moments]:
    """Return the statistics of all numbers that several environments' wrappers have seen; they have the same wrappers.

    Environments whose statistics are not finite are left out; [] if none is left.

    Source:
        Chan, Golub and LeVeque 1979, equation 2.1.
    """
    return [_union(same) for same in zip(*filter(_are_finite, parts), strict=True)]


def _are_finite(moments: Sequence[Moments]) -> bool:
    return all(np.isfinite(each.mean).all() and np.isfinite(each.var).all() for each in moments)


def _union(parts: Sequence[Moments]) -> Moments:
    counts = np.array([part.count for part in parts], np.float64)
    means, variances = (np.stack([np.asarray(value, np.float64) for value in each]) for each in _columns(parts))
    shares = (counts / counts.sum()).reshape(-1, *[1] * (means.ndim - 1))
    mean = (shares * means).sum(0)
    var = (shares * (variances + (means - mean) ** 2)).sum(0)
    first = parts[0]
    return Moments(
        first.name,
        np.asarray(mean, first.mean.dtype),
        np.asarray(var, first.var.dtype),
        float(counts.sum()),
        sum(part.num for part in parts),
    )


def _columns(parts: Sequence[Moments]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    return [part.mean for part in parts], [part.var for part in parts]


def read_wrappers(environment: Any) -> list[Moments]:
    """Return the statistics of a Gymnasium environment's wrappers, or of those of a Gymnasium vector."""
    return [
        Moments(name, np.array(each.mean), np.array(each.var), float(each.count))
        for _, name, each in _find(environment)
    ]


def write_wrappers(environment: Any, moments: Sequence[Moments], frozen: bool) -> bool:
    """Put statistics into the wrappers of a Gymnasium environment or vector, with a share of the count.

    Returns:
        whether they fit and are finite; if not, nothing is changed.
    """
    if not _are_finite(moments):
        return False
    found = _find(environment)
    if [(name, np.shape(each.mean)) for _, name, each in found] != [(each.name, each.mean.shape) for each in moments]:
        return False
    for (wrapper, _, running), own in zip(found, moments, strict=True):
        running.mean, running.var = own.mean.copy(), own.var.copy()
        running.count = own.count / own.num
        if hasattr(wrapper, "update_running_mean"):
            wrapper.update_running_mean = not frozen
    return True


def name_statistics(environment: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the statistics that `read_wrappers` reads, and those of others that can be seen.

    Others have a mean and a variance or deviation, too, and are not Gymnasium's, or not a wrapper's.
    """
    import gymnasium

    found = _find(environment)
    saved = {id(running) for _, _, running in found}
    others = []
    while True:
        for name, value in sorted(getattr(environment, "__dict__", {}).items()):
            numbers = {key for key in ("mean", "var", "std") if isinstance(getattr(value, key, None), _NUMBERS)}
            if id(value) not in saved and "mean" in numbers and len(numbers) > 1:
                others.append(f"{type(environment).__name__}.{name}")
        if not isinstance(environment, gymnasium.Wrapper | gymnasium.vector.VectorWrapper):
            return tuple(name for _, name, _ in found), tuple(others)
        environment = environment.env


def _find(environment: Any) -> list[tuple[Any, str, Any]]:
    """Return each wrapper with running statistics, their name, and the statistics; the outermost first."""
    import gymnasium  # here, since what only merges statistics needs no Gymnasium
    from gymnasium.wrappers.utils import RunningMeanStd

    found = []
    while isinstance(environment, gymnasium.Wrapper | gymnasium.vector.VectorWrapper):
        for name, value in sorted(vars(environment).items()):
            if isinstance(value, RunningMeanStd):
                found.append((environment, f"{type(environment).__name__}.{name}", value))
        environment = environment.env
    return found


def statistics_to_json(statistics: Statistics) -> dict[str, Any]:
    """Return statistics as a tree of JSON values and arrays."""
    return {str(task): [vars(each) for each in moments] for task, moments in statistics.items()}


def statistics_from_json(tree: Mapping[str, Any]) -> Statistics:
    """Return the statistics of `statistics_to_json`."""
    return {int(task): [_moments_of(each) for each in moments] for task, moments in tree.items()}


def _moments_of(tree: Mapping[str, Any]) -> Moments:
    # An array without axes is a number in JSON.
    return Moments(**{**tree, "mean": np.asarray(tree["mean"]), "var": np.asarray(tree["var"])})
