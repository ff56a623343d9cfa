"""Advantages in closed form: functions of an action whose mean under a Gaussian policy is known, and subtracted.

Each takes `num_outputs` numbers of a network per state and gives A(s, a) = f(s, a) - E_{a' ~ pi} f(s, a'), which is 0
on average under the policy by construction.

Source: Novati and Koumoutsakos 2019 (RACER), appendix A.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor


class Advantage(Protocol):
    """A family of advantages over d-dimensional actions."""

    @property
    def num_outputs(self) -> int:
        """Number of network outputs per state."""

    def initial_bias(self) -> Tensor:
        """Initial values of these numbers, [num_outputs]."""

    def __call__(self, outputs: Tensor, actions: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """Return A(s, a).

        Args:
            outputs: [..., num_outputs].
            actions: [..., d].
            mean: [..., d], of the policy; f has its maximum there.
            variance: [..., d], of the policy.

        Returns:
            [...].
        """


def positive(outputs: Tensor) -> Tensor:
    """Map real numbers to positive ones, (x + sqrt(1 + x^2)) / 2: 0.5 at 0, about x for large x, never exactly 0."""
    mapped: Tensor = _Positive.apply(outputs)  # type: ignore[no-untyped-call]
    return mapped


class _Positive(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, outputs: Tensor) -> Tensor:
        root = (outputs.square() + 1.0).sqrt_()
        # For x < 0 the sum would cancel; the same number as 1 / (2 (sqrt(1 + x^2) - x)).
        both = root + outputs.abs()
        mapped = torch.where(outputs < 0.0, 0.5 / both, 0.5 * both)
        ctx.save_for_backward(mapped, root)
        return mapped

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        mapped, root = ctx.saved_tensors
        slopes: Tensor = mapped / root
        return gradients[0] * slopes


def lower_triangular(outputs: Tensor, num_dimensions: int) -> Tensor:
    """Return lower-triangular matrices with a positive diagonal, [..., d, d], from [..., d (d + 1) / 2] numbers."""
    rows, columns = torch.tril_indices(num_dimensions, num_dimensions, device=outputs.device).unbind(0)
    matrix = outputs.new_zeros(*outputs.shape[:-1], num_dimensions, num_dimensions)
    matrix[..., rows, columns] = torch.where(rows == columns, positive(outputs), outputs)
    return matrix


def quadratic_form(actions: Tensor, mean: Tensor, triangle: Tensor) -> Tensor:
    """Return -1/2 (a - m)^T L L^T (a - m), [...], for L [..., d, d]: NAF's advantage."""
    projected = torch.einsum("...ij,...i->...j", triangle, actions - mean)
    return -0.5 * projected.square().sum(-1)


def quadratic_expectation(triangle: Tensor, variance: Tensor) -> Tensor:
    """Return the mean of `quadratic_form` under N(m, diag(variance)), -1/2 Tr(L L^T Sigma), [...].

    Equation 15 of the paper is printed without the factor -1/2 of its equation 12.
    """
    return -0.5 * (triangle.square().sum(-1) * variance).sum(-1)


def bump(actions: Tensor, mean: Tensor, height: Tensor, above: Tensor, below: Tensor) -> Tensor:
    """Return K exp(-1/2 sum_i d_i^2 / L_i), d = a - m, with one L above the mean and one below it, [...].

    Args:
        actions: [..., d].
        mean: [..., d].
        height: [...], K.
        above: [..., d], squared widths where an action exceeds the mean.
        below: [..., d], squared widths where it is below the mean.
    """
    distance = actions - mean
    widths = torch.where(distance > 0.0, above, below)
    return height * (-0.5 * (distance.square() / widths).sum(-1)).exp()


def bump_expectation(height: Tensor, above: Tensor, below: Tensor, variance: Tensor) -> Tensor:
    """Return the mean of `bump` under N(m, diag(variance)), [...]; equation 18."""
    halves = (above / (above + variance)).sqrt() + (below / (below + variance)).sqrt()
    return height * (0.5 * halves).prod(-1)


@dataclass(frozen=True)
class QuadraticAdvantage:
    """A paraboloid, f = -1/2 (a - m)^T L L^T (a - m), as in NAF."""

    num_dimensions: int

    @property
    def num_outputs(self) -> int:
        """The entries of a triangle."""
        return self.num_dimensions * (self.num_dimensions + 1) // 2

    def initial_bias(self) -> Tensor:
        """No bias: a diagonal of 0.5."""
        return torch.zeros(self.num_outputs)

    def __call__(self, outputs: Tensor, actions: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See `Advantage`."""
        triangle = lower_triangular(outputs, self.num_dimensions)
        return quadratic_form(actions, mean, triangle) - quadratic_expectation(triangle, variance)


@dataclass(frozen=True)
class SymmetricAdvantage:
    """A Gaussian bump around the mean, equally wide on both sides."""

    num_dimensions: int

    @property
    def num_outputs(self) -> int:
        """A height, and a width per dimension."""
        return 1 + self.num_dimensions

    def initial_bias(self) -> Tensor:
        """Start low and wide: nothing is known yet."""
        return torch.tensor([-1.0] + [1.0] * self.num_dimensions)

    def __call__(self, outputs: Tensor, actions: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See `Advantage`."""
        mapped = positive(outputs)
        height, widths = mapped[..., 0], mapped[..., 1:]
        return bump(actions, mean, height, widths, widths) - bump_expectation(height, widths, widths, variance)


@dataclass(frozen=True)
class AsymmetricAdvantage:
    """A Gaussian bump whose width differs above and below the mean, so that it says which way is better."""

    num_dimensions: int

    @property
    def num_outputs(self) -> int:
        """A height, and two widths per dimension."""
        return 1 + 2 * self.num_dimensions

    def initial_bias(self) -> Tensor:
        """Start low and wide: nothing is known yet."""
        return torch.tensor([-1.0] + [1.0] * (2 * self.num_dimensions))

    def __call__(self, outputs: Tensor, actions: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
        """See `Advantage`."""
        mapped = positive(outputs)
        height = mapped[..., 0]
        above, below = mapped[..., 1:].chunk(2, -1)
        return bump(actions, mean, height, above, below) - bump_expectation(height, above, below, variance)


ADVANTAGES: dict[str, type[QuadraticAdvantage] | type[SymmetricAdvantage] | type[AsymmetricAdvantage]] = {
    "quadratic": QuadraticAdvantage,
    "symmetric": SymmetricAdvantage,
    "asymmetric": AsymmetricAdvantage,
}
