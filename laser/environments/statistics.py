"""Wrappers that keep running statistics of their own, which belong to the policy: checkpoints do not hold them."""

from __future__ import annotations

import warnings
from typing import Any

import gymnasium
from gymnasium.wrappers.utils import RunningMeanStd


def warn_of_statistics(id: str, environment: Any) -> None:
    """Warn if wrappers of an environment, or of a vector of environments, keep running means and variances.

    Args:
        id: the environment's id, for the message.
        environment: the outermost wrapper.

    Warns:
        UserWarning: it names the wrappers, and what the user can do.
    """
    names = []
    while isinstance(environment, gymnasium.Wrapper | gymnasium.vector.VectorWrapper):
        if any(isinstance(value, RunningMeanStd) for value in vars(environment).values()):
            names.append(type(environment).__name__)
        environment = environment.env
    if names:
        keeps = "keeps statistics of its own" if len(names) == 1 else "keep statistics of their own"
        warnings.warn(
            f"{' and '.join(names)} of {id} {keeps}, which are part of the policy and in no checkpoint: every actor, "
            "laser eval and --resume begin them anew; algorithm.normalize-observations is saved, where an algorithm has"
            " it, and so are constants in the environment",
            UserWarning,
            stacklevel=2,
        )
