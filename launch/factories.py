"""Factories of a member's components: each makes one component from the member's plan, in the component's process.

The factory of a shard is in `launch.shard_factory`, which imports no torch.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import torch

from actors.actor import Actor
from actors.evaluator import Evaluator
from actors.log_playback import LogActor, LogEnvironments, LogPolicy
from actors.policy import Policy
from actors.unroll_builder import Identity
from laser.environments import VectorEnvironment, make_environment
from laser.failure_budget import FailureBudget
from laser.logs.cloning import POLICY_STATISTICS, clone_behaviour
from laser.logs.minari_log import MinariLog
from laser.ports import ParameterPort, ReplayPort
from laser.prioritization.base import Prioritizer
from laser.specs import has_pictures
from laser.torch_threads import flush_denormals, set_torch_threads
from laser.waiting import waiting_for
from launch.planning.computing import learner_threads, placed_device
from launch.planning.member_plan import MemberPlan
from learner.learner import Learner
from replay_server.client.sharded_replay import ShardedReplay

_READ_SIDE_BY_SIDE = 32
"""Episodes of a log that are read side by side into a replay."""


def make_learner(
    member: MemberPlan, shards: Sequence[ReplayPort], parameters: ParameterPort, incarnation: int
) -> Learner:
    """Make the member's learner."""
    config = member.config
    flush_denormals()
    device = placed_device(member.device.name)
    set_torch_threads(learner_threads(config, member.environment, device, member.population))
    settings = config.learner
    if config.takes_turns and settings.compile == "auto":  # lockstep runs are short
        settings = dataclasses.replace(settings, compile="off")
    return Learner(
        member.algorithm,
        member.own_unrolls,
        connect(shards, member),
        parameters,
        settings,
        device,
        # The same for each learner: one that replaces another starts from the same initial weights.
        member.seed("learner"),
        member=member.number,
        prioritizer=make_prioritizer(member, device),
        starts_at_steps=config.replay.sequence_starts == "step",
        log_share=config.replay.log_share_at if config.may_hold_log else None,
        prefetch=not config.takes_turns,
    )


def make_prioritizer(member: MemberPlan, device: str) -> Prioritizer | None:
    """Return the prioritizer that writes the columns of the member's sampler, on a device; None if it needs none."""
    if member.prioritizer is None:
        return None
    return member.prioritizer(member.config.replay, member.environment, torch.device(device), member.seed("sampler"))


def connect(shards: Sequence[ReplayPort], member: MemberPlan) -> ReplayPort:
    """Return one replay port to all shards."""
    if len(shards) == 1:
        return shards[0]
    return ShardedReplay(shards, seed=member.seed("client"), in_order=member.config.takes_turns)


def make_actor(member: MemberPlan, shard: ReplayPort, parameters: ParameterPort, index: int, incarnation: int) -> Actor:
    """Make the member's actor number `index`; its environments are made at its first tick."""
    set_torch_threads(1)
    config, sizes = member.config, member.env_groups
    acting = (member.algorithm, member.environment, member.seed("policy", index), config.actor.device)
    # Compiling while other threads run networks is unsafe: a replacement in this process is not compiled.
    compiled = member.compiles_policy and (incarnation == 0 or config.has_processes)
    log = _open_log(member, index) if config.offline else None

    def make(group: int) -> VectorEnvironment:
        if log is not None:
            return log
        # Environment numbers run on over the member's actors, so that tasks are spread evenly.
        first = index * config.num_envs + sum(sizes[:group])
        return make_environment(
            config.env, sizes[group], config.environment, first, member.population * config.num_actors
        )

    return (Actor if log is None else LogActor)(
        make,
        len(sizes),
        Policy(*acting, compiled=compiled) if log is None else LogPolicy(log, *acting, compiled=compiled),
        member.unrolls,
        shard,
        parameters,
        Identity(run=config.seed, actor=member.first_actor + index, member=member.number),
        config.actor,
        member.seed("environment", index),
        FailureBudget(
            config.environment.max_restarts,
            # The actor counts its own steps only.
            config.environment.restart_window_steps / config.num_actors,
            config.failure_window,
        ),
        # The number must be new, also to rebuilds of the previous incarnation: the shard drops unrolls under a used
        # number as repetitions.
        member.first_incarnation + incarnation * member.incarnations_per_start,
        member.lag_limit,
        member.incarnations_per_start,
    )


