"""Comparison of a sweep's settings: members that differ only in their seed are one setting, ranked by mean return."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.scoring.statistics import LEAST_SEEDS, mean_interval
from launch.evaluation.evaluation_result import Interval
from launch.settings.values import show


@dataclass(frozen=True)
class SettingReturns:
    """The returns of one setting over its seeds.

    Args:
        settings: overrides that its members share, without the seed.
        members: numbers of its members.
        returns: mean return of each member that has one, for example of its last 20 episodes.
    """

    settings: Mapping[str, Any]
    members: tuple[int, ...]
    returns: tuple[float, ...]

    @property
    def name(self) -> str:
        """The settings as text; "all" if the members differ in nothing but their seeds."""
        return ", ".join(f"{key}={show(value)}" for key, value in self.settings.items()) or "all"

    @property
    def mean(self) -> float:
        """Mean over seeds; NaN if no member has a return."""
        return float(np.mean(self.returns)) if self.returns else math.nan

    @property
    def interval(self) -> Interval | None:
        """95 % interval of the mean over seeds; None with fewer than three, of which it would say nothing."""
        if len(self.returns) < LEAST_SEEDS:
            return None
        mean, half = mean_interval(self.returns)
        return mean - half, mean + half

    def words(self, write: Callable[[float], str] = "{:,.1f}".format) -> str:
        """Return the mean with its interval and the number of seeds.

        Args:
            write: returns a number as text.
        """
        if not self.returns:
            return "no return yet"
        around = "" if self.interval is None else f" ({write(self.interval[0])} to {write(self.interval[1])})"
        return f"{write(self.mean)}{around}, {len(self.returns)} seed{'s' if len(self.returns) > 1 else ''}"

    def to_json(self) -> dict[str, Any]:
        """Return the entry `best_setting` of the object that `--json` prints."""
        return {
            "settings": {key: show(value) for key, value in self.settings.items()},
            "members": list(self.members),
            "mean_return": self.mean,
            "interval": None if self.interval is None else list(self.interval),
            "seeds": len(self.returns),
        }


def setting_name(overrides: Mapping[str, Any]) -> str:
    """Return a text that is the same for members that differ only in their seed."""
    return repr(sorted((key, show(value)) for key, value in overrides.items() if key != "seed"))


def compare_settings(members: Iterable[tuple[int, Mapping[str, Any], float]]) -> list[SettingReturns]:
    """Return a sweep's settings, that with the highest mean return first; those without a return are last.

    Members of a population have no setting of their own, since they change it while they train: leave them out.

    Args:
        members: number, overrides and mean return of each member; NaN: it has no return.
    """
    found: dict[str, tuple[dict[str, Any], list[int], list[float]]] = {}
    for number, overrides, mean_return in members:
        settings = {key: value for key, value in overrides.items() if key != "seed"}
        _, numbers, returns = found.setdefault(setting_name(settings), (settings, [], []))
        numbers.append(number)
        if math.isfinite(mean_return):
            returns.append(mean_return)
    compared = [SettingReturns(shared, tuple(numbers), tuple(returns)) for shared, numbers, returns in found.values()]
    return sorted(compared, key=lambda one: -one.mean if one.returns else math.inf)


def best_setting(settings: Sequence[SettingReturns]) -> SettingReturns | None:
    """Return the setting with the highest mean return over its seeds.

    Args:
        settings: see `compare_settings`.

    Returns:
        None if no setting has a return, or if they play different games, whose returns cannot be compared.
    """
    if len({show(one.settings.get("env")) for one in settings}) > 1:
        return None
    return max((one for one in settings if one.returns), key=lambda one: one.mean, default=None)
