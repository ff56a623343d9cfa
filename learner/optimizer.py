"""RMSProp and Adam on one flat vector, with clipping and the refusal of non-finite updates built in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor

from laser.algorithms.base import ParameterGroup
from laser.flat_parameters import FlatParameters


class FlatOptimizer:
    """Updates the trainable part of `FlatParameters` in place.

    A step whose loss or gradient norm is not finite changes nothing, neither parameters nor moments; it is masked
    rather than branched on, so that a GPU never has to be waited for.

    RMSProp: nu <- 0.99 nu + 0.01 g^2; theta <- theta - lr g / (sqrt(nu) + epsilon)   (decay as in IMPALA, App. G)
    Adam: betas (0.9, 0.999) with bias correction, epsilon outside the root.

    Args:
        parameters: what is trained.
        kind: "rmsprop" or "adam".
        epsilon: added to the root of the second moment.
        max_gradient_norm: gradients are scaled down to this global norm; inf switches it off.
        groups: parameters with step sizes or weight decay of their own; the first prefix that fits a name counts.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        kind: Literal["rmsprop", "adam"],
        epsilon: float,
        max_gradient_norm: float,
        groups: Sequence[ParameterGroup] = (),
    ):
        self.parameters = parameters
        self.kind = kind
        self.epsilon = epsilon
        self.max_gradient_norm = max_gradient_norm
        self._second = torch.zeros_like(parameters.gradient)
        self._first = torch.zeros_like(parameters.gradient) if kind == "adam" else None
        self._num_steps = torch.zeros((), device=parameters.gradient.device)
        self._rates = _spread(parameters, groups, lambda group, item: group.rate, 1.0)
        self._decays = _spread(parameters, groups, lambda group, item: group.weight_decay * (item.ndim > 1), 0.0)

    @torch.no_grad()
    def step(self, loss: Tensor, learning_rate: float) -> tuple[Tensor, Tensor]:
        """Apply the gradient that `FlatParameters.collect_gradients` holds.

        Args:
            loss: scalar the gradient came from.
            learning_rate: step size.

        Returns:
            the gradient's global norm before clipping, and 1.0 if the step was applied, 0.0 if it was refused.
        """
        gradient = self.parameters.gradient
        norm = torch.linalg.vector_norm(gradient)
        applied = (torch.isfinite(norm) & torch.isfinite(loss)).float()
        scale = torch.clamp(self.max_gradient_norm / (norm + 1e-12), max=1.0)
        scale = torch.where(applied.bool(), scale, 0.0)
        gradient.mul_(scale)
        gradient.nan_to_num_(0.0, 0.0, 0.0)  # 0 * inf and 0 * nan are nan
        trainable = self.parameters.trainable
        if self._decays is not None:
            gradient.addcmul_(self._decays * applied, trainable)
        if self._first is None:
            self._moving_average(self._second, gradient * gradient, 0.99, applied)
            if self._rates is not None:
                gradient.mul_(self._rates)
            trainable.addcdiv_(gradient, self._second.sqrt().add_(self.epsilon), value=-learning_rate)
        else:
            self._num_steps += applied
            steps = self._num_steps.clamp(min=1.0)
            self._moving_average(self._first, gradient, 0.9, applied)
            self._moving_average(self._second, gradient * gradient, 0.999, applied)
            step_size = applied * learning_rate / (1 - 0.9**steps)
            if self._rates is not None:
                step_size = step_size * self._rates
            root = (self._second / (1 - 0.999**steps)).sqrt_().add_(self.epsilon)
            trainable.sub_(self._first * step_size / root)
        return norm, applied

    @staticmethod
    def _moving_average(average: Tensor, value: Tensor, decay: float, applied: Tensor) -> None:
        average.lerp_(value, (1.0 - decay) * applied)

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the moments."""
        state = {"second": self._second.clone(), "num_steps": self._num_steps.clone()}
        if self._first is not None:
            state["first"] = self._first.clone()
        return state

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore what `state_dict` gave.

        Raises:
            ValueError: the state belongs to another optimiser or other networks.
        """
        mine = self.state_dict()
        if set(state) != set(mine) or any(state[name].shape != mine[name].shape for name in mine):
            raise ValueError(f"optimiser state must hold {sorted(mine)} for these networks, got {sorted(state)}")
        self._second.copy_(state["second"])
        self._num_steps.copy_(state["num_steps"])
        if self._first is not None:
            self._first.copy_(state["first"])


def _spread(
    parameters: FlatParameters,
    groups: Sequence[ParameterGroup],
    value_of: Callable[[ParameterGroup, Tensor], float],
    default: float,
) -> Tensor | None:
    """Return a number per trainable weight, or None where all have the default.

    Raises:
        ValueError: a group fits no parameter.
    """
    spread, start = torch.full_like(parameters.gradient, default), 0
    unused = {group.prefix for group in groups}
    for name, item in parameters.named_parameters():
        group = next((group for group in groups if name.startswith(group.prefix)), None)
        if group is not None:
            unused.discard(group.prefix)
            spread[start : start + item.numel()] = value_of(group, item)
        start += item.numel()
    if unused:
        raise ValueError(f"parameter groups must fit the networks' parameters, but none begins with {sorted(unused)}")
    return None if bool((spread == default).all()) else spread
