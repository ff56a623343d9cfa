"""Reactor: a critic learned by Retrace from the replay, and a policy improved by leave-one-out gradients."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.actions import check_actions
from laser.algorithms.actor_critic import ActorCriticAlgorithm, next_core_state
from laser.algorithms.base import AlgorithmConfig, Fraction, LossOutput, NotNegative, Schedule, Target, Targets, live
from laser.algorithms.metrics import explained_variance, means, means_by_source
from laser.algorithms.rewards import RewardConfig
from laser.batch import Batch
from laser.config import Bounds
from laser.networks.config import NetworkConfig
from laser.networks.reactor import BEHAVIOUR, CRITIC, POLICY, ReactorNetworks, ReactorOutput, state_name
from laser.ops.action_masks import find_mask
from laser.ops.leave_one_out import importance_sampling, leave_one_out, mean_action_gap
from laser.ops.policy_gradient import value_loss, weighted_sum
from laser.ops.retrace import retrace_targets
from laser.ops.taken import taken
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec

ESTIMATORS = {"leave_one_out": leave_one_out, "importance_sampling": importance_sampling}
SLOW = "slow"


@dataclass(frozen=True)
class ReactorConfig(RewardConfig):
    """Reactor's settings. The paper gives only lambda, clips, the target's period and the entropy's weight."""

    name: ClassVar[str] = "reactor"
    live_settings: ClassVar[tuple[str, ...]] = (*AlgorithmConfig.live_settings, "entropy_cost")

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 1e-4
    optimizer: Annotated[Literal["rmsprop", "adam"], "gradient rule"] = "adam"
    optimizer_epsilon: Annotated[float, Bounds(above=0.0), "added to the root of the second moment"] = 1e-8
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = float("inf")
    batch_size: Annotated[int, Bounds(least=1), "unrolls per learner step, fresh and replayed together"] = 8
    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay"] = 1.0
    estimator: Annotated[
        Literal["leave_one_out", "importance_sampling"],
        "policy gradient; leave_one_out: action values for all actions, corrected by the return for the one "
        "taken; importance_sampling: the likelihood ratio",
    ] = "leave_one_out"
    clip: Annotated[
        float,
        Bounds(least=1.0, allow_infinite=True),
        "leave_one_out: the return counts min(clip, 1/mu) times, so 1: once, inf: without bias; importance_sampling: "
        "bounds the ratio, the rest is made up from action values, inf: plain",
    ] = 1.0
    behaviour_policy: Annotated[
        Literal["memorised", "learned"],
        "assumed behaviour policy; memorised: the policy in the replay; learned: an estimate fitted to actions there",
    ] = "memorised"
    trace_lambda: Annotated[float, Fraction, "shortens the traces of Retrace"] = 0.9
    entropy_cost: Annotated[float, NotNegative, "weight of the policy's entropy, in nats"] = 0.1
    entropy_scale: Annotated[
        Literal["action_gap", "none"],
        "factor of entropy-cost; action_gap: how much better the best action is than another one, over the batch",
    ] = "action_gap"
    exploration: Annotated[
        float, Bounds(least=0.0, below=1.0), "share of uniformly random actions, part of the policy itself"
    ] = 0.01
    target_period: Annotated[int, Bounds(least=1), "learner steps between two copies to the target network"] = 10_000
    target_state: Annotated[
        Literal["carried", "zero"],
        "initial memory of the target network, one row late; carried: that of the networks there; zero: "
        "none, as published, which goes with learner.replay-core-state zero",
    ] = "carried"
    head_size: Annotated[int, Bounds(least=1), "hidden units of each head, before rectifiers double them"] = 32

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Reactor:
        """See `AlgorithmConfig.build`."""
        return Reactor(self, environment, network)


