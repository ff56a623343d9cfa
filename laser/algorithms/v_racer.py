"""V-RACER: an off-policy actor-critic on single steps, with state values and Q-retrace kept in the replay."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import (
    ActInput,
    ActOutput,
    Fraction,
    LossOutput,
    NotNegative,
    Schedule,
    Targets,
    WriteOptions,
)
from laser.algorithms.gaussian_steps import GaussianStepAlgorithm, GaussianStepConfig, GaussianStepNetworks
from laser.algorithms.refer import RATIO, bounded_rhos
from laser.algorithms.step_learning import glorot_, near_zero_, weighted_mean
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.heads import MIN_STD, PreciseLinear
from laser.ops.advantages import Advantage
from laser.ops.truncated_normal import sample_truncated
from laser.ports import ColumnSpec, RetraceSpec, Sweep
from laser.specs import ArraySpec, EnvironmentSpec

VALUE, ADVANTAGE, Q_RETRACE = "value", "advantage", "q_retrace"


@dataclass(frozen=True)
class VRacerConfig(GaussianStepConfig):
    """V-RACER's settings; defaults are table 1 of the paper."""

    name: ClassVar[str] = "v_racer"

    trace_lambda: Annotated[float, Fraction, "shortens the traces of Q-retrace"] = 1.0
    initial_std: Annotated[float, Bounds(above=0.0), "standard deviation of the policy at the start"] = math.sqrt(0.2)
    refresh: Annotated[
        Literal["per_sample", "early_stop", "every"],
        "reach of Q-retrace updates: back to the start of each drawn step's episode; until it changes little; "
        "or all of it, every refresh-interval learner steps",
    ] = "every"
    refresh_interval: Annotated[int, Bounds(least=1), "learner steps between two sweeps over all episodes"] = 1000
    refresh_tolerance: Annotated[
        float, NotNegative, "change of Q-retrace, in unscaled rewards, at which early_stop stops"
    ] = 1e-4

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        if self.refresh != "every":
            why, remedy = f"algorithm.refresh is {self.refresh}", "use algorithm.refresh every"
            found += find_unused(self, "algorithm", ("refresh_interval",), why, remedy)
        if self.refresh != "early_stop":
            why, remedy = f"algorithm.refresh is {self.refresh}", "use algorithm.refresh early_stop"
            found += find_unused(self, "algorithm", ("refresh_tolerance",), why, remedy)
        return found

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> VRacer:
        """See `AlgorithmConfig.build`."""
        return VRacer(self, environment, network)


@dataclass(frozen=True)
class RacerOutput:
    """Output of the networks for a set of states.

    Args:
        values: [...] in units of normalised rewards.
        policy: "mean" and "std", [..., d].
        coefficients: [..., n] of the advantage; n = 0 without one.
    """

    values: Tensor
    policy: dict[str, Tensor]
    coefficients: Tensor


class RacerNetworks(GaussianStepNetworks):
    """One torso with a head each for value, mean and advantage; the standard deviation is the same in all states.

    Args:
        environment: spaces.
        network: the torso.
        config: settings with initial values.
        num_dimensions: dimension of actions.
        advantage: its family, or None.
    """

    def __init__(
        self,
        environment: EnvironmentSpec,
        network: NetworkConfig,
        config: VRacerConfig,
        num_dimensions: int,
        advantage: Advantage | None,
    ):
        super().__init__(environment, config)
        self.encoder = ObservationEncoder(environment.observations, network)
        if self.encoder.mlp is not None:
            glorot_(self.encoder.mlp)
        num_features = self.encoder.num_features
        # Value, mean and the advantage's coefficients side by side.
        self._sizes = [1, num_dimensions, 0 if advantage is None else advantage.num_outputs]
        self.output = near_zero_(PreciseLinear(num_features, sum(self._sizes)))
        if advantage is not None:
            with torch.no_grad():
                self.output.bias[1 + num_dimensions :] = advantage.initial_bias()
        initial = math.log(max(config.initial_std - MIN_STD, MIN_STD))
        self.log_std = nn.Parameter(torch.full((num_dimensions,), initial))

    def forward(self, observations: Mapping[str, Tensor]) -> RacerOutput:
        """Evaluate N states, [N, ...] by name."""
        return self.evaluate(self.normalizer(observations))

    def evaluate(self, states: Mapping[str, Tensor]) -> RacerOutput:
        """Evaluate N standardised states, [N, ...] by name."""
        values, mean, coefficients = self.output(self.encoder(states)).split(self._sizes, -1)
        std = (MIN_STD + self.log_std.exp()).expand_as(mean)
        return RacerOutput(values.squeeze(-1), {"mean": mean, "std": std}, coefficients)


