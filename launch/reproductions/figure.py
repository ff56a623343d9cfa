"""A figure or table of a paper as data: what it shows, the runs that it needs, and the rules of its verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from laser.environments.named_sets import SETS

Statistic = Literal["final", "area", "best"]
Comparison = Literal["wins", "difference", "ratio", "speed", "value", "near_best"]


@dataclass(frozen=True)
class Size:
    """How large the runs are: the paper's size, or the smallest one.

    Args:
        preset: where the config of every arm begins, unless the arm names its own.
        games: environment ids, or sets of them such as `atari57`; each arm trains on each game.
        steps: env steps per run, and per member of a sweep.
        seeds: runs per arm and game.
        values: settings by the command line's keys.
        over_steps: settings that are this number divided by the steps of the run, such as annealing per step.
        steps_of: env steps of single games, where they differ.
        values_of: settings in addition of single games, by game.
    """

    preset: str
    games: tuple[str, ...]
    steps: int
    seeds: int
    values: Mapping[str, Any] = field(default_factory=dict)
    over_steps: Mapping[str, float] = field(default_factory=dict)
    steps_of: Mapping[str, int] = field(default_factory=dict)
    values_of: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[str, ...]:
        """The environment ids, with named sets replaced by their tasks unless one agent learns them together."""
        return tuple(
            each for game in self.games for each in (SETS.get(game, (game,)) if game != "dmlab30" else (game,))
        )


@dataclass(frozen=True)
class Arm:
    """One way to train, with its label in the legend.

    Args:
        label: in the legend and in tables.
        preset: its own preset at the paper's size; "": that of the size.
        small_preset: the same at the smallest size.
        values: settings by the command line's keys.
        small_values: settings in addition at the smallest size.
        length: env steps as a share of the size's.
        grid: values by key of a sweep, whose members train side by side; {}: a single run.
        small_grid: the grid at the smallest size; {}: the same.
        space: ranges by key, as texts, from which the sweep at the paper's size draws `sample` members.
        sample: see `space`.
        share: whether the members of the sweep share one replay.
        pbt: whether they copy better members.
        pbt_values: settings of population based training by their keys, such as `burn-in`.
    """

    label: str
    preset: str = ""
    small_preset: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)
    small_values: Mapping[str, Any] = field(default_factory=dict)
    length: float = 1.0
    grid: Mapping[str, list[Any]] = field(default_factory=dict)
    small_grid: Mapping[str, list[Any]] = field(default_factory=dict)
    space: Mapping[str, str] = field(default_factory=dict)
    sample: int = 0
    share: bool = False
    pbt: bool = False
    pbt_values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Tune:
    """Settings that every arm is tuned over on every game, with seeds that the comparison does not use.

    The setting with the largest median area under the first curve wins. At the smallest size nothing is tuned: the
    first value of each key is taken.
    """

    grid: Mapping[str, list[Any]]
    seeds: int = 1


@dataclass(frozen=True)
class Curve:
    """A recorded metric that is drawn over env steps, with the words for its axis.

    `small_metric` replaces it at the smallest size, whose games may record other names; "": the same. With `log` the
    axis is logarithmic.
    """

    metric: str
    title: str
    small_metric: str = ""
    log: bool = False


@dataclass(frozen=True)
class Number:
    """A number that the paper prints.

    Args:
        arm: label of the arm, or of another system that the paper cites.
        value: the number, in the unit of the figure's first curve (normalised scores: 1 is human).
        game: environment id; "": over all games.
        metric: of the curve that it belongs to; "": the first.
        note: what it is, such as "at 200M frames".
        at: env steps of the paper's size at which it was reached; 0: it is of the whole run.
    """

    arm: str
    value: float
    game: str = ""
    metric: str = ""
    note: str = ""
    at: int = 0

    def __str__(self) -> str:
        """Return the number with its note."""
        return f"{self.value:g}" + (f" ({self.note})" if self.note else "")


@dataclass(frozen=True)
class Pair:
    """Two arms of which the probability over training is drawn that a run of `arm` has more than one of `than`."""

    arm: str
    than: str


@dataclass(frozen=True)
class Rule:
    """What must hold for the verdict "reproduced", written down before the runs.

    Args:
        claim: of the paper, in words.
        arm: label of the arm that the claim is about.
        than: label of the arm that it is compared with; "" with `compare = "value"`.
        statistic: of each run's curve: `final`, the mean of its last tenth; `area`, its mean; `best`, its largest.
        compare: `wins`, the share of pairs of runs in which `arm` has more; `difference`, its mean; `ratio`, its
            geometric mean; `speed`, the ratio of env steps until 95 % of the rise of `than`; `value`, the
            statistic of `arm` itself; `near_best`, the share of the members of `arm`'s sweeps in the upper half of the
            range of all of them on their game.
        side: on which side of the threshold the whole interval must be; `within`: between `lower` and the threshold,
            for claims that two arms are alike.
        threshold: see `side`.
        lower: see `side`.
        metric: of the curve; "": the first.
    """

    claim: str
    arm: str
    than: str = ""
    statistic: Statistic = "final"
    compare: Comparison = "wins"
    side: Literal["above", "below", "within"] = "above"
    threshold: float = 0.5
    lower: float = -math.inf
    metric: str = ""

    def __str__(self) -> str:
        """Return the rule in words."""
        what = f"the {self.statistic} {self.metric or 'score'} of {self.arm}"
        words = {
            "wins": f"the share of pairs in which {what} is more than that of {self.than}",
            "difference": f"{what} minus that of {self.than}",
            "ratio": f"{what} over that of {self.than}",
            "speed": f"the env steps of {self.arm} until 95 % of the rise of {self.than}, over those of {self.than},",
            "value": what,
            "near_best": f"the share of members for which {what} is in the upper half of the range of all of them",
        }[self.compare]
        place = f"{self.side} {self.threshold:g}" if self.side != "within" else f"{self.lower:g} to {self.threshold:g}"
        return f"{words} is {place} with its whole 95 % interval"


@dataclass(frozen=True)
class Figure:
    """A figure or table.

    Args:
        name: such as `laser/figure-1`.
        title: the first words of its caption.
        shows: what it shows, in a sentence.
        nothing: why there is nothing to run, such as "a diagram"; "": it has runs, or `missing` says why it has none.
        missing: parts of the paper's figure that are not here, each with the reason.
        full: the paper's size; None without runs.
        small: the smallest size.
        arms: ways to train.
        shown_arms: labels of the arms that are drawn, where rules and tables also need others; (): all.
        curves: what is drawn; the first is what numbers and rules are about unless they name another.
        members: what counts of a sweep: at each point its best member, or the members' mean.
        normalised: whether returns are scaled to 0 for random play and 1 for a human.
        wins: whether the probability that an arm beats another one drawn at random is drawn too, with ranks and Elo.
        pairs: arms whose probability to beat one another is drawn instead.
        finals: settings of sweeps over which each member's last tenth is drawn as a point.
        band: around the median, the part of the runs: the quartiles, the 20th to 80th percentile; or around the mean, a
            standard deviation, or the `range` from the lowest run to the highest. `episodes`: around the mean, the 20th
            and 80th percentiles of a bucket's episodes, as the mean over runs; of curves of other metrics than
            `buckets/mean_return` those over runs.
        numbers: of the paper.
        rules: of the verdict.
        tune: what the arms are tuned over; None: nothing.
        runs_of: name of the figure whose runs it uses; "": its own.
    """

    name: str
    title: str
    shows: str
    nothing: str = ""
    missing: tuple[str, ...] = ()
    full: Size | None = None
    small: Size | None = None
    arms: tuple[Arm, ...] = ()
    shown_arms: tuple[str, ...] = ()
    curves: tuple[Curve, ...] = ()
    members: Literal["best", "mean"] = "best"
    normalised: bool = False
    wins: bool = False
    pairs: tuple[Pair, ...] = ()
    finals: tuple[str, ...] = ()
    band: Literal["25-75", "20-80", "deviation", "range", "episodes"] = "25-75"
    numbers: tuple[Number, ...] = ()
    rules: tuple[Rule, ...] = ()
    runs_of: str = ""
    tune: Tune | None = None

    @property
    def has_runs(self) -> bool:
        """Whether there is anything to run."""
        return bool(self.arms)

    @property
    def drawn(self) -> tuple[Arm, ...]:
        """The arms that are drawn."""
        return tuple(arm for arm in self.arms if not self.shown_arms or arm.label in self.shown_arms)

    @property
    def paper(self) -> str:
        """The paper's short name."""
        return self.name.partition("/")[0]

    @property
    def owner(self) -> str:
        """The name of the figure that the runs belong to."""
        return self.runs_of or self.name
