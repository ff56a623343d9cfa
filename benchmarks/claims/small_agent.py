"""One agent in one thread, with access to its shard, actor and learner, for claims about its inner numbers."""

from __future__ import annotations

import dataclasses
from typing import Any

from actors.evaluator import Evaluator
from laser.unroll import Unrolls, UnrollSpec
from launch.factories import make_actor, make_evaluator
from launch.planning.member_plan import plan_member
from launch.settings.train_config import TrainConfig
from launch.topology import shard_factories
from learner.learner import Learner
from learner.publishing.parameter_store import ParameterStore
from replay_server.serving.shard import Shard


class Recording:
    """A replay port that keeps the unrolls inserted through it, in order."""

    def __init__(self, shard: Shard):
        self.inserted: list[Unrolls] = []
        self._shard = shard

    def insert(self, unrolls: Unrolls) -> Any:
        """See `ReplayPort.insert`."""
        self.inserted.append(unrolls)
        return self._shard.insert(unrolls)

    def __getattr__(self, name: str) -> Any:
        """Return attributes of the wrapped port."""
        return getattr(self._shard, name)


class SmallAgent:
    """An agent of a lockstep config that learns only from the replay.

    Args:
        config: a checked config.
        spec: layout of the unrolls, if it differs from the algorithm's own.
    """

    def __init__(self, config: TrainConfig, spec: UnrollSpec | None = None):
        self.config = config
        member = plan_member(config)
        self.member = member if spec is None else dataclasses.replace(member, unrolls=spec, own_unrolls=spec)
        self.environment, self.algorithm, self.spec = member.environment, member.algorithm, self.member.own_unrolls
        (make_shard,) = shard_factories([self.member])
        self.shard = make_shard()
        self.parameters = ParameterStore()
        seed = member.seed("learner")
        self.learner = Learner(
            self.algorithm, self.spec, self.shard, self.parameters, config.learner, "cpu", seed, prefetch=False
        )
        self.learner.warm_up()
        self.recording = Recording(self.shard)
        self._earned = 0.0

    def train(self, num_env_steps: int) -> None:
        """Act and learn in turns, as lockstep does, until the given number of env steps since the last call."""
        config = self.config
        actor = make_actor(self.member, self.recording, self.parameters, 0, len(self.recording.inserted))
        per_round, per_batch = (
            config.num_envs * config.unroll_length,
            config.algorithm.batch_size * config.unroll_length,
        )
        try:
            for _ in range(-(-num_env_steps // per_round)):
                actor.take_turn()
                if self.shard.stats().result().members[0].inserted_steps < config.replay.min_steps:
                    continue
                self._earned += per_round * config.replay.samples_per_insert / per_batch
                while self._earned >= 1.0:
                    self._earned -= 1.0
                    self.learner.step()
        finally:
            actor.close()

    def evaluate(self, num_episodes: int) -> float:
        """Return the mean return of the newest policy with sampled actions."""
        evaluator: Evaluator = make_evaluator(self.member, 0)
        try:
            played = evaluator.evaluate(self.learner.newest(), num_episodes)
        finally:
            evaluator.close()
        return sum(episode.episode_return for episode in played) / len(played)

    def close(self) -> None:
        """End the shard's thread."""
        self.learner.close()
        self.shard.close()
