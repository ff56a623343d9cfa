"""The commands of `laser` by their names."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laser.config import ConfigError, Problem
from launch.command_line.agents import (
    eval_command,
    export_command,
    play_command,
    pull_command,
    push_command,
    report_command,
)
from launch.command_line.replays import replay_command
from launch.command_line.tools import (
    bench_command,
    completion_command,
    dashboard_command,
    doctor_command,
    reproduce_command,
)
from launch.command_line.training import presets_command, sweep_command, train_command
from launch.command_line.usage import HELP_FLAGS, USAGE
from launch.settings.values import nearest


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Raises:
        ConfigError: mistakes in the arguments.
        LaunchError: the command failed; the error has its exit code.
    """
    if not arguments or arguments[0] in (*HELP_FLAGS, "help"):
        print(USAGE)
        return 0 if arguments else 2
    name, *rest = arguments
    if name == "--version":
        from importlib.metadata import version

        print(f"laser {version('laser-rl')}")
        return 0
    if name == "complete":
        return _complete(rest)
    if name not in COMMANDS:
        best = nearest(name, list(COMMANDS))
        remedy = f"did you mean laser {best}?" if best else f"commands are {', '.join(COMMANDS)}"
        raise ConfigError([Problem("command", f"there is no command {name!r}", remedy)])
    return COMMANDS[name](rest)


def _complete(arguments: list[str]) -> int:
    """Print what the last word may become, one candidate on each line; shells call this command."""
    from launch.command_line.completion import find_candidates

    for candidate in find_candidates(arguments, list(COMMANDS)):
        print(candidate)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": train_command,
    "sweep": sweep_command,
    "eval": eval_command,
    "play": play_command,
    "report": report_command,
    "export": export_command,
    "replay": replay_command,
    "push": push_command,
    "pull": pull_command,
    "reproduce": reproduce_command,
    "dashboard": dashboard_command,
    "bench": bench_command,
    "presets": presets_command,
    "doctor": doctor_command,
    "completion": completion_command,
}
"""Each takes the arguments after its name and returns the exit code; see `run` for what they raise."""