def make_log_reader(
    member: MemberPlan, shard: ReplayPort, parameters: ParameterPort, index: int, num_shards: int
) -> tuple[LogActor, LogEnvironments]:
    """Make an actor that reads shard `index`'s share of the log `init-replay` once, and the environments that it steps.

    Its number is below 0, which marks the experience of a log. Recurrent states are those of the initial networks.
    """
    set_torch_threads(1)
    config, actor = member.config, index - num_shards
    # More episodes side by side are read faster; frames need room in a message for all of them.
    side_by_side = member.env_groups[0] if has_pictures(member.environment.observations) else _READ_SIDE_BY_SIDE
    log = make_log(member, config.init_replay, index, num_shards, side_by_side, num_passes=1)
    policy = LogPolicy(log, member.algorithm, member.environment, member.seed("log policy", index))
    policy.version = 0
    reader = LogActor(
        lambda group: log,
        1,
        policy,
        member.unrolls,
        shard,
        parameters,
        Identity(run=config.seed, actor=actor, member=member.number),
        config.actor,
        0,
        FailureBudget(0, math.inf, math.inf),
        member.first_incarnation,
    )
    return reader, log


def _open_log(member: MemberPlan, index: int) -> LogEnvironments:
    """Open the share of the member's actor number `index` in the log `offline`."""
    config = member.config
    return make_log(member, config.offline, index, config.num_actors, config.num_envs)


def make_log(
    member: MemberPlan,
    name: str,
    index: int,
    num_shares: int = 1,
    side_by_side: int = 1,
    num_passes: float = math.inf,
) -> LogEnvironments:
    """Open a log that an actor reads, and fit its behaviour if an episode does not hold what the algorithm needs.

    Args:
        member: the member that learns from it.
        name: minari:NAMESPACE/NAME-vN.
        index: number of the reader.
        num_shares: readers that share the episodes out.
        side_by_side: episodes that are played side by side, at most.
        num_passes: passes over the log.
    """
    log = _read_log(member, name)
    behaviour = None
    if not all(_holds_behaviour(member, log, number) for number in range(len(log))):
        with waiting_for(f"a policy to be fitted to the actions of {name}"):
            behaviour = clone_behaviour(log, member.environment, member.seed("behaviour"))
    numbers = np.arange(len(log))[index % num_shares :: num_shares]
    seed = member.seed("environment", index)
    return LogEnvironments(log, min(side_by_side, len(numbers)), seed, numbers, behaviour, num_passes)


def note_fitted_behaviour(member: MemberPlan) -> str:
    """Return a line if a policy is to be fitted to the actions of the member's log, as its first episode shows."""
    config = member.config
    name = config.offline or ("" if config.resume else config.init_replay)
    if not name or _holds_behaviour(member, _read_log(member, name), 0):
        return ""
    why = f"{name} does not say how its actions were chosen, which {config.algorithm.name} needs"
    return f"{why}: a policy is fitted to them first"


def _read_log(member: MemberPlan, name: str) -> MinariLog:
    return MinariLog(name, member.environment, member.config.environment.picture_rule)


def _holds_behaviour(member: MemberPlan, log: MinariLog, number: int) -> bool:
    """Whether an episode of a log holds the statistics of the behaviour that the member's algorithm needs."""
    needs = member.algorithm.behaviour.keys() & POLICY_STATISTICS
    return not needs or needs <= log.episode(number).mu.keys()


def make_evaluator(member: MemberPlan, incarnation: int) -> Evaluator:
    """Make the member's evaluator; its environments are made at the first evaluation."""
    set_torch_threads(1)
    config = member.config
    return Evaluator(
        lambda: make_environment(config.env, member.num_evaluation_envs, config.environment.for_evaluation()),
        lambda: Policy(
            member.algorithm,
            member.environment,
            member.seed("evaluation policy"),
            # Ray gives the evaluator's process no GPU.
            "cpu" if config.has_processes else config.actor.device,
            greedy=config.evaluation.greedy,
        ),
        member.seed("evaluation"),
        member.number,
    )
