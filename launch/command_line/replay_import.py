"""The command `laser replay import`: from its arguments to the run that it makes."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from laser.config import ConfigError, Problem
from launch.commands import resume_command
from launch.standard_output import name_long_waits, print_json

USAGE = "laser replay import minari:NAMESPACE/NAME-vN [PRESET] --run-dir DIR [--KEY VALUE ...]"


def import_log(arguments: Sequence[str], is_quiet: bool) -> int:
    """Read the arguments after `laser replay import`, make the run, and return the exit code.

    Args:
        arguments: the log's name, and those of `laser train`.
        is_quiet: whether they ask for silence.

    Raises:
        ConfigError: mistakes in the arguments, or the log does not fit them.
        LaunchError: the run directory cannot be made or written.
    """
    from laser.logs.minari_log import PREFIX
    from launch.command_line.arguments import parse_train, with_preset

    if not arguments or not arguments[0].startswith(PREFIX):
        got = f", got {arguments[0]!r}" if arguments else ""
        raise ConfigError([Problem("name", f"must be {PREFIX}NAMESPACE/NAME-vN{got}", f"use {USAGE}")])
    name, *rest = arguments
    if any(each.partition("=")[0] == "--resume" for each in rest):
        raise ConfigError([Problem("resume", "an import makes a new run", "leave it out")])
    with name_long_waits(is_quiet):
        rest, note = with_preset([*rest, "--init-replay", name])
    config = parse_train(rest)
    if note and not config.quiet:
        print(note, file=sys.stderr)
    from launch.logs.importing import import_replay

    result = import_replay(config)
    if config.json:
        print_json(result)
    elif not config.quiet:
        print(f"{result.run_dir}: {result.env_steps:,} env steps of {result.name}")
        print(f"to learn from them: {resume_command(Path(result.run_dir), config.preset)} --checkpoint-replay")
    return 0
