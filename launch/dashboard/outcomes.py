"""Outcomes of a sweep's settings: one row for each setting, with its values and its mean return over its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launch.dashboard.comparing import setting_label
from launch.evaluation.settings_compared import SettingReturns

Value = float | str

NO_RETURN = "no member has a return yet"


@dataclass(frozen=True)
class Outcome:
    """A setting and what it came to.

    Args:
        name: of the setting, or of the member.
        settings: value by key, without the seed.
        value: mean return over its seeds; NaN: none has one.
        num_seeds: seeds with a return.
    """

    name: str
    settings: Mapping[str, Value]
    value: float
    num_seeds: int


def outcomes_of(settings: Sequence[SettingReturns], rows: Sequence[Mapping[str, Any]]) -> list[Outcome]:
    """Return a row for each setting; without settings, as in a population, one for each member.

    Args:
        settings: see `launch.evaluation.settings_compared`; members that differ only in their seed are one.
        rows: of the table of members.
    """
    by_number = {row["number"]: row for row in rows}
    if not settings:
        return [
            Outcome(row["name"], _known(row["settings"]), math.nan if row["return"] is None else row["return"], 1)
            for row in rows
        ]
    found = []
    for one in settings:
        members = [by_number[number] for number in one.members if number in by_number]
        if members:
            found.append(
                Outcome(setting_label(one.settings), _known(members[0]["settings"]), one.mean, len(one.returns))
            )
    return found


def varied(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the keys that have several values, in their order."""
    keys = dict.fromkeys(key for one in outcomes for key in one.settings)
    return [key for key in keys if len({one.settings.get(key) for one in outcomes}) > 1]


def ordered(values: Sequence[Value | None]) -> list[Value]:
    """Return the different values, numbers before words, each from least to greatest."""
    return sorted({value for value in values if value is not None}, key=lambda value: (isinstance(value, str), value))


def _known(settings: Mapping[str, Any]) -> dict[str, Value]:
    return {key: value for key, value in settings.items() if key != "seed" and value is not None}
