"""Linear layers with learned noise on their weights: exploration that depends on the state and fades by itself."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn


class NoisyLinear(nn.Module):
    """A linear layer with noise on its weights, in float32 even under autocast.

        y = (W + S * outer(f(e_out), f(e_in))) x + b + s * f(e_out)        f(e) = sign(e) sqrt(|e|)

    The caller gives the factors f(e), and so decides how long and for which rows a noise is used. The factors multiply
    input and output instead of the weights, so that each row of a batch may have its own noise at no extra cost.

    W and b start uniform in +-1/sqrt(num_inputs), S at initial_std/sqrt(num_inputs), s at initial_std/sqrt(num_outputs)
    (as in public codes of Rainbow; the paper divides s by the inputs too).

    Args:
        num_inputs: width of the input.
        num_outputs: width of the output.
        initial_std: sigma_0.

    Source:
        Fortunato et al. 2018 (noisy networks), section 3 (b).
    """

    def __init__(self, num_inputs: int, num_outputs: int, initial_std: float):
        super().__init__()
        self.num_factors = (num_inputs, num_outputs)
        bound = 1.0 / math.sqrt(num_inputs)
        self.weight = nn.Parameter(torch.empty(num_outputs, num_inputs).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.empty(num_outputs).uniform_(-bound, bound))
        self.weight_std = nn.Parameter(torch.full((num_outputs, num_inputs), initial_std * bound))
        self.bias_std = nn.Parameter(torch.full((num_outputs,), initial_std / math.sqrt(num_outputs)))

    def forward(self, features: Tensor, factors: Tensor | None) -> Tensor:
        """Map features.

        Args:
            features: [N, num_inputs].
            factors: [num_inputs + num_outputs], one noise for all rows, or [N, num_inputs + num_outputs], one noise per
                row; None: no noise, the mean weights.

        Returns:
            [N, num_outputs] in the weights' dtype.
        """
        with torch.autocast(features.device.type, enabled=False):
            features = features.to(self.weight.dtype)
            outputs = F.linear(features, self.weight, self.bias)
            if factors is None:
                return outputs
            of_inputs, of_outputs = factors.split(self.num_factors, -1)
            return torch.addcmul(outputs, of_outputs, F.linear(features * of_inputs, self.weight_std, self.bias_std))


def draw_factors(shape: tuple[int, ...], generator: Generator | None, device: torch.device) -> Tensor:
    """Return sign(e) sqrt(|e|) of standard normal e, float32 of a shape; generator None: torch's global one."""
    drawn = torch.randn(shape, generator=generator, device=generator.device if generator is not None else device)
    return (drawn.sign() * drawn.abs().sqrt()).to(device)
