"""The config of a sweep: a base config, the values to try by key, and the members made from both."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from laser.config import Bounds, ConfigError, Problem, find_problems, raise_problems
from launch.presets import load_preset
from launch.records.run_directory import config_from_record
from launch.settings.json_form import config_to_json
from launch.settings.seeds import seed_for
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import apply_overrides, find_leaves
from launch.sweeps.population import PbtConfig
from launch.sweeps.search_space import Dimension, draw_settings, find_space_problems, num_distinct, parse_space
from launch.sweeps.value_lists import PRESET, find_repeated, parse_lists, value_text

_MOST_MEMBERS = 4096

OF_THE_WHOLE_SWEEP = ("run-dir", "runtime", "quiet", "json", "resume", "checkpoint-replay", "schedule", "ray-address")
"""Keys that all members have in common."""

_OWN_IN_A_SHARED_REPLAY = ("replay.min-steps", "replay.samples-per-insert")

_THE_SAME_IN_A_SHARED_REPLAY = ("env", "unroll-length", "environment.action-repeat")

_OF_A_PRESET = ("algorithm.", "network.", *_OWN_IN_A_SHARED_REPLAY)

ONE_MEMBER = Problem(
    "grid",
    "is missing: the sweep would have one member",
    "for example --grid algorithm.learning-rate=3e-4,6e-4, or --seeds 4",
)


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep besides the config of its members."""

    seeds: Annotated[
        int, Bounds(least=1, most=_MOST_MEMBERS), "members per point of the grid, each with a seed of its own"
    ] = 1
    sample: Annotated[
        int, Bounds(least=0, most=_MOST_MEMBERS), "settings to draw at random from the ranges and choices of --space"
    ] = 0
    share_replay: Annotated[
        bool, "all members insert into one replay and draw from all of it; --no-share-replay: one replay per member"
    ] = True
    concurrent: Annotated[
        int, Bounds(least=0, most=_MOST_MEMBERS), "members that train at the same time, the others wait; 0: all"
    ] = 0
    pbt: Annotated[bool, "population based training: members copy and change settings while they train"] = False


