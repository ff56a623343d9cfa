"""The topology of one agent on one page: shards, parameter store, learner, actors and evaluator, and who knows whom."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from actors.actor import Actor
from actors.evaluator import Evaluator
from actors.policy import Policy
from actors.unroll_builder import Identity
from laser.algorithms.base import Algorithm
from laser.compilation import can_compile
from laser.environments import make_environment
from laser.ports import ParameterPort, ReplayPort, ReportPort
from laser.specs import EnvironmentSpec, FramesSpec
from laser.unroll import UnrollSpec
from launch.config import TrainConfig
from launch.runtime import Runtime, ShardPort, Worker
from learner.learner import Learner
from learner.parameter_store import ParameterStore
from replay_server.client import ShardedReplay
from replay_server.members import MemberSettings
from replay_server.rate_limiter import RateLimit
from replay_server.shard import Shard

MEMBER = 0  # one agent; a sweep numbers its members


@dataclass
class Program:
    """Everything that runs, by role."""

    config: TrainConfig
    environment: EnvironmentSpec
    shards: list[ShardPort]
    replay: ReplayPort
    parameters: ParameterPort
    learner: Worker
    actors: list[Worker]
    evaluator: Worker
    first_incarnation: int

    @property
    def workers(self) -> list[Worker]:
        """All workers."""
        return [*self.actors, self.learner, self.evaluator]


def make_program(
    config: TrainConfig,
    environment: EnvironmentSpec,
    runtime: Runtime,
    reports: ReportPort,
    first_incarnation: int = 0,
) -> Program:
    """Place every component of a run on a runtime. Nothing ticks yet.

    Args:
        config: a checked config.
        environment: what `config.env` offers.
        runtime: where things live.
        reports: where reports end up.
        first_incarnation: of the actors; grows with every resumption, so that streams never continue by mistake.
    """
    config.algorithm.build(environment, config.network)  # refuses unsupported spaces before anything starts
    shards = runtime.shards(
        [partial(make_shard, config, environment, index) for index in range(config.replay.num_shards)]
    )
    parameters = runtime.parameter_store(ParameterStore)
    reports = runtime.reports(reports)
    learner = runtime.worker("learner", partial(make_learner, config, environment, shards, parameters), reports)
    actors = [
        runtime.worker(
            f"actor/{index}",
            partial(make_actor, config, environment, shards[index % len(shards)], parameters, index, first_incarnation),
            reports,
        )
        for index in range(config.num_actors)
    ]
    evaluator = runtime.worker("evaluator", partial(make_evaluator, config, environment), reports)
    replay = connect(shards, config)
    return Program(config, environment, shards, replay, parameters, learner, actors, evaluator, first_incarnation)


def unroll_spec(config: TrainConfig, environment: EnvironmentSpec, algorithm: Algorithm) -> UnrollSpec:
    """Return the layout of everything this run ships."""
    return UnrollSpec(config.unroll_length, environment, algorithm.behaviour, dict(algorithm.core_state))


def online_capacity(config: TrainConfig) -> int:
    """Return how many fresh unrolls may wait for the learner, over all shards; 0 if it draws none."""
    algorithm = config.algorithm
    if algorithm.num_online == 0:
        return 0
    # An actor ships one unroll of each of its environments in one message; every shard must take those of its actors.
    num_shards = config.replay.num_shards
    per_round = math.ceil(config.num_actors / num_shards) * config.num_envs
    if config.runtime == "lockstep":
        # A round is collected before the learner is asked, on top of what did not fill a batch in the last one.
        per_round += algorithm.num_online - 1
        if algorithm.num_replayed:
            # Nor is it asked during warm-up, which may end amid a round. At least every other row is a step.
            per_round += 2 * math.ceil(config.replay.min_steps / num_shards / config.unroll_length) + 1
    return max(math.ceil(config.learner.max_queued * algorithm.num_online), num_shards * per_round)


def incarnations_per_start(config: TrainConfig) -> int:
    """Return how many incarnations an actor may use up by itself: one, and one more for every rebuild."""
    return config.environment.max_restarts + 1


def member_settings(config: TrainConfig, algorithm: Algorithm) -> list[MemberSettings]:
    """Return what this run's one member asks of the replay, over all shards."""
    settings = config.algorithm
    # Where fresh experience is taken, the online queue sets the pace; elsewhere the limiter, or lockstep's schedule.
    limits = settings.num_online == 0 and config.runtime != "lockstep"
    rate = RateLimit(
        samples_per_insert=config.replay.samples_per_insert if limits else math.inf,
        min_steps=config.replay.min_steps if settings.num_replayed else 0,
        max_insert_steps=config.num_envs * config.unroll_length,
        max_sample_steps=max(1, settings.num_replayed) * config.unroll_length,
    )
    return [MemberSettings(MEMBER, online_capacity(config), rate, algorithm.columns)]


