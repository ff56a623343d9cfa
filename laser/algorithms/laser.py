"""LASER: IMPALA's loss on mixed fresh and replayed experience, inside a trust region."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Generator, Tensor

from laser.algorithms.base import Fraction, Schedule, live
from laser.algorithms.impala import Impala, ImpalaConfig
from laser.algorithms.metrics import means, means_by_source
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.ops.distributions import Statistics
from laser.ops.second_moment import second_moment_mask
from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class LaserConfig(ImpalaConfig):
    """LASER's settings. The paper gives no threshold: 0.1 is a start, and a larger rho-clip needs a smaller one."""

    name: ClassVar[str] = "laser"
    live_settings: ClassVar[tuple[str, ...]] = (*ImpalaConfig.live_settings, "trust_region_threshold")

    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay"] = 0.875
    trust_region_threshold: Annotated[
        float,
        Bounds(least=0.0, allow_infinite=True),
        "steps whose KL(pi || implied policy) is not below this are rejected, in nats; inf accepts all",
    ] = 0.1
    rejection: Annotated[
        Literal["implied_kl", "second_moment"],
        "which steps are rejected; implied_kl: those of states where the policies are too far apart, as published; "
        "second_moment: those with the largest ratios, until the mean square of the log ratios is small",
    ] = "implied_kl"
    second_moment_threshold: Annotated[
        float, Bounds(least=0.0), "largest mean square of the log ratios of accepted steps, in nats squared"
    ] = 0.04
    entropy_on: Annotated[
        Literal["fresh", "all"], "whose entropy is rewarded: fresh experience's, or replayed experience's as well"
    ] = "fresh"
    num_kl_samples: Annotated[
        int, Bounds(least=64), "samples that estimate the KL where actions cannot be enumerated"
    ] = 128

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Laser:
        """See `AlgorithmConfig.build`."""
        return Laser(self, environment, network)

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        unread: tuple[str, ...] = ("trust_region_threshold", "num_kl_samples")
        other = "implied_kl"
        if self.rejection == "implied_kl":
            unread, other = ("second_moment_threshold",), "second_moment"
        why, remedy = f"{self.rejection} rejects steps", f"use algorithm.rejection {other}"
        return super().warnings(network, remover) + find_unused(self, "algorithm", unread, why, remedy)


class Laser(Impala):
    """V-trace that learns only where the behaviour policy is close enough.

    A step is accepted iff KL(pi || pi~mu) < threshold, per state and for all sequences, fresh ones too (there the KL is
    about 0). A rejected step enters neither loss and cuts the trace, exactly like a row without a transition; entropy
    is not masked by it. For comparison, `rejection` may be by the ratios of the actions taken instead.

    Source:
        Schmitt et al. 2020 (LASER), sections 2 and 3.
    """

    config: LaserConfig

    def __init__(self, config: LaserConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        if config.rejection == "implied_kl" and config.trust_region_threshold < float("inf"):
            self.per_step = (*self.per_step, "kl")

    def _accept(
        self, pi: Statistics, log_rhos: Tensor, batch: Batch, generator: Generator | None, schedule: Schedule
    ) -> tuple[Tensor | None, dict[str, Tensor], dict[str, Tensor]]:
        if self.config.rejection == "second_moment":
            return second_moment_mask(log_rhos, batch.valid, self.config.second_moment_threshold), {}, {}
        threshold = live("trust_region_threshold", self.config, schedule)
        if isinstance(threshold, float) and threshold == float("inf"):
            return None, {}, {}
        noise = self.distribution.draw_noise(self.config.num_kl_samples, next(iter(pi.values())), generator)
        kl = self.distribution.implied_kl(pi, batch.mu, self.config.rho_clip, noise)
        known = batch.valid & torch.isfinite(kl)
        by_source = means_by_source(batch.source, known, implied_kl=kl)
        metrics = {name: value for name, value in by_source.items() if name.startswith("implied_kl")}
        per_step = {"kl": torch.where(known, kl, 0.0).sum(0, keepdim=True)}
        # A compiled loss runs this without a threshold too: an infinite divergence does not exceed an infinite one.
        accept = (kl < threshold) | (threshold == float("inf"))
        return accept, means(known, implied_kl=kl) | metrics, per_step

    def _entropy_rows(self, batch: Batch) -> Tensor:
        return batch.valid & batch.online if self.config.entropy_on == "fresh" else batch.valid
