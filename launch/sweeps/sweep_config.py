"""The config of a sweep: a base config, a grid of values by key, and the members made from both."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from laser.config import Bounds, ConfigError, Problem, find_problems, key_of, raise_problems
from laser.environments.named_sets import SETS
from launch.presets import load_preset
from launch.settings.json_form import config_from_json, config_to_json
from launch.settings.seeds import seed_for
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import apply_overrides, find_leaves, show, value_at
from launch.sweeps.population import PbtConfig

_MOST_MEMBERS = 4096

OF_THE_WHOLE_SWEEP = ("run-dir", "runtime", "quiet", "json", "resume", "checkpoint-replay", "schedule", "ray-address")
"""Keys that all members have in common."""

_OWN_IN_A_SHARED_REPLAY = ("replay.min-steps", "replay.samples-per-insert")

_OF_A_PRESET = ("algorithm.", "network.", *_OWN_IN_A_SHARED_REPLAY)

ONE_MEMBER = Problem(
    "grid",
    "is missing: the sweep would have one member",
    "for example --grid algorithm.learning-rate=3e-4,6e-4, or --seeds 4",
)

PRESET = "preset"
"""Key whose values in a grid are presets: each member learns by its own preset, so algorithms may differ."""


@dataclass(frozen=True)
class SweepOptions:
    """Options of a sweep besides the config of its members."""

    seeds: Annotated[
        int, Bounds(least=1, most=_MOST_MEMBERS), "members per point of the grid, each with a seed of its own"
    ] = 1
    share_replay: Annotated[
        bool, "all members insert into one replay and draw from all of it; --no-share-replay: one replay per member"
    ] = True
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
    """

    base: TrainConfig
    grid: dict[str, list[Any]]
    options: SweepOptions = field(default_factory=SweepOptions)
    pbt: PbtConfig = field(default_factory=PbtConfig)

    def members(self) -> list[SweepMember]:
        """Return the members: the grid's points in the order of its keys, the last key fastest, each once per seed.

        Raises:
            ConfigError: the mistakes of all members.
        """
        of_options = list(find_problems(self.options))
        problems = [*of_options, *self._grid_problems()]
        if self.options.pbt:
            problems += [dataclasses.replace(item, key=f"pbt.{item.key}") for item in find_problems(self.pbt)]
        num_seeds = max(1, self.options.seeds)
        num_members = math.prod(map(len, self.grid.values())) * num_seeds
        if num_members > _MOST_MEMBERS:
            wrong = f"makes {num_members:,} members, and a sweep has at most {_MOST_MEMBERS:,}"
            raise ConfigError([*problems, *([] if of_options else [Problem("grid", wrong, "list fewer values")])])
        points = list(itertools.product(*self.grid.values()))
        members = []
        for number, (point, _) in enumerate(itertools.product(points, range(num_seeds))):
            overrides = dict(zip(self.grid, point, strict=True))
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
        if self.options.pbt and not problems:
            configs = [member.config for member in members]
            problems += [dataclasses.replace(item, key=f"pbt.{item.key}") for item in self.pbt.never(configs)]
        raise_problems(list(dict.fromkeys(problems)))
        return members

    def warnings(self) -> list[Problem]:
        """Return warnings about settings of any member without effect, or with an unexpected effect, each once."""
        configs = [member.config for member in self.members()]
        found = [problem for config in configs for problem in config.warnings()]
        if self.options.pbt:
            found += self.pbt.warnings(configs, self.grid)
        if self.options.share_replay:
            drawn = self.base.replay.sampler
            for name in self.grid.get(PRESET, ()):
                preferred = load_preset(name).replay.sampler
                if preferred not in ("uniform", drawn):
                    wrong = f"{drawn} replaces {preferred}, the sampler of preset {name}: the members share one replay"
                    found.append(Problem("replay.sampler", wrong, "use --no-share-replay for the presets' samplers"))
        return list(dict.fromkeys(found))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON values that `sweep_from_json` reads; the record holds the base separately."""
        grid = {key: [_text(value) for value in values] for key, values in self.grid.items()}
        return {"grid": grid, "options": dataclasses.asdict(self.options), "pbt": config_to_json(self.pbt)}

    def _grid_problems(self) -> list[Problem]:
        problems = []
        for key, values in self.grid.items():
            shown = [show(value) for value in values]
            twice = sorted({value for value in shown if shown.count(value) > 1})
            if twice:
                remedy = "--seeds N trains each point N times"
                problems.append(Problem("grid", f"{key} lists {', '.join(twice)} twice", remedy))
            if key in OF_THE_WHOLE_SWEEP:
                problems.append(Problem("grid", f"{key} has one value for the whole sweep", f"use --{key}"))
            elif self.options.share_replay and key.startswith("replay.") and key not in _OWN_IN_A_SHARED_REPLAY:
                remedy = "use --no-share-replay, or one value"
                problems.append(Problem("grid", f"{key} cannot differ: the members share one replay", remedy))
        if PRESET in self.grid:
            problems += self._overruled()
        if "seed" in self.grid and self.options.seeds > 1:
            problems.append(Problem("grid", "seed lists the seeds, and so does --seeds", "leave one of them out"))
        if not self.grid and self.options.seeds == 1:
            problems.append(ONE_MEMBER)
        return problems

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


def parse_grid(
    base: TrainConfig, texts: Sequence[str], given_outside: Sequence[str]
) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the values of `KEY=V1,V2` texts, by key, and every mistake in them.

    A value that contains commas is in brackets: `(64,64)`. Values with mistakes are left out.

    Args:
        base: config that has the keys.
        texts: one per --grid.
        given_outside: keys that the user set to one value.
    """
    grid: dict[str, list[Any]] = {}
    problems: list[Problem] = []
    types = {leaf.key: leaf for leaf in find_leaves(base)}
    for text in texts:
        key, equals, listed = text.partition("=")
        key = key_of(key.strip())
        values = _split(listed)
        if not equals or not key:
            problems.append(Problem("grid", f"must be KEY=V1,V2, got {text!r}", "for example seed=0,1,2"))
            continue
        if sum(map(listed.count, "([")) != sum(map(listed.count, ")]")):
            remedy = "for example network.hidden-sizes=(64,64),(128,128)"
            problems.append(Problem("grid", f"{text} has a bracket without its other half", remedy))
            continue
        if key in grid:
            problems.append(Problem("grid", f"{key} is given twice", "list all its values in one --grid"))
            continue
        if key in given_outside:
            problems.append(Problem("grid", f"{key} also has a value outside of the grid", f"leave out --{key}"))
        read = []
        if key == PRESET:
            for value in values:
                found = _preset_problems(value)
                problems += found
                if not found:
                    read.append(value.replace("-", "_"))
            if not values:
                problems.append(Problem("grid", "preset lists no values", f"for example preset={base.preset}"))
            grid |= {key: read} if read else {}
            continue
        if key == "env":  # a set of tasks becomes one member per task
            values = [task for value in values for task in SETS.get(value, (value,))]
        for value in values:
            changed, found = apply_overrides(base, {key: value}, NOT_FLAGS, "in --grid: ", all_texts=True)
            problems += found if found and found[0] not in problems else []
            if not found:
                read.append(value_at(changed, key))
        if not values:
            if key in types:
                problems.append(
                    Problem("grid", f"{key} lists no values", f"for example {key}={show(types[key].value)}")
                )
            else:
                problems += apply_overrides(base, {key: ""}, NOT_FLAGS, "in --grid: ")[1]
        grid |= {key: read} if read else {}
    return grid, problems


