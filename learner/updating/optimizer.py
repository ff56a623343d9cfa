"""RMSProp and Adam on one flat vector, with gradient clipping and refusal of non-finite updates."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from laser.algorithms.base import ParameterGroup
from laser.flat_parameters import FlatParameters
from laser.gpu import to_device

Number = Tensor | float


@dataclass(frozen=True)
class Stretch:
    """A contiguous part of the flat vector whose weights move at the same updates. All tensors are [n].

    Args:
        weights: changed in place, like the moments.
        second: second moments.
        first: first moments, or None.
        rates: factors of the learning rate; None: all 1.
        decays: weight decay: `decays * weights` is added to the gradient; None: all 0.
        start: index of its first weight in the vector.
        period: it moves when `period` divides the update's number.
    """

    weights: Tensor
    second: Tensor
    first: Tensor | None
    rates: Tensor | None
    decays: Tensor | None
    start: int
    period: int

    def part_of(self, gradient: Tensor) -> Tensor:
        """Return this stretch's part [n] of the whole vector's gradient."""
        return gradient[self.start : self.start + len(self.weights)]


class FlatOptimizer:
    """Updates the trainable part of `FlatParameters` in place.

    A step whose loss or gradient norm is not finite changes neither parameters nor moments. The step is masked rather
    than branched on, so that the GPU need not be synchronised.

    RMSProp: nu <- 0.99 nu + 0.01 g^2; theta <- theta - lr g / (sqrt(nu) + epsilon)   (decay as in IMPALA, App. G)
    Adam: betas (0.9, 0.999) with bias correction, epsilon outside the root.

    Args:
        parameters: the parameters to train.
        kind: "rmsprop" or "adam".
        epsilon: added to the root of the second moment.
        max_gradient_norm: gradients are scaled down to this global norm; inf: never.
        groups: parameters with their own learning rate, weight decay or period; the first prefix that fits counts.
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
        self._second = torch.zeros_like(parameters.trainable)
        self._first = torch.zeros_like(parameters.trainable) if kind == "adam" else None
        # On a CPU scalars are read, as Python's arithmetic on them is faster than torch's. A GPU would synchronise.
        self._is_read = parameters.vector.device.type == "cpu"
        rates = _spread(parameters, groups, lambda group, _: group.rate, 1.0)
        decays = _spread(parameters, groups, lambda group, is_matrix: group.weight_decay * is_matrix, 0.0)
        self.stretches = [
            Stretch(
                parameters.trainable[place],
                self._second[place],
                None if self._first is None else self._first[place],
                None if rates is None else rates[place],
                None if decays is None else decays[place],
                place.start,
                period,
            )
            for place, period in _stretches(parameters, groups)
        ]
        # Applied steps of each period, for Adam's bias correction.
        self.num_steps = {
            period: torch.zeros((), device=parameters.vector.device)
            for period in sorted({stretch.period for stretch in self.stretches})
        }

    @torch.no_grad()
    def step(self, gradient: Tensor, loss: Tensor, learning_rate: float, number: int = 0) -> tuple[Tensor, Tensor]:
        """Apply a gradient.

        Args:
            gradient: from `FlatParameters.gradient_of`.
            loss: the scalar loss of this gradient.
            learning_rate: of this step.
            number: of this update; groups with a period move when the period divides the number.

        Returns:
            the gradient's global norm before clipping, and 1.0 if the step was applied, 0.0 if it was refused.
        """
        norm = torch.linalg.vector_norm(gradient)
        scale, applied = self._judge(norm, loss)
        due = [period for period in self.num_steps if number % period == 0]
        for period in due:
            self.num_steps[period] += applied
        for stretch in self.stretches:
            if stretch.period not in due:
                continue
            made = self.num_steps[stretch.period]
            root_scale: Number = 1.0
            step_size: Number = applied * learning_rate
            if self._first is not None:
                root_scale, step_size = _correct(made.item() if self._is_read else made, step_size)
            numbers = [torch.as_tensor(each) for each in (scale, applied, root_scale, step_size, self.epsilon)]
            _move(stretch, stretch.part_of(gradient), *numbers)
        return norm, torch.as_tensor(applied)

    def numbers(self, learning_rate: float) -> Tensor:
        """Return [max_gradient_norm, epsilon, learning_rate], an argument of `traced_step`."""
        numbers = np.array([self.max_gradient_norm, self.epsilon, learning_rate], np.float32)
        # `from_numpy` takes a third of `torch.tensor`'s time.
        return to_device(torch.from_numpy(numbers), self.parameters.vector.device)

    @staticmethod
    def traced_step(
        stretches: Sequence[Stretch],
        num_steps: Mapping[int, Tensor],
        gradient: Tensor,
        loss: Tensor,
        numbers: Tensor,
        due: Collection[int],
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Apply a gradient like `step`, in a form that can be compiled.

        Args:
            stretches: see `self.stretches`.
            num_steps: see `self.num_steps`.
            gradient: of the whole vector.
            loss: scalar.
            numbers: from `numbers`.
            due: the periods that divide the update's number.

        Returns:
            the gradient's norm, whether the step was applied, and scalars that all weights share. If the compiled code
            returns these scalars, it computes them once and not for every weight.
        """
        max_gradient_norm, epsilon, learning_rate = numbers.unbind()
        norm = torch.linalg.vector_norm(gradient)
        scale, applied = _judge(norm, loss, max_gradient_norm)
        shared = [scale, applied]
        for period, made in num_steps.items():
            if period not in due:
                continue
            made.add_(applied)
            root_scale, step_size = torch.ones_like(norm), applied * learning_rate
            if stretches[0].first is not None:
                # In double precision, which the difference of numbers near 1 needs.
                corrected = _correct(made.double(), step_size)
                root_scale, step_size = (torch.as_tensor(number).float() for number in corrected)
            shared += [root_scale, step_size]
            for stretch in stretches:
                if stretch.period == period:
                    _move(stretch, stretch.part_of(gradient), scale, applied, root_scale, step_size, epsilon)
        return norm, applied, shared

    def _judge(self, norm: Tensor, loss: Tensor) -> tuple[Tensor | float, Tensor | float]:
        """Return the factor of the gradient, and 1 if the step is to be applied, else 0."""
        if self._is_read:
            size = norm.item()
            if not (math.isfinite(size) and math.isfinite(loss.item())):
                return 0.0, 0.0
            return min(self.max_gradient_norm / (size + 1e-12), 1.0), 1.0
        return _judge(norm, loss, self.max_gradient_norm)

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the moments and of the numbers of steps."""
        state = {"second": self._second.clone()}
        state |= {_name(period): value.clone() for period, value in self.num_steps.items()}
        if self._first is not None:
            state["first"] = self._first.clone()
        return state

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Restore a state from `state_dict`.

        Raises:
            ValueError: the state belongs to another optimiser or other networks.
        """
        mine = self.state_dict()
        if set(state) != set(mine) or any(state[name].shape != mine[name].shape for name in mine):
            raise ValueError(f"optimiser state must hold {sorted(mine)} for these networks, got {sorted(state)}")
        self._second.copy_(state["second"])
        for period, value in self.num_steps.items():
            value.copy_(state[_name(period)])
        if self._first is not None:
            self._first.copy_(state["first"])


def update_metrics(norm: Tensor, applied: Tensor) -> dict[str, Tensor]:
    """Return an update's metrics by name: its gradient's norm, and 1 if it was applied, 0 if refused."""
    return {"gradient_norm": norm, "updates_applied": applied}


def _judge(norm: Tensor, loss: Tensor, max_gradient_norm: Tensor | float) -> tuple[Tensor, Tensor]:
    fine = torch.isfinite(norm) & torch.isfinite(loss)
    scale = torch.clamp(max_gradient_norm / (norm + 1e-12), max=1.0)
    return torch.where(fine, scale, 0.0), fine.float()


def _correct(num_steps: Number, step_size: Number) -> tuple[Number, Number]:
    """Return Adam's bias correction: the factor of the second moments' root, and the corrected step size."""
    steps = num_steps.clamp(min=1.0) if isinstance(num_steps, Tensor) else max(num_steps, 1.0)
    return (1 - 0.999**steps) ** -0.5, step_size / (1 - 0.9**steps)


def _move(
    stretch: Stretch,
    gradient: Tensor,
    scale: Tensor,
    applied: Tensor,
    root_scale: Tensor | float,
    step_size: Tensor | float,
    epsilon: Tensor | float,
) -> None:
    """Apply one step to a stretch's weights and moments, in place; without first moments it is RMSProp.

    Args:
        stretch: weights and moments.
        gradient: unclipped, [n].
        scale: factor of the gradient; 0 if it is refused.
        applied: 0 if the gradient is refused, else 1.
        root_scale: factor of the second moments' root, Adam's bias correction.
        step_size: includes the bias correction of the first moments; 0 if the gradient is refused.
        epsilon: added to the root.
    """
    weights, second, first = stretch.weights, stretch.second, stretch.first
    gradient = torch.where(applied.bool(), gradient * scale, 0.0)  # 0 * inf and 0 * nan are nan
    if stretch.decays is not None:
        gradient = torch.addcmul(gradient, stretch.decays * applied, weights)
    # Not `lerp_`: its compiled code computes two formulas for every weight, and the step takes three times as long.
    second.add_((gradient * gradient - second) * ((1.0 - 0.99 if first is None else 1.0 - 0.999) * applied))
    if first is None:
        moved = gradient
    else:
        first.add_((gradient - first) * ((1.0 - 0.9) * applied))
        moved = first
    if stretch.rates is not None:
        step_size = step_size * stretch.rates
    weights.sub_(moved * step_size / (second.sqrt() * root_scale + epsilon))


def _name(period: int) -> str:
    return "num_steps" if period == 1 else f"num_steps_every_{period}"


def _stretches(parameters: FlatParameters, groups: Sequence[ParameterGroup]) -> list[tuple[slice, int]]:
    """Return the slices of the vector whose neighbouring parameters have the same period, and that period."""
    stretches: list[tuple[slice, int]] = []
    start = 0
    for name, item in parameters.named_parameters():
        group = next((group for group in groups if name.startswith(group.prefix)), None)
        period, end = 1 if group is None else group.period, start + item.numel()
        if stretches and stretches[-1][1] == period:
            start = stretches.pop()[0].start
        stretches.append((slice(start, end), period))
        start = end
    return stretches


def _spread(
    parameters: FlatParameters,
    groups: Sequence[ParameterGroup],
    value_of: Callable[[ParameterGroup, bool], float],
    default: float,
) -> Tensor | None:
    """Return a number per trainable weight, or None if all numbers are the default.

    Args:
        parameters: of the networks.
        groups: of these parameters.
        value_of: returns the number for a group and for whether the parameter is a weight matrix. Biases never are,
            however many axes they have: one tensor holds the biases of several networks side by side.
        default: for parameters in no group.

    Raises:
        ValueError: a group fits no parameter.
    """
    spread, start = torch.full_like(parameters.trainable, default), 0
    unused = {group.prefix for group in groups}
    for name, item in parameters.named_parameters():
        group = next((group for group in groups if name.startswith(group.prefix)), None)
        if group is not None:
            unused.discard(group.prefix)
            is_matrix = item.ndim > 1 and "bias" not in name
            spread[start : start + item.numel()] = value_of(group, is_matrix)
        start += item.numel()
    if unused:
        raise ValueError(f"parameter groups must fit the networks' parameters, but none begins with {sorted(unused)}")
    return None if bool((spread == default).all()) else spread
