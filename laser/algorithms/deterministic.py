"""Base class of DDPG and NAF: a deterministic policy, explored with noise of a fixed size."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import ActInput, ActOutput, LossOutput, Target
from laser.algorithms.gaussian_steps import GaussianStepAlgorithm, GaussianStepConfig, GaussianStepNetworks
from laser.algorithms.refer import RATIO, ReferState, bounded_rhos
from laser.algorithms.step_learning import BootstrapConfig
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.ops.noise import ornstein_uhlenbeck_step
from laser.ops.truncated_normal import sample_truncated
from laser.specs import ArraySpec, EnvironmentSpec

NOISE = "noise"
SLOW = "slow"


@dataclass(frozen=True)
class DeterministicConfig(GaussianStepConfig, BootstrapConfig):
    """Settings of deterministic policies with a target network."""

    exploration: Annotated[
        Literal["gaussian", "ornstein_uhlenbeck"], "noise on actions: fresh at every step, or drifting"
    ] = "gaussian"
    exploration_std: Annotated[float, Bounds(above=0.0), "size of the noise, in [-1, 1] action units"] = 0.2
    exploration_theta: Annotated[
        float, Bounds(above=0.0, most=1.0), "ornstein_uhlenbeck: share of the noise that decays per step"
    ] = 0.15
    target_rate: Annotated[
        float, Bounds(above=0.0, most=1.0), "share of the way that target networks move per learner step"
    ] = 0.01

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        drifts = self.exploration == "ornstein_uhlenbeck"
        if not drifts:
            why = "gaussian noise forgets everything at each step"
            remedy = "use algorithm.exploration ornstein_uhlenbeck"
            found += find_unused(self, "algorithm", ("exploration_theta",), why, remedy)
        if drifts:
            why, remedy = "drifting noise is not cut off", "use algorithm.exploration gaussian"
            found += find_unused(self, "algorithm", ("truncation",), why, remedy)
        if drifts and self.refer.enabled:
            wrong = "drifting noise is not the Gaussian of ReF-ER's ratios, so ReF-ER misjudges which steps are near"
            found.append(Problem("algorithm.exploration", wrong, "use gaussian, or algorithm.refer.enabled false"))
        return found


class DeterministicAlgorithm(GaussianStepAlgorithm):
    """Acts with `mean_action` plus noise; the stored mu is a Gaussian around the mean with the size of the noise.

    Drifting noise has another distribution, so its ratios mean less; the paper uses it without ReF-ER only.
    """

    config: DeterministicConfig

    def __init__(self, config: DeterministicConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        self.targets = {SLOW: Target(config.target_rate)}

    @property
    def acting_state(self) -> Mapping[str, ArraySpec]:
        """The noise, where it drifts; see `Algorithm.acting_state`."""
        return {NOISE: ArraySpec((self.num_dimensions,))} if self.config.exploration == "ornstein_uhlenbeck" else {}

    @abstractmethod
    def mean_action(self, networks: nn.Module, observations: Mapping[str, Tensor]) -> Tensor:
        """Return the actions of N states, [N, d]."""

    def policy(self, mean: Tensor) -> dict[str, Tensor]:
        """Return the Gaussian for ratios and divergences."""
        return {"mean": mean, "std": torch.full_like(mean, self.config.exploration_std)}

    def compare(self, mean: Tensor, batch: Batch, state: ReferState) -> tuple[Tensor, Tensor, Tensor]:
        """Compare the policy with the behaviour policy.

        Returns:
            log ratios of the actions [B] without gradients, KL(mu || pi) [B], and near-policy steps, bool [B].
        """
        policy, actions = self.policy(mean), batch.actions[0]
        mu = {name: batch.mu[name][0] for name in self.distribution.sizes}
        kls = self.distribution.kl(mu, policy)
        with torch.no_grad():
            log_rhos = self.distribution.log_prob(policy, actions) - self.distribution.log_prob(mu, actions)
        return log_rhos, kls, self.refer.near(state, log_rhos)

    def output(
        self,
        networks: GaussianStepNetworks,
        loss: Tensor,
        log_rhos: Tensor,
        errors: Tensor,
        q_value: Tensor,
        **values: Tensor,
    ) -> LossOutput:
        """Return a loss with its metrics and column writes.

        Args:
            networks: the networks before the update.
            loss: scalar.
            log_rhos: [B].
            errors: errors of the critic, [B].
            q_value: Q of the actions taken, [B].
            **values: [B] by name; their means become metrics.
        """
        metrics = self.metrics(networks, log_rhos, q_value=q_value, **values)
        per_step = {"td_error": errors.unsqueeze(0), "q": q_value.unsqueeze(0)}
        return LossOutput(loss, metrics, {RATIO: bounded_rhos(log_rhos).unsqueeze(0)}, per_step=per_step)

    @torch.no_grad()
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """See `Algorithm.act`."""
        mean = self.mean_action(networks, inputs.observations).float()
        mu, values = self.policy(mean), mean.new_full(mean.shape[:1], math.nan)
        if greedy:
            return ActOutput(mean, mu, values, dict(inputs.core_state))
        config = self.config
        if config.exploration == "gaussian":
            return ActOutput(sample_truncated(mean, mu["std"], config.truncation, generator), mu, values)
        device = generator.device if generator is not None else mean.device
        normal = torch.randn(mean.shape, generator=generator, device=device).to(mean.device)
        noise = ornstein_uhlenbeck_step(
            inputs.core_state[NOISE], inputs.first, config.exploration_theta, config.exploration_std, normal
        )
        return ActOutput(mean + noise, mu, values, {NOISE: noise})
