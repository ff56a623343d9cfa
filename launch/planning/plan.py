"""The plan of a session: from configs to members that fit each other and this machine, or all problems found."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import torch

from laser.algorithms.actions import ActionsError
from laser.algorithms.base import Algorithm
from laser.config import ConfigError, Problem, find_problems, raise_problems
from laser.environments import describe_environment
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from laser.networks.encoder import describe_observations
from laser.specs import ArraySpec, EnvironmentSpec
from laser.unroll import UnrollSpec
from launch.planning.gpu_memory import GpuEstimate, estimate_gpus, find_gpu_problems
from launch.planning.member_plan import MemberPlan, plan_population
from launch.planning.memory import MemoryEstimate, available_memory, estimate_memory, find_memory_problems
from launch.planning.needs import Needs
from launch.planning.offline_rules import find_log_problems
from launch.planning.replay_rules import find_sampler_problems
from launch.presets import find_fitting
from launch.records.settings_schedule import find_schedule_problems
from launch.records.videos import find_video_problems
from launch.settings.train_config import TrainConfig
from launch.words import size
from replay_server.store.sizes import frame_bytes, replay_bytes


@dataclass(frozen=True)
class Plan:
    """Members that can run together on this machine.

    Args:
        members: the members' plans in the order of their numbers.
        share_replay: one replay for all members.
        memory: the memory that all members will need.
        gpus: the GPU memory that their learners will need.
        num_at_once: the most members that train at the same time; the others wait for their turn.
        num_at_begin: members that begin at once: fewer where a cluster has no room for more.
    """

    members: list[MemberPlan]
    share_replay: bool
    memory: MemoryEstimate
    gpus: GpuEstimate
    num_at_once: int
    num_at_begin: int

    @cached_property
    def configs(self) -> list[TrainConfig]:
        """Each member's config."""
        return [member.config for member in self.members]

    @property
    def config(self) -> TrainConfig:
        """The first member's config, for the settings that all members have in common."""
        return self.members[0].config

    @property
    def where(self) -> str:
        """The devices of the learners, as the end of a sentence; "" if Ray decides them."""
        devices = [member.device.name for member in self.members]
        names = dict.fromkeys("the CPU" if name == "cpu" else name for name in devices)
        return "" if "auto" in names else f" on {' and '.join(names)}"

    @property
    def seen_as(self) -> list[str]:
        """Descriptions of the observations as the members' networks see them, each of them once."""
        seen = (
            describe_observations(member.environment.observations, member.config.network)
            for member in self.members
            if type(member.config.network) is NetworkConfig
        )
        return list(dict.fromkeys(seen))

    def needs_in(self, directory: Path) -> str:
        """Return the session's needs in words: memory, and disk space in a directory for replays in checkpoints."""
        memory = f"about {self.memory}{self.gpus}"
        if not self.config.checkpoint_replay:
            return memory
        num_kept = self.config.learner.keep_checkpoints + 2  # the best one, and one that is being written
        kept, free = size(num_kept * self.memory.replay), size(shutil.disk_usage(directory).free)
        return f"{memory}, and on disk up to {kept} for {num_kept} checkpoints with the replay ({free} free)"

    def with_members(self, members: Sequence[MemberPlan]) -> Plan:
        """Return the plan with other settings for its first members, as `launch.planning.replanning` makes them."""
        return replace(self, members=[*members, *self.members[len(members) :]])

    @property
    def needs(self) -> Needs:
        """The resources that the session requests from a cluster."""
        num_shards = _num_shards(self.members[: self.num_at_once], self.share_replay)
        num_actors = sum(sorted(config.num_actors for config in self.configs)[-self.num_at_once :])
        return Needs(
            self.num_at_once,
            num_actors,
            next((member.device.name for member in self.members if member.device.name != "cpu"), "cpu"),
            num_shards,
            self.memory.shards // num_shards,
            self.memory.learner // self.num_at_once,
            self.memory.actors // max(1, num_actors),
            may_wait=self.num_at_once < len(self.members),
        )


