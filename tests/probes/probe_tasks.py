"""Tiny tasks whose values and best actions are known, and the smallest loop that can train on them.

Every episode draws a hidden sign and lasts one or two steps; its end is a row without a transition, as in an unroll.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from laser.algorithms.actor_critic import ActorCriticAlgorithm
from laser.algorithms.base import ActInput, AlgorithmConfig
from laser.batch import ONLINE, OWN_REPLAY, Batch
from laser.networks.config import NetworkConfig
from laser.specs import ActionSpec, ContinuousActions, DiscreteActions, EnvironmentSpec, VectorSpec

DISCOUNT = 0.9
NUM_ENVS, NUM_ROWS = 32, 6
# What the policy sees: the hidden sign (if the task shows it) and the step of the episode.
OBSERVATIONS = {"observation": VectorSpec((2,))}


@dataclass(frozen=True)
class Probe:
    """One task.

    Args:
        reward: (sign [N], step [N], actions [N, ...]) -> rewards [N].
        values: value of the best policy by (shown sign, step).
        best: the best action by (shown sign, step); empty where actions do not matter.
        num_steps: steps per episode.
        shows_sign: whether the observation holds the hidden sign.
        actions: the action space.
    """

    reward: Callable[[Tensor, Tensor, Tensor], Tensor]
    values: dict[tuple[float, float], float]
    best: dict[tuple[float, float], float] = dataclasses.field(default_factory=dict)
    num_steps: int = 1
    shows_sign: bool = True
    actions: ActionSpec = DiscreteActions(2)  # noqa: RUF009 (frozen)

    @property
    def environment(self) -> EnvironmentSpec:
        return EnvironmentSpec("probe", OBSERVATIONS, self.actions)


def _sign_of(actions: Tensor) -> Tensor:
    return 2.0 * actions - 1.0


PROBES = {
    "constant": Probe(lambda sign, step, actions: torch.ones_like(sign), {(0, 0): 1.0}, shows_sign=False),
    "observation": Probe(lambda sign, step, actions: sign, {(1, 0): 1.0, (-1, 0): -1.0}),
    "delayed": Probe(
        lambda sign, step, actions: (step == 1).float(), {(0, 0): DISCOUNT, (0, 1): 1.0}, num_steps=2, shows_sign=False
    ),
    "action": Probe(lambda sign, step, actions: _sign_of(actions), {(0, 0): 1.0}, {(0, 0): 1}, shows_sign=False),
    "both": Probe(
        lambda sign, step, actions: sign * _sign_of(actions),
        {(1, 0): 1.0, (-1, 0): 1.0},
        {(1, 0): 1, (-1, 0): 0},
    ),
    "both_delayed": Probe(
        lambda sign, step, actions: sign * _sign_of(actions) * (1.0 + step),
        {(1, 0): 1 + 2 * DISCOUNT, (-1, 0): 1 + 2 * DISCOUNT, (1, 1): 2.0, (-1, 1): 2.0},
        {(1, 0): 1, (-1, 0): 0, (1, 1): 1, (-1, 1): 0},
        num_steps=2,
    ),
    "continuous": Probe(
        lambda sign, step, actions: 1.0 - (actions.squeeze(-1) - 0.5 * sign).square(),
        {(1, 0): 1.0, (-1, 0): 1.0},
        {(1, 0): 0.5, (-1, 0): -0.5},
        actions=ContinuousActions((-1.0,), (1.0,)),
    ),
}


class Collector:
    """Plays a probe in NUM_ENVS copies and cuts batches of NUM_ROWS rows."""

    def __init__(self, probe: Probe, algorithm: ActorCriticAlgorithm, generator: torch.Generator):
        self._probe, self._algorithm, self._generator = probe, algorithm, generator
        self._step = torch.zeros(NUM_ENVS)
        self._sign = self._draw_signs()

    def _draw_signs(self) -> Tensor:
        return 2.0 * torch.randint(0, 2, (NUM_ENVS,), generator=self._generator) - 1.0

    def _observe(self) -> Tensor:
        shown = self._sign if self._probe.shows_sign else torch.zeros(NUM_ENVS)
        return torch.stack([shown, self._step], -1)

    def collect(self, networks: torch.nn.Module) -> Batch:
        rows: list[dict[str, Tensor]] = []
        mu: list[dict[str, Tensor]] = []
        nothing = torch.zeros(NUM_ENVS)
        for _ in range(NUM_ROWS):
            seen = self._observe()
            first = self._step == 0
            acted = self._algorithm.act(
                networks, ActInput({"observation": seen}, nothing, nothing, first), self._generator
            )
            valid = self._step < self._probe.num_steps  # the row after the last step holds the final observation
            rows.append(
                {
                    "observation": seen,
                    "first": first,
                    "actions": acted.actions,
                    "rewards": torch.where(valid, self._probe.reward(self._sign, self._step, acted.actions), 0.0),
                    "terminated": self._step == self._probe.num_steps - 1,
                    "valid": valid,
                }
            )
            mu.append(acted.mu)
            self._sign = torch.where(valid, self._sign, self._draw_signs())
            self._step = torch.where(valid, self._step + 1, 0.0)
        column = {name: torch.stack([row[name] for row in rows]) for name in rows[0]}
        return Batch(
            observations={"observation": torch.cat([column["observation"], self._observe().unsqueeze(0)])},
            first=torch.cat([column["first"], (self._step == 0).unsqueeze(0)]),
            actions=column["actions"],
            rewards=column["rewards"],
            discounts=DISCOUNT * (~column["terminated"]).float(),
            valid=column["valid"],
            mu={name: torch.stack([each[name] for each in mu]) for name in mu[0]},
            last_action=torch.zeros_like(column["actions"][0]),
            last_reward=nothing,
            source=torch.full_like(column["valid"], ONLINE, dtype=torch.int8),
            task=torch.zeros_like(column["valid"], dtype=torch.int64),
            policy_lag=torch.zeros_like(column["rewards"]),
            importance_weights=torch.ones(NUM_ENVS),
        )


def side_by_side(*batches: Batch) -> Batch:
    """Return one batch with the columns of all."""
    once = {"last_action", "last_reward", "importance_weights"}
    joined = {}
    for field in dataclasses.fields(Batch):
        values = [getattr(batch, field.name) for batch in batches]
        if isinstance(values[0], dict):
            joined[field.name] = {name: torch.cat([value[name] for value in values], 1) for name in values[0]}
        else:
            joined[field.name] = torch.cat(values, 0 if field.name in once else 1)
    return Batch(**joined)


def train(config: AlgorithmConfig, probe: Probe, *, num_updates: int, num_replayed: int = 0, seed: int = 0):
    """Train on a probe with Adam; returns the algorithm and its networks.

    `num_replayed` old batches, drawn from all that were collected, join every fresh one.
    """
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    algorithm = config.build(probe.environment, NetworkConfig(hidden_sizes=(32,), initial_std=0.5))
    networks = algorithm.make_networks()
    optimizer = torch.optim.Adam(networks.parameters(), lr=config.learning_rate)
    slow = {name: copy.deepcopy(networks).requires_grad_(False) for name in algorithm.targets}
    collector, replay = Collector(probe, algorithm, generator), []
    for number in range(1, num_updates + 1):
        fresh = collector.collect(networks)
        replay.append(dataclasses.replace(fresh, source=torch.full_like(fresh.source, OWN_REPLAY)))
        drawn = torch.randint(len(replay), (num_replayed,), generator=generator).tolist()
        batch = side_by_side(fresh, *(replay[index] for index in drawn))
        optimizer.zero_grad()
        algorithm.loss(networks, slow, batch, {}, generator).loss.backward()
        optimizer.step()
        for name, target in algorithm.targets.items():
            if number % target.period == 0:
                for old, new in zip(slow[name].parameters(), networks.parameters(), strict=True):
                    old.lerp_(new.detach(), target.rate)
    return algorithm, networks
