"""The runs of a figure: their commands, their sizes after scaling, and every mistake before anything starts."""

from __future__ import annotations

import dataclasses
import itertools
import math
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from laser.config import ConfigError, Problem, raise_problems
from laser.environments import EnvironmentConfig, describe_environment
from laser.specs import EnvironmentSpec
from launch.planning.plan import build_algorithm
from launch.planning.replay_rules import find_sampler_problems
from launch.presets import load_preset
from launch.records.run_names import slug
from launch.report.repeating import option
from launch.reproductions.figure import Arm, Figure, Size
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.reading import settings_of
from launch.settings.train_config import TrainConfig
from launch.settings.values import find_leaves
from launch.sweeps.population import PbtConfig
from launch.sweeps.search_space import parse_space
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.value_lists import PRESET, list_text

_FIRST_TUNING_SEED = 1_000
_BATCH, _CAPACITY, _WARM_UP = "algorithm.batch-size", "replay.capacity-steps", "replay.min-steps"
Tuned = Mapping[tuple[str, str], Mapping[str, Any]]
"""Settings by arm and game."""


@dataclass(frozen=True)
class Run:
    """A command of a figure: a training run, or a sweep.

    Args:
        arm: label of its arm.
        game: environment id.
        seed: number of the run among those of its arm and game, and its seed.
        words: of the command, without the directory.
        config: config of the run, or the base config of the sweep.
        num_members: members of the sweep; 1 for a single run.
        trial: number of the setting that it tries, in a run of tuning; -1: of the comparison.
        tuned: the settings of tuning.
    """

    arm: str
    game: str
    seed: int
    words: tuple[str, ...]
    config: TrainConfig
    num_members: int = 1
    trial: int = -1
    tuned: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name for its directory, different for every run of a figure."""
        trial = f"trial{self.trial}-" if self.trial >= 0 else ""
        return f"{slug(self.arm)}-{slug(self.game)}-{trial}seed{self.seed}"

    @property
    def env_steps(self) -> int:
        """Env steps of all its members together."""
        return self.config.steps * self.num_members

    def __str__(self) -> str:
        return shlex.join(["laser", *self.words])


def restrict(figure: Figure, options: ReproduceOptions) -> Figure:
    """Return a figure with the arms, environment and preset that the options name, and the rules about these arms.

    Raises:
        ConfigError: no label holds any of the texts.
    """
    chosen: dict[str, Any] = {"games": (options.env,)} if options.env else {}
    if options.preset:
        raise_problems(list(_preset_problems(figure, options)))
        chosen["preset"] = options.preset
    if chosen and figure.full is not None and figure.small is not None:
        is_other = bool(options.env) and options.env not in figure.full.ids
        # Other environments record what the smallest size does, not scores over the paper's tasks.
        curves = [
            dataclasses.replace(curve, metric=curve.small_metric) if is_other and curve.small_metric else curve
            for curve in figure.curves
        ]
        full, small = (
            dataclasses.replace(size, values=_without_presets_own(size) if options.preset else size.values, **chosen)
            for size in (figure.full, figure.small)
        )
        arms = tuple(_for_preset(arm, figure, options) if options.preset else arm for arm in figure.arms)
        figure = dataclasses.replace(figure, full=full, small=small, curves=tuple(curves), arms=arms)
    texts = [text.strip() for text in options.arms.split(";") if text.strip()]
    if not texts or not figure.has_runs:
        return figure
    found = {text: _labels_of(text, figure) for text in texts}
    remedy = f"they are {'; '.join(arm.label for arm in figure.arms)}"
    wrong = [Problem("arms", f"no label of {figure.name} holds {text!r}", remedy) for text in texts if not found[text]]
    if wrong:
        raise ConfigError(wrong)
    arms = tuple(arm for arm in figure.arms if any(arm.label in labels for labels in found.values()))
    there = {arm.label for arm in arms} | {""}
    rules = tuple(rule for rule in figure.rules if {rule.arm, rule.than} <= there)
    pairs = tuple(pair for pair in figure.pairs if {pair.arm, pair.than} <= there)
    return dataclasses.replace(figure, arms=arms, rules=rules, pairs=pairs)


def _labels_of(text: str, figure: Figure) -> list[str]:
    """Return the label that is this text, or else the labels that hold it."""
    labels = [arm.label for arm in figure.arms]
    return [text] if text in labels else [label for label in labels if text in label]


def own_presets(figure: Figure, options: ReproduceOptions) -> list[str]:
    """Return the labels of the arms that have a preset of their own, which `--preset` does not replace."""
    return [arm.label for arm in figure.arms if (arm.small_preset if options.small else arm.preset)]


def _preset_problems(figure: Figure, options: ReproduceOptions) -> Iterator[Problem]:
    """Yield why a figure cannot be run with the preset that the options name."""
    if figure.has_runs and len(own_presets(figure, options)) == len(figure.arms):
        wrong = f"has no effect on {figure.name}: each of its arms has a preset of its own"
        yield Problem("preset", wrong, "leave it out")


def _for_preset(arm: Arm, figure: Figure, options: ReproduceOptions) -> Arm:
    """Return an arm whose own batch and replay, if it has them, are to the user's preset as they were to the figure's.

    A batch holds as many fresh unrolls as the preset's other batches: without replay, the fresh part alone. A replay of
    3M steps beside one of 10M holds three tenths of the preset's.
    """
    size, small = (figure.small if options.small else figure.full), options.small
    own = {**arm.values, **(arm.small_values if small else {})}
    if not {_BATCH, _CAPACITY} & set(own) or size is None or (arm.small_preset if small else arm.preset):
        return arm
    before, after = load_preset(size.preset, settings_of(size.values)), load_preset(options.preset)
    changed: dict[str, Any] = {}
    if _BATCH in own and before.algorithm.num_online and after.algorithm.num_online:
        changed[_BATCH] = max(1, round(own[_BATCH] * after.algorithm.num_online / before.algorithm.num_online))
    if _CAPACITY in own:
        share = own[_CAPACITY] / before.replay.capacity_steps
        changed[_CAPACITY] = max(1, round(share * after.replay.capacity_steps))
    if small:
        return dataclasses.replace(arm, small_values={**arm.small_values, **changed})
    return dataclasses.replace(arm, values={**arm.values, **changed})


def _without_presets_own(size: Size) -> dict[str, Any]:
    """Return a size's settings without network and capacity, which belong to the preset that the user names."""
    return {key: value for key, value in size.values.items() if not key.startswith("network.") and key != _CAPACITY}


