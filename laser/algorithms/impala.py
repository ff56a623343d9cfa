"""IMPALA: an actor-critic with V-trace targets."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.actor_critic import NORMALIZE_OBSERVATIONS, ActorCriticAlgorithm, next_core_state
from laser.algorithms.base import (
    AlgorithmConfig,
    Fraction,
    LossOutput,
    NotNegative,
    Schedule,
    Targets,
    WriteOptions,
    live,
)
from laser.algorithms.metrics import explained_variance, means, means_by_source
from laser.algorithms.pixel_control import PixelControl
from laser.algorithms.popart import NormalizedCritic, normalized_critic, values_of_tasks
from laser.algorithms.refer import RATIO, Refer, ReferConfig, ReferState, bounded_rhos
from laser.algorithms.rewards import RewardConfig
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.actor_critic import ActorCritic, ActorCriticOutput
from laser.networks.config import NetworkConfig
from laser.networks.heads import PopArtHead
from laser.networks.pixel_control import PixelControlHead
from laser.ops.action_masks import find_mask
from laser.ops.distributions import Statistics
from laser.ops.policy_gradient import policy_gradient_loss, value_loss, weighted_sum, within_clip
from laser.ops.vtrace import vtrace_targets
from laser.specs import EnvironmentSpec

Clip = Bounds(above=0.0, allow_infinite=True)


@dataclass(frozen=True)
class ImpalaConfig(RewardConfig):
    """IMPALA's settings; see the table in Espeholt et al. 2018, appendix G."""

    name: ClassVar[str] = "impala"
    live_settings: ClassVar[tuple[str, ...]] = (*AlgorithmConfig.live_settings, "entropy_cost", "baseline_cost")

    entropy_cost: Annotated[float, NotNegative, "weight of the policy's entropy, in nats"] = 0.01
    entropy_cost_final: Annotated[
        float,
        Bounds(above=0.0, most=1.0),
        "share of the entropy cost at the run's end, to which it falls by the same factor with every env step",
    ] = 1.0
    baseline_cost: Annotated[float, NotNegative, "weight of the value loss, which is half the squared error"] = 0.5
    rho_clip: Annotated[float, Clip, "bound on importance ratios in value targets"] = 1.0
    c_clip: Annotated[float, Clip, "bound on importance ratios in traces; at most rho-clip"] = 1.0
    pg_rho_clip: Annotated[float, Clip, "bound on importance ratios in the policy gradient"] = 1.0
    policy_clip: Annotated[
        float,
        Clip,
        "a step no longer moves the policy where its action has become 1 + this times as likely as when it was taken, "
        "or as unlikely if its advantage is negative; inf: it always does, as published",
    ] = float("inf")
    trace_lambda: Annotated[float, Fraction, "shortens the traces; 1 for n-step targets"] = 1.0
    lambda_advantages: Annotated[
        bool, "shorten advantages like the targets (GAE where pi is the behaviour); false: bootstrap from the targets"
    ] = False
    reduction: Annotated[
        Literal["sum", "mean_per_column"],
        "sum over rows and sequences, as published; or divided by the batch size, which then does not scale steps",
    ] = "sum"
    normalize_advantages: Annotated[
        Literal["off", "scale", "standardize"],
        "scale: divide the policy gradient's advantages by their root mean square over the batch; standardize: after "
        "subtracting their mean",
    ] = "off"
    normalize_observations: Annotated[bool, NORMALIZE_OBSERVATIONS] = False
    popart: Annotated[bool, "a value per task, learned on a scale that adapts to each task's returns"] = False
    popart_step_size: Annotated[
        float, Bounds(above=0.0, below=1.0), "how far one unroll moves the statistics of its task's returns"
    ] = 3e-4
    pixel_control_cost: Annotated[
        float, NotNegative, "weight of the auxiliary task that learns to change the picture; 0: none"
    ] = 0.0
    pixel_control_discount: Annotated[float, Fraction, "discount of that task's rewards"] = 0.9
    pixel_control_cell: Annotated[int, Bounds(least=1), "pixels along the edge of one of its cells"] = 4
    refer: Annotated[ReferConfig, "remember-and-forget experience replay"] = field(
        default_factory=lambda: ReferConfig(enabled=False)
    )

    def scheduled(self, progress: float) -> dict[str, float]:
        """See `AlgorithmConfig.scheduled`."""
        if self.entropy_cost_final == 1.0:
            return {}
        return {"entropy_cost": self.entropy_cost * self.entropy_cost_final ** min(1.0, progress)}

    def rate_factor(self, num_learner_steps: int) -> float:
        """See `AlgorithmConfig.rate_factor`."""
        return Refer(self.refer).rate_factor(num_learner_steps)

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Impala:
        """See `AlgorithmConfig.build`."""
        return Impala(self, environment, network)

    @property
    def counts_far_policy(self) -> bool:
        """See `AlgorithmConfig.counts_far_policy`."""
        return self.refer.enabled

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        found = []
        if self.c_clip > self.rho_clip:
            wrong = f"must be at most rho-clip ({self.rho_clip:g}), got {self.c_clip:g}"
            found.append(Problem("c-clip", wrong, "lower it"))
        if self.refer.enabled and not self.num_drawn:
            wrong = "has nothing to remember or forget: nothing is replayed, and the policy would stay at its start"
            found.append(Problem("refer.enabled", wrong, "raise replay-fraction, or use false"))
        return found

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        if not self.popart:
            found += find_unused(self, "algorithm", ("popart_step_size",), "popart is off", "use algorithm.popart true")
        if not self.pixel_control_cost:
            names, remedy = ("pixel_control_discount", "pixel_control_cell"), "raise algorithm.pixel-control-cost"
            found += find_unused(self, "algorithm", names, "there is no pixel control", remedy)
        if not self.refer.enabled:
            of_refer = [item.name for item in fields(self.refer) if item.name != "enabled"]
            remedy = "use algorithm.refer.enabled true"
            found += find_unused(self.refer, "algorithm.refer", of_refer, "ReF-ER is off", remedy)
        return found + self.refer.warnings(remover)


