"""The plan of one member: every fact that its parts are made from, computed once."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from actors.policy_lag import PolicyLagLimit
from laser.algorithms.base import Algorithm
from laser.environments import describe_environment
from laser.prioritization.base import Prioritizer
from laser.specs import ArraySpec, EnvironmentSpec
from laser.unroll import UnrollSpec
from launch.planning.computing import ChosenDevice, choose_device, compiles_policy, num_env_groups
from launch.planning.replay_rules import find_prioritizer, member_settings, walks_streams
from launch.settings.seeds import seed_for
from launch.settings.train_config import TrainConfig
from replay_server.member_settings import MemberSettings


@dataclass(frozen=True)
class MemberPlan:
    """What one agent of a population is made from. Picklable.

    Args:
        config: a checked config.
        environment: what `config.env` offers.
        algorithm: built for that environment; holds no parameters, so all parts share it.
        number: in headers and in the replay; an agent alone is member 0.
        population: how many members there are.
        first_actor: the number of its first actor; actors are numbered through over the whole population, since a
            stream of unrolls is known by its actor.
        first_incarnation: of its actors; grows with every resumption, so that streams never continue by mistake.
        device: where its learner computes.
        unrolls: layout of what it inserts: a shared replay has room for the recurrent states of all its members.
        own_unrolls: layout of what it learns from, with its own recurrent states only.
        replay: what it asks of the replay, over all shards.
        walks_streams: whether its replayed sequences are episode streams.
        prioritizer: what writes the columns that the replay's sampler reads; None where the sampler reads none.
        lag_limit: how its actors keep pace with the learner of an on-policy algorithm; None for others.
        env_groups: sizes of the groups in which an actor's environments move.
        compiles_policy: whether actors compile their networks.
    """

    config: TrainConfig
    environment: EnvironmentSpec
    algorithm: Algorithm
    number: int
    population: int
    first_actor: int
    first_incarnation: int
    device: ChosenDevice
    unrolls: UnrollSpec
    own_unrolls: UnrollSpec
    replay: MemberSettings
    walks_streams: bool
    prioritizer: type[Prioritizer] | None
    lag_limit: PolicyLagLimit | None
    env_groups: tuple[int, ...]
    compiles_policy: bool

    def name(self, role: str) -> str:
        """Return the name of its learner or evaluator: the role itself where there is only one."""
        return role if self.population == 1 else f"{role}/{self.number}"

    def seed(self, role: str, index: int = 0) -> int:
        """Return the seed of one of its components; see `seed_for`."""
        return seed_for(self.config.seed, role, index)

    @property
    def incarnations_per_start(self) -> int:
        """How many incarnations an actor may use up by itself: one, and one more for every rebuild."""
        return self.config.environment.max_restarts + 1


def plan_member(
    config: TrainConfig,
    environment: EnvironmentSpec | None = None,
    algorithm: Algorithm | None = None,
    *,
    number: int = 0,
    population: int = 1,
    first_actor: int = 0,
    first_incarnation: int = 0,
    carried_states: Mapping[str, ArraySpec] | None = None,
) -> MemberPlan:
    """Return the plan of one member.

    Args:
        config: a checked config.
        environment: what `config.env` offers, where the caller knows it already.
        algorithm: built for that environment, where the caller has built it already.
        number: see `MemberPlan`.
        population: see `MemberPlan`.
        first_actor: see `MemberPlan`.
        first_incarnation: see `MemberPlan`.
        carried_states: recurrent states of all members of its replay, by name; None: its own.

    Raises:
        ConfigError: the environment cannot be made.
        ValueError: the algorithm cannot learn in it.
    """
    environment = environment or describe_environment(config.env, config.environment)
    algorithm = algorithm or config.algorithm.build(environment, config.network)
    own_unrolls = UnrollSpec(config.unroll_length, environment, algorithm.behaviour, dict(algorithm.core_state))
    states = {**algorithm.core_state, **(carried_states or {})}
    return MemberPlan(
        config,
        environment,
        algorithm,
        number,
        population,
        first_actor,
        first_incarnation,
        device=choose_device(config, environment),
        unrolls=dataclasses.replace(own_unrolls, core_state=states),
        own_unrolls=own_unrolls,
        replay=member_settings(config, algorithm, number),
        walks_streams=walks_streams(config, algorithm),
        prioritizer=find_prioritizer(config, algorithm),
        lag_limit=lag_limit(config),
        env_groups=_group_sizes(config.num_envs, num_env_groups(config)),
        compiles_policy=compiles_policy(config, environment),
    )


def plan_population(
    configs: Sequence[TrainConfig],
    environments: Sequence[EnvironmentSpec] | None = None,
    algorithms: Sequence[Algorithm] | None = None,
    *,
    share_replay: bool = False,
) -> list[MemberPlan]:
    """Return the plans of all members, in the order of their numbers.

    Args:
        configs: checked, one per member.
        environments: what each one's `env` offers, where the caller knows them already.
        algorithms: each one's own, where the caller has built them already.
        share_replay: one replay for all.
    """
    environments = environments or [describe_environment(config.env, config.environment) for config in configs]
    algorithms = algorithms or [
        config.algorithm.build(environment, config.network)
        for config, environment in zip(configs, environments, strict=True)
    ]
    carried: dict[str, ArraySpec] = {}
    for algorithm in algorithms if share_replay else ():
        carried |= algorithm.core_state
    members: list[MemberPlan] = []
    first_actor = 0
    for number, (config, environment, algorithm) in enumerate(zip(configs, environments, algorithms, strict=True)):
        members.append(
            plan_member(
                config,
                environment,
                algorithm,
                number=number,
                population=len(configs),
                first_actor=first_actor,
                carried_states=carried,
            )
        )
        first_actor += config.num_actors
    return members


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


def _group_sizes(num_envs: int, num_groups: int) -> tuple[int, ...]:
    """Return sizes of groups that are as equal as possible."""
    ends = [num_envs * group // num_groups for group in range(num_groups + 1)]
    return tuple(end - begin for begin, end in itertools.pairwise(ends))


def num_evaluation_envs(member: MemberPlan) -> int:
    """Return how many environments the member's evaluator makes: as many for each task."""
    num_tasks = len(member.environment.tasks)
    return math.ceil(member.config.evaluation.num_envs / num_tasks) * num_tasks
