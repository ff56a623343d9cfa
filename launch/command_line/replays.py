"""The command for saved replays and logs: `laser replay export`, `import` and `draw`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from laser.config import ConfigError, Problem
from launch.command_line.flags import is_quiet, parse_options
from launch.command_line.usage import asks_help, print_options
from launch.commands import resume_command
from launch.standard_output import name_long_waits, print_json

_EXPORT = "laser replay export RUN_DIR minari:NAMESPACE/NAME-vN"
_IMPORT = "laser replay import minari:NAMESPACE/NAME-vN [PRESET] --run-dir DIR [--KEY VALUE ...]"
_DRAW = "laser replay draw RUN_DIR FILE.npz"


def replay_command(arguments: list[str]) -> int:
    """Export a saved replay as a log, import a log as a replay, or draw from a replay."""
    from launch.logs.options import ReplayOptions

    what, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if what == "draw":
        return _replay_draw(rest)
    if asks_help(arguments) and what == "import":
        print(f"usage: {_IMPORT}\n\nThe flags are those of laser train.")
        return 0
    if asks_help(arguments):
        print_options(_EXPORT, ReplayOptions())
        print(f"\n       {_IMPORT}\n       {_DRAW}\n\nThe flags of import are those of laser train.")
        return 0
    if what == "import":
        return _import_log(rest)
    if what != "export":
        wrong = f"there is no laser replay {what}" if what else "needs to know what to do"
        raise ConfigError([Problem("replay", wrong, f"use {_EXPORT}, {_DRAW}, or {_IMPORT}")])
    (run_dir, name), options = parse_options(rest, ReplayOptions(), ("run-dir", "name"))
    from launch.logs.export import export_replay

    result = export_replay(Path(run_dir), name, options)
    if options.json:
        print_json(result)
    elif not options.quiet:
        numbers = f"{result.episodes:,} episodes, {result.env_steps:,} env steps, mean return {result.mean_return:,.1f}"
        print(f"{result.name}: {numbers}")
    return 0


def _import_log(arguments: Sequence[str]) -> int:
    """Make the run of `laser replay import`: arguments are the log's name, and those of `laser train`."""
    from laser.logs.names import PREFIX
    from launch.command_line.arguments import parse_train, with_preset

    if not arguments or not arguments[0].startswith(PREFIX):
        got = f", got {arguments[0]!r}" if arguments else ""
        raise ConfigError([Problem("name", f"must be {PREFIX}NAMESPACE/NAME-vN{got}", f"use {_IMPORT}")])
    name, *rest = arguments
    if any(each.partition("=")[0] == "--resume" for each in rest):
        raise ConfigError([Problem("resume", "an import makes a new run", "leave it out")])
    with name_long_waits(is_quiet(arguments)):
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


def _replay_draw(arguments: list[str]) -> int:
    from launch.logs.options import DrawOptions

    if asks_help(arguments):
        return print_options(_DRAW, DrawOptions())
    (run_dir, file), options = parse_options(arguments, DrawOptions(), ("run-dir", "file"))
    from launch.logs.draw import draw_replay

    result = draw_replay(Path(run_dir), Path(file), options)
    if options.json:
        print_json(result)
    elif not options.quiet:
        print(f"{result.file}: {result.items} {result.view}, drawn by {result.sampler} from {result.num_stored:,}")
    return 0
