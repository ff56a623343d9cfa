"""A vector environment whose every number says where it came from, and a policy to go with it."""

from __future__ import annotations

import dataclasses
from concurrent.futures import Future
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import nn

from laser.algorithms.base import ActOutput
from laser.environments.base import EnvironmentFailedError, Transition
from laser.ports import ColumnSpec, InsertReceipt, Parameters
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec


class ScriptedEnvironment:
    """Environment i ends its episode k after `lengths[i][k % len]` steps; odd ones are truncated, even ones terminate.

    The vector observation is [environment, episode, step]; frames are filled with (episode * 16 + step) % 256.

    Args:
        lengths: of the episodes, by environment.
        same_step: reset within the step, as a second part whose environments come in descending order.
        frames: show frames too.
        fail_after: the step that fails; 0: the first reset.
        fail_to_close: `close` raises.
    """

    def __init__(
        self,
        lengths: list[list[int]],
        same_step: bool = False,
        frames: bool = False,
        fail_after: int = -1,
        fail_to_close: bool = False,
    ):
        self.num_envs = len(lengths)
        observations = {"place": VectorSpec((3,))}
        if frames:
            observations["image"] = FramesSpec((4, 4), stack=3, padding="zeros")
        self.spec = EnvironmentSpec("scripted", observations, DiscreteActions(5), action_repeat=2)
        self._lengths, self._same_step, self._frames = lengths, same_step, frames
        self._fail_after = fail_after
        self._fail_to_close = fail_to_close
        self.closed = False

    def reset(self, seed):
        self._fail_if_due()
        self._episode = np.zeros(self.num_envs, np.int64)
        self._step = np.zeros(self.num_envs, np.int64)
        self._over = np.zeros(self.num_envs, bool)
        return self._observe(np.arange(self.num_envs))

    def send(self, actions):
        self._actions = actions

    def recv(self):
        self._fail_after -= 1
        self._fail_if_due()
        everyone = np.arange(self.num_envs)
        ignored = self._over.copy()
        self._begin_episode(everyone[ignored])
        self._step[~ignored] += 1
        over = ~ignored & np.array([self._step[i] == self._length(i) for i in everyone])
        rewards = np.where(ignored, 0.0, self._step + 100.0 * self._actions).astype(np.float32)
        odd = self._episode % 2 == 1
        first = Transition(everyone, self._observe(everyone), rewards, over & ~odd, over & odd, ignored)
        if not self._same_step:
            self._over = over
            return [first]
        who = everyone[over][::-1]
        if not len(who):
            return [first]
        self._begin_episode(who)
        none = np.zeros(len(who), bool)
        return [first, Transition(who, self._observe(who), np.zeros(len(who), np.float32), none, none, ~none)]

    def render(self):
        return None

    def state_dict(self):
        return {"episode": self._episode.copy(), "step": self._step.copy(), "over": self._over.copy()}

    def load_state_dict(self, state):
        self._episode, self._step, self._over = (state[name].copy() for name in ("episode", "step", "over"))
        return self._observe(np.arange(self.num_envs))

    def close(self):
        self.closed = True
        if self._fail_to_close:
            raise OSError("the door is stuck")

    def _fail_if_due(self):
        if self._fail_after == 0:
            raise EnvironmentFailedError("raised", "RuntimeError: the wheel came off")

    def _length(self, i):
        return self._lengths[i][self._episode[i] % len(self._lengths[i])]

    def _begin_episode(self, who):
        self._episode[who] += 1
        self._step[who] = 0
        self._over[who] = False

    def _observe(self, who):
        observations = {"place": np.stack([who, self._episode[who], self._step[who]], axis=1).astype(np.float32)}
        if self._frames:
            stack = np.zeros((len(who), 3, 4, 4), np.uint8)
            for row, i in enumerate(who):
                for back in range(3):
                    if self._step[i] - back >= 0:
                        stack[row, 2 - back] = (self._episode[i] * 16 + self._step[i] - back + 1) % 256
            observations["image"] = stack
        return observations


class CountingAlgorithm:
    """Takes action (calls so far) % 5 everywhere and says so in mu; its recurrent state counts steps since `first`."""

    core_state: ClassVar = {"age": ArraySpec((1,))}
    acting_state: ClassVar = {}
    behaviour: ClassVar = {"logits": ArraySpec((5,))}
    columns: ClassVar = ()
    acts_with: ClassVar = ("",)

    def __init__(self):
        self.calls = 0

    def seeded_networks(self, seed):
        return nn.Linear(1, 1)

    def act(self, networks, inputs, generator, *, greedy=False):
        num = len(inputs.first)
        action = self.calls % 5
        self.calls += 1
        age = torch.where(inputs.first[:, None], 0.0, inputs.core_state["age"]) + 1.0
        logits = torch.full((num, 5), float(action))
        return ActOutput(torch.full((num,), action), {"logits": logits}, torch.zeros(num), {"age": age})


class Estimates(CountingAlgorithm):
    """Says a sum of what it sees beside mu, which a column of the replay starts from."""

    behaviour: ClassVar = {"logits": ArraySpec((5,)), "value": ArraySpec((1,))}
    columns: ClassVar = (ColumnSpec("value", initial_from="value"),)

    def act(self, networks, inputs, generator, *, greedy=False):
        output = super().act(networks, inputs, generator)
        value = (inputs.observations["place"] * torch.tensor([100.0, 10.0, 1.0])).sum(-1, keepdim=True)
        return dataclasses.replace(output, mu={**output.mu, "value": value})


@dataclass
class FakeReplay:
    """Keeps what is inserted; answers at once, or when told to."""

    automatic: bool = True

    def __post_init__(self):
        self.inserted, self.futures = [], []

    def insert(self, unrolls):
        future: Future = Future()
        self.inserted.append(unrolls)
        self.futures.append((future, len(unrolls)))
        if self.automatic:
            self.answer()
        return future

    def answer(self):
        for future, num in self.futures:
            future.set_result(InsertReceipt(num))
        self.futures = []


class FakeParameters:
    """Always has one newer version."""

    def __init__(self):
        self.version = 0

    def newest(self, newer_than):
        future: Future = Future()
        future.set_result(Parameters(self.version, np.zeros(2, np.float32)) if self.version > newer_than else None)
        self.version += 1
        return future