def sweep_from_json(record: dict[str, Any], base: TrainConfig) -> SweepConfig:
    """Rebuild a sweep from its record; values that a newer version added take their defaults.

    Raises:
        ConfigError: the record cannot be read.
    """
    value = record["sweep"]
    texts = [f"{key}={','.join(f'({item})' for item in items)}" for key, items in value["grid"].items()]
    options, problems = apply_overrides(SweepOptions(), value["options"])
    pbt, found = apply_overrides(PbtConfig(), value["pbt"])
    grid, wrong = parse_grid(base, texts, ())
    raise_problems([*problems, *found, *wrong])
    return SweepConfig(base, grid, options, pbt)


def read_base(record: dict[str, Any], path: Path) -> TrainConfig:
    """Return the base config of a sweep's record, for use in `path`.

    Raises:
        ConfigError: the record cannot be read.
    """
    if "sweep" not in record:
        raise ConfigError([Problem("run-dir", f"{path} holds a run, not a sweep", "use laser train --resume")])
    return dataclasses.replace(config_from_json(record["config"]), run_dir=path)


def _preset_problems(name: str) -> list[Problem]:
    try:
        load_preset(name)
    except ConfigError as error:
        return [dataclasses.replace(problem, key="grid") for problem in error.problems]
    return []


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else show(value)


def _split(text: str) -> list[str]:
    """Return the parts between commas, leaving those inside brackets together."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text + ","):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth <= 0:
            part = text[start:index].strip()
            bracketed = part.startswith(("(", "[")) and part.endswith((")", "]"))
            parts.append(part[1:-1].strip() if bracketed else part)
            start = index + 1
    return [part for part in parts if part]
