"""The figures of a sweep: members' curves, the best curve, the return over a setting, lineage and schedule."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from laser.config import ConfigError
from laser.environments import task_ids
from laser.scoring.protocols import BucketScores, point_wise_best, protocol_for
from launch.dashboard.facets import Facet, View, draw_facet
from launch.dashboard.figures import (
    Curve,
    Figure,
    Theme,
    line_figure,
    message_figure,
)
from launch.dashboard.incumbent import best_member_figure
from launch.dashboard.library import Library
from launch.dashboard.lineage_figures import lineage_figure, steps_figure
from launch.dashboard.member_groups import MOST_GROUPS, few_groups, member_label
from launch.dashboard.panels import AXIS_TITLES
from launch.dashboard.sweeps import Decision, read_schedule
from launch.evaluation.agents_compared import agents_of
from launch.evaluation.settings_compared import SettingReturns
from launch.formats import short
from launch.records.curves import bucket_scores
from launch.records.lineage import ancestry
from launch.records.listing import Entry, member_number
from launch.records.series import EMPTY, Axis, Series

_MOST_IN_LEGEND = 8
"""Curves that a legend above the figure has room for; the tables' marks name them however many there are."""

NUM_POINTS = 400
"""Points per curve of a member."""


def members_figure(library: Library, members: list[Entry], groups: Mapping[str, list[Entry]], view: View) -> Figure:
    """Draw one metric of every member, or of every setting over its seeds.

    Args:
        library: reads the curves.
        members: of the sweep.
        groups: the members of each curve by its name.
        view: the controls; its first metric is drawn.
    """
    figure = draw_facet(library, Facet(view.metrics[0], "", tuple(members), False), groups, frozenset(), view)
    figure["layout"]["showlegend"] = 1 < len(groups) <= _MOST_IN_LEGEND
    for trace in figure["data"]:
        trace["meta"] = trace.get("opacity", 1.0)  # assets/curves.js makes lines pale, and later as they were
    return figure


def best_figure(
    library: Library, members: list[Entry], axis: Axis, theme: Theme, settings: Sequence[SettingReturns] = ()
) -> Figure:
    """Draw the best member at each moment; of an agent that plays several games the paper's curve, bucket by bucket.

    Buckets end at a number of frames; of the axes only env steps are a multiple of these.

    Args:
        library: reads the curves.
        members: of the sweep.
        axis: of time.
        theme: of colours.
        settings: of the members; () in a population, whose members change theirs.
    """
    if plays_one_game(members):
        return best_member_figure(library, members, settings, axis, theme)
    if axis not in ("env_steps", "frames"):
        return message_figure("buckets are counted in env steps and frames: choose one of these axes", theme)
    repeat = _action_repeat(library, members) if axis == "env_steps" else 1.0
    protocol = protocol_for([task for member in members for task in _tasks(member)])
    names = (protocol.score, "ends_at", "fewest_episodes")
    scores, ends, episodes = (_series(library, members, f"buckets/{name}") for name in names)
    known = [member for member in members if member.key in scores and member.key in ends]
    agents = agents_of([(str(member.config.get("env")), member.overrides) for member in known])
    runs = [
        BucketScores(agent, bucket_scores(scores[member.key], ends[member.key]))
        for agent, member in zip(agents, known, strict=True)
    ]
    x, y = point_wise_best(runs, protocol)
    if not len(x):
        words = (
            "no bucket of episodes is complete yet" if not runs else "different games have no common curve of returns"
        )
        return message_figure(words, theme)
    curves = [
        Curve(member_label(member), ends / repeat, score, is_faint=True, colour=6)
        for member, (ends, score) in zip(known, [point_wise_best([run], protocol) for run in runs], strict=True)
    ]
    title = f"{AXIS_TITLES[axis]} per member"
    figure = line_figure([*curves, Curve("best", x / repeat, y, colour=1)], title, protocol.title, theme)
    figure["layout"]["showlegend"] = False
    numbers = [bucket_scores(episodes.get(member.key, EMPTY), ends[member.key]) for member in known]
    figure["data"][-1] |= {
        "customdata": [_best_in_words(end, best, numbers) for end, best in zip(x.tolist(), y.tolist(), strict=True)],
        "hovertemplate": "%{customdata}<extra></extra>",
    }
    return figure


