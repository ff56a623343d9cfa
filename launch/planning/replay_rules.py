"""Rules between an algorithm and its replay: online queue, rate limit, columns and sampler."""

from __future__ import annotations

import math
from collections.abc import Iterator

from laser.algorithms.base import Algorithm
from laser.config import Problem
from laser.ports import ColumnSpec
from laser.prioritization.base import Prioritizer, find_rule, missing_numbers
from launch.settings.train_config import TrainConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.samplers import View, samplers_called


def walks_streams(config: TrainConfig, algorithm: Algorithm) -> bool:
    """Return whether a member's replayed sequences are episode streams, which are drawn without a sampler."""
    return config.learner.walks_streams(algorithm.core_state, config.algorithm.num_drawn)


def draws_by_sampler(config: TrainConfig, algorithm: Algorithm) -> bool:
    """Return whether a member's draws use the replay's sampler at all."""
    return config.algorithm.num_drawn > 0 and not walks_streams(config, algorithm)


def drawn_view(config: TrainConfig) -> View:
    """Return what a member's sampler draws: sequences that begin at any step, if the config says so."""
    starts_at_steps = config.algorithm.view == "unrolls" and config.replay.sequence_starts == "step"
    return "sequences" if starts_at_steps else config.algorithm.view


def find_prioritizer(config: TrainConfig, algorithm: Algorithm) -> type[Prioritizer] | None:
    """Return the prioritizer that writes the column of the replay's sampler; None if the sampler reads none."""
    if not draws_by_sampler(config, algorithm):
        return None
    kind = samplers_called(config.replay.sampler).get(drawn_view(config))
    return find_rule(kind.prioritizer, kind.column) if kind is not None else None


def find_sampler_problems(config: TrainConfig, algorithm: Algorithm) -> Iterator[Problem]:
    """Yield why the replay's sampler cannot draw for this algorithm."""
    settings, sampler = config.algorithm, config.replay.sampler
    shares_log = config.replay.log_share is not None
    if not draws_by_sampler(config, algorithm):
        if shares_log and settings.num_drawn:
            wrong = "recurrent agents read episode streams, which are not drawn from a log apart from others"
            yield Problem("replay.log-share", wrong, "set learner.replay-core-state to stored or zero")
        return
    kind = samplers_called(sampler).get(view := drawn_view(config))
    if kind is None and view == "sequences":
        wrong = f"{sampler} draws no sequences that begin at any step"
        yield Problem("replay.sequence-starts", wrong, "use unroll, or --replay.sampler uniform")
        return
    if view == "sequences" and algorithm.core_state and config.learner.replay_core_state == "stored":
        wrong = "no recurrent state is stored amid an unroll, where sequences then begin"
        yield Problem("replay.sequence-starts", wrong, "use unroll, or --learner.replay-core-state zero")
        return
    if kind is None:
        wrong = f"{sampler} does not draw {settings.view}, which {settings.name} learns from"
        yield Problem("replay.sampler", wrong, "use --replay.sampler uniform")
        return
    if shares_log and not kind.draws_parts():
        wrong = f"{sampler} does not draw from a log apart from others"
        yield Problem("replay.log-share", wrong, "use --replay.sampler uniform, or leave it out")
    try:
        prioritizer = find_prioritizer(config, algorithm)
    except ValueError as error:
        yield Problem("replay.sampler", f"{sampler} has no rule: {error}")
        return
    missing = missing_numbers(prioritizer, algorithm.per_step) if prioritizer is not None else []
    if missing:
        wrong = f"{sampler} needs {' and '.join(missing)} of every item, which {settings.name} does not provide"
        yield Problem("replay.sampler", wrong, "use --replay.sampler uniform")
    own = {column.name for column in algorithm.columns}
    for column in prioritizer.columns if prioritizer is not None else ():
        if column.name in own:
            wrong = f"{sampler} and {settings.name} would both write the column {column.name}"
            yield Problem("replay.sampler", wrong, "rename the algorithm's column, or use --replay.sampler uniform")
    declared = own | {column.name for column in (prioritizer.columns if prioritizer is not None else ())}
    for name in dict.fromkeys([kind.column, *kind.writes]):
        if name and name not in declared:
            wrong = f"{sampler} uses the column {name}, which neither its rule nor {settings.name} declares"
            yield Problem("replay.sampler", wrong, "declare it in the rule that the sampler names as its `prioritizer`")


def online_capacity(config: TrainConfig) -> int:
    """Return the most fresh unrolls that may wait for the learner, over all shards; 0 if it draws none."""
    algorithm = config.algorithm
    if algorithm.num_online == 0:
        return 0
    # An actor sends one unroll of each of its environments in one message; a shard must have room for all its actors'.
    num_shards = config.replay.num_shards
    per_round = math.ceil(config.num_actors / num_shards) * config.num_envs
    if config.takes_turns:
        # A round is collected before the learner draws, on top of unrolls left over from the last round's batches.
        per_round += algorithm.num_online - 1
        if algorithm.num_drawn:
            # The learner does not draw during warm-up, which may end amid a round. At least every other row is a step.
            per_round += 2 * math.ceil(config.replay.min_steps / num_shards / config.unroll_length) + 1
    # One batch must always fit, however small max_queued is.
    return max(math.ceil(max(1.0, config.learner.max_queued) * algorithm.num_online), num_shards * per_round)


def rate_limit(config: TrainConfig) -> RateLimit:
    """Return the rate limit on a member's inserts and draws, over all shards.

    If the learner draws fresh experience, the online queue sets the pace instead; in lockstep the schedule does.
    """
    settings = config.algorithm
    limits = settings.num_online == 0 and not config.takes_turns
    return RateLimit(
        samples_per_insert=config.replay.samples_per_insert if limits else math.inf,
        min_steps=config.replay.min_steps if settings.num_drawn else 0,
        max_insert_steps=config.num_envs * config.unroll_length,
        max_sample_steps=config.learner.batches_together(settings.view)
        * max(1, settings.num_drawn)
        * settings.rows_per_item(config.unroll_length),
    )


def member_settings(config: TrainConfig, algorithm: Algorithm, number: int = 0) -> MemberSettings:
    """Return a member's settings for the replay, over all shards."""
    prioritizer = find_prioritizer(config, algorithm)
    written: tuple[ColumnSpec, ...] = () if prioritizer is None else prioritizer.columns
    return MemberSettings(
        number,
        online_capacity(config),
        rate_limit(config),
        (*algorithm.columns, *written),
        walks_streams(config, algorithm),
        algorithm.needs_statistics,
    )
