"""The config of the networks, which builds the module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from laser.networks.settings import NetworkSettings

if TYPE_CHECKING:
    from torch import nn

    from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class NetworkConfig(NetworkSettings):
    """Settings of an agent's networks; `auto` takes an MLP for vectors and the small Atari net for frames.

    A subclass with a `make` of its own defines a new network (docs/your-own-network.md).
    """

    def make(self, environment: EnvironmentSpec) -> nn.Module:
        """Return a freshly initialised actor-critic for an environment.

        Its `forward` has arguments and output like `laser.networks.actor_critic.ActorCritic`. Weights are drawn from
        torch's global generator, which the caller has seeded.

        Raises:
            ValueError: the network does not support such observations; the user sees "network: ..." as one line.
        """
        # Imported here because configs are read in places that must not wait for torch.
        from laser.networks.actor_critic import ActorCritic

        return ActorCritic(environment, self)
