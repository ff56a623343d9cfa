"""DQN with its extensions as switches: double, dueling, n-step, distributional, noisy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, cast

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from laser.algorithms.base import ActInput, ActOutput, Fraction, LossOutput, Schedule, Target, Targets
from laser.algorithms.step_learning import BootstrapConfig, StepAlgorithm, weighted_mean
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.action_values import ActionValueHead
from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.noisy import draw_factors
from laser.ops.action_masks import find_mask, mask_logits
from laser.ops.categorical import project
from laser.ops.distributions import Categorical
from laser.ops.exploration import epsilon_greedy_logits, linear_between
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec

TARGET = "target"
NOISE = "noise"


@dataclass(frozen=True)
class DqnConfig(BootstrapConfig):
    """DQN's settings; all extensions of Q-learning are off."""

    name: ClassVar[str] = "dqn"

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 2.5e-4
    optimizer_epsilon: Annotated[float, Bounds(above=0.0), "added to the root of the second moment"] = 1.5e-4
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = 10.0
    batch_size: Annotated[int, Bounds(least=1), "steps per learner step"] = 32
    reward_clip: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "each reward is clipped to +- this before sums; inf: none is"
    ] = float("inf")
    double: Annotated[bool, "the networks choose the next action, their target network values it"] = False
    dueling: Annotated[bool, "a branch for the state's value and one for the actions' advantages"] = False
    distributional: Annotated[bool, "learn the distribution of returns on num-atoms values (C51)"] = False
    num_atoms: Annotated[int, Bounds(least=2), "distributional: values that a return can have"] = 51
    lowest_return: Annotated[float, Bounds(), "distributional: the smallest of them, in clipped rewards"] = -10.0
    highest_return: Annotated[float, Bounds(), "distributional: the largest of them"] = 10.0
    noisy: Annotated[bool, "learned noise on the weights of the head, which explores"] = False
    noisy_std: Annotated[float, Bounds(above=0.0), "noisy: sigma_0, size of the noise at the start"] = 0.5
    noise_lasts: Annotated[Literal["step", "episode"], "noisy: how long actors keep one noise"] = "step"
    head_size: Annotated[int, Bounds(least=0), "width of a layer between torso and output, per branch; 0: none"] = 0
    epsilon_start: Annotated[float, Fraction, "share of random actions before the first learner step"] = 1.0
    epsilon: Annotated[float, Fraction, "share of random actions in the end"] = 0.05
    epsilon_updates: Annotated[int, Bounds(least=1), "learner steps over which the share changes linearly"] = 10_000
    target_rate: Annotated[
        float, Bounds(above=0.0, most=1.0), "share of the way that the target network moves each time; 1: a copy"
    ] = 1.0
    target_period: Annotated[int, Bounds(least=1), "learner steps between two moves of the target network"] = 500
    error_loss: Annotated[Literal["huber", "squared"], "of errors of values; distributions have cross-entropy"] = (
        "huber"
    )

    @property
    def step_reward_clip(self) -> float:
        """See `AlgorithmConfig.step_reward_clip`."""
        return self.reward_clip

    def problems(self) -> list[Problem]:
        """Return mistakes that join several fields."""
        problems = super().problems()
        if not self.lowest_return < self.highest_return:
            wrong = f"must be below highest-return ({self.highest_return:g}), got {self.lowest_return:g}"
            problems.append(Problem("lowest-return", wrong, "for example -10 and 10 with clipped rewards"))
        return problems

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """See `AlgorithmConfig.warnings`."""
        found = super().warnings(network, remover)
        unused: dict[tuple[str, str], tuple[str, ...]] = {}
        if not self.distributional:
            names = ("num_atoms", "lowest_return", "highest_return")
            unused["values are learned, not distributions", "use --algorithm.distributional true"] = names
        else:
            unused["distributions have cross-entropy", "leave it out"] = ("error_loss",)
        if not self.noisy:
            unused["weights have no noise", "use --algorithm.noisy true"] = ("noisy_std", "noise_lasts")
        for (why, remedy), changed in unused.items():
            found += find_unused(self, "algorithm", changed, why, remedy)
        return found

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Dqn:
        """See `AlgorithmConfig.build`."""
        return Dqn(self, environment, network)


