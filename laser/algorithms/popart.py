"""PopArt critics in an actor-critic loss: values per task, and a loss on the normalised scale."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from laser.networks.heads import PopArtHead
from laser.ops.popart import preserve_outputs, update_statistics
from laser.ops.taken import taken


class NormalizedCritic(NamedTuple):
    """Values and their targets for the value loss, on a common scale of all tasks.

    Args:
        values: [T, B] normalised values, differentiable.
        targets: [T, B] normalised targets.
        scales: [T, B], scale of each row's task; advantages are divided by it.
        state_updates: updates of the head, see `LossOutput.state_updates`; the names are relative to the head.
    """

    values: Tensor
    targets: Tensor
    scales: Tensor
    state_updates: dict[str, Tensor]


def values_of_tasks(values: Tensor, tasks: Tensor) -> Tensor:
    """Return the value of each row's own task.

    Args:
        values: [T+1, B, K].
        tasks: int64 [T, B]. Row T only bootstraps row T-1, so it has the task of that row.

    Returns:
        [T+1, B].
    """
    rows = torch.cat([tasks, tasks[-1:]])
    return taken(values, rows)


def normalized_critic(
    head: PopArtHead, features: Tensor, targets: Tensor, tasks: Tensor, used: Tensor, step_size: float
) -> NormalizedCritic:
    """Update the statistics with a batch of targets and express values and targets with the new ones.

    The targets were computed with the old statistics; the head is rescaled so that its output stays the same, and only
    then fitted. Gradients are those of the rescaled head, from which the optimiser steps.

    Args:
        head: head of the critic.
        features: [T, B, F] its input.
        targets: [T, B] value targets, unnormalised.
        tasks: int64 [T, B].
        used: bool [T, B], targets that count.
        step_size: see `laser.ops.popart.update_statistics`.
    """
    new = update_statistics(head.statistics, targets, tasks, used, step_size)
    weight, bias = preserve_outputs(head.linear.weight, head.linear.bias, head.statistics, new)
    outputs = F.linear(
        features.to(weight.dtype), _replaced(head.linear.weight, weight), _replaced(head.linear.bias, bias)
    )
    scales = new.scale[tasks]
    values = taken(outputs, tasks)
    updates = {"linear.weight": weight, "linear.bias": bias, "mean": new.mean, "variance": new.variance}
    return NormalizedCritic(values, (targets - new.mean[tasks]) / scales, scales, updates)


def _replaced(parameter: Tensor, value: Tensor) -> Tensor:
    """Return `value`, whose gradient becomes that of `parameter`."""
    return parameter + (value - parameter).detach()