def make_plan(configs: Sequence[TrainConfig], share_replay: bool = False, concurrent: int = 0) -> Plan:
    """Return the plan of a session.

    Args:
        configs: of the members.
        share_replay: one replay for all members.
        concurrent: the most members that may train at the same time; 0: all.

    Raises:
        ConfigError: the configs have mistakes, the members cannot share a replay, or there is too little memory.
    """
    raise_problems(list(dict.fromkeys(problem for config in configs for problem in find_problems(config))))
    environments, algorithms, problems = _build_algorithms(configs)
    num_at_once = min(concurrent or len(configs), len(configs))
    at_once = configs[:num_at_once] if share_replay else configs
    raise_problems(list(dict.fromkeys([*_find_empty_shards(at_once, share_replay), *problems])))
    members = plan_population(configs, environments, algorithms, share_replay=share_replay, num_at_once=num_at_once)
    problems = list(_find_small_arenas(members))
    if share_replay:
        problems += _find_differences([member.own_unrolls for member in members])
        problems += _find_memoryless(configs, members[0].unrolls.core_state)
    raise_problems(list(dict.fromkeys(problems)))
    try:
        memory = _plan_memory(members, share_replay, num_at_once)
    except ValueError as error:  # networks are built here for the first time
        raise ConfigError(named_problems(error)) from error
    gpus = estimate_gpus(members, num_at_once)
    if not configs[0].has_processes:  # with processes the learners do not run in this one
        raise_problems(list(find_gpu_problems(gpus, num_at_once)))
    return Plan(members, share_replay, memory, gpus, num_at_once, num_at_once)


def _num_shards(members: Sequence[MemberPlan], share_replay: bool) -> int:
    """Return the number of shards of all replays together."""
    owners = members[:1] if share_replay else members
    return sum(owner.config.replay.num_shards for owner in owners)


def build_algorithm(config: TrainConfig, environment: EnvironmentSpec) -> Algorithm:
    """Return the algorithm of a config for an environment.

    Raises:
        ConfigError: the algorithm or the network cannot do with its spaces.
    """
    try:
        return config.algorithm.build(environment, config.network)
    except ActionsError as error:
        fitting = ", ".join(find_fitting(environment))
        raise ConfigError([Problem("algorithm", error.wrong, f"presets that would do: {fitting}")]) from error
    except ValueError as error:
        raise ConfigError(named_problems(error)) from error


def _build_algorithms(
    configs: Sequence[TrainConfig],
) -> tuple[list[EnvironmentSpec], list[Algorithm], list[Problem]]:
    """Return each member's environment and algorithm, and the problems of all of them."""
    known: dict[tuple[str, EnvironmentConfig], EnvironmentSpec] = {}
    problems: list[Problem] = []
    for env, how in dict.fromkeys((config.env, config.environment) for config in configs):
        try:
            known[env, how] = describe_environment(env, how)
        except ConfigError as error:
            problems += error.problems
            continue
        if any(config.capture_video for config in configs if (config.env, config.environment) == (env, how)):
            problems += find_video_problems("capture-video", env, how)
    environments, algorithms = [], []
    for config in configs:
        problems += find_schedule_problems(config)
        environment = known.get((config.env, config.environment))
        if environment is None:
            continue
        try:
            algorithm = build_algorithm(config, environment)
        except ConfigError as error:
            problems += error.problems
            continue
        problems += find_sampler_problems(config, algorithm)
        if config.offline or config.init_replay:
            problems += find_log_problems(config, environment)
        environments.append(environment)
        algorithms.append(algorithm)
    return environments, algorithms, problems


def _find_empty_shards(configs: Sequence[TrainConfig], share_replay: bool) -> list[Problem]:
    """Return a problem for each replay with shards that no actor would fill: an actor inserts into one shard only."""
    replays = [list(configs)] if share_replay else [[config] for config in configs]
    return [
        Problem(
            "replay.num-shards",
            f"{shards} shards need as many actors, each to fill one, got {actors} actor{'s' if actors > 1 else ''}",
            f"use at most {actors}, or more num-actors",
        )
        for shards, actors in dict.fromkeys(
            (users[0].replay.num_shards, sum(config.num_actors for config in users)) for users in replays
        )
        if shards > actors
    ]


def _find_small_arenas(members: Sequence[MemberPlan]) -> Iterator[Problem]:
    """Yield a problem for each replay without room for the frames of one message, which it could never insert."""
    for member in members:
        replay, num_unrolls = member.config.replay, min(member.env_groups)
        needed, given, shards = frame_bytes(member.own_unrolls, num_unrolls), replay.capacity_bytes, replay.num_shards
        if given and given // shards < needed:
            yield Problem(
                "replay.capacity-bytes",
                f"must hold the frames of {num_unrolls} unrolls, which an actor sends together, about {needed:,} bytes "
                f"when compressed, in each of {shards} shards, got {given:,}",
                f"use at least {shards * needed}, far more to learn from, or 0 to derive it from replay.capacity-steps",
            )


