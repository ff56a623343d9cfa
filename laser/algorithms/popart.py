"""How an actor-critic loss uses a PopArt critic: values per task, and a loss on the normalised scale."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from laser.networks.heads import PopArtHead
from laser.ops.popart import preserve_outputs, update_statistics
from laser.ops.taken import taken


class NormalizedCritic(NamedTuple):
    """What to fit, on a scale on which all tasks look alike.

    Args:
        values: [T, B] normalised values, differentiable.
        targets: [T, B] normalised targets.
        scales: [T, B] of each row's task; advantages are divided by it.
        state_updates: of the head, see `LossOutput.state_updates`; their names begin with the head's own names.
    """

    values: Tensor
    targets: Tensor
    scales: Tensor
    state_updates: dict[str, Tensor]


def values_of_tasks(values: Tensor, tasks: Tensor) -> Tensor:
    """Return each row's value of its own task.

    Args:
        values: [T+1, B, K].
        tasks: int64 [T, B]. Row T bootstraps row T-1 and no other, so it counts as that row's task.

    Returns:
        [T+1, B].
    """
    rows = torch.cat([tasks, tasks[-1:]])
    return taken(values, rows)


def normalized_critic(
    head: PopArtHead, features: Tensor, targets: Tensor, tasks: Tensor, used: Tensor, step_size: float
) -> NormalizedCritic:
    """Update the statistics with a batch of targets and express values and targets with the new ones.

    The targets were computed with the old statistics; the head is rescaled so that it still says the same, and only
    then fitted. Gradients are those of the rescaled head, which is what the optimiser will step from.

    Args:
        head: of the critic.
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
