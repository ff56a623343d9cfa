"""The topology on one page: shards, parameter stores, learners, actors and evaluators, and who knows whom.

An agent trained alone is a population of one. The members of a sweep share one set of shards or have one each.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch

from actors.actor import Actor
from actors.evaluator import Evaluator
from actors.policy import Policy
from actors.policy_lag import PolicyLagLimit
from actors.unroll_builder import Identity
from laser.algorithms.base import Algorithm
from laser.config import Problem
from laser.environments import make_environment
from laser.ports import ParameterPort, ReplayPort, ReportPort
from laser.prioritization.base import Prioritizer, find_rule, missing_numbers
from laser.specs import ArraySpec, EnvironmentSpec
from laser.torch_threads import flush_denormals, set_torch_threads
from laser.unroll import UnrollSpec
from launch.computing import choose_device, compiles_policy, learner_threads, num_env_groups, placed_device
from launch.config import TrainConfig
from launch.runtimes.runtime import Runtime, ShardPort, Worker
from learner.learner import Learner
from learner.parameter_store import ParameterStore
from replay_server.client import ShardedReplay
from replay_server.members import MemberSettings
from replay_server.rate_limiter import RateLimit
from replay_server.samplers import samplers_called
from replay_server.shard import Shard


@dataclass(frozen=True)
class Member:
    """What one agent of a population is made from.

    Args:
        config: a checked config.
        environment: what `config.env` offers.
        number: in headers and in the replay; an agent alone is member 0.
        first_actor: the number of its first actor; actors are numbered through over the whole population, since a
            stream of unrolls is known by its actor.
        first_incarnation: of its actors; grows with every resumption, so that streams never continue by mistake.
        population: how many members there are.
        device: where its learner computes, as `launch.computing.choose_device` names it; "": that one's choice.
        carried_states: recurrent states of all members of its replay, by name: what its unrolls have room for.
    """

    config: TrainConfig
    environment: EnvironmentSpec
    number: int = 0
    first_actor: int = 0
    first_incarnation: int = 0
    population: int = 1
    device: str = ""
    carried_states: Mapping[str, ArraySpec] = field(default_factory=dict)

    def name(self, role: str) -> str:
        """Return the name of its learner or evaluator: the role itself where there is only one."""
        return role if self.population == 1 else f"{role}/{self.number}"


@dataclass
class Program:
    """Everything of one member that runs, by role.

    Members that share a replay have the same `shards`, which belong to the first of them (`owns_replay`).
    """

    member: Member
    owns_replay: bool
    shards: list[ShardPort]
    replay: ReplayPort
    parameters: ParameterPort
    learner: Worker
    actors: list[Worker]
    evaluator: Worker

    @property
    def config(self) -> TrainConfig:
        """The member's config."""
        return self.member.config

    @property
    def environment(self) -> EnvironmentSpec:
        """What the member's environment offers."""
        return self.member.environment

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
    """Place every component of one agent on a runtime. Nothing ticks yet."""
    return make_population([Member(config, environment, first_incarnation=first_incarnation)], [reports], runtime)[0]


def make_population(
    members: Sequence[Member], reports: Sequence[ReportPort], runtime: Runtime, share_replay: bool = False
) -> list[Program]:
    """Place every component of all members on a runtime. Nothing ticks yet.

    Args:
        members: in the order of their numbers; with a shared replay, the first one's config decides its size.
        reports: where the reports of each end up.
        runtime: where things live.
        share_replay: one set of shards for all, or one for each.
    """
    for member in members:
        # Refuses unsupported spaces before anything starts.
        member.config.algorithm.build(member.environment, member.config.network)
    owners = [list(members)] if share_replay else [[member] for member in members]
    shards_of = [
        [partial(make_shard, users, index) for index in range(users[0].config.replay.num_shards)] for users in owners
    ]
    placed = iter(runtime.shards([factory for factories in shards_of for factory in factories]))
    sinks = iter(reports)
    programs = []
    for users, factories in zip(owners, shards_of, strict=True):
        shards = [next(placed) for _ in factories]
        for member in users:
            owns_replay = member is users[0]
            programs.append(_make_member(member, owns_replay, shards, runtime, runtime.reports(next(sinks))))
    return programs


