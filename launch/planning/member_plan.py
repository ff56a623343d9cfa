"""The plan of one member: every fact that its components are made from, computed once."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
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

# Leaves 32,768 starts of an actor's process in the 31 bits of a header.
_INCARNATIONS_PER_START = 2**16


@dataclass(frozen=True)
class MemberPlan:
    """The facts that one agent of a population is made from. Picklable.

    Args:
        config: a checked config.
        environment: spec of the environment `config.env`.
        algorithm: the algorithm, built for that environment; it holds no parameters, so all components share it.
        number: the member's number in headers and in the replay; an agent alone is member 0.
        population: number of members that train at the same time.
        first_actor: number of the member's first actor. Actor numbers run on over the whole population, since a header
            identifies a sequence of unrolls by its actor.
        device: device of the learner.
        unrolls: layout of inserted unrolls: a shared replay has room for the recurrent states of all its members.
        own_unrolls: layout of the unrolls that the member learns from, with its own recurrent states only.
        replay: the member's settings for the replay, over all shards.
        walks_streams: whether replayed sequences are episode streams.
        prioritizer: the writer of the columns that the replay's sampler reads; None if the sampler reads none.
        lag_limit: limit on the actors' policy lag for an on-policy algorithm; None for others.
        env_groups: sizes of the groups of an actor's environments.
        compiles_policy: whether actors compile their networks.
        first_incarnation: first incarnation of the member's actors; it grows with every resumption, so that no
            actor's sequence of unrolls continues by mistake.
    """

    config: TrainConfig
    environment: EnvironmentSpec
    algorithm: Algorithm
    number: int
    population: int
    first_actor: int
    device: ChosenDevice
    unrolls: UnrollSpec
    own_unrolls: UnrollSpec
    replay: MemberSettings
    walks_streams: bool
    prioritizer: type[Prioritizer] | None
    lag_limit: PolicyLagLimit | None
    env_groups: tuple[int, ...]
    compiles_policy: bool
    first_incarnation: int = 0

    def name(self, role: str) -> str:
        """Return the name of the member's learner or evaluator: the role itself if there is only one member."""
        return role if self.population == 1 else f"{role}/{self.number}"

    def seed(self, role: str, index: int = 0) -> int:
        """Return the seed of one of the member's components; see `seed_for`."""
        return seed_for(self.config.seed, role, index)

    @property
    def actor_numbers(self) -> range:
        """Numbers of the member's actors, as in the headers of their unrolls."""
        return range(self.first_actor, self.first_actor + self.config.num_actors)

    @property
    def incarnations_per_start(self) -> int:
        """Number of incarnations that an actor may use by itself: one, and one more for every rebuild.

        The budget of rebuilds renews, so that they may be many.
        """
        return max(_INCARNATIONS_PER_START, self.config.environment.max_restarts + 1)

    @property
    def num_evaluation_envs(self) -> int:
        """Number of environments of the evaluator: the same number for each task."""
        num_tasks = len(self.environment.tasks)
        return math.ceil(self.config.evaluation.num_envs / num_tasks) * num_tasks


def plan_member(config: TrainConfig, environment: EnvironmentSpec | None = None) -> MemberPlan:
    """Return the plan of an agent that is trained alone; see `plan_population`."""
    return plan_population([config], None if environment is None else [environment])[0]


def plan_population(
    configs: Sequence[TrainConfig],
    environments: Sequence[EnvironmentSpec] | None = None,
    algorithms: Sequence[Algorithm] | None = None,
    *,
    share_replay: bool = False,
    num_at_once: int | None = None,
) -> list[MemberPlan]:
    """Return the plans of all members, in the order of their numbers.

    Args:
        configs: checked configs, one per member.
        environments: spec of each config's environment; None: they are made here.
        algorithms: each member's algorithm; None: they are built here.
        share_replay: one replay for all members.
        num_at_once: number of members that train at the same time; None: all.

    Raises:
        ConfigError: an environment cannot be made.
        ValueError: an algorithm cannot learn in its environment.
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
        own_unrolls = UnrollSpec(config.unroll_length, environment, algorithm.behaviour, dict(algorithm.core_state))
        members.append(
            MemberPlan(
                config,
                environment,
                algorithm,
                number=number,
                population=num_at_once or len(configs),
                first_actor=first_actor,
                device=choose_device(config, environment),
                unrolls=dataclasses.replace(own_unrolls, core_state={**own_unrolls.core_state, **carried}),
                own_unrolls=own_unrolls,
                replay=member_settings(config, algorithm, number),
                walks_streams=walks_streams(config, algorithm),
                prioritizer=find_prioritizer(config, algorithm),
                lag_limit=_lag_limit(config),
                env_groups=_group_sizes(config.num_envs, num_env_groups(config)),
                compiles_policy=compiles_policy(config, environment),
            )
        )
        first_actor += config.num_actors
    return members


def _lag_limit(config: TrainConfig) -> PolicyLagLimit | None:
    """Return the limit on the actors' policy lag for an on-policy algorithm; None for others."""
    algorithm = config.algorithm
    if algorithm.max_policy_lag is None or not algorithm.num_online:
        return None
    return PolicyLagLimit(
        algorithm.max_policy_lag,
        unrolls_per_round=config.num_actors * config.num_envs,
        unrolls_per_version=algorithm.num_online * config.learner.publish_interval,
    )


def _group_sizes(num_envs: int, num_groups: int) -> tuple[int, ...]:
    """Return the sizes of groups that are as equal as possible."""
    ends = [num_envs * group // num_groups for group in range(num_groups + 1)]
    return tuple(end - begin for begin, end in itertools.pairwise(ends))
