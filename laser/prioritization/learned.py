"""Base class of rules with a network of their own: features, replay reward, optimiser and state."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laser.algorithms.base import seeded
from laser.gpu import to_device
from laser.prioritization.base import Lesson, Prioritizer, Replayed, ReplayReader
from laser.prioritization.config import SamplingConfig
from laser.specs import EnvironmentSpec

# A step's time is log(1 + its number), divided by the same of this number, so that long episodes do not dominate.
_LONG_EPISODE = 1000.0


class LearnedPrioritizer(Prioritizer):
    """A rule whose network learns from the change of the agent's return between two evaluations.

    The settings of its sampler must be a `LearnedConfig`.

    Args:
        config: see `Prioritizer`.
        environment: see `Prioritizer`.
        device: see `Prioritizer`.
        seed: see `Prioritizer`.
    """

    def __init__(self, config: SamplingConfig, environment: EnvironmentSpec, device: torch.device, seed: int):
        super().__init__(config, environment, device, seed)
        self.device = device
        self.network = seeded(seed, lambda: self.make_network(environment)).to(device)
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=self.settings.learning_rate)
        self.rng = np.random.default_rng(seed)
        self.num_heard = 0
        self.num_updates = 0
        self.num_refused = 0
        self.previous_return = math.nan
        self._heard: dict[str, float] = {}

    @abstractmethod
    def make_network(self, environment: EnvironmentSpec) -> nn.Module:
        """Return a freshly initialised network."""

    @abstractmethod
    def learn(self, replay_reward: float, reader: ReplayReader) -> Lesson | None:
        """Update the network, and return columns to write, or None if there are none."""

    def forget_judged(self) -> None:
        """Forget the steps that were drawn before the evaluation of the last return."""

    def hear(self, mean_return: float, reader: ReplayReader) -> Lesson | None:
        """See `Prioritizer.hear`. The replay reward is the change since the last return; the first has none."""
        replay_reward = mean_return - self.previous_return
        self.previous_return = mean_return
        self.num_heard += 1
        if not math.isfinite(replay_reward):
            self.forget_judged()  # earlier draws did not cause the changes from now on
            return None
        self._heard["replay_reward"] = replay_reward
        return self.learn(replay_reward, reader)

    def forget_agent(self) -> None:
        """See `Prioritizer.forget_agent`."""
        self.forget_keys()
        self.previous_return = math.nan

    def climb(self, objective: Tensor) -> None:
        """Take one step of gradient ascent; skip and count a step whose objective is not finite."""
        if not bool(torch.isfinite(objective)):
            self.num_refused += 1
            return
        self.optimizer.zero_grad()
        (-objective).backward()
        self.optimizer.step()
        self.num_updates += 1

    def metrics(self) -> dict[str, float]:
        """See `Prioritizer.metrics`."""
        return {f"sampler/{name}": value for name, value in self._heard.items()} | {
            "sampler/updates": float(self.num_updates),
            "sampler/updates_refused": float(self.num_refused),
        }

    def state_dict(self) -> dict[str, Any]:
        """See `Prioritizer.state_dict`."""
        tensors = {f"network/{name}": value.cpu().clone() for name, value in self.network.state_dict().items()}
        for number, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"optimizer/{number}/{name}": value.cpu().clone() for name, value in moments.items()}
        numbers = {
            "rng": self.rng.bit_generator.state,
            "heard": [self.num_heard, self.num_updates],
            "refused": self.num_refused,
            "previous_return": None if math.isnan(self.previous_return) else self.previous_return,
        }
        return {"tensors": tensors, "numbers": numbers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Prioritizer.load_state_dict`."""
        own, saved = self.network.state_dict(), _below("network/", state["tensors"])
        if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in saved.items()}:
            raise ValueError("the checkpoint's sampler has another network; use the --replay settings it was made with")
        self.network.load_state_dict(saved)
        moments: dict[int, dict[str, Tensor]] = {}
        for name, value in _below("optimizer/", state["tensors"]).items():
            number, _, what = name.partition("/")
            moments.setdefault(int(number), {})[what] = value
        groups = self.optimizer.state_dict()["param_groups"]
        self.optimizer.load_state_dict({"state": moments, "param_groups": groups})
        numbers = state["numbers"]
        self.rng.bit_generator.state = numbers["rng"]
        self.num_heard, self.num_updates = numbers["heard"]
        self.num_refused = numbers.get("refused", 0)
        previous = numbers["previous_return"]
        self.previous_return = math.nan if previous is None else previous


def time_feature(replayed: Replayed, like: Tensor) -> Tensor:
    """Return the time of each step in its episode, [N]: 0 for the first step, 1 for number 1,000."""
    return step_numbers(replayed, like).log1p() / math.log1p(_LONG_EPISODE)


def step_numbers(replayed: Replayed, like: Tensor) -> Tensor:
    """Return the number of each step in its episode, [N], from 0, with the device and dtype of another tensor."""
    steps = replayed.sample.unrolls.headers["step_in_episode"].astype(np.float32)
    return to_device(torch.from_numpy(steps), like.device).to(like.dtype)


def squashed(values: Tensor) -> Tensor:
    """Return tanh of any numbers in float32; NaN counts as 0."""
    return values.float().tanh().nan_to_num(0.0)


def _below(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