@dataclass(frozen=True)
class SweepMember:
    """One member: its number, its config, and its overrides of the base config."""

    number: int
    config: TrainConfig
    overrides: dict[str, Any]


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
    """

    base: TrainConfig
    grid: dict[str, list[Any]]
    options: SweepOptions = field(default_factory=SweepOptions)
    pbt: PbtConfig = field(default_factory=PbtConfig)
    zipped: dict[str, list[Any]] = field(default_factory=dict)
    space: dict[str, Dimension] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """The keys whose values differ between members."""
        return list(dict.fromkeys([*self.grid, *self.zipped, *self.space]))

    @property
    def _by_flag(self) -> dict[str, Mapping[str, Any]]:
        return {"grid": self.grid, "zip": self.zipped, "space": self.space}

    def members(self) -> list[SweepMember]:
        """Return the members: each point of the grid with each of the zipped and the drawn settings, once per seed.

        The last key of the grid changes faster than its first one; drawn settings change faster still, and seeds most.

        Raises:
            ConfigError: the mistakes of all members.
        """
        of_options = list(find_problems(self.options))
        problems = [*of_options, *self._listed_problems()]
        wrong = find_space_problems(self.space, self.base)
        if self.options.pbt:
            problems += [dataclasses.replace(item, key=f"pbt.{item.key}") for item in find_problems(self.pbt)]
        num_seeds, num_samples = max(1, self.options.seeds), max(0, self.options.sample) if self.space else 0
        rows = [dict(zip(self.zipped, row, strict=True)) for row in zip(*self.zipped.values(), strict=False)] or [{}]
        num_members = math.prod(map(len, self.grid.values())) * len(rows) * max(1, num_samples) * num_seeds
        if num_members > _MOST_MEMBERS:
            too_many = f"makes {num_members:,} members, and a sweep has at most {_MOST_MEMBERS:,}"
            found = [] if of_options else [Problem("grid" if self.grid else "sample", too_many, "list fewer values")]
            raise ConfigError([*problems, *wrong, *found])
        drawn = [] if wrong else draw_settings(self.space, self.base, num_samples, self.base.seed)
        grid = [dict(zip(self.grid, point, strict=True)) for point in itertools.product(*self.grid.values())]
        points = [point | row | draw for point, row, draw in itertools.product(grid, rows, drawn or [{}])]
        problems += wrong
        members: list[SweepMember] = []
        for number, (overrides, _) in enumerate(itertools.product(points, range(num_seeds))):
            start, where, values = self.base, "", dict(overrides)
            if PRESET in values:
                name = values.pop(PRESET)
                start, where = learning_as(name, self.base, self.options.share_replay), f"of preset {name}: "
            config, found = apply_overrides(start, values, NOT_FLAGS, where)
            problems += found
            if "seed" not in overrides:
                config = dataclasses.replace(config, seed=seed_for(self.base.seed, "member", number))
            members.append(SweepMember(number, config, overrides))
            problems += find_problems(config)
        if num_samples:  # each draw breaks a rule with another value
            problems = list({(item.key, item.remedy): item for item in reversed(problems)}.values())[::-1]
        if self.options.pbt and not problems:
            configs = [member.config for member in members]
            problems += [dataclasses.replace(item, key=f"pbt.{item.key}") for item in self.pbt.never(configs)]
        raise_problems(list(dict.fromkeys(problems)))
        return members

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
        if self.options.pbt:
            found += self.pbt.warnings(configs, self.keys)
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
        grid, zipped = (
            {key: [value_text(value) for value in values] for key, values in lists.items()}
            for lists in (self.grid, self.zipped)
        )
        space = {key: str(dimension) for key, dimension in self.space.items()}
        options = dataclasses.asdict(self.options)
        return {"grid": grid, "zip": zipped, "space": space, "options": options, "pbt": config_to_json(self.pbt)}

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
        if self.space and not self.options.sample:
            problems.append(
                Problem("sample", "is missing: a space needs a number of settings to draw", "use --sample 20")
            )
        if self.options.sample and not self.space:
            remedy = "for example --space 'algorithm.learning-rate=log(1e-4,1e-2)'"
            problems.append(Problem("sample", "has no effect without --space", remedy))
        problems += self._waiting_problems()
        if not self.keys and not self.options.sample and self.options.seeds == 1:
            problems.append(ONE_MEMBER)
        return problems

    def _waiting_problems(self) -> Iterator[Problem]:
        """Yield why members of this sweep cannot wait for their turn."""
        if not self.options.concurrent:
            return
        if self.options.pbt:
            wrong = "members that wait cannot be compared, and population based training compares all members"
            yield Problem("concurrent", wrong, "leave out --concurrent or --pbt")
        if self.options.share_replay and self.base.checkpoint_replay:
            wrong = "a shared replay is saved with member 0, which ends before members that wait"
            yield Problem("concurrent", wrong, "leave out --concurrent or --checkpoint-replay")

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


def sweep_from_json(record: dict[str, Any], base: TrainConfig) -> SweepConfig:
    """Rebuild a sweep from its record; values that a newer version added take their defaults.

    Raises:
        ConfigError: the record cannot be read.
    """
    value = record["sweep"]
    grid, wrong = parse_lists(base, _texts(value["grid"]), ())
    zipped, unpaired = parse_lists(base, _texts(value.get("zip", {})), (), "zip")
    space, strange = parse_space(base, [f"{key}={text}" for key, text in value.get("space", {}).items()], ())
    options, problems = apply_overrides(SweepOptions(), value["options"])
    pbt, found = apply_overrides(PbtConfig(), value["pbt"])
    raise_problems([*problems, *found, *wrong, *unpaired, *strange])
    return SweepConfig(base, grid, options, pbt, zipped, space)


def _texts(lists: Mapping[str, list[str]]) -> list[str]:
    return [f"{key}={','.join(f'({item})' for item in items)}" for key, items in lists.items()]


def read_base(record: dict[str, Any], path: Path) -> TrainConfig:
    """Return the base config of a sweep's record, for use in `path`.

    Raises:
        ConfigError: the record is none of a sweep.
        NothingToResumeError: the record's values cannot be read.
        UntrustedError: the record names code that this user has not named before.
    """
    if "sweep" not in record:
        raise ConfigError([Problem("run-dir", f"{path} holds a run, not a sweep", "use laser train --resume")])
    return config_from_record(record, path)