def size_of(figure: Figure, options: ReproduceOptions) -> Size:
    """Return the size that the options ask for, with the games and seeds that they leave."""
    size = figure.small if options.small else figure.full
    assert size is not None, "figures without runs have no size"
    games = size.ids[: options.games or None]
    return dataclasses.replace(size, games=games, seeds=options.seeds or size.seeds)


def make_plan(figure: Figure, options: ReproduceOptions, tuned: Tuned = MappingProxyType({})) -> list[Run]:
    """Return a figure's runs, arm by arm, game by game, seed by seed.

    Args:
        figure: the figure.
        options: see `ReproduceOptions`.
        tuned: the settings that tuning chose, by arm and game; those missing take the first value of each key.

    Raises:
        ConfigError: settings are wrong, or too short for their warm-up; the error lists all mistakes.
    """
    size = size_of(figure, options)
    first = {key: listed[0] for key, listed in figure.tune.grid.items()} if figure.tune is not None else {}
    seeds = range(1, size.seeds + 1)

    def runs_of(arm: Arm) -> Iterator[Run]:
        settings = {game: tuned.get((arm.label, game), first) for game in size.games}
        return _runs_of(arm, size, options, seeds, settings)

    return _plan(figure, options, runs_of)


def make_tuning(figure: Figure, options: ReproduceOptions) -> list[Run]:
    """Return the runs from which the settings of a figure's arms are chosen; [] if nothing is tuned.

    Raises:
        ConfigError: as `make_plan` does.
    """
    if figure.tune is None or options.small:
        return []
    size, grid = size_of(figure, options), figure.tune.grid
    seeds = range(_FIRST_TUNING_SEED, _FIRST_TUNING_SEED + figure.tune.seeds)

    def runs_of(arm: Arm) -> Iterator[Run]:
        for number, values in enumerate(itertools.product(*grid.values())):
            setting = dict(zip(grid, values, strict=True))
            for run in _runs_of(arm, size, options, seeds, dict.fromkeys(size.games, setting)):
                yield dataclasses.replace(run, trial=number, tuned=setting)

    return _plan(figure, options, runs_of)


def find_missing_games(figure: Figure, runs: Sequence[Run], options: ReproduceOptions) -> Iterator[Problem]:
    """Yield why games cannot be played on this machine, or by an agent, each reason once; builds each game once."""
    for game, item in dict.fromkeys((run.game, item) for run in runs for item in why_unable(run)):
        # The smallest size has other games unless --env names it, and the same agent if --preset does.
        may_help = item.key.startswith("env") and not options.small and not options.env
        remedy = f"{item.remedy}, or use --small" if may_help else item.remedy
        yield dataclasses.replace(item, key=f"{figure.name}: {game}", remedy=remedy)