class Reactor(ActorCriticAlgorithm):
    """Retrace actor-critic for discrete actions.

        R_t  = r_t + disc E_pi Q'(s_{t+1}, .) + later differences of Q', traced by lambda min(1, pi / mu)
        loss = 1/2 (R - Q(a))^2 - objective(pi; Q, R) - entropy_cost * gap * entropy - log mu^(a)

    averaged over rows, with the target network Q'. Policy, critic and estimated behaviour mu^ share the torso, which
    the critic alone trains, so their terms share no weights and need no factors between them. The paper does not say
    which critic is the policy's baseline; it is the newest one here.

    The target network is evaluated one row later than the networks, on rows 1 to T: the first row's own action value
    does not enter its target.

    Args:
        config: settings.
        environment: spaces.
        network: torso and core.

    Raises:
        ValueError: actions are not discrete, or the networks are not Reactor's own.

    Source:
        Gruslys et al. 2017 (the Reactor).
    """

    config: ReactorConfig
    networks_apply_masks: ClassVar[bool] = True

    def __init__(self, config: ReactorConfig, environment: EnvironmentSpec, network: NetworkConfig):
        actions = environment.actions
        check_actions(config.name, DiscreteActions, environment)
        assert isinstance(actions, DiscreteActions)
        if actions.num_actions < 2:
            raise ValueError(f"algorithm: reactor needs a choice, {environment.id} has one action; use laser or impala")
        if type(network).make is not NetworkConfig.make:
            raise ValueError(f"network: reactor builds its own networks, got {type(network).__name__}; leave it out")
        if network.separate_critic:
            raise ValueError("network.separate-critic: reactor's policy reads the torso of its critic; leave it out")
        super().__init__(config, environment, network)
        self.targets = {SLOW: Target(period=config.target_period)}

    @property
    def core_state(self) -> Mapping[str, ArraySpec]:
        """Recurrent state of each head; see `Algorithm.core_state`."""
        heads = [POLICY, CRITIC, *([BEHAVIOUR] if self._guesses else [])]
        parts = self.network.core_state.items()
        return {state_name(head, part): array for head in heads for part, array in parts}

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        config = self.config
        return ReactorNetworks(self.environment, self.network, config.head_size, config.exploration, self._guesses)

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`.

        Raises:
            ValueError: the behaviour policy must come from the batch, which does not hold it.
        """
        if not self._guesses and "logits" not in batch.mu:
            raise ValueError(
                "algorithm.behaviour-policy: memorised needs the behaviour's logits with each step, the replay has "
                f"{', '.join(batch.mu) or 'none'}; use learned"
            )
        output = cast(ReactorOutput, self.evaluate(networks, batch))
        mask = find_mask(batch.observations)
        with torch.no_grad():
            next_q_values = self._next_q_values(cast(ReactorNetworks, targets[SLOW]), output, batch)
        with torch.autocast(batch.rewards.device.type, enabled=False):
            loss = self._loss(output, next_q_values, None if mask is None else mask[:-1], batch, schedule)
        return dataclasses.replace(loss, core_state=next_core_state(output))

    @property
    def _guesses(self) -> bool:
        return self.config.behaviour_policy == "learned"

    def _next_q_values(self, slow: ReactorNetworks, output: ReactorOutput, batch: Batch) -> Tensor:
        """Return the target network's action values for rows 1 to T, [T, B, A]."""
        names = [state_name(CRITIC, part) for part in self.network.core_state]
        state = {name: output.core_states[name][0].detach() for name in names}
        if self.config.target_state == "zero":
            state = {name: torch.zeros_like(value) for name, value in state.items()}
        observations = {name: value[1:] for name, value in batch.observations.items()}
        return slow.q_values(observations, batch.actions, batch.rewards, batch.first[1:], state)

    def _loss(
        self, output: ReactorOutput, next_q_values: Tensor, mask: Tensor | None, batch: Batch, schedule: Schedule
    ) -> LossOutput:
        config, actions, valid = self.config, batch.actions, batch.valid
        all_log_pi = output.policy["logits"]
        log_pi, q_values = all_log_pi[:-1], output.q_values[:-1]
        guess = output.behaviour["logits"][:-1] if self._guesses else None
        q_taken = taken(q_values, actions)
        with torch.no_grad():
            log_mu = (batch.mu["logits"] if guess is None else guess).log_softmax(-1)
            log_rhos = taken(log_pi, actions) - taken(log_mu, actions)
            rewards = config.learned_from(batch.rewards)
            next_values = (all_log_pi[1:].exp() * next_q_values).sum(-1)
            # Row 0 is outside the target network's window; its value cancels out of its target.
            slow_q_taken = torch.cat([torch.zeros_like(q_taken[:1]), taken(next_q_values[:-1], actions[1:])])
            returns = retrace_targets(
                slow_q_taken, next_values, log_rhos, rewards, batch.discounts, lambda_=config.trace_lambda, valid=valid
            )
            gap = mean_action_gap(q_values, valid, mask)
            # Ratios to the assumed behaviour policy; actions that it excludes add nothing.
            kls = (log_mu.exp() * (log_mu.clamp(min=-100.0) - log_pi)).sum(-1)
            weights = valid * batch.importance_weights / valid.numel()

        objectives = ESTIMATORS[config.estimator](log_pi, q_values, returns, actions, log_mu, config.clip)
        entropies = -(log_pi.exp() * log_pi).sum(-1)
        entropy_cost = live("entropy_cost", config, schedule) * (gap if config.entropy_scale == "action_gap" else 1.0)
        value_term = value_loss(q_taken, returns, weights)
        policy_term = weighted_sum(objectives, weights) + entropy_cost * weighted_sum(entropies, weights)
        loss = value_term - policy_term
        metrics = {"action_gap": gap, "value_loss": value_term.detach()}
        if guess is not None:
            log_guess = taken(guess, actions)
            loss = loss - weighted_sum(log_guess, weights)
            metrics |= means(valid, behaviour_surprise=-log_guess.detach())
        metrics |= {
            "loss": loss.detach(),
            **means(valid, entropy=entropies, value_mean=output.values[:-1], kl_from_behaviour=kls),
            "explained_variance": explained_variance(q_taken, returns, valid),
            **means_by_source(batch.source, valid, abs_log_rho=log_rhos.abs()),
        }
        return LossOutput(loss, metrics)
