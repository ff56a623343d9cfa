"""The texts of `laser` about its commands and their options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launch.command_line.flags import format_flags
from launch.settings.values import find_leaves

USAGE = """\
usage: laser COMMAND ...

  laser train [PRESET] [--env ID] [--steps N] [--seed S] [--run-dir DIR] [--runtime local|ray]
                     [--schedule free|lockstep] [--config FILE.toml] [--resume] [--restart] [--json]
                     [--KEY VALUE ...]                                              train an agent
  laser sweep [PRESET] [--grid KEY=V1,V2 ...] [--zip KEY=V1,V2 ...] [--space KEY=RANGE ... --sample N] [--seeds N]
                     [--share-replay | --no-share-replay] [--concurrent N] [--pbt | --pruner asha] [--tuner optuna]
                     [--resume] [--restart] [--json] [--KEY VALUE ...]
                                                                                    train several, at the same pace
                     [--games ID,ID] [--repeats N] [--jobs N]                        the same on each of several games
  laser eval RUN_DIR ... [--episodes N] [--env ID] [--video] [--json]               evaluate trained agents
  laser play RUN_DIR [--episodes N] [--env ID]                                      watch an agent play in a window
  laser report RUN_OR_SWEEP | RUN RUN ... [--out DIR] [--json]                      one page with curves and scores
  laser export RUN_DIR [--format onnx|torch] [--out FILE]                           the policy as a file without LASER
  laser replay export RUN_DIR minari:NAME                                           a saved replay as a log of episodes
  laser replay import minari:NAME [PRESET] --run-dir DIR                            a log as the replay of a new run
  laser replay draw RUN_DIR FILE.npz [--items N] [--uniform]                        what its sampler draws, as arrays
  laser push RUN_DIR OWNER/NAME | ./FOLDER                                          an agent with its card, to the Hub
  laser pull OWNER/NAME | ./FOLDER [--run-dir DIR]                                  a shared agent, as a run directory
  laser reproduce list | FIGURE | PAPER | all [--small] [--scale F] [--dry-run]     figures and tables of the papers
  laser dashboard [RUNS_DIR] [--port P]                                             watch runs in a browser
  laser bench NAME [--json]                                                         measure the speed of a part
  laser presets                                                                     settings by kind of task
  laser completion bash|zsh|fish                                                    completion in your shell
  laser doctor                               what is installed, what is missing, and the command that installs it

See laser COMMAND --help for details. laser train PRESET --help lists every key with its default and range."""
"""The commands of `laser`, one a line."""

HELP_FLAGS = ("--help", "-h")


def asks_help(arguments: Sequence[str]) -> bool:
    """Return whether arguments ask for help in place of the command."""
    return any(flag in arguments for flag in HELP_FLAGS)


def without_help(arguments: Sequence[str]) -> list[str]:
    """Return the other arguments of those that ask for help."""
    return [argument for argument in arguments if argument not in HELP_FLAGS]


def print_options(usage: str, options: Any) -> int:
    """Print how a command is used, and its options with their defaults; return the exit code.

    Args:
        usage: the command with its arguments.
        options: a config with the defaults.
    """
    print(f"usage: {usage} [--KEY VALUE ...]\n")
    print(format_flags(find_leaves(options)).replace("run:", "options:", 1))
    return 0