def _find_differences(specs: Sequence[UnrollSpec]) -> list[Problem]:
    """Return why members cannot learn from each other's unrolls: each one's first difference to member 0.

    Recurrent states may differ, since a member uses only its own, but not under the same name.
    """
    first, problems = specs[0], []
    states = {name: array for spec in reversed(specs) for name, array in spec.core_state.items()}
    for number, spec in enumerate(specs[1:], start=1):
        for what, ours, theirs in (
            ("action masks", _has_masks(first), _has_masks(spec)),
            ("observations", first.environment.observations, spec.environment.observations),
            ("actions", first.environment.actions, spec.environment.actions),
            ("behaviour statistics", first.behaviour, spec.behaviour),
            ("recurrent states", {name: states[name] for name in spec.core_state}, spec.core_state),
            ("unroll lengths", first.unroll_length, spec.unroll_length),
            # Last: equal shapes are not equal meanings. Two games may both have six actions.
            ("environments", first.environment.id, spec.environment.id),
            ("action repeats", first.environment.action_repeat, spec.environment.action_repeat),
        ):
            if ours != theirs:
                wrong = f"members 0 and {number} cannot learn from each other: their {what} are {ours} and {theirs}"
                problems.append(Problem("share-replay", wrong, "use --no-share-replay"))
                break
    return problems


def _has_masks(spec: UnrollSpec) -> str:
    return "given" if spec.environment.has_action_masks else "missing"


def _find_memoryless(configs: Sequence[TrainConfig], states: Mapping[str, ArraySpec]) -> list[Problem]:
    """Return a problem for each member that draws single steps from a replay of recurrent agents.

    Such a replay keeps no recurrent states for single steps.
    """
    remedy = "use --no-share-replay, or network.core none"
    return [
        Problem(
            "share-replay",
            f"member {number} learns from single steps, which a replay shared with recurrent members does not keep",
            remedy,
        )
        for number, config in enumerate(configs)
        if states and config.algorithm.view == "steps"
    ]


def _plan_memory(members: Sequence[MemberPlan], share_replay: bool, num_at_once: int) -> MemoryEstimate:
    """Return the memory that a session will need at most, with its largest members at the same time.

    Raises:
        ConfigError: the session does not fit on this machine.
    """
    settings = [member.replay for member in members]
    first = members[0]
    if share_replay:
        held = replay_bytes(first.unrolls, first.config.replay, settings)
    else:
        each = [replay_bytes(member.unrolls, member.config.replay, [member.replay]) for member in members]
        held = sum(sorted(each)[-num_at_once:])
    counts: dict[object, int] = {}
    num_weights = []
    for member in members:
        config = member.config
        key = (config.env, config.environment, config.algorithm, config.network)
        if key not in counts:
            counts[key] = _num_weights(member.algorithm)
        num_weights.append(counts[key])
    num_shards = _num_shards(members[:num_at_once], share_replay)
    estimate = estimate_memory(members, num_weights, held, num_shards, num_at_once)
    if not first.config.ray_address:  # on a cluster the memory of its nodes counts
        raise_problems(list(find_memory_problems(estimate, available_memory(), num_at_once, share_replay)))
    return estimate


def _num_weights(algorithm: Algorithm) -> int:
    """Return the number of weights of an algorithm's networks, if possible without allocating them."""
    try:
        with torch.device("meta"):
            networks = algorithm.make_networks()
    except (NotImplementedError, RuntimeError):  # a user's own network may read its weights
        networks = algorithm.seeded_networks(0)
    return sum(item.numel() for item in networks.parameters())


def named_problems(error: ValueError) -> list[Problem]:
    """Return the problems in an error that names a setting, e.g. "network.torso: ..."; raise any other error."""
    if isinstance(error, ConfigError):
        return error.problems
    named = re.fullmatch(r"((?:algorithm|network|env)[\w.-]*): (.*)", str(error), re.DOTALL)
    if named is None:
        raise error
    return [Problem(*named.groups())]
