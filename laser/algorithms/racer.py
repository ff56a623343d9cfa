"""RACER: V-RACER with an advantage in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from laser.algorithms.v_racer import VRacer, VRacerConfig
from laser.networks.config import NetworkConfig
from laser.ops.advantages import ADVANTAGES
from laser.specs import ContinuousActions, EnvironmentSpec


@dataclass(frozen=True)
class RacerConfig(VRacerConfig):
    """RACER's settings; defaults are table 1 of the paper."""

    name: ClassVar[str] = "racer"

    advantage: Annotated[
        Literal["quadratic", "symmetric", "asymmetric"],
        "shape of the advantage over actions: a paraboloid, a bump, or a bump with two widths per dimension",
    ] = "asymmetric"

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Racer:
        """See `AlgorithmConfig.build`."""
        return Racer(self, environment, network)


class Racer(VRacer):
    """Adds `1/2 rho (A^ret - A)^2` to V-RACER's loss, whose gradient reaches A's coefficients only.

    Source:
        Novati and Koumoutsakos 2019 (RACER), section 4.
    """

    config: RacerConfig

    def __init__(self, config: RacerConfig, environment: EnvironmentSpec, network: NetworkConfig):
        if isinstance(environment.actions, ContinuousActions):  # the base class refuses others with a reason
            self.advantage = ADVANTAGES[config.advantage](len(environment.actions.low))
        super().__init__(config, environment, network)