def find_sampler_problems(config: TrainConfig, algorithm: Algorithm) -> Iterator[Problem]:
    """Yield why the replay's sampler cannot draw for this algorithm."""
    settings, sampler = config.algorithm, config.replay.sampler
    if not draws_by_sampler(config, algorithm):
        return
    kind = samplers_called(sampler).get(settings.view)
    if kind is None:
        wrong = f"{sampler} does not draw {settings.view}, which {settings.name} learns from"
        yield Problem("replay.sampler", wrong, "use --replay.sampler uniform")
        return
    try:
        rule = find_prioritizer(config, algorithm)
    except ValueError as error:
        yield Problem("replay.sampler", f"{sampler} has no rule: {error}")
        return
    missing = missing_numbers(rule, algorithm.per_step) if rule is not None else []
    if missing:
        wrong = f"{sampler} needs {' and '.join(missing)} of every item, which {settings.name} does not say"
        yield Problem("replay.sampler", wrong, "use --replay.sampler uniform")
    own = {column.name for column in algorithm.columns}
    for column in rule.columns if rule is not None else ():
        if column.name in own:
            wrong = f"{sampler} and {settings.name} would both write the column {column.name}"
            yield Problem("replay.sampler", wrong, "rename the algorithm's column, or use --replay.sampler uniform")
    declared = own | {column.name for column in (rule.columns if rule is not None else ())}
    for name in dict.fromkeys([kind.column, *kind.writes]):
        if name and name not in declared:
            wrong = f"{sampler} uses the column {name}, which neither its rule nor {settings.name} declares"
            yield Problem("replay.sampler", wrong, "declare it in the rule that the sampler names as its `prioritizer`")


def draws_by_sampler(config: TrainConfig, algorithm: Algorithm) -> bool:
    """Return whether the replay's sampler is asked at all: episode streams are drawn without it."""
    num_drawn = config.algorithm.num_drawn
    return num_drawn > 0 and not config.learner.walks_streams(algorithm.core_state, num_drawn)


def find_prioritizer(config: TrainConfig, algorithm: Algorithm) -> type[Prioritizer] | None:
    """Return the rule that writes what the replay's sampler reads; None where it reads nothing."""
    if not draws_by_sampler(config, algorithm):
        return None
    kind = samplers_called(config.replay.sampler).get(config.algorithm.view)
    return find_rule(kind.prioritizer, kind.column) if kind is not None else None


def make_prioritizer(
    config: TrainConfig, algorithm: Algorithm, environment: EnvironmentSpec, device: str
) -> Prioritizer | None:
    """Return that rule, set up to compute on a device."""
    rule = find_prioritizer(config, algorithm)
    if rule is None:
        return None
    return rule(config.replay, environment, torch.device(device), seed_for(config, "sampler", 0))


def _make_member(
    member: Member, owns_replay: bool, shards: list[ShardPort], runtime: Runtime, reports: ReportPort
) -> Program:
    parameters = runtime.parameter_store(ParameterStore)
    learner = runtime.worker(member.name("learner"), partial(make_learner, member, shards, parameters), reports)
    actors = []
    for index in range(member.config.num_actors):
        number = member.first_actor + index
        shard = runtime.shard_for(number, shards)
        actors.append(runtime.worker(f"actor/{number}", partial(make_actor, member, shard, parameters, index), reports))
    evaluator = runtime.worker(member.name("evaluator"), partial(make_evaluator, member), reports)
    replay = connect(shards, member.config)
    return Program(member, owns_replay, shards, replay, parameters, learner, actors, evaluator)


def unroll_spec(
    config: TrainConfig,
    environment: EnvironmentSpec,
    algorithm: Algorithm,
    carried_states: Mapping[str, ArraySpec] | None = None,
) -> UnrollSpec:
    """Return the layout of everything this run ships.

    Args:
        config: of one agent.
        environment: what `config.env` offers.
        algorithm: its own.
        carried_states: recurrent states there is room for; None: the algorithm's own.
    """
    states = algorithm.core_state if carried_states is None else {**algorithm.core_state, **carried_states}
    return UnrollSpec(config.unroll_length, environment, algorithm.behaviour, dict(states))


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
        if algorithm.num_drawn:
            # Nor is it asked during warm-up, which may end amid a round. At least every other row is a step.
            per_round += 2 * math.ceil(config.replay.min_steps / num_shards / config.unroll_length) + 1
    # A batch must fit, however little more than it is to wait.
    return max(math.ceil(max(1.0, config.learner.max_queued) * algorithm.num_online), num_shards * per_round)


def incarnations_per_start(config: TrainConfig) -> int:
    """Return how many incarnations an actor may use up by itself: one, and one more for every rebuild."""
    return config.environment.max_restarts + 1


def member_settings(config: TrainConfig, algorithm: Algorithm, number: int = 0) -> MemberSettings:
    """Return what a member asks of the replay, over all shards."""
    settings = config.algorithm
    # Where fresh experience is taken, the online queue sets the pace; elsewhere the limiter, or lockstep's schedule.
    limits = settings.num_online == 0 and config.runtime != "lockstep"
    rate = RateLimit(
        samples_per_insert=config.replay.samples_per_insert if limits else math.inf,
        min_steps=config.replay.min_steps if settings.num_drawn else 0,
        max_insert_steps=config.num_envs * config.unroll_length,
        max_sample_steps=config.learner.batches_together(settings.view)
        * max(1, settings.num_drawn)
        * settings.rows_per_item(config.unroll_length),
    )
    walks_streams = config.learner.walks_streams(algorithm.core_state, settings.num_drawn)
    rule = find_prioritizer(config, algorithm)
    columns = algorithm.columns if rule is None else (*algorithm.columns, *rule.columns)
    return MemberSettings(number, online_capacity(config), rate, columns, walks_streams, algorithm.needs_statistics)


