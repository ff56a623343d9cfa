"""The commands that train: `laser train`, `laser sweep`, and `laser presets`, which lists what they begin with.

Heavy modules are imported when they are needed: `laser --help` must not wait for torch.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from laser.config import raise_problems
from launch.command_line.flags import format_flags, is_quiet, surplus
from launch.command_line.usage import USAGE, asks_help, without_help
from launch.settings.values import find_leaves
from launch.standard_output import finite, name_long_waits, print_json

if TYPE_CHECKING:
    from launch.sweeps.sweep_config import SweepConfig


def train_command(arguments: list[str]) -> int:
    """Train an agent."""
    if asks_help(arguments):
        return _train_help(without_help(arguments))
    from launch.command_line.restarts import supervise_if_asked

    if (exit_code := supervise_if_asked(["train", *arguments])) is not None:
        return exit_code
    from launch.command_line.arguments import parse_train, with_preset

    with name_long_waits(is_quiet(arguments)):
        arguments, note = with_preset(arguments)
    config = parse_train(arguments)
    if not config.quiet:
        if note:
            print(note, file=sys.stderr)
        for warning in config.warnings():
            print(f"warning: {warning}", file=sys.stderr)
    from launch.train import train

    result = train(config)
    if config.json:
        print_json(result)
    return 0


def sweep_command(arguments: list[str]) -> int:
    """Train several agents at the same pace, on one game or on each of several."""
    if asks_help(arguments):
        return _sweep_help(without_help(arguments))
    from launch.reproductions.games_options import asks_for_games

    if asks_for_games(arguments):
        return _sweep_over_games(arguments)
    from launch.command_line.restarts import supervise_if_asked

    if (exit_code := supervise_if_asked(["sweep", *arguments])) is not None:
        return exit_code
    _, config = _read_sweep(arguments)
    from launch.sweeps.sweep import sweep

    result = sweep(config)
    if config.base.json:
        print_json(result)
    return 0


def presets_command(arguments: list[str]) -> int:
    """Print the presets by kind of task."""
    if asks_help(arguments):
        print(
            "usage: laser presets\n\nThe presets by kind of task; laser train PRESET --help lists the settings of one."
        )
        return 0
    raise_problems(surplus(arguments))
    _print_presets()
    return 0


def _sweep_over_games(arguments: list[str]) -> int:
    from launch.reproductions.games_options import take_options
    from launch.reproductions.over_games import ids_of, sweep_over_games

    words, options = take_options(arguments)
    on_first = ["--env", ids_of(options, "")[0]] if options.games else []
    found, first = _read_sweep([*words, *on_first])
    words = found[: len(found) - len(on_first)]
    result = sweep_over_games([word for word in words if word not in ("--json", "--quiet")], first, options)
    if first.base.json:
        print(json.dumps(finite(result)), flush=True)
    return 0


def _read_sweep(arguments: list[str]) -> tuple[list[str], SweepConfig]:
    """Return a sweep's arguments with its preset, and its config; say what the user should know of them."""
    from launch.command_line.arguments import parse_sweep, with_preset
    from launch.sweeps.sweep_options import sweep_leaves

    with name_long_waits(is_quiet(arguments)):
        arguments, note = with_preset(arguments, sweep_leaves())
    config = parse_sweep(arguments)
    if not config.base.quiet:
        if note:
            print(note, file=sys.stderr)
        for warning in config.warnings():
            print(f"warning: {warning}", file=sys.stderr)
    return arguments, config


def _sweep_help(arguments: list[str]) -> int:
    from launch.reproductions.games_options import GamesOptions
    from launch.sweeps.sweep_options import sweep_leaves

    preset = next((argument for argument in arguments if not argument.startswith("-")), "PRESET")
    print(f"usage: laser sweep {preset} --grid KEY=V1,V2 [--grid ...] [--KEY VALUE ...]\n")
    for flag, purpose in (
        ("--grid KEY=V1,V2", "values to try, for any key of laser train or presets; in all combinations"),
        ("--zip KEY=V1,V2", "values to try together with those at the same place of the other --zip lists"),
        ("--space KEY=RANGE", "log(LOW,HIGH), uniform(LOW,HIGH), integers(LOW,HIGH) or {V1,V2}, for --sample"),
    ):
        print(f"  {flag:<40}{purpose}")
    print()
    print(format_flags(sweep_leaves()).replace("run:", "sweep:", 1))
    over_games = [leaf for leaf in find_leaves(GamesOptions()) if leaf.key != "run-dir"]
    print(format_flags(over_games).replace("run:", "several games:", 1))
    print(f"\nEvery key of laser train works too: laser train {preset} --help lists them.")
    return 0


def _train_help(arguments: list[str]) -> int:
    if arguments:
        from launch.command_line.arguments import flags_of_train
        from launch.command_line.resume_options import ResumeOptions

        preset, leaves = flags_of_train(arguments)
        print(f"usage: laser train {preset} [--config FILE.toml] [--KEY VALUE ...]\n")
        print(format_flags([*leaves, *find_leaves(ResumeOptions())]))
        return 0
    print(USAGE.partition("\n  laser sweep")[0].replace("COMMAND ...", "train PRESET ...") + "\n")
    _print_presets()
    print("\nlaser train PRESET --help lists every key with its default and range; so does --env ID --help.")
    return 0


def _print_presets() -> None:
    from launch.presets import TASKS, find_presets

    lines = find_presets()
    width = max(len(name) for name in lines) + 2
    for task, names in TASKS.items():
        print(f"{task}:")
        for name in names:
            print(f"  {name:<{width}}{lines[name]}")
    print("\nlaser train --env ID takes the preset that is recommended for an environment.")
