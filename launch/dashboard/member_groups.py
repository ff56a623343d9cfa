"""Groups of a sweep's members: each by itself, the seeds of a setting, or ranges of a setting in a large sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from launch.dashboard.comparing import setting_label, show_setting
from launch.dashboard.library import Library, Summary
from launch.evaluation.settings_compared import SettingReturns, best_setting, compare_settings
from launch.recording.metric_table import RETURN
from launch.records.listing import Entry, member_number

MOST_GROUPS = 64
"""Rows of a map of members, and lanes of their lineage."""


def member_label(member: Entry) -> str:
    """Return a member's name in figures and tables."""
    return f"member {member.path.name}"


def settings_of(library: Library, members: list[Entry]) -> list[SettingReturns]:
    """Return a sweep's settings over their seeds, best first, as the terminal and the report rank them."""
    return settings_among(library.summary(member) for member in members)


def settings_among(summaries: Iterable[Summary]) -> list[SettingReturns]:
    """Return the settings of a sweep's members, whose newest numbers these are, as `settings_of` does."""
    return compare_settings(
        (member_number(each.entry), each.entry.overrides, each.latest.values.get(RETURN, math.nan))
        for each in summaries
    )


def has_seeds(settings: Sequence[SettingReturns]) -> bool:
    """Return whether some setting has several members."""
    return any(len(one.members) > 1 for one in settings)


def best_of_sweep(settings: Sequence[SettingReturns], highest: float | None) -> tuple[str, float | None]:
    """Return what a sweep is judged by, and its return: its best setting over the seeds, or its best member.

    Args:
        settings: of the sweep; [] for a population, whose members change theirs.
        highest: return of a member; None before the first.
    """
    winner = best_setting(settings) if has_seeds(settings) else None
    return ("best member's return", highest) if winner is None else ("best setting's return", winner.mean)


def groups_of_members(members: list[Entry], settings: Sequence[SettingReturns]) -> dict[str, list[Entry]]:
    """Return the members of each curve: those of a setting, or each by itself if there are no settings."""
    if not settings:
        return {member_label(member): [member] for member in members}
    # In the order of members, not of returns: a curve keeps its colour while the settings' order changes.
    in_order = sorted(settings, key=lambda one: min(one.members))
    return {setting_label(one.settings): _of([one], members) for one in in_order}


def few_groups(library: Library, members: list[Entry]) -> dict[str, list[Entry]]:
    """Return at most 64 groups of a sweep's members by name: each member, each setting, or ranges of one setting.

    The ranges, from least to greatest, have about equally many values of the numeric setting with the most values; of
    several such settings, that whose order agrees most with the order of the returns. Where no setting is a number,
    neighbours in the order of members are put together.

    Args:
        library: reads the returns.
        members: of the sweep.
    """
    if len(members) <= MOST_GROUPS:
        return groups_of_members(members, [])
    settings = settings_of(library, members)
    if len(settings) <= MOST_GROUPS:
        return groups_of_members(members, settings)
    key = _key_of_ranges(settings)
    in_order = sorted(settings, key=lambda one: min(one.members) if key is None else _number(one.settings[key]))
    found: dict[str, list[Entry]] = {}
    for part in _parts(in_order, key):
        first, last = part[0].settings, part[-1].settings
        if key is None:
            name = setting_label(first) + (f" to {setting_label(last)}" if len(part) > 1 else "")
        else:
            is_range = _number(last[key]) > _number(first[key])
            name = setting_label({key: first[key]}) + (f" to {show_setting(last[key], key)}" if is_range else "")
        found.setdefault(name, []).extend(_of(part, members))  # two ranges may look the same once they are rounded
    return found


def _of(settings: Iterable[SettingReturns], members: list[Entry]) -> list[Entry]:
    known = {member_number(member): member for member in members}
    return [known[number] for one in settings for number in one.members if number in known]


def _parts(settings: list[SettingReturns], key: str | None) -> list[list[SettingReturns]]:
    """Divide ordered settings into at most 64 parts; those with one value of `key` stay together."""
    together: list[list[SettingReturns]] = []
    for one in settings:
        if together and key is not None and _number(together[-1][0].settings[key]) == _number(one.settings[key]):
            together[-1].append(one)
        else:
            together.append([one])
    parts = np.array_split(np.arange(len(together)), min(MOST_GROUPS, len(together)))
    return [[one for place in part for one in together[place]] for part in parts]


def _key_of_ranges(settings: Sequence[SettingReturns]) -> str | None:
    """Return the setting by whose ranges members are grouped; None if none is a number in all members."""
    columns = {key: np.array([_number(one.settings.get(key)) for one in settings]) for key in settings[0].settings}
    columns = {key: values for key, values in columns.items() if np.isfinite(values).all()}
    num_values = {key: len(np.unique(values)) for key, values in columns.items()}
    finest = [key for key in columns if num_values[key] == max(num_values.values())]
    returns = np.array([one.mean for one in settings])
    return max(finest, key=lambda key: _agreement(columns[key], returns), default=None)


def _agreement(values: np.ndarray, returns: np.ndarray) -> float:
    """Return the size of the rank correlation of a setting with the returns that there are, in [0, 1]."""
    known = np.isfinite(returns)
    own, theirs = (np.unique(each[known], return_inverse=True)[1].astype(np.float64) for each in (values, returns))
    if not known.any() or own.max() == 0 or theirs.max() == 0:
        return 0.0
    return float(abs(np.corrcoef(own, theirs)[0, 1]))


def _number(value: Any) -> float:
    """Return a setting as a number; NaN if it is none."""
    try:
        return math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
