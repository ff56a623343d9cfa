"""The topology on one page: shards, parameter stores, learners, actors and evaluators, and their connections.

An agent trained alone is a population of one. The members of a sweep share one set of shards or have one each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from actors.actor import Actor
from actors.evaluator import Evaluator
from laser.ports import ReplayPort, ReportPort
from launch.factories import connect, make_actor, make_evaluator, make_learner
from launch.planning.member_plan import MemberPlan
from launch.runtimes.runtime import Runtime, ShardPort, StorePort, Worker
from launch.runtimes.wrapper_statistics import WrapperStatistics
from launch.settings.train_config import TrainConfig
from launch.shard_factory import ShardFactory
from learner.learner import Learner
from learner.publishing.parameter_store import ParameterStore


@dataclass
class Topology:
    """The running components of one member, by role.

    Members that share a replay have the same `shards`, which belong to the first member (`owns_replay`).
    """

    member: MemberPlan
    owns_replay: bool
    shards: list[ShardPort]
    replay: ReplayPort
    parameters: StorePort
    learner: Worker[Learner]
    actors: list[Worker[Actor]]
    evaluator: Worker[Evaluator]

    def __post_init__(self) -> None:
        """Prepare the collection of the statistics of wrappers."""
        self.statistics = WrapperStatistics(self.actors)

    @property
    def config(self) -> TrainConfig:
        """The member's config."""
        return self.member.config

    @property
    def workers(self) -> list[Worker[Any]]:
        """The member's actors, learner and evaluator."""
        return [*self.actors, self.learner, self.evaluator]

    def describe(self) -> dict[str, Any]:
        """Return the numbers of components and the parts of a batch, for the log."""
        config = self.config
        return {
            "actors": len(self.actors),
            "environments": config.num_actors * config.num_envs,
            "shards": len(self.shards),
            "fresh unrolls per batch": config.algorithm.num_online,
            "replayed unrolls per batch": config.algorithm.num_replayed,
            "batches from the replay after each": config.algorithm.replays_per_batch,
        }


def place_member(member: MemberPlan, runtime: Runtime, reports: ReportPort) -> Topology:
    """Place every component of a single agent on a runtime. No worker ticks yet."""
    return place_population([member], [reports], runtime)[0]


def place_population(
    members: Sequence[MemberPlan],
    reports: Sequence[ReportPort],
    runtime: Runtime,
    share_replay: bool = False,
    waiting: Sequence[MemberPlan] = (),
) -> list[Topology]:
    """Place every component of all members on a runtime. No worker ticks yet.

    Args:
        members: the members in the order of their numbers; the first one's config decides the size of a shared replay.
        reports: the port that receives each member's reports.
        runtime: the runtime that runs the components.
        share_replay: one set of shards for all members, instead of one for each.
        waiting: further members that `place_later` will add; a shared replay has their settings from the start.
    """
    replays = [list(members)] if share_replay else [[member] for member in members]
    factories = [shard_factories([*users, *(waiting if share_replay else ())]) for users in replays]
    placed = iter(
        runtime.shards(
            [factory for of_replay in factories for factory in of_replay],
            outlasts_death=members[0].config.outlasts_deaths,
        )
    )
    sinks = iter(reports)
    topologies = []
    for users, of_replay in zip(replays, factories, strict=True):
        shards = [next(placed) for _ in of_replay]
        for member in users:
            owns_replay = member is users[0]
            topologies.append(_place_member(member, owns_replay, shards, runtime, runtime.reports(next(sinks))))
    return topologies


def place_later(
    member: MemberPlan, reports: ReportPort, runtime: Runtime, shared: Sequence[ShardPort] | None
) -> Topology:
    """Place every component of a member of a running population. No worker ticks yet.

    Args:
        member: one of the members that were `waiting` when the population was placed.
        reports: the port that receives the member's reports.
        runtime: the runtime that runs the components.
        shared: shards of the shared replay; None: the member gets shards of its own.
    """
    if shared is None:
        shards = runtime.shards(list(shard_factories([member])), outlasts_death=member.config.outlasts_deaths)
    else:
        shards = list(shared)
    return _place_member(member, shared is None, shards, runtime, runtime.reports(reports))


def shard_factories(users: Sequence[MemberPlan]) -> list[ShardFactory]:
    """Return the factory of each shard of the replay that these members use; the first member owns the replay."""
    owner = users[0]
    settings = tuple(member.replay for member in users)
    replay, timeout_s = owner.config.replay, owner.config.actor.insert_deadline_s
    return [
        ShardFactory(owner.unrolls, replay, settings, index, owner.seed("shard", index), timeout_s)
        for index in range(replay.num_shards)
    ]


def _place_member(
    member: MemberPlan, owns_replay: bool, shards: list[ShardPort], runtime: Runtime, reports: ReportPort
) -> Topology:
    parameters = runtime.parameter_store(ParameterStore, outlasts_death=member.config.outlasts_deaths)
    learner = runtime.worker(member.name("learner"), partial(make_learner, member, shards, parameters), reports)
    actors = []
    for index in range(member.config.num_actors):
        number = member.first_actor + index
        # In lockstep the choice must not depend on where the components run.
        shard = shards[number % len(shards)] if member.config.takes_turns else runtime.shard_for(number, shards)
        actors.append(runtime.worker(f"actor/{number}", partial(make_actor, member, shard, parameters, index), reports))
    evaluator = runtime.worker(member.name("evaluator"), partial(make_evaluator, member), reports, when_called=True)
    return Topology(member, owns_replay, shards, connect(shards, member), parameters, learner, actors, evaluator)