class VRacer(GaussianStepAlgorithm):
    """Policy gradient and values from Q-retrace, which the replay keeps up to date.

        A^ret = Q^ret - V          (dq = A^ret - A)
        loss  = near * beta * [1/2 (V + min(1, rho) dq - V)^2 - rho A^ret log pi(a)] + (1 - beta) KL(mu || pi)

    with targets, ratios and A^ret held fixed. Here A = 0; `Racer` adds one, with a loss of its own. V, A and Q-retrace
    are stored on the scale of the environment's rewards: they stay valid when the size of rewards is measured again.

    Source:
        Novati and Koumoutsakos 2019 (RACER), section 4 and appendix B.
    """

    config: VRacerConfig
    advantage: Advantage | None = None

    def __init__(self, config: VRacerConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        advantage = "" if self.advantage is None else ADVANTAGE
        retrace = RetraceSpec(config.discount, VALUE, RATIO, advantage, config.trace_lambda)
        names = [VALUE] if self.advantage is None else [VALUE, ADVANTAGE]
        self._estimates = tuple(ColumnSpec(name, initial_from=name) for name in names)
        self.columns = (*self.columns, *self._estimates, ColumnSpec(Q_RETRACE, retrace=retrace))

    @property
    def behaviour(self) -> dict[str, ArraySpec]:
        """The policy, and the networks' estimates for state and action at acting; see `Algorithm.behaviour`."""
        return super().behaviour | {column.name: ArraySpec((1,)) for column in self._estimates}

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return RacerNetworks(self.environment, self.network, self.config, self.num_dimensions, self.advantage)

    @torch.no_grad()
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """See `Algorithm.act`."""
        output: RacerOutput = networks(inputs.observations)
        policy = {name: value.float() for name, value in output.policy.items()}
        actions = policy["mean"]
        if not greedy:
            actions = sample_truncated(policy["mean"], policy["std"], self.config.truncation, generator)
        scale = cast(GaussianStepNetworks, networks).normalizer.reward_scale
        values = output.values.float() * scale
        estimates = {VALUE: values, ADVANTAGE: self._advantages(output, actions) * scale}
        mu = policy | {column.name: _finite(estimates[column.name]).unsqueeze(-1) for column in self._estimates}
        return ActOutput(actions, mu, values)

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        networks = cast(RacerNetworks, networks)
        state, scale = networks.refer, networks.normalizer.reward_scale
        states = networks.normalizer(batch.observations)
        output = networks.evaluate({name: value[0] for name, value in states.items()})
        with torch.no_grad():  # for ends of episodes, whose values nothing else refreshes
            after = networks.evaluate({name: value[1] for name, value in states.items()})
        with torch.autocast(batch.rewards.device.type, enabled=False):
            actions, values = batch.actions[0], output.values
            mu = {name: batch.mu[name][0] for name in self.distribution.sizes}
            log_pi, kls = self.distribution.log_prob(output.policy, actions), self.distribution.kl(mu, output.policy)
            log_rhos = (log_pi - self.distribution.log_prob(mu, actions)).detach()
            rhos, near = bounded_rhos(log_rhos), self.refer.near(state, log_rhos)
            advantages = self._advantages(output, actions)
            with torch.no_grad():
                advantages_to_fit = batch.columns[Q_RETRACE][0] / scale - values
                errors = advantages_to_fit - advantages
                value_targets = values + rhos.clamp(max=1.0) * errors
            value_losses = 0.5 * (value_targets - values).square()
            policy_losses = -rhos * advantages_to_fit * log_pi
            advantage_losses = 0.5 * rhos * (advantages_to_fit - advantages).square()
            losses = value_losses + policy_losses + advantage_losses * (self.advantage is not None)
            loss = weighted_mean(self.refer.terms(state, losses, kls, near), batch)
        writes = {RATIO: rhos, VALUE: values.detach() * scale, ADVANTAGE: advantages.detach() * scale}
        declared = {column.name for column in self.columns}
        metrics = self.metrics(
            networks,
            log_rhos,
            kl_from_behaviour=kls,
            value_loss=value_losses,
            advantage_loss=advantage_losses,
            value=values,
            std=output.policy["std"].mean(-1),
            rho=rhos,
        )
        return LossOutput(
            loss,
            metrics,
            {name: _finite(value).unsqueeze(0) for name, value in writes.items() if name in declared},
            final_writes={VALUE: _finite(after.values * scale).unsqueeze(0)},
            per_step={"td_error": errors.unsqueeze(0), "q": (values + advantages).unsqueeze(0)},
        )

    def write_options(self, num_updates: int, discount: float) -> WriteOptions:
        """See `Algorithm.write_options`."""
        config = self.config
        reach: Literal["none", "episodes", "changed", "all"]
        if config.refresh == "every":
            reach = "all" if num_updates % config.refresh_interval == 0 else "none"
        else:
            reach = "episodes" if config.refresh == "per_sample" else "changed"
        sweep = Sweep(reach, discount, config.refresh_tolerance)
        return WriteOptions(self.refer.far_bounds(num_updates), sweep)

    def _advantages(self, output: RacerOutput, actions: Tensor) -> Tensor:
        """Return A(s, a) [N] with gradients to its coefficients only: the policy is moved by the policy gradient."""
        if self.advantage is None:
            return torch.zeros_like(output.values)
        mean, std = output.policy["mean"].detach(), output.policy["std"].detach()
        return self.advantage(output.coefficients, actions, mean, std.square())


def _finite(values: Tensor) -> Tensor:
    """Return finite numbers, which a replay requires: infinities of a diverged network are cut."""
    return values.detach().float().nan_to_num(0.0, 1e30, -1e30)
