"""Q-learning heads: values of all actions, or distributions of their returns; optionally dueling, optionally noisy."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.heads import PreciseLinear
from laser.networks.noisy import NoisyLinear
from laser.ops.action_masks import mean_of_allowed


class ActionValueHead(nn.Module):
    """Map features to K numbers per action: its value (K = 1), or the logits of its return on K atoms.

    With dueling, two branches of layers compute the state's part V and the actions' part A:

        out(a) = V + A(a) - mean_a A(a)        atom by atom

    Args:
        num_features: width of the input.
        num_actions: A, number of actions.
        num_atoms: K.
        hidden_size: width of a rectified layer before the output, one per branch; 0: none.
        dueling: use two branches.
        noisy_std: sigma_0 of noisy layers; 0: plain ones.

    Source:
        Wang et al. 2016 (dueling), equation 9; Bellemare et al. 2017 (atoms); Hessel et al. 2018 (all together).
    """

    def __init__(
        self, num_features: int, num_actions: int, num_atoms: int, hidden_size: int, dueling: bool, noisy_std: float
    ):
        super().__init__()
        self._shape = (num_actions, num_atoms)

        def layer(num_inputs: int, num_outputs: int) -> nn.Module:
            if noisy_std:
                return NoisyLinear(num_inputs, num_outputs, noisy_std)
            return PreciseLinear(num_inputs, num_outputs)

        def stream(num_outputs: int) -> nn.ModuleList:
            sizes = [num_features, *([hidden_size] if hidden_size else []), num_outputs]
            return nn.ModuleList(layer(*pair) for pair in pairwise(sizes))

        self.advantage = stream(num_actions * num_atoms)
        self.value = stream(num_atoms) if dueling else None
        self._num_factors = [sum(each.num_factors) for each in self._noisy_layers()]

    @property
    def num_factors(self) -> int:
        """Number of factors that make one noise for all layers; 0 without noise."""
        return sum(self._num_factors)

    def forward(self, features: Tensor, factors: Tensor | None = None, mask: Tensor | None = None) -> Tensor:
        """Map [N, num_features] to [N, num_actions, num_atoms].

        Args:
            features: of N states.
            factors: factors of the noise, [num_factors] or [N, num_factors]; None: no noise.
            mask: bool [N, num_actions], allowed actions: the mean is over them; None: all.
        """
        parts = iter(() if factors is None else factors.split(self._num_factors, -1))
        outputs: Tensor = _walk(self.advantage, features, parts).unflatten(-1, self._shape)
        if self.value is None:
            return outputs
        values: Tensor = _walk(self.value, features, parts).unsqueeze(-2)
        if mask is None:
            return values + outputs - outputs.mean(-2, keepdim=True)
        means = mean_of_allowed(outputs.transpose(-1, -2), mask.unsqueeze(-2)).transpose(-1, -2)
        return values + outputs - means

    def _noisy_layers(self) -> Iterator[NoisyLinear]:
        return (each for each in [*self.advantage, *(self.value or [])] if isinstance(each, NoisyLinear))


def _walk(layers: nn.ModuleList, features: Tensor, factors: Iterator[Tensor]) -> Tensor:
    for number, layer in enumerate(layers):
        if number:
            features = F.relu(features)
        features = layer(features, next(factors, None)) if isinstance(layer, NoisyLinear) else layer(features)
    return features