class _Rows(NamedTuple):
    """Rows that count, and their weights.

    Args:
        used: bool [T, B], rows with a transition that the trust region accepts.
        learned: bool [T, B], used rows; with ReF-ER only near ones.
        weights: float [T, B], weights of the policy gradient and the value loss.
        entropy_weights: float [T, B], weights of the entropy.
        column_weights: float [B], weights of sequences: the sampler's correction and the reduction alone.
        near: bool [T, B], see `Refer.near`; None without ReF-ER.
    """

    used: Tensor
    learned: Tensor
    weights: Tensor
    entropy_weights: Tensor
    column_weights: Tensor
    near: Tensor | None = None


class Impala(ActorCriticAlgorithm):
    """V-trace actor-critic for discrete, multi-discrete and Gaussian policies.

        loss = pg_loss + baseline_cost * value_loss - entropy_cost * sum of entropies

    Subclasses change which rows count: `_accept` and `_entropy_rows`. With ReF-ER the sums are over near rows only, the
    loss is multiplied by beta, and (1 - beta) KL(mu || pi) of every row is added.

    Args:
        config: settings.
        environment: spaces.
        network: which networks.

    Source:
        Espeholt et al. 2018 (IMPALA), section 4.2.
    """

    config: ImpalaConfig
    per_step: tuple[str, ...] = ("priority", "accepted", "abs_log_rho")

    def __init__(self, config: ImpalaConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network, normalizes_observations=config.normalize_observations)
        self.refer = Refer(config.refer)
        if config.refer.enabled:
            self.columns = (self.refer.column,)
        self._pixel_control: PixelControl | None = None
        if config.pixel_control_cost:
            self._pixel_control = PixelControl(environment, config.pixel_control_cell, config.pixel_control_discount)
        own_network = type(network).make is not NetworkConfig.make
        if own_network and (config.popart or self._pixel_control):
            raise ValueError(
                f"algorithm: PopArt and pixel control put heads on LASER's own networks, got {type(network).__name__}; "
                "use algorithm.popart false and algorithm.pixel-control-cost 0"
            )

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        networks = super().make_networks()
        if self.config.popart:
            assert isinstance(networks, ActorCritic)
            networks.value_head = PopArtHead(networks.num_critic_features, len(self.environment.tasks))
        if self._pixel_control:
            assert isinstance(networks, ActorCritic)
            networks.pixel_control_head = self._pixel_control.make_head(networks.num_features)
        if self.config.refer.enabled:
            networks.refer = ReferState(self.config.refer)
        return networks

    def observe(self, networks: nn.Module, statistics: Mapping[str, Any], num_updates: int) -> dict[str, Tensor]:
        """See `Algorithm.observe`."""
        if not self.config.refer.enabled:
            return {}
        return self.refer.observe(cast(ReferState, networks.refer), statistics, num_updates)

    def write_options(self, num_updates: int, discount: float) -> WriteOptions:
        """See `Algorithm.write_options`."""
        return WriteOptions(self.refer.far_bounds(num_updates) if self.config.refer.enabled else {})

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`.

        A `generator` cannot be traced by `torch.compile`; compiled losses pass None, which uses torch's global one.
        """
        output = self.evaluate(networks, batch)
        pixel_values = None
        if self._pixel_control:
            assert output.features is not None
            head = cast(PixelControlHead, networks.pixel_control_head)
            mask = find_mask(batch.observations)
            flat = None if mask is None else mask.flatten(0, 1)
            pixel_values = head(output.features.flatten(0, 1), flat).unflatten(0, batch.first.shape)
        # Ratios, targets and sums are computed in float32, whatever the precision of the networks.
        with torch.autocast(batch.rewards.device.type, enabled=False):
            loss = self._loss(networks, output, pixel_values, batch, generator, schedule)
        return dataclasses.replace(loss, core_state=next_core_state(output))

    def _loss(
        self,
        networks: nn.Module,
        output: ActorCriticOutput,
        pixel_values: Tensor | None,
        batch: Batch,
        generator: Generator | None,
        schedule: Schedule,
    ) -> LossOutput:
        pi = {name: value[:-1] for name, value in output.policy.items()}
        all_values = values_of_tasks(output.values, batch.task) if self.config.popart else output.values
        values = all_values[:-1]
        log_pi, entropies = self.distribution.log_prob_and_entropy(pi, batch.actions)
        with torch.no_grad():
            log_rhos = log_pi - self.distribution.log_prob(batch.mu, batch.actions)
            accept, accept_metrics, accept_numbers = self._accept(pi, log_rhos, batch, generator, schedule)
            vs, pg_advantages = self._targets(log_rhos, all_values, accept, batch)
            rows = self._rows(networks, log_rhos, accept, batch)
        critic = self._critic(networks, output, values, vs, rows, batch)
        pg_advantages = self._normalized(pg_advantages / critic.scales, rows.learned)
        moves = within_clip(log_rhos, pg_advantages, self.config.policy_clip)
        if moves is not None:
            pg_advantages = torch.where(moves, pg_advantages, 0.0)

        pg_term = policy_gradient_loss(log_pi, pg_advantages, rows.weights)
        value_term = value_loss(critic.values, critic.targets, rows.weights)
        entropy_term = weighted_sum(entropies, rows.entropy_weights)
        baseline_cost = live("baseline_cost", self.config, schedule)
        entropy_cost = live("entropy_cost", self.config, schedule)
        loss = pg_term + baseline_cost * value_term - entropy_cost * entropy_term
        loss, pixel_metrics = self._add_pixel_control(loss, pixel_values, rows, batch)
        loss, refer_metrics, column_writes = self._add_refer(loss, networks, pi, log_rhos, rows, batch)

        metrics = {
            "loss": loss.detach(),
            "pg_loss": pg_term.detach(),
            "value_loss": value_term.detach(),
            **means(batch.valid, entropy=entropies, value_mean=values),
            "explained_variance": explained_variance(values, vs, rows.used),
            **accept_metrics,
            **pixel_metrics,
            **refer_metrics,
            **({} if moves is None else means(rows.learned, clip_fraction=(~moves).float())),
            **means_by_source(batch.source, batch.valid, accept_fraction=rows.used.float(), abs_log_rho=log_rhos.abs()),
        }
        # The priority of a whole unroll: what the critic has left to learn from it.
        errors = torch.where(rows.used, 0.5 * (critic.values - critic.targets).detach().square(), 0.0)
        per_step = {
            "priority": errors.sum(0, keepdim=True) / batch.valid.sum(0).clamp(min=1),
            "accepted": rows.used.sum(0, keepdim=True).float(),
            "abs_log_rho": torch.where(batch.valid, log_rhos.detach().abs(), 0.0).sum(0, keepdim=True),
            **accept_numbers,
        }
        updates = critic.state_updates | self.normalizer_updates(networks, batch)
        return LossOutput(loss, metrics, column_writes, state_updates=updates, per_step=per_step)

    def _targets(
        self, log_rhos: Tensor, all_values: Tensor, accept: Tensor | None, batch: Batch
    ) -> tuple[Tensor, Tensor]:
        """Return V-trace's value targets and the policy gradient's advantages, both [T, B]; values are [T+1, B]."""
        config = self.config
        return vtrace_targets(
            log_rhos,
            config.learned_from(batch.rewards),
            batch.discounts,
            all_values[:-1],
            all_values[-1],
            rho_clip=config.rho_clip,
            c_clip=config.c_clip,
            pg_rho_clip=config.pg_rho_clip,
            lambda_=config.trace_lambda,
            lambda_advantages=config.lambda_advantages,
            accept=accept,
            valid=batch.valid,
        )

    def _rows(self, networks: nn.Module, log_rhos: Tensor, accept: Tensor | None, batch: Batch) -> _Rows:
        """Return the rows that count and their weights: masks, the sampler's correction and the reduction combined."""
        used = batch.valid if accept is None else accept & batch.valid
        column_weights = batch.importance_weights
        if self.config.reduction == "mean_per_column":
            column_weights = column_weights / len(column_weights)
        weights, entropy_weights = used * column_weights, self._entropy_rows(batch) * column_weights
        if not self.config.refer.enabled:
            return _Rows(used, used, weights, entropy_weights, column_weights)
        near = self.refer.near(cast(ReferState, networks.refer), log_rhos)
        return _Rows(used, used & near, weights * near, entropy_weights * near, column_weights, near)

    def _critic(
        self,
        networks: nn.Module,
        output: ActorCriticOutput,
        values: Tensor,
        vs: Tensor,
        rows: _Rows,
        batch: Batch,
    ) -> NormalizedCritic:
        """Return values and their targets as the value loss takes them: with PopArt, on the scale of each task."""
        if not self.config.popart:
            return NormalizedCritic(values, vs, vs.new_ones(()), {})
        assert output.critic_features is not None
        head, features = cast(PopArtHead, networks.value_head), output.critic_features[:-1]
        critic = normalized_critic(head, features, vs, batch.task, rows.learned, self.config.popart_step_size)
        return critic._replace(
            state_updates={f"value_head.{name}": value for name, value in critic.state_updates.items()}
        )

    @torch.no_grad()
    def _normalized(self, pg_advantages: Tensor, learned: Tensor) -> Tensor:
        """Return the policy gradient's advantages, normalised by `normalize_advantages`."""
        if self.config.normalize_advantages == "standardize":
            # A critic that is off everywhere would push all taken actions the same way. Unused rows add 0.
            mean = torch.where(learned, pg_advantages, 0.0).sum() / learned.sum().clamp(min=1)
            pg_advantages = torch.where(learned, pg_advantages - mean, 0.0)
        if self.config.normalize_advantages != "off":
            pg_advantages = _over_root_mean_square(pg_advantages, learned)
        return pg_advantages

    def _add_pixel_control(
        self, loss: Tensor, pixel_values: Tensor | None, rows: _Rows, batch: Batch
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss plus that of pixel control, and the metric of the latter."""
        if self._pixel_control is None or pixel_values is None:
            return loss, {}
        pixel_term = self._pixel_control.loss(pixel_values, batch, rows.used, rows.weights)
        return loss + self.config.pixel_control_cost * pixel_term, {"pixel_control_loss": pixel_term.detach()}

    def _add_refer(
        self, loss: Tensor, networks: nn.Module, pi: Statistics, log_rhos: Tensor, rows: _Rows, batch: Batch
    ) -> tuple[Tensor, dict[str, Tensor], dict[str, Tensor]]:
        """Return beta * loss + (1 - beta) * KL(mu || pi), metrics, and the ratios that the replay keeps."""
        if rows.near is None:
            return loss, {}, {}
        state = cast(ReferState, networks.refer)
        kls = torch.where(batch.valid, self.distribution.kl(batch.mu, pi), 0.0)
        pull = weighted_sum(kls, batch.valid * rows.column_weights)
        loss = state.beta * loss + (1.0 - state.beta) * pull
        metrics = {"refer_beta": state.beta.clone(), "refer_c_max": state.c_max.clone()}
        metrics |= means(batch.valid, kl_from_behaviour=kls, far_fraction=(~rows.near).float())
        return loss, metrics, {RATIO: torch.where(batch.valid, bounded_rhos(log_rhos), 1.0)}

    def _accept(
        self, pi: Statistics, log_rhos: Tensor, batch: Batch, generator: Generator | None, schedule: Schedule
    ) -> tuple[Tensor | None, dict[str, Tensor], dict[str, Tensor]]:
        """Return the rows to learn from, bool [T, B] or None for all, metrics about them, and numbers of `per_step`."""
        return None, {}, {}

    def _entropy_rows(self, batch: Batch) -> Tensor:
        """Return the rows whose entropy counts, bool [T, B]."""
        return batch.valid


def _over_root_mean_square(advantages: Tensor, used: Tensor) -> Tensor:
    mean_square = torch.where(used, advantages, 0.0).square().sum() / used.sum().clamp(min=1)
    return advantages / (mean_square.sqrt() + 1e-8)