class DqnNetworks(nn.Module):
    """A torso with a head of action values; a buffer counts updates, so that actors can compute epsilon.

    Args:
        environment: spaces.
        network: the torso.
        config: the head.
        num_actions: A, number of actions.
    """

    num_updates: Tensor
    support: Tensor

    def __init__(self, environment: EnvironmentSpec, network: NetworkConfig, config: DqnConfig, num_actions: int):
        super().__init__()
        self.encoder = ObservationEncoder(environment.observations, network)
        self.head = ActionValueHead(
            self.encoder.num_features,
            num_actions,
            config.num_atoms if config.distributional else 1,
            config.head_size,
            config.dueling,
            config.noisy_std if config.noisy else 0.0,
        )
        self.distributional = config.distributional
        self.register_buffer("num_updates", torch.zeros(()))
        atoms = torch.linspace(config.lowest_return, config.highest_return, config.num_atoms)
        self.register_buffer("support", atoms, persistent=False)

    def forward(self, observations: Mapping[str, Tensor], factors: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Evaluate all actions of N states.

        Args:
            observations: by name, [N, ...].
            factors: factors of the head's noise; see `ActionValueHead`.

        Returns:
            values [N, A], `MASKED` where an action is forbidden, and the head's output: logits of returns [N, A, K], or
            the values again, [N, A, 1].
        """
        mask = find_mask(observations)
        outputs = self.head(self.encoder(observations), factors, mask)
        values = (outputs.softmax(-1) * self.support).sum(-1) if self.distributional else outputs.squeeze(-1)
        return mask_logits(values, mask), outputs


class Dqn(StepAlgorithm):
    """Q-learning from a target network Q' of the networks.

        y    = r + disc * Q'(s', argmax_a Q'(s', a))          the inner argmax of Q with `double`
        loss = huber(y - Q(s, a))                             values
        loss = -sum_i m_i log p_i(s, a)                       distributions; m is y's, projected on the atoms

    Rewards and discounts are those of `num_steps` steps, clipped one by one before they are summed. For samplers, the
    priority of distributions is their cross-entropy. With noisy networks, the passes over s and s' and the target
    network each have their own noise, drawn at every update.

    The stored mu is the epsilon-greedy policy under the noise of acting: the actual probabilities of actions, given the
    noise.

    Source:
        Mnih et al. 2015; Hessel et al. 2018 (Rainbow) and the papers of its parts.
    """

    config: DqnConfig
    action_kind = DiscreteActions

    def __init__(self, config: DqnConfig, environment: EnvironmentSpec, network: NetworkConfig):
        super().__init__(config, environment, network)
        assert isinstance(environment.actions, DiscreteActions)
        self.num_actions = environment.actions.num_actions
        self.distribution = Categorical(self.num_actions)
        if config.distributional:
            self.per_step = (*self.per_step, "priority")
        self.targets = {TARGET: Target(config.target_rate, config.target_period)}
        self._acting_state: dict[str, ArraySpec] = {}
        if config.noisy and config.noise_lasts == "episode":
            networks = cast(DqnNetworks, self.seeded_networks(0))  # only networks have the number of factors
            self._acting_state = {NOISE: ArraySpec((networks.head.num_factors,))}

    @property
    def behaviour(self) -> dict[str, ArraySpec]:
        """See `Algorithm.behaviour`."""
        return {"logits": ArraySpec((self.num_actions,))}

    @property
    def acting_state(self) -> Mapping[str, ArraySpec]:
        """The noise, if it lasts for an episode; see `Algorithm.acting_state`."""
        return self._acting_state

    def make_networks(self) -> nn.Module:
        """See `Algorithm.make_networks`."""
        return DqnNetworks(self.environment, self.network, self.config, self.num_actions)

    def epsilon(self, networks: DqnNetworks) -> Tensor:
        """Return the share of random actions at the networks' number of updates, a scalar."""
        config = self.config
        return linear_between(config.epsilon_start, config.epsilon, networks.num_updates, config.epsilon_updates)

    @torch.no_grad()
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """See `Algorithm.act`; greedy means without any noise."""
        networks = cast(DqnNetworks, networks)
        factors, state, first = None, dict(inputs.core_state), inputs.first
        if self.config.noisy and not greedy:
            shape = (len(first), networks.head.num_factors)
            factors = draw_factors(shape, generator, first.device)
            if NOISE in self._acting_state:
                factors = state[NOISE] = torch.where(first.unsqueeze(-1), factors, state[NOISE])
        q_values, _ = networks(inputs.observations, factors)
        epsilon = 0.0 if greedy else self.epsilon(networks)
        logits = epsilon_greedy_logits(q_values, epsilon, find_mask(inputs.observations))
        mu, values = {"logits": logits}, q_values.amax(-1)
        actions = logits.argmax(-1) if greedy else self.distribution.sample(mu, generator)
        return ActOutput(actions, mu, values, state)

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """See `Algorithm.loss`."""
        networks, config = cast(DqnNetworks, networks), self.config
        states, next_states = ({name: value[row] for name, value in batch.observations.items()} for row in (0, 1))
        rewards, discounts = batch.rewards[0], batch.discounts[0]
        noises: tuple[Tensor | None, ...] = (None, None, None)
        if config.noisy:
            noises = draw_factors((3, networks.head.num_factors), generator, rewards.device).unbind()
        q_values, outputs = networks(states, noises[0])
        q_taken, taken = _of_actions(q_values, batch.actions[0]), _of_actions(outputs, batch.actions[0])
        with torch.no_grad():
            next_values, next_outputs = targets[TARGET](next_states, noises[1])
            choosing = networks(next_states, noises[2])[0] if config.double else next_values
            best = choosing.argmax(-1)
            q_targets = torch.addcmul(rewards, discounts, _of_actions(next_values, best))
        if config.distributional:
            with torch.no_grad():
                next_returns = _of_actions(next_outputs, best).softmax(-1)
                returns = project(next_returns, rewards, discounts, networks.support)
                q_targets = (returns * networks.support).sum(-1)
            losses = -(returns * taken.log_softmax(-1)).sum(-1)
        elif config.error_loss == "huber":
            losses = F.smooth_l1_loss(q_taken, q_targets, reduction="none")
        else:
            losses = 0.5 * (q_targets - q_taken).square()
        errors = q_targets - q_taken.detach()
        with torch.no_grad():
            averages = torch.stack([losses, errors.abs(), q_taken]).mean(-1)
        metrics = dict(zip(("critic_loss", "abs_td_error", "q_value"), averages.unbind(), strict=True))
        metrics["epsilon"] = self.epsilon(networks)
        per_step = {"td_error": errors, "q": q_taken.detach()}
        if config.distributional:
            per_step["priority"] = losses.detach()
        return LossOutput(
            weighted_mean(losses, batch),
            metrics,
            state_updates={"num_updates": networks.num_updates + 1.0},
            per_step={name: value.unsqueeze(0) for name, value in per_step.items()},
        )


def _of_actions(table: Tensor, actions: Tensor) -> Tensor:
    """Return the entries [B, ...] of a table [B, A, ...] for actions int64 [B]."""
    index = actions.view(-1, *(1,) * (table.ndim - 1)).expand(-1, 1, *table.shape[2:])
    return table.gather(1, index).squeeze(1)