def _best_in_words(end: float, best: float, numbers: Sequence[Mapping[float, float]]) -> str:
    """Return the best score of a bucket, and the fewest episodes that any member's mean of a game stands for there.

    Args:
        end: of the bucket, in frames.
        best: score.
        numbers: each member's fewest episodes by the end of a bucket.
    """
    fewest = min((of_member[end] for of_member in numbers if end in of_member), default=None)
    if fewest is None:  # recorded before episodes were counted
        return f"best: {short(best)}"
    episodes = "episode" if fewest == 1 else "episodes"
    return f"best: {short(best)}; behind each mean of a game in this bucket at least {fewest:.0f} {episodes}"


def plays_one_game(members: list[Entry]) -> bool:
    """Return whether all members play the same game, so that their returns can be compared."""
    return len({_tasks(member) for member in members}) <= 1 and all(len(_tasks(member)) <= 1 for member in members)


def descent_figure(
    library: Library, members: list[Entry], decisions: list[Decision], whose: Entry | None, theme: Theme
) -> Figure:
    """Draw the copies between members, with the ancestors of one member as a thick line."""
    if not decisions:
        return message_figure("no member has been compared with another yet", theme)
    ends: dict[int, float] = {}
    for member in members:
        moment = library.summary(member).latest.moment
        ends[member_number(member)] = float(moment.env_steps) if moment else 0.0
    number_of = member_number(whose) if whose is not None else 0
    lanes = lanes_of(library, members)
    lane = {member: place for place, (_, numbers) in enumerate(lanes) for member in numbers}
    known = [decision for decision in decisions if decision.member in lane]
    return lineage_figure(
        {place: name for place, (name, _) in enumerate(lanes)},
        {place: max(ends[member] for member in numbers) for place, (_, numbers) in enumerate(lanes)},
        [(d.env_steps, lane.get(d.copied, -1), lane[d.member], _describe(d)) for d in known if d.copied is not None],
        [(d.env_steps, lane[d.member], _describe(d)) for d in known if d.copied is None],
        [
            (begin, end, lane[member])
            for begin, end, member in ancestry(number_of, decisions, ends.get(number_of, 0.0))
            if member in lane
        ],
        theme,
    )


def lanes_of(library: Library, members: list[Entry]) -> list[tuple[str, list[int]]]:
    """Return the lanes of a population's lineage: name, and numbers of its members.

    A lane is a member; in a population of more than 64 it is a setting that members began with, or a range of one.
    """
    return [
        (name if len(members) <= MOST_GROUPS else f"{name} ({len(group)})", [member_number(each) for each in group])
        for name, group in few_groups(library, members).items()
    ]


def _describe(decision: Decision) -> str:
    what = f"copied member {decision.copied}" if decision.copied is not None else "kept its weights"
    lines = [f"member {decision.member} {what} at {decision.env_steps:,} env steps"]
    own = decision.fitness.get(decision.member)
    if own is not None:
        other = decision.fitness.get(decision.copied) if decision.copied is not None else None
        lines.append(f"fitness {short(own)}" + ("" if other is None else f", the model's {short(other)}"))
    return "\n".join([*lines, *(f"{key} {short(value)}" for key, value in decision.settings.items())])


def schedule_figure(library: Library, whose: Entry | None, theme: Theme) -> Figure:
    """Draw the settings schedule of a member, through all its ancestors."""
    changes = read_schedule(whose.path / "schedule.json") if whose is not None else []
    if whose is None or not changes:
        return message_figure("this member has no schedule yet", theme)
    moment = library.summary(whose).latest.moment
    changes = [*changes, (max(changes[-1][0], moment.env_steps if moment else 0), changes[-1][1])]
    steps = np.array([at for at, _ in changes], float)
    keys = list(dict.fromkeys(key for _, settings in changes for key in settings))
    curves = [
        Curve(key.rpartition(".")[2], steps, np.array([settings.get(key, math.nan) for _, settings in changes]))
        for key in keys
    ]
    return steps_figure(curves, "env steps", theme)


def _action_repeat(library: Library, members: list[Entry]) -> float:
    moments = [library.summary(member).latest.moment for member in members]
    return next((m.frames / m.env_steps for m in moments if m is not None and m.env_steps > 0), 1.0)


def _tasks(member: Entry) -> tuple[str, ...]:
    try:
        return task_ids(str(member.config.get("env", "")))
    except ConfigError:  # a damaged record
        return ()


def _series(library: Library, members: list[Entry], name: str) -> dict[str, Series]:
    found = {member.key: library.series(member, [name], NUM_POINTS) for member in members}
    return {key: series[name] for key, series in found.items() if name in series}
