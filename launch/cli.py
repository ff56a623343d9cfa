"""The commands of `laser`: reads their arguments, names every mistake at once, and calls what does the work.

Nothing heavy is imported before it is needed: `laser --help` must not wait for torch.
"""

from __future__ import annotations

import dataclasses
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from laser.config import ConfigError, Problem, find_problems, raise_problems
from launch.errors import NothingToResumeError
from launch.flags import Arguments, format_flags, split_arguments, switches_of
from launch.overrides import apply_overrides, find_leaves, nearest

if TYPE_CHECKING:
    from launch.config import TrainConfig

O = TypeVar("O")  # noqa: E741

_USAGE = """\
usage: laser COMMAND ...

  laser train PRESET [--env ID] [--steps N] [--seed S] [--run-dir DIR] [--runtime local|lockstep|ray]
                     [--config FILE.toml] [--resume] [--json] [--KEY VALUE ...]     train an agent
  laser eval RUN_DIR [--episodes N] [--json]                                        play with a trained one
  laser bench NAME [--json]                                                         measure a part
  laser doctor                               what is installed, what is missing, and the command that mends it

laser COMMAND --help says more. laser train PRESET --help lists every key with its default and range."""

_HELP_FLAGS = ("--help", "-h")


class _Result(Protocol):
    def to_json(self) -> dict[str, Any]: ...


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Raises:
        ConfigError: mistakes in the arguments.
        LaunchError: the command could not do its work; the error knows its exit code.
    """
    commands: dict[str, Callable[[list[str]], int]] = {
        "train": _train,
        "eval": _eval,
        "bench": _bench,
        "doctor": _doctor,
    }
    if not arguments or arguments[0] in (*_HELP_FLAGS, "help"):
        print(_USAGE)
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        from importlib.metadata import version

        print(f"laser {version('laser-rl')}")
        return 0
    if name not in commands:
        best = nearest(name, list(commands))
        remedy = f"did you mean laser {best}?" if best else f"commands are {', '.join(commands)}"
        raise ConfigError([Problem("command", f"there is no command {name!r}", remedy)])
    return commands[name](rest)


def parse_train(arguments: Sequence[str]) -> TrainConfig:
    """Return the config that a `laser train` command line asks for, checked.

    Precedence: the preset (or, with `--resume`, the run's own config), then the file, then flags.

    Raises:
        ConfigError: every mistake at once.
        NothingToResumeError: `--resume` without a run.
    """
    from launch.config import NOT_FLAGS, TrainConfig
    from launch.config_file import read_config_file
    from launch.presets import find_presets, load_preset
    from launch.run_directory import newest_run, saved_config

    # The preset decides the keys, and with them which words are values, so its name is looked for first.
    names = split_arguments(arguments, _switches(TrainConfig)).positionals
    known = [name for words in (names, arguments) for name in words if name in find_presets()]
    names = known or names
    if not names:
        raise ConfigError([Problem("preset", "is missing", f"presets are {', '.join(find_presets())}")])
    preset = load_preset(names[0])
    given = split_arguments(arguments, switches_of(find_leaves(preset)))
    problems = [*given.problems, *_surplus(given.positionals[1:])]

    file_values: dict[str, Any] = {}
    file_name = given.values.pop("config", None)
    if file_name is not None:
        try:
            file_values = read_config_file(Path(file_name))
        except ConfigError as error:
            problems += error.problems
    base = preset
    wanted, mistakes = apply_overrides(preset, given.values, NOT_FLAGS)
    if wanted.resume and not mistakes:
        env = wanted.env if "env" in given.values else None
        path = wanted.run_dir or newest_run(preset.preset, env)
        base = saved_config(path)
        if base.preset != preset.preset:
            raise NothingToResumeError(
                "run-dir", f"{path} was trained with preset {base.preset or 'none'}", f"use laser train {base.preset}"
            )
        # How to talk to the user is this command's business, not the interrupted one's.
        base = dataclasses.replace(base, quiet=preset.quiet, json=preset.json)
    where = f"in {file_name}: " if file_name is not None else ""
    base, found = apply_overrides(base, file_values, NOT_FLAGS, where)
    problems += found
    config, found = apply_overrides(base, given.values, NOT_FLAGS)
    problems += found
    raise_problems([*problems, *find_problems(config)])
    return config


def _train(arguments: list[str]) -> int:
    if any(flag in arguments for flag in _HELP_FLAGS):
        return _train_help([argument for argument in arguments if argument not in _HELP_FLAGS])
    config = parse_train(arguments)
    if not config.quiet:
        for warning in config.warnings():
            print(f"warning: {warning}", file=sys.stderr)
    from launch.train import train

    result = train(config)
    if config.json:
        print_json(result)
    return 0


def _train_help(arguments: list[str]) -> int:
    from launch.presets import find_presets, load_preset

    names = [argument for argument in arguments if not argument.startswith("-")]
    if names:
        from launch.config import NOT_FLAGS

        leaves = [leaf for leaf in find_leaves(load_preset(names[0])) if leaf.key not in NOT_FLAGS]
        print(f"usage: laser train {names[0]} [--config FILE.toml] [--KEY VALUE ...]\n")
        print(format_flags(leaves))
        return 0
    print(_USAGE.partition("\n  laser eval")[0].replace("COMMAND ...", "train PRESET ...") + "\n\npresets:")
    for name, text in find_presets().items():
        print(f"  {name:<18}{text}")
    print("\nlaser train PRESET --help lists every key with its default and range.")
    return 0


def _eval(arguments: list[str]) -> int:
    from launch.command_options import EvalOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser eval RUN_DIR", EvalOptions())
    (run_dir,), options = _parse_options(arguments, EvalOptions(), ("run-dir",))
    from launch.evaluate import evaluate

    values = {name: value for name, value in vars(options).items() if name not in ("episodes", "json")}
    result = evaluate(Path(run_dir), options.episodes, **values)
    if options.json:
        print_json(result)
    return 0


def _bench(arguments: list[str]) -> int:
    from launch.bench import find_benches, load_bench

    benches = find_benches()
    asks_help = any(flag in arguments for flag in _HELP_FLAGS)
    names = [argument for argument in arguments if not argument.startswith("-")]
    if asks_help and not names:
        print("usage: laser bench NAME [--json]\n\nbenches:")
        for name, text in benches.items():
            print(f"  {name:<18}{text}")
        return 0
    if not names:
        raise ConfigError([Problem("bench", "a name is missing", f"benches are {', '.join(benches)}")])
    bench = load_bench(names[0])
    if asks_help:
        return _options_help(f"laser bench {names[0]}", bench.Options())
    _, options = _parse_options(arguments, bench.Options(), ("name",))
    result = bench.run(options)
    if options.json:
        print(json.dumps(finite(result)))
    else:
        for key, value in result.items():
            print(f"{key.replace('_', ' ')}: {_readable(value)}")
    return 0


def _readable(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _doctor(arguments: list[str]) -> int:
    from launch.doctor import examine

    if any(flag in arguments for flag in _HELP_FLAGS):
        print("usage: laser doctor\n\nSays what is installed, what is missing, and the command that mends it.")
        return 0
    given = split_arguments(arguments, ())
    unknown = [Problem(key, "unknown key", "laser doctor takes none") for key in given.values]
    raise_problems([*given.problems, *_surplus(given.positionals), *unknown])
    healthy: bool = examine(sys.stdout)
    return 0 if healthy else 1


def _parse_options(arguments: Sequence[str], options: O, positionals: tuple[str, ...]) -> tuple[list[str], O]:
    given: Arguments = split_arguments(arguments, switches_of(find_leaves(options)))
    missing = [Problem(name, "is missing", "see --help") for name in positionals[len(given.positionals) :]]
    options, found = apply_overrides(options, given.values)
    surplus = _surplus(given.positionals[len(positionals) :])
    raise_problems([*given.problems, *missing, *surplus, *found, *find_problems(options)])
    return given.positionals, options


def _options_help(usage: str, options: Any) -> int:
    print(f"usage: {usage} [--KEY VALUE ...]\n")
    print(format_flags(find_leaves(options)).replace("run:", "options:", 1))
    return 0


def _switches(config_type: type) -> set[str]:
    """Switches that any preset has, for finding the preset's name among the arguments."""
    from laser.config import field_infos, key_of

    return {key_of(name) for name, info in field_infos(config_type).items() if info.type is bool}


def _surplus(arguments: Sequence[str]) -> list[Problem]:
    return [Problem(argument, "is one argument too many", "values follow their --key") for argument in arguments]


def print_json(result: _Result) -> None:
    """Print a result as one JSON object, the last line of standard output; numbers that are not finite become null."""
    sys.stdout.flush()
    print(json.dumps(finite(result.to_json())), flush=True)


def finite(value: Any) -> Any:
    """Return a JSON value without NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
