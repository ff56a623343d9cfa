"""Parsers of the command lines of `laser train` and `laser sweep`, which return checked configs."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from laser.config import ConfigError, Problem, field_infos, find_problems, key_of, raise_problems
from laser.environments import task_ids
from launch.command_line.flags import Arguments, split_arguments, split_named, surplus, switches_of, without_value
from launch.command_line.resume_options import ResumeOptions
from launch.errors import NothingToResumeError
from launch.presets import find_presets, fit_environment, load_preset, recommend
from launch.records.run_record import newest_run, read_record, saved_config
from launch.records.trust import trust_run
from launch.settings.toml_file import read_config_file
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import Leaf, apply_choices, apply_overrides, find_leaves, is_key, unknown_key
from launch.sweeps.search_space import parse_space
from launch.sweeps.sweep_config import ONE_MEMBER, SweepConfig, find_unpaired
from launch.sweeps.sweep_options import sweep_leaves
from launch.sweeps.sweep_record import KEPT, find_changes, read_base, sweep_from_json
from launch.sweeps.value_lists import parse_lists

C = TypeVar("C")

_LISTED = ("grid", "zip", "space")
"""Flags that may be given several times."""
_SECTIONS = ("pbt", "pruner")
"""Keys of a sweep that are an option and a section of settings of that option."""


def parse_train(arguments: Sequence[str]) -> TrainConfig:
    """Return the checked config of a `laser train` command line.

    Precedence: the preset (or, with `--resume`, the run's own config), then the file, then flags.

    Raises:
        ConfigError: every mistake at once.
        NothingToResumeError: `--resume` without a run.
        UntrustedError: `--resume` of a run that names code which this user has not named before, without `--trust`.
    """
    preset, given = _read_preset(arguments)
    problems = list(given.problems)
    values = dict(given.values)
    file_name = values.pop("config", None)
    base = preset
    trusts = _take_trust(values, problems)
    path = _path_to_resume(preset, values, of_sweeps=False)
    if path is not None:
        if trusts:
            trust_run(path)
        base = _talking_like(preset, _same_preset(preset, saved_config(path), "train"))
    config, found = _with_values(base, file_name, values)
    problems += [*found, *find_problems(config)]
    raise_problems([*problems, *_further_problems(config, problems)])
    return config


def flags_of_train(arguments: Sequence[str]) -> tuple[str, list[Leaf]]:
    """Return the preset of a `laser train` command line and its flags, with those that a given flag brings.

    `--replay.sampler delayed`, for example, brings the settings of that sampler. Values are the preset's.

    Raises:
        ConfigError: there is no such preset or environment.
    """
    preset, given = _read_preset(with_preset(arguments)[0])
    own = {leaf.key: leaf for leaf in find_leaves(preset)}
    leaves = [leaf for leaf in find_leaves(apply_choices(preset, given.values)) if leaf.key not in NOT_FLAGS]
    return preset.preset, [own.get(leaf.key, leaf) for leaf in leaves]


def parse_sweep(arguments: Sequence[str]) -> SweepConfig:
    """Return the sweep of a `laser sweep` command line, with all its members checked.

    Precedence is as for `laser train`. A resumed sweep keeps its grid, zip, space and options.

    Raises:
        ConfigError: every mistake at once.
        NothingToResumeError: `--resume` without a sweep.
        UntrustedError: as `parse_train` does.
    """
    of_sweep = sweep_leaves()
    preset, given = _read_preset(arguments, of_sweep)
    problems = list(given.problems)
    own = {key: text for key, text in given.values.items() if key in {leaf.key for leaf in of_sweep}}
    values = {key: text for key, text in given.values.items() if key not in own}
    file_name = values.pop("config", None)
    base, resumed = preset, None
    trusts = _take_trust(values, problems)
    path = _path_to_resume(preset, values, of_sweeps=True)
    if path is not None:
        if trusts:
            trust_run(path)
        record = read_record(path)
        base = _talking_like(preset, _same_preset(preset, read_base(record, path), "sweep"))
        resumed = sweep_from_json(record, base)
    shaped = _with_values(base, file_name, values)[0]
    leaves = [leaf for leaf in [*find_leaves(shaped), *of_sweep] if leaf.key not in NOT_FLAGS]
    all_keys = [leaf.key for leaf in leaves] + [*_LISTED, "config"]
    known = {key: value for key, value in values.items() if is_key(key_of(key), leaves) or key_of(key) in all_keys}
    named = [key for key in all_keys if key not in _SECTIONS]  # an unknown key of a section is answered with its keys
    problems += [unknown_key(key_of(key), named) for key in values if key not in known]
    base, found = _with_values(base, file_name, known)
    problems += found
    before = resumed or SweepConfig(preset, {})
    options, found = apply_overrides(before.options, {key: text for key, text in own.items() if "." not in key})
    problems += found
    pbt, found = _with_section(before.pbt, "pbt", own, "" if options.pbt else "--pbt")
    problems += found
    pruner, found = _with_section(before.pruner, "pruner", own, "" if options.prunes else "--pruner asha")
    problems += found
    outside, texts = [key_of(key) for key in known], given.lists
    grid, wrong = parse_lists(base, texts.get("grid", []), outside)
    zipped, unpaired = parse_lists(base, texts.get("zip", []), outside, "zip")
    space, strange = parse_space(base, texts.get("space", []), outside)
    problems += [*wrong, *unpaired, *strange]
    sweep = SweepConfig(base, grid, options, pbt, zipped, space, pruner)
    if resumed is not None:
        asked = dataclasses.replace(
            sweep, grid=grid or resumed.grid, zipped=zipped or resumed.zipped, space=space or resumed.space
        )
        problems += find_changes(resumed, asked)
        problems += [
            Problem(key, "has no effect: each member of the resumed sweep has its own", "leave it out")
            for key in outside
            if key in resumed.keys
        ]
        kept = dataclasses.replace(options, **{key: getattr(resumed.options, key) for key in KEPT})
        sweep = dataclasses.replace(sweep, grid=resumed.grid, zipped=resumed.zipped, space=resumed.space, options=kept)
    try:
        sweep.members()
    except ConfigError as error:
        # Values with mistakes are left out, so the sweep seems to have one member, no pairs, or nothing to draw.
        hidden = [ONE_MEMBER] if texts or any(problem.key in _LISTED for problem in problems) else []
        hidden += find_unpaired(zipped) if unpaired else []
        no_number = strange or any(problem.key == "sample" for problem in problems)
        hidden += [item for item in error.problems if item.key == "sample" and no_number]
        problems += [problem for problem in error.problems if problem not in hidden]
    raise_problems(list(dict.fromkeys([*problems, *_further_problems(base, problems)])))
    return sweep


def with_preset(arguments: Sequence[str], of_sweep: Sequence[Leaf] = ()) -> tuple[list[str], str]:
    """Return the arguments with a preset if they name none, and a note about it.

    It is that of the run to resume, or the one that is recommended for `--env`, or for `env` in the file of `--config`.
    Where no environment is named, it is that of the log of `--offline` or `--init-replay`.

    Raises:
        ConfigError: the environment is unknown, or LASER does not support it; a log whose environment is needed cannot
            be read.
        NothingToResumeError: `--run-dir` holds no run, or one whose record cannot be read.
    """
    switches = switches_of(of_sweep) | _switches()
    name, given = split_named(arguments, find_presets(), lambda name: switches, switches, _LISTED if of_sweep else ())
    env, run_dir = (given.values.get(key, "").strip() for key in ("env", "run-dir"))
    of_log = next((key for key in ("offline", "init-replay") if given.values.get(key, "").strip()), "")
    arguments = list(arguments)
    if of_log and not env and given.values.get("resume", "false") == "false":
        # With a preset the checks of the config say what is wrong with the log.
        env = _env_of(of_log, given.values[of_log].strip(), is_needed=not name)
        arguments += ["--env", env] if env else []
    if given.positionals or (name and not env):  # a preset's name may be another key's value
        return arguments, ""
    if given.values.get("resume", "false") != "false" and run_dir:
        saved = read_record(Path(run_dir))["config"].get("preset")
        return [*([saved] if isinstance(saved, str) and saved in find_presets() else []), *arguments], ""
    of_file = {} if env or "config" not in given.values else read_config_file(Path(given.values["config"]))
    env = env or str(of_file.get("env", "")).strip()
    if not env:
        return arguments, ""
    settings = {key: text for key, text in given.values.items() if key.startswith("environment.")}
    # What is wrong with them is said with all other mistakes.
    how = _with_values(load_preset("vectors"), given.values.get("config"), settings)[0].environment
    try:
        preset, why = recommend(task_ids(env)[0], how)
    except ConfigError as error:
        if env.replace("-", "_") not in find_presets():
            raise
        raise ConfigError([Problem("env", f"{env} is a preset and no environment", "leave out --env")]) from error
    return [preset, *arguments], f"preset: {preset}, recommended for {env}: {why}; laser presets lists all"


def _env_of(key: str, log: str, is_needed: bool) -> str:
    """Return the environment that a log says it was recorded in; "" if it does not say, or cannot be read.

    Raises:
        ConfigError: it cannot be read, and its environment is needed.
    """
    from laser.logs.episodes import LogError
    from laser.logs.minari_log import env_of

    try:
        return env_of(log)
    except LogError as error:
        if not is_needed:
            return ""
        wrong, _, remedy = str(error).partition("; ")
        raise ConfigError([Problem(key, wrong, remedy or "choose another data set")]) from error


def _read_preset(arguments: Sequence[str], of_sweep: Sequence[Leaf] = ()) -> tuple[TrainConfig, Arguments]:
    """Return the preset, and the arguments without it."""
    presets, own = find_presets(), switches_of(of_sweep)
    name, given = split_named(
        arguments,
        presets,
        lambda name: own | _switches_of_preset(name, arguments),
        own | _switches(),
        _LISTED if of_sweep else (),
    )
    problems = [*given.problems, *surplus(given.positionals[1:])]
    if not given.positionals:
        remedy = f"name one, or an environment: --env ID; presets are {', '.join(presets)}"
        problems.insert(0, Problem("preset", "is missing", remedy))
    if not name:
        raise ConfigError(problems)
    preset = load_preset(name)
    shaped = apply_choices(preset, given.values)
    leaves = [leaf for leaf in [*find_leaves(shaped), *of_sweep] if leaf.key not in NOT_FLAGS]
    problems += without_value(given, leaves, ["config", *(_LISTED if of_sweep else ())])
    return preset, dataclasses.replace(given, problems=problems)


def _switches_of_preset(name: str, arguments: Sequence[str]) -> set[str]:
    """Return the switches of a preset, including those of sections that the arguments choose."""
    preset = load_preset(name)
    given = split_arguments(arguments, switches_of(find_leaves(preset)))
    return switches_of([*find_leaves(apply_choices(preset, given.values)), *find_leaves(ResumeOptions())])


def _switches() -> set[str]:
    """Return the switches that every preset has, to find the preset's name among the arguments."""
    infos = {**field_infos(TrainConfig), **field_infos(ResumeOptions)}
    return {key_of(name) for name, info in infos.items() if info.type is bool}


def _take_trust(values: dict[str, str], problems: list[Problem]) -> bool:
    """Take the options that are no settings out of the values, and return `--trust`.

    Add a problem for each that is mistyped or has no effect. `--restart` has had its effect already.
    """
    given: dict[str, str] = {key: values.pop(key) for key in ("trust", "restart") if key in values}
    options, found = apply_overrides(ResumeOptions(), given)
    if options.trust and "resume" not in values:
        found = [Problem("trust", "has no effect without --resume", "leave it out")]
    problems += found
    return options.trust


def _further_problems(config: TrainConfig, problems: Sequence[Problem]) -> list[Problem]:
    """Return mistakes of environment, schedule and weights if there are others already; else training reports them."""
    if not problems:
        return []
    from laser.environments import describe_environment
    from launch.records.settings_schedule import find_schedule_problems
    from launch.supervision.initial_weights import find_missing_weights

    found = [*find_schedule_problems(config), *find_missing_weights([config])]
    if not any(problem.key.partition(".")[0] in ("env", "environment") for problem in problems):
        try:
            describe_environment(config.env, config.environment)
        except ConfigError as error:
            found += error.problems
    return found


def _path_to_resume(preset: TrainConfig, values: Mapping[str, str], of_sweeps: bool) -> Path | None:
    asked = {key: text for key, text in values.items() if key in ("resume", "run-dir", "env")}
    wanted, mistakes = apply_overrides(preset, asked, NOT_FLAGS)
    if not wanted.resume or mistakes:
        return None
    return wanted.run_dir or newest_run(preset.preset, wanted.env if "env" in values else None, of_sweeps=of_sweeps)


def _same_preset(preset: TrainConfig, base: TrainConfig, command: str) -> TrainConfig:
    if base.preset != preset.preset:
        raise NothingToResumeError(
            "run-dir",
            f"{base.run_dir} was trained with preset {base.preset or 'none'}",
            f"use laser {command} {base.preset}",
        )
    return base


def _talking_like(preset: TrainConfig, base: TrainConfig) -> TrainConfig:
    """Return the saved config with `quiet` and `json` of this command, not of the interrupted one."""
    return dataclasses.replace(base, quiet=preset.quiet, json=preset.json)


def _with_values(
    base: TrainConfig, file_name: str | None, values: Mapping[str, str]
) -> tuple[TrainConfig, list[Problem]]:
    problems: list[Problem] = []
    base = apply_choices(base, values)  # the file may set values of a section that a flag chooses
    listed: dict[str, Any] = {}
    if file_name is not None:
        try:
            listed = read_config_file(Path(file_name))
            named = listed.pop("preset", None)
            base, problems = apply_overrides(base, listed, NOT_FLAGS, where=f"in {file_name}: ")
            if "resume" in listed:  # the file overrides the resumed run's settings, so the run must be known before
                problems.append(Problem("resume", f"in {file_name}: is for the command line", "use --resume"))
            if named is not None:
                remedy = f"leave it out, and put {named} before --config"
                problems.append(Problem("preset", f"in {file_name}: is for the command line", remedy))
        except ConfigError as error:
            problems = error.problems
    if "ray-address" in values:  # only one runtime can reach a cluster
        base = dataclasses.replace(base, runtime="ray")
    config, found = apply_overrides(base, values, NOT_FLAGS, all_texts=True)
    return fit_environment(config, {*listed, *values}), [*problems, *found]


def _with_section(config: C, section: str, texts: Mapping[str, str], missing: str) -> tuple[C, list[Problem]]:
    """Return a section of a sweep's settings with the texts of its keys put in, and every mistake.

    Args:
        config: the section.
        section: its name in the keys.
        texts: by key, of all sections.
        missing: the flag without which the section has no effect; "" if it is given.
    """
    own = {key.removeprefix(f"{section}."): text for key, text in texts.items() if key.startswith(f"{section}.")}
    config, problems = apply_overrides(config, own)
    problems = [dataclasses.replace(problem, key=f"{section}.{problem.key}") for problem in problems]
    if missing:
        wrong, remedy = f"has no effect without {missing}", f"add {missing}"
        problems += [Problem(f"{section}.{key}", wrong, remedy) for key in own]
    return config, problems
