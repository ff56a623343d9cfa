"""The behaviour of a log that does not say how its actions were chosen: a policy fitted to them."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor, nn

from laser.algorithms.base import seeded
from laser.logs.episodes import Log, LoggedEpisode
from laser.networks.config import NetworkConfig
from laser.ops.action_masks import find_mask, mask_logits
from laser.ops.distributions import Statistics, distribution_for
from laser.ops.frame_stacks import stacks_to_channels
from laser.specs import EnvironmentSpec, FramesSpec

POLICY_STATISTICS = frozenset({"logits", "mean", "std"})
"""Names of the statistics that `laser.ops.distributions` knows, and that a fitted policy gives."""

_BATCH, _CHECK, _MOST_CHECKED = 256, 200, 10_000


class ClonedBehaviour:
    """A policy fitted to a log's actions by maximum likelihood; the best one on episodes that are held out.

    Args:
        environment: spaces.
        network: fitted, as `NetworkConfig.make` returns it.
    """

    def __init__(self, environment: EnvironmentSpec, network: nn.Module):
        self._environment = environment
        self._network = network

    @property
    def names(self) -> frozenset[str]:
        """The names of the statistics."""
        return frozenset(distribution_for(self._environment.actions).sizes)

    @torch.inference_mode()
    def statistics(self, episode: LoggedEpisode) -> dict[str, np.ndarray]:
        """Return mu at each step of an episode by name, [L, ...]."""
        steps = {name: value[: len(episode)] for name, value in episode.observations.items()}
        return {name: value.numpy() for name, value in policy_of(self._network, self._environment, steps).items()}


def clone_behaviour(
    log: Log, environment: EnvironmentSpec, seed: int, num_updates: int = 2_000, step_size: float = 1e-3
) -> ClonedBehaviour:
    """Fit a policy to all actions of a log.

    Every tenth episode is held out (with fewer than ten: the last one, unless there is only one).

    Args:
        log: at least one episode; all of its observations are held in memory while the policy is fitted.
        environment: spaces.
        seed: of the weights and of the batches.
        num_updates: most updates, of 256 steps each.
        step_size: of Adam.
    """
    episodes = [log.episode(number) for number in range(len(log))]
    held_out = episodes[9::10] or episodes[-1:]
    fitted = [episode for episode in episodes if not any(episode is each for each in held_out)] or held_out
    rows, checked = _joined(fitted), _joined(held_out)
    network = seeded(seed, lambda: NetworkConfig().make(environment.without_action_masks()))
    optimiser = torch.optim.Adam(network.parameters(), lr=step_size)
    rng = np.random.default_rng(seed)
    distribution = distribution_for(environment.actions)

    def log_likelihood(observations: Mapping[str, np.ndarray], actions: np.ndarray) -> Tensor:
        policy = policy_of(network, environment, observations)
        return distribution.log_prob(policy, torch.from_numpy(actions)).mean()

    best, best_weights = -np.inf, copy.deepcopy(network.state_dict())
    for update in range(1, num_updates + 1):
        chosen = rng.integers(len(rows[1]), size=_BATCH)
        loss = -log_likelihood({name: value[chosen] for name, value in rows[0].items()}, rows[1][chosen])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        if update % _CHECK == 0 or update == num_updates:
            few = slice(_MOST_CHECKED)
            with torch.inference_mode():
                now = float(log_likelihood({name: value[few] for name, value in checked[0].items()}, checked[1][few]))
            if now > best:
                best, best_weights = now, copy.deepcopy(network.state_dict())
    network.load_state_dict(best_weights)
    return ClonedBehaviour(environment, network)


def policy_of(network: nn.Module, environment: EnvironmentSpec, observations: Mapping[str, np.ndarray]) -> Statistics:
    """Return a feed-forward network's policy statistics [N, ...] for observations [N, ...] in the form of the specs."""
    seen = {name: torch.from_numpy(np.ascontiguousarray(value)) for name, value in observations.items()}
    mask = find_mask(seen)
    inputs = {
        name: (stacks_to_channels(value) if isinstance(environment.observations[name], FramesSpec) else value)[None]
        for name, value in seen.items()
        if name in environment.without_action_masks().observations
    }
    num = len(next(iter(inputs.values()))[0])
    actions = environment.actions.array
    output = network(
        inputs,
        torch.zeros(1, num, *actions.shape, dtype=torch.from_numpy(np.zeros(0, actions.dtype)).dtype),
        torch.zeros(1, num),
        torch.ones(1, num, dtype=torch.bool),
        {},
    )
    policy = {name: value[0] for name, value in output.policy.items()}
    if mask is not None:
        policy["logits"] = mask_logits(policy["logits"], mask)
    return policy


def _joined(episodes: Sequence[LoggedEpisode]) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Return the observations and actions of all steps."""
    names = episodes[0].observations
    observations = {
        name: np.concatenate([episode.observations[name][: len(episode)] for episode in episodes]) for name in names
    }
    return observations, np.concatenate([episode.actions for episode in episodes])