def make_shard(members: Sequence[Member], index: int) -> Shard:
    """Make one shard of the replay that these members use."""
    algorithms = [member.config.algorithm.build(member.environment, member.config.network) for member in members]
    first = members[0]
    return Shard(
        unroll_spec(first.config, first.environment, algorithms[0], first.carried_states),
        first.config.replay,
        [
            member_settings(member.config, algorithm, member.number)
            for member, algorithm in zip(members, algorithms, strict=True)
        ],
        shard=index,
        seed=seed_for(first.config, "shard", index),
        insert_timeout_s=first.config.actor.insert_deadline_s,
    )


def connect(shards: Sequence[ReplayPort], config: TrainConfig) -> ReplayPort:
    """Return one port to all shards."""
    return (
        shards[0]
        if len(shards) == 1
        else ShardedReplay(shards, seed=seed_for(config, "client", 0), in_order=config.runtime == "lockstep")
    )


def make_learner(member: Member, shards: Sequence[ReplayPort], parameters: ParameterPort, incarnation: int) -> Learner:
    """Make the learner."""
    config, environment = member.config, member.environment
    flush_denormals()
    device = placed_device(member.device or choose_device(config, environment).name)
    set_torch_threads(learner_threads(config, environment, device, member.population))
    algorithm = config.algorithm.build(environment, config.network)
    settings = config.learner
    if config.runtime == "lockstep" and settings.compile == "auto":  # these are short runs
        settings = dataclasses.replace(settings, compile="off")
    return Learner(
        algorithm,
        unroll_spec(config, environment, algorithm),
        connect(shards, config),
        parameters,
        settings,
        device,
        seed_for(config, "learner", incarnation),
        member=member.number,
        prioritizer=make_prioritizer(config, algorithm, environment, device),
        prefetch=config.runtime != "lockstep",
    )


def make_actor(member: Member, shard: ReplayPort, parameters: ParameterPort, index: int, incarnation: int) -> Actor:
    """Make the member's actor number `index`; its environments are made when it first ticks."""
    set_torch_threads(1)
    config, environment = member.config, member.environment
    algorithm = config.algorithm.build(environment, config.network)
    num_groups = num_env_groups(config)
    sizes = [
        config.num_envs * (group + 1) // num_groups - config.num_envs * group // num_groups
        for group in range(num_groups)
    ]
    return Actor(
        # Environments are numbered through over the member's actors, so that its tasks are spread evenly.
        lambda group: make_environment(
            config.env, sizes[group], config.environment, index * config.num_envs + sum(sizes[:group])
        ),
        num_groups,
        Policy(
            algorithm,
            environment,
            seed_for(config, "policy", index),
            config.actor.device,
            # Compiling while other threads run networks is unsafe: a late replacement in this process does without.
            compiled=compiles_policy(config, environment) and (incarnation == 0 or config.runtime == "ray"),
        ),
        unroll_spec(config, environment, algorithm, member.carried_states),
        shard,
        parameters,
        Identity(run=config.seed, actor=member.first_actor + index, member=member.number),
        config.actor,
        seed_for(config, "environment", index),
        config.environment.max_restarts,
        # Rebuilds of the one before must not have used it: its unrolls would be taken for repetitions and dropped.
        member.first_incarnation + incarnation * incarnations_per_start(config),
        lag_limit(config),
    )


def lag_limit(config: TrainConfig) -> PolicyLagLimit | None:
    """Return how actors keep pace with the learner of an on-policy algorithm; None for others."""
    algorithm = config.algorithm
    if algorithm.max_policy_lag is None or not algorithm.num_online:
        return None
    return PolicyLagLimit(
        algorithm.max_policy_lag,
        unrolls_per_round=config.num_actors * config.num_envs,
        unrolls_per_version=algorithm.num_online * config.learner.publish_interval,
    )


def make_evaluator(member: Member, incarnation: int) -> Evaluator:
    """Make the evaluator; its environments are made at the first evaluation."""
    set_torch_threads(1)
    config, environment = member.config, member.environment
    algorithm = config.algorithm.build(environment, config.network)
    # Every task is played by as many environments.
    num_envs = math.ceil(config.evaluation.num_envs / len(environment.tasks)) * len(environment.tasks)
    return Evaluator(
        lambda: make_environment(config.env, num_envs, config.environment.for_evaluation()),
        lambda: Policy(
            algorithm,
            environment,
            seed_for(config, "evaluation policy", 0),
            # Ray gives its process no GPU.
            "cpu" if config.runtime == "ray" else config.actor.device,
            greedy=config.evaluation.greedy,
        ),
        seed_for(config, "evaluation", 0),
        member.number,
    )


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
        "batches from the replay after each": config.algorithm.replays_per_batch,
    }