def why_unable(run: Run) -> Sequence[Problem]:
    """Return why the agent of a run cannot play its game on this machine."""
    environment = _environment_of(run.game, run.config.environment)
    if not isinstance(environment, EnvironmentSpec):
        return environment
    try:
        algorithm = build_algorithm(run.config, environment)
    except ConfigError as error:
        return error.problems
    return tuple(find_sampler_problems(run.config, algorithm))


@cache
def _environment_of(game: str, how: EnvironmentConfig) -> EnvironmentSpec | tuple[Problem, ...]:
    """Return a game's spaces, or why it cannot be built."""
    try:
        return describe_environment(game, how)
    except ConfigError as error:
        return tuple(error.problems)


def scaled(config: TrainConfig, scale: float) -> dict[str, int]:
    """Return env steps, capacity, warm-up and the target networks' periods times a factor, by key.

    The replay still holds a batch and what the actors send at once, and single steps are drawn once a batch is stored.
    """
    replay, algorithm = config.replay, config.algorithm
    batch = algorithm.batch_size * algorithm.rows_per_item(config.unroll_length)
    sent = math.ceil(config.num_envs / (config.actor.env_groups or 1)) * config.unroll_length
    capacity = min(replay.capacity_steps, max(round(replay.capacity_steps * scale), batch, replay.num_shards * sent))
    least = batch if algorithm.num_replayed and algorithm.view == "steps" else 0
    warm_up = min(replay.min_steps, max(round(replay.min_steps * scale), least))
    buckets = {"bucket-frames": max(1, round(config.bucket_frames * scale))} if config.bucket_frames else {}
    period = getattr(algorithm, "target_period", 1)
    periods = {"algorithm.target-period": max(1, round(period * scale))} if period > 1 else {}
    return {
        "steps": max(1, round(config.steps * scale)),
        **buckets,
        **periods,
        _CAPACITY: capacity,
        _WARM_UP: min(warm_up, capacity),
    }


def _with_own_replay(smaller: Mapping[str, int], values: Mapping[str, Any]) -> dict[str, int]:
    """Return the scaled settings of a preset that the user names: its replay is one for runs of its own length.

    Only a warm-up that the figure names, in `values`, is scaled.
    """
    scaled_too = {_WARM_UP} & set(values)
    return {key: number for key, number in smaller.items() if key in scaled_too or not key.startswith("replay.")}


def _plan(figure: Figure, options: ReproduceOptions, runs_of: Callable[[Arm], Iterator[Run]]) -> list[Run]:
    """Return the runs of all arms, or raise `ConfigError` with the mistakes of all arms."""
    runs: list[Run] = []
    problems: list[Problem] = []
    for arm in figure.arms:
        try:
            runs += runs_of(arm)
        except ConfigError as error:
            problems += [dataclasses.replace(item, key=f"{figure.name}: {item.key}") for item in error.problems]
    raise_problems(list(dict.fromkeys(problems)))
    names = [run.name for run in runs]
    assert len(set(names)) == len(names), f"{figure.name}: labels differ only in signs"
    raise_problems(list(_alike(figure, runs, options)))
    return runs


def _alike(figure: Figure, runs: Sequence[Run], options: ReproduceOptions) -> Iterator[Problem]:
    """Yield which arms have become the same, by scaling or because a preset replaces what they differ in."""
    by_arm: dict[str, list[tuple[str, ...]]] = {}
    for run in runs:
        by_arm.setdefault(run.arm, []).append(run.words)
    first: dict[str, str] = {}
    for arm, commands in by_arm.items():
        other = first.setdefault(repr(commands), arm)
        if other != arm:
            wrong = f"makes {other!r} and {arm!r} the same runs"
            if options.scale < 1.0:
                yield Problem(f"{figure.name}: scale", f"{options.scale:g} {wrong}", "use a larger one, or --arms")
            else:
                yield Problem(f"{figure.name}: preset", f"{options.preset} {wrong}", "use another one, or --arms")


def _runs_of(
    arm: Arm,
    size: Size,
    options: ReproduceOptions,
    seeds: Sequence[int],
    settings: Mapping[str, Mapping[str, Any]],
) -> Iterator[Run]:
    """Yield an arm's runs; settings are checked once for all games that share them."""
    known: dict[str, Run] = {}
    for game in size.games:
        steps, tuned = size.steps_of.get(game, size.steps), settings[game]
        kind = repr((steps, tuned, size.values_of.get(game)))
        if kind not in known:
            known[kind] = _first_run(arm, size, options, game, steps, tuned)
        first = known[kind]
        command, preset, *flags = first.words
        for seed in seeds:
            own = ["--env", game, "--steps", str(first.config.steps), "--seed", str(seed)]
            config = dataclasses.replace(first.config, env=game, seed=seed)
            words = (command, preset, *own, *flags)
            yield dataclasses.replace(first, game=game, seed=seed, words=words, config=config)


