"""A new plan for a member that has not begun, whose settings are chosen when its turn comes."""

from __future__ import annotations

from dataclasses import replace

from laser.config import ConfigError, Problem, find_problems, raise_problems
from launch.planning.member_plan import MemberPlan, plan_population
from launch.planning.plan import named_problems
from launch.planning.replay_rules import find_sampler_problems
from launch.settings.train_config import TrainConfig


def replan(member: MemberPlan, config: TrainConfig, share_replay: bool) -> MemberPlan:
    """Return the plan of a member with other settings of learning, and all else as planned.

    Args:
        member: its plan, as it was when the session was planned.
        config: its new config, with the same environment and number of actors.
        share_replay: it shares a replay, which knows already how the member will use it.

    Raises:
        ConfigError: the config has mistakes, or the member would use a shared replay in another way than planned.
    """
    raise_problems(list(find_problems(config)))
    try:
        algorithm = config.algorithm.build(member.environment, config.network)
    except ValueError as error:
        raise ConfigError(named_problems(error)) from error
    raise_problems(list(find_sampler_problems(config, algorithm)))
    new = plan_population([config], [member.environment], [algorithm])[0]
    new = replace(
        new,
        number=member.number,
        population=member.population,
        first_actor=member.first_actor,
        replay=replace(new.replay, member=member.number),
    )
    if not share_replay:
        return new
    states, known = new.own_unrolls.core_state, member.unrolls.core_state
    same_unrolls = replace(new.unrolls, core_state=known) == member.unrolls
    if new.replay != member.replay or not same_unrolls or any(known.get(name) != states[name] for name in states):
        wrong = "members would use the shared replay differently: queues, columns, rate limits, states or unrolls"
        raise ConfigError([Problem("share-replay", wrong, "use --no-share-replay")])
    return replace(new, unrolls=member.unrolls)
