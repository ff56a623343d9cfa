"""The config of the networks, which decides what module is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from laser.networks.settings import NetworkSettings

if TYPE_CHECKING:
    from torch import nn

    from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class NetworkConfig(NetworkSettings):
    """Which networks an agent uses; `auto` takes an MLP for vectors and the small Atari net for frames.

    A subclass with a `make` of its own brings a network of its own (docs/your-own-network.md).
    """

    def make(self, environment: EnvironmentSpec) -> nn.Module:
        """Return a freshly initialised actor-critic for an environment.

        It is called and answers as `laser.networks.actor_critic.ActorCritic` does. Weights are drawn from torch's
        global generator, which is seeded before.

        Raises:
            ValueError: the network cannot see such observations; "network: ..." is shown to the user as one line.
        """
        # Here and not above: configs are read where nothing may wait for torch.
        from laser.networks.actor_critic import ActorCritic

        return ActorCritic(environment, self)