def make_shard(config: TrainConfig, environment: EnvironmentSpec, index: int) -> Shard:
    """Make one shard of the replay."""
    algorithm = config.algorithm.build(environment, config.network)
    return Shard(
        unroll_spec(config, environment, algorithm),
        config.replay,
        member_settings(config, algorithm),
        shard=index,
        seed=seed_for(config, "shard", index),
        insert_timeout_s=config.actor.insert_deadline_s,
    )


def connect(shards: Sequence[ReplayPort], config: TrainConfig) -> ReplayPort:
    """Return one port to all shards."""
    return shards[0] if len(shards) == 1 else ShardedReplay(shards, seed=seed_for(config, "client", 0))


def make_learner(
    config: TrainConfig,
    environment: EnvironmentSpec,
    shards: Sequence[ReplayPort],
    parameters: ParameterPort,
    incarnation: int,
) -> Learner:
    """Make the learner."""
    torch.set_num_threads(learner_threads(config, environment))
    algorithm = config.algorithm.build(environment, config.network)
    return Learner(
        algorithm,
        unroll_spec(config, environment, algorithm),
        connect(shards, config),
        parameters,
        config.learner,
        resolve_device(config.device),
        seed_for(config, "learner", incarnation),
        member=MEMBER,
        prefetch=config.runtime != "lockstep",
    )


def make_actor(
    config: TrainConfig,
    environment: EnvironmentSpec,
    shard: ReplayPort,
    parameters: ParameterPort,
    index: int,
    first_incarnation: int,
    incarnation: int,
) -> Actor:
    """Make one actor; its environments are made when it first ticks."""
    algorithm = config.algorithm.build(environment, config.network)
    num_groups = config.actor.env_groups or (2 if config.env.startswith("ALE/") and config.num_envs > 1 else 1)
    sizes = [
        config.num_envs * (group + 1) // num_groups - config.num_envs * group // num_groups
        for group in range(num_groups)
    ]
    return Actor(
        lambda group: make_environment(config.env, sizes[group], config.environment),
        num_groups,
        Policy(
            algorithm,
            environment,
            seed_for(config, "policy", index),
            config.actor.device,
            # Compiling while other threads run networks is unsafe: a late replacement in this process does without.
            compiled=compiles_policy(config, environment) and (incarnation == 0 or config.runtime == "ray"),
        ),
        unroll_spec(config, environment, algorithm),
        shard,
        parameters,
        Identity(run=config.seed, actor=index, member=MEMBER),
        config.actor,
        seed_for(config, "environment", index),
        config.environment.max_restarts,
        # Rebuilds of the one before must not have used it: its unrolls would be taken for repetitions and dropped.
        first_incarnation + incarnation * incarnations_per_start(config),
    )


def make_evaluator(config: TrainConfig, environment: EnvironmentSpec, incarnation: int) -> Evaluator:
    """Make the evaluator; its environments are made at the first evaluation."""
    algorithm = config.algorithm.build(environment, config.network)
    return Evaluator(
        lambda: make_environment(config.env, config.evaluation.num_envs, config.environment.for_evaluation()),
        lambda: Policy(
            algorithm, environment, seed_for(config, "evaluation policy", 0), greedy=config.evaluation.greedy
        ),
        seed_for(config, "evaluation", 0),
        MEMBER,
    )


def resolve_device(device: str) -> str:
    """Return the device that `auto` means here."""
    if device != "auto":
        return device
    return "cuda" if torch.cuda.is_available() else "cpu"


def learner_threads(config: TrainConfig, environment: EnvironmentSpec) -> int:
    """Return how many threads torch uses where the learner computes on the CPU.

    MLPs are too small to share out. With frames, half of the cores: threads that outnumber free cores spin at every
    barrier (measured on two cores beside one actor: 792 env steps/s on Pong with two threads, 1,576 with one).
    """
    if config.learner.torch_threads:
        return config.learner.torch_threads
    return max(1, (os.cpu_count() or 1) // 2) if has_frames(environment) and config.runtime != "lockstep" else 1


def compiles_policy(config: TrainConfig, environment: EnvironmentSpec) -> bool:
    """Return whether actors compile their networks: where it pays for the seconds it takes, and a compiler is there."""
    if config.actor.compile != "auto":
        return config.actor.compile == "on"
    return has_frames(environment) and config.runtime != "lockstep" and can_compile(torch.device(config.actor.device))


def has_frames(environment: EnvironmentSpec) -> bool:
    """Return whether observations hold images."""
    return any(isinstance(spec, FramesSpec) for spec in environment.observations.values())


def seed_for(config: TrainConfig, role: str, index: int) -> int:
    """Return the seed of one component: the same for the same run seed, different between components."""
    words = [config.seed, *role.encode(), index]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)


def describe(program: Program) -> dict[str, Any]:
    """Return what runs, for the log."""
    config = program.config
    return {
        "actors": len(program.actors),
        "environments": config.num_actors * config.num_envs,
        "shards": len(program.shards),
        "fresh unrolls per batch": config.algorithm.num_online,
        "replayed unrolls per batch": config.algorithm.num_replayed,
    }
