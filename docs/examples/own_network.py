"""A network of your own: a residual MLP whose depth is a setting.

python own_network.py
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from laser import load_preset  # above torch, which reads once what LASER sets for it

# isort: split
import torch.nn.functional as F
from torch import Tensor, nn

import laser
from laser.config import Bounds
from laser.networks.actor_critic import ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.networks.heads import ValueHead, make_policy_head
from laser.ops.distributions import distribution_for
from laser.specs import EnvironmentSpec, VectorSpec


@dataclass(frozen=True)
class ResidualConfig(NetworkConfig):
    """Settings. Fields of `NetworkConfig` that the module does not read change nothing; this one reads initial_std."""

    num_blocks: Annotated[int, Bounds(least=1, most=64), "residual blocks"] = 2
    block_width: Annotated[int, Bounds(least=1), "features between the blocks"] = 64

    def make(self, environment: EnvironmentSpec) -> Residual:
        """Return the module; actors, learner and evaluation all call this."""
        return Residual(environment, self)


class Residual(nn.Module):
    """Policy and value over shared features, x + W2 relu(W1 norm(x)) per block."""

    def __init__(self, environment: EnvironmentSpec, config: ResidualConfig):
        super().__init__()
        spec = environment.observations.get("observation")
        if not isinstance(spec, VectorSpec) or len(spec.shape) != 1:
            raise ValueError(f"network: ResidualConfig sees one vector, not the observations of {environment.id}")
        width = config.block_width
        self.input = nn.Linear(spec.shape[0], width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
            for _ in range(config.num_blocks)
        )
        self.policy_head = make_policy_head(width, distribution_for(environment.actions), config.initial_std)
        self.value_head = ValueHead(width)

    def forward(
        self,
        observations: Mapping[str, Tensor],
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> ActorCriticOutput:
        """Evaluate T rows of B environments: observations [T, B, n] -> policy statistics [T, B, ...], values [T, B]."""
        features = self.input(observations["observation"])
        for block in self.blocks:
            features = features + block(features)
        features = F.relu(features)
        return ActorCriticOutput(self.policy_head(features), self.value_head(features))


def main(**values: Any) -> laser.TrainResult:
    """Train on CartPole, then play; `values` change the preset as the command line's flags do."""
    preset = load_preset("cartpole", {"steps": 30_000, **values})
    result = laser.train(dataclasses.replace(preset, network=ResidualConfig(num_blocks=3)))
    laser.evaluate(result.run_dir, episodes=10)
    return result


if __name__ == "__main__":
    main()
