"""The config of a sweep: a base config, the values to try by key, and the members made from both."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from laser.config import ConfigError, Problem, find_mistyped, find_problems, raise_problems
from launch.evaluation.settings_compared import setting_name
from launch.presets import load_preset
from launch.settings.json_form import config_to_json
from launch.settings.seeds import seed_for
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import apply_overrides, find_leaves
from launch.sweeps.halving import PrunerConfig
from launch.sweeps.population import PbtConfig
from launch.sweeps.scores import find_score_problems
from launch.sweeps.search_space import Dimension, draw_settings, find_space_problems, num_distinct
from launch.sweeps.sweep_options import MOST_MEMBERS, SweepOptions, find_option_problems
from launch.sweeps.value_lists import PRESET, find_repeated, value_text

OF_THE_WHOLE_SWEEP = ("run-dir", "runtime", "quiet", "json", "resume", "checkpoint-replay", "schedule", "ray-address")
"""Keys that all members have in common."""

_OWN_IN_A_SHARED_REPLAY = ("replay.min-steps", "replay.samples-per-insert")

_THE_SAME_IN_A_SHARED_REPLAY = ("env", "unroll-length", "environment.action-repeat", "init-replay", "offline")

_OF_A_PRESET = ("algorithm.", "network.", *_OWN_IN_A_SHARED_REPLAY)

ONE_MEMBER = Problem(
    "grid",
    "is missing: the sweep would have one member",
    "for example --grid algorithm.learning-rate=3e-4,6e-4, or --seeds 4",
)


@dataclass(frozen=True)
class SweepMember:
    """One member.

    Args:
        number: the member's number.
        config: its config.
        overrides: its overrides of the base config.
        setting: number of its setting, which it has in common with members that differ only in their seed.
    """

    number: int
    config: TrainConfig
    overrides: dict[str, Any]
    setting: int


@dataclass(frozen=True)
class SweepConfig:
    """A sweep.

    Args:
        base: config of all members; its `run_dir` is the sweep's.
        grid: the values to try, by key.
        options: see `SweepOptions`.
        pbt: settings of population based training, if `options.pbt`.
        zipped: lists of equal length by key; the first values are tried together, then the second ones, and so on.
        space: ranges and choices by key, from which `options.sample` settings are drawn with the seed of `base`.
        pruner: settings of the pruner, if `options.pruner` names one.
    """

    base: TrainConfig
    grid: dict[str, list[Any]]
    options: SweepOptions = field(default_factory=SweepOptions)
    pbt: PbtConfig = field(default_factory=PbtConfig)
    zipped: dict[str, list[Any]] = field(default_factory=dict)
    space: dict[str, Dimension] = field(default_factory=dict)
    pruner: PrunerConfig = field(default_factory=PrunerConfig)

    def _mistyped(self) -> Iterator[Problem]:
        """Yield the arguments that are not of their types."""
        for key, hint in (
            ("base", TrainConfig),
            ("options", SweepOptions),
            ("pbt", PbtConfig),
            ("pruner", PrunerConfig),
            ("grid", Mapping[str, Any]),
            ("zipped", Mapping[str, Any]),
            ("space", Mapping[str, Any]),
        ):
            yield from find_mistyped(key, getattr(self, key), hint)
        for flag, lists in (("grid", self.grid), ("zipped", self.zipped)):
            for key, values in lists.items() if isinstance(lists, Mapping) else ():
                if not isinstance(values, Collection) or isinstance(values, str):
                    yield Problem(f"{flag}.{key}", f"must be a list of values, got {values!r}", f"use [{values!r}]")
                elif not len(values):
                    yield Problem(f"{flag}.{key}", "lists no values", "list one or more, or leave it out")
        for key, dimension in self.space.items() if isinstance(self.space, Mapping) else ():
            yield from find_mistyped(f"space.{key}", dimension, Dimension)

    @property
    def keys(self) -> list[str]:
        """The keys whose values differ between members."""
        return list(dict.fromkeys([*self.grid, *self.zipped, *self.space]))

    @property
    def listed(self) -> dict[str, list[Any]]:
        """The values of the grid and of zipped lists, by key."""
        return self.grid | self.zipped

    @property
    def _by_flag(self) -> dict[str, Mapping[str, Any]]:
        return {"grid": self.grid, "zip": self.zipped, "space": self.space}

    def members(self) -> list[SweepMember]:
        """Return the members: each point of the grid with each of the zipped and the drawn settings, once per seed.

        The last key of the grid changes faster than its first one; drawn settings change faster still, and seeds most.
        With a tuner they change before the grid does: it chooses for all points by turns.

        Raises:
            ConfigError: the mistakes of all members.
        """
        raise_problems(list(self._mistyped()))
        of_options = list(find_problems(self.options))
        problems = [*of_options, *self._listed_problems()]
        wrong = find_space_problems(self.space, self.base)
        if self.options.pbt:
            problems += [dataclasses.replace(item, key=f"pbt.{item.key}") for item in find_problems(self.pbt)]
        if self.options.prunes:
            problems += [dataclasses.replace(item, key=f"pruner.{item.key}") for item in find_problems(self.pruner)]
        num_seeds, num_samples = max(1, self.options.seeds), max(0, self.options.sample) if self.space else 0
        rows = [dict(zip(self.zipped, row, strict=True)) for row in zip(*self.zipped.values(), strict=False)] or [{}]
        num_members = math.prod(map(len, self.grid.values())) * len(rows) * max(1, num_samples) * num_seeds
        if num_members > MOST_MEMBERS:
            too_many = f"makes {num_members:,} members, and a sweep has at most {MOST_MEMBERS:,}"
            found = [] if of_options else [Problem("grid" if self.grid else "sample", too_many, "list fewer values")]
            raise ConfigError([*problems, *wrong, *found])
        drawn: list[dict[str, Any]] = []
        if not wrong:
            even = self.options.even_draws
            drawn = draw_settings(self.space, self.base, num_samples, self.base.seed, even=even)
        grid = [dict(zip(self.grid, point, strict=True)) for point in itertools.product(*self.grid.values())]
        points = [
            point | row | draw
            for point, row in itertools.product(grid, rows)
            for draw in self._drawn(point | row, drawn)
        ]
        if self.options.tunes and num_samples:
            points = [points[index] for draw in range(num_samples) for index in range(draw, len(points), num_samples)]
        problems += wrong
        members: list[SweepMember] = []
        names: dict[str, int] = {}
        for number, (overrides, _) in enumerate(itertools.product(points, range(num_seeds))):
            # A tuner chooses each setting anew, equal or not.
            name = str(number // num_seeds) if self.options.tunes else setting_name(overrides)
            member, found = self._member(number, names.setdefault(name, len(names)), overrides)
            members.append(member)
            problems += found
        if num_samples:  # each draw breaks a rule with another value
            problems = list({(item.key, item.remedy): item for item in reversed(problems)}.values())[::-1]
        raise_problems(list(dict.fromkeys(problems or self._comparison_problems(members))))
        return members

    def _drawn(self, point: Mapping[str, Any], drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the drawn values of a point's settings.

        A tuner chooses them anew later; until then a draw that breaks a rule at this point is one that does not.
        """
        if not (self.options.tunes and drawn):
            return drawn or [{}]
        fits = [not self._member(0, 0, {**point, **draw})[1] for draw in drawn]
        spare = drawn[fits.index(True)] if any(fits) else None
        return [draw if fit or spare is None else spare for draw, fit in zip(drawn, fits, strict=True)]

    def member(self, number: int, setting: int, overrides: Mapping[str, Any]) -> SweepMember:
        """Return the member that has these overrides of the base config.

        Raises:
            ConfigError: the mistakes of its config.
        """
        member, problems = self._member(number, setting, overrides)
        raise_problems(problems)
        return member

    def _member(self, number: int, setting: int, overrides: Mapping[str, Any]) -> tuple[SweepMember, list[Problem]]:
        start, where, values = self.base, "", dict(overrides)
        if PRESET in values:
            name = values.pop(PRESET)
            start, where = learning_as(name, self.base, self.options.share_replay), f"of preset {name}: "
        config, problems = apply_overrides(start, values, NOT_FLAGS, where)
        if "seed" not in overrides:
            config = dataclasses.replace(config, seed=seed_for(self.base.seed, "member", number))
        return SweepMember(number, config, dict(overrides), setting), [*problems, *find_problems(config)]

    def _comparison_problems(self, members: Sequence[SweepMember]) -> Iterator[Problem]:
        """Yield why members would never be compared, although the sweep is to compare them."""
        configs = [member.config for member in members]
        if self.options.pbt:
            yield from (dataclasses.replace(item, key=f"pbt.{item.key}") for item in self.pbt.never(configs))
        first, found = 1, []
        if self.options.prunes:
            found = list(self.pruner.never(configs, len({member.setting for member in members})))
            first = self.pruner.first(configs)
        if self.options.prunes or self.options.tunes:
            yield from found or find_score_problems(self.options.score, configs, first)

    def warnings(self) -> list[Problem]:
        """Return warnings about settings of any member without effect, or with an unexpected effect, each once."""
        members = self.members()
        configs = [member.config for member in members]
        found = [problem for config in configs for problem in config.warnings()]
        if self.space and self.options.sample > (held := num_distinct(self.space, self.base)):
            wrong = (
                f"the space holds {held:.0f} settings, so some of the {self.options.sample} are drawn more than once"
            )
            found.append(Problem("sample", wrong, "use --grid to try each once"))
        if not self.options.even_draws and (self.options.tunes or not self.space):
            why = "the tuner chooses" if self.options.tunes else "nothing is drawn"
            found.append(Problem("even-draws", f"has no effect: {why}", "leave it out"))
        if not self.options.prunes and self.pruner != PrunerConfig():
            found.append(Problem("pruner", "its settings have no effect: nothing is pruned", "add --pruner asha"))
        if not self.options.pbt and self.pbt != PbtConfig():
            found.append(Problem("pbt", "its settings have no effect: the population does not change", "add --pbt"))
        if self.options.pbt:
            found += self.pbt.warnings(configs, self.keys)
        if self.options.prunes and not self.options.share_replay:
            found += self.pruner.warnings(configs)
        if self.options.share_replay:
            drawn = self.base.replay.sampler
            for name in dict.fromkeys(member.overrides[PRESET] for member in members if PRESET in member.overrides):
                preferred = load_preset(name).replay.sampler
                if preferred not in ("uniform", drawn):
                    wrong = f"{drawn} replaces {preferred}, the sampler of preset {name}: the members share one replay"
                    found.append(Problem("replay.sampler", wrong, "use --no-share-replay for the presets' samplers"))
        return list(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON values that `sweep_from_json` reads; the record holds the base separately."""
        return {
            **self.texts(),
            "options": dataclasses.asdict(self.options),
            "pbt": config_to_json(self.pbt),
            "pruner": config_to_json(self._lasting_pruner),
        }

    def texts(self) -> dict[str, dict[str, Any]]:
        """Return grid, zipped lists and space as users write them, by flag."""
        grid, zipped = (
            {key: [value_text(value) for value in values] for key, values in lists.items()}
            for lists in (self.grid, self.zipped)
        )
        return {"grid": grid, "zip": zipped, "space": {key: str(dimension) for key, dimension in self.space.items()}}

    @property
    def _lasting_pruner(self) -> PrunerConfig:
        """The pruner whose rungs stay where they are if the sweep is resumed with more steps."""
        if not self.options.prunes:
            return self.pruner
        configs = [member.config for member in self.members()]
        return dataclasses.replace(self.pruner, first_rung=self.pruner.first(configs))

    def _listed_problems(self) -> list[Problem]:
        """Return the mistakes in the keys and in the numbers of values; members and space report those in values."""
        problems = list(self._repeated())
        for flag, keys in self._by_flag.items():
            for key, listed in keys.items():
                fixed = key.startswith("replay.") and key not in _OWN_IN_A_SHARED_REPLAY
                differs = not isinstance(listed, list) or len(listed) > 1
                if key in OF_THE_WHOLE_SWEEP:
                    problems.append(Problem(flag, f"{key} has one value for the whole sweep", f"use --{key}"))
                elif self.options.share_replay and (fixed or (differs and key in _THE_SAME_IN_A_SHARED_REPLAY)):
                    remedy = "use --no-share-replay, or one value"
                    problems.append(Problem(flag, f"{key} cannot differ: the members share one replay", remedy))
        if PRESET in self.keys:
            problems += self._overruled()
        if "seed" in self.keys and self.options.seeds > 1:
            flag = next(flag for flag, keys in self._by_flag.items() if "seed" in keys)
            problems.append(Problem(flag, "seed lists the seeds, and so does --seeds", "leave one of them out"))
        num_points = math.prod(map(len, self.grid.values())) * max(map(len, self.zipped.values()), default=1)
        problems += find_option_problems(self.options, self.listed, list(self.space), num_points)
        if not self.keys and not self.options.sample and self.options.seeds == 1:
            problems.append(ONE_MEMBER)
        return problems

    def _repeated(self) -> Iterator[Problem]:
        """Yield a problem for each value, point or key that is given more than once, and for lists that do not pair."""
        remedy = "--seeds N trains each point N times"
        for key, values in self.grid.items():
            if twice := find_repeated(values):
                yield Problem("grid", f"{key} lists {twice} twice", remedy)
        unpaired = find_unpaired(self.zipped)
        if unpaired:
            yield from unpaired
        elif twice := find_repeated(list(zip(*self.zipped.values(), strict=True))):
            yield Problem("zip", f"{', '.join(self.zipped)} list {twice} twice", remedy)
        for one, other in (("grid", "zip"), ("grid", "space"), ("zip", "space")):
            both = [key for key in self._by_flag[one] if key in self._by_flag[other]]
            yield from (Problem(other, f"{key} has values in --{one} too", "leave one of them out") for key in both)

    def _overruled(self) -> list[Problem]:
        """Return a problem for each setting given for all members that the grid's presets decide."""
        if not self.base.preset:
            return []
        learns = learning_as(self.base.preset, load_preset(self.base.preset), share_replay=True)
        decided = {leaf.key: leaf.value for leaf in find_leaves(learns)}
        return [
            Problem(leaf.key, "has no effect: the presets of the grid decide it", f"use --grid {leaf.key}=VALUE")
            for leaf in find_leaves(self.base)
            if leaf.key.startswith(_OF_A_PRESET) and decided.get(leaf.key) != leaf.value
        ]


def find_unpaired(zipped: Mapping[str, Sequence[Any]]) -> list[Problem]:
    """Return a problem if zipped lists differ in length."""
    lengths = {key: len(values) for key, values in zipped.items()}
    if len(set(lengths.values())) < 2:
        return []
    listed = " and ".join(f"{key} lists {length}" for key, length in lengths.items())
    return [Problem("zip", f"{listed} values, which cannot pair one to one", "list as many of each")]


def learning_as(preset: str, base: TrainConfig, share_replay: bool) -> TrainConfig:
    """Return `base` with a preset's settings of learning: algorithm, network, and amount and start of replay.

    Environment, length and shared settings stay those of `base`. If each member has its own replay, the sampler is the
    preset's too.

    Raises:
        ConfigError: there is no such preset.
    """
    chosen = load_preset(preset)
    own = {leaf.key: leaf.value for leaf in find_leaves(chosen) if leaf.key in _OWN_IN_A_SHARED_REPLAY}
    config = dataclasses.replace(base, preset=chosen.preset, algorithm=chosen.algorithm, network=chosen.network)
    if not share_replay and base.replay.sampler == "uniform":
        config = dataclasses.replace(config, replay=config.replay.drawn_like(chosen.replay))
    return apply_overrides(config, own)[0]