def _first_run(arm: Arm, size: Size, options: ReproduceOptions, game: str, steps: int, tuned: Mapping[str, Any]) -> Run:
    """Return a run of an arm on a game, checked, without words for game, steps and seed."""
    small = options.small
    own_preset = arm.small_preset if small else arm.preset
    preset = own_preset or size.preset
    of_game = {**size.values, **size.values_of.get(game, {})}
    values = settings_of({**of_game, **tuned, **arm.values, **(arm.small_values if small else {})})
    values |= {"steps": max(1, round(steps * arm.length)), "env": game}
    config = load_preset(preset, values)
    if math.isfinite(config.stop_at_return):
        values["stop-at-return"] = math.inf  # a curve that ends early has no end to compare
    grid = (arm.small_grid if small else {}) or arm.grid
    if options.scale < 1.0:
        smaller = scaled(config, options.scale)
        if options.preset and not own_preset:
            smaller = _with_own_replay(smaller, values)
        if PRESET in grid:
            smaller.pop(_WARM_UP, None)  # the presets of the members decide it
        values |= smaller
    # Rounded like the flags, so that a command means the same as its config.
    per_step = {key: float(f"{number / values['steps']:.9g}") for key, number in size.over_steps.items()}
    values |= {key: value for key, value in per_step.items() if _has(config, key)}
    first = load_preset(preset, values)
    _check_length(first, config, options.scale)
    if options.ray_address:
        load_preset(preset, {**values, "runtime": "ray", "schedule": "auto", "ray-address": options.ray_address})
    flags = [word for key in values if key not in ("env", "steps") for word in option(key, values[key])]
    command, num_members, of_sweep = "train", 1, list[str]()
    space = {} if small else arm.space
    if grid or space:
        command, (num_members, of_sweep) = "sweep", _sweep_of(arm, first, grid, space)
    return Run(arm.label, game, 0, (command, preset, *flags, *of_sweep), first, num_members, tuned=tuned)


def _sweep_of(
    arm: Arm, base: TrainConfig, grid: Mapping[str, list[Any]], space: Mapping[str, str]
) -> tuple[int, list[str]]:
    """Return the number of members of an arm's sweep, and the words that define it."""
    lists = {key: list(listed) for key, listed in grid.items()}
    ranges, wrong = parse_space(base, [f"{key}={text}" for key, text in space.items()], ())
    raise_problems(wrong)
    chosen = SweepOptions(share_replay=arm.share, pbt=arm.pbt, sample=arm.sample if space else 0)
    # Members are compared at least eight times, however short they are.
    usual, most = PbtConfig(), max(1, base.steps // 10)
    asked = dataclasses.replace(usual, **{key.replace("-", "_"): value for key, value in arm.pbt_values.items()})
    pbt = dataclasses.replace(asked, burn_in=min(asked.burn_in, most), interval=min(asked.interval, most))
    num_members = len(SweepConfig(base, lists, chosen, pbt if arm.pbt else usual, space=ranges).members())
    words = [word for key, listed in lists.items() for word in ("--grid", f"{key}={list_text(listed)}")]
    words += [word for key, text in space.items() for word in ("--space", f"{key}={text}")]
    words += ["--sample", str(arm.sample)] if space else []
    words.append("--share-replay" if arm.share else "--no-share-replay")
    if arm.pbt:
        words += ["--pbt", *option("pbt.burn-in", pbt.burn_in), *option("pbt.interval", pbt.interval)]
        others = [key for key in arm.pbt_values if key not in ("burn-in", "interval")]
        words += [word for key in others for word in option(f"pbt.{key}", arm.pbt_values[key])]
    return num_members, words


def _has(config: TrainConfig, key: str) -> bool:
    return any(leaf.key == key for leaf in find_leaves(config))


def _check_length(config: TrainConfig, full: TrainConfig, scale: float) -> None:
    """Raise `ConfigError` if a run would end before it learns from a batch."""
    algorithm = config.algorithm
    batch = config.unroll_length * max(algorithm.num_online, config.num_envs)
    warm_up = config.replay.min_steps if algorithm.num_drawn else 0
    needed = warm_up + batch
    if config.steps < needed and scale == 1.0:
        wrong = f"{config.preset} learns from {needed:,} env steps on, and the runs have {config.steps:,}"
        raise ConfigError([Problem("preset", wrong, "choose one that begins earlier")])
    if config.steps < needed:
        wrong = f"{scale:g} leaves {config.steps:,} env steps, and learning begins after {needed:,}"
        least = min(1.0, math.ceil(1e6 * 2.0 * needed / full.steps) / 1e6)
        raise ConfigError([Problem("scale", wrong, f"use at least {least:g}, or --small")])
