"""The commands around training: figures of the papers, the dashboard, benches, the doctor, completion in a shell."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem, raise_problems
from laser.packages import find_missing
from launch.command_line.flags import parse_options, split_arguments, split_named, surplus, switches_of
from launch.command_line.usage import asks_help, print_options
from launch.settings.values import find_leaves
from launch.standard_output import finite


def reproduce_command(arguments: list[str]) -> int:
    """Repeat figures and tables of the papers."""
    from launch.reproductions.options import ReproduceOptions

    if asks_help(arguments):
        return print_options("laser reproduce list [PAPER] | FIGURE | PAPER | all", ReproduceOptions())
    given, options = parse_options(arguments, ReproduceOptions(), ("figure",), ("of",))
    from launch.reproductions.reproduce import reproduce

    results = reproduce(given[0], options, *given[1:])
    if options.json:
        print(json.dumps(finite({"figures": results})), flush=True)
    return 0


def dashboard_command(arguments: list[str]) -> int:
    """Show runs in a browser."""
    from launch.dashboard.options import DashboardOptions

    if asks_help(arguments):
        return print_options("laser dashboard [RUNS_DIR]", DashboardOptions())
    given, options = parse_options(arguments, DashboardOptions(), (), ("runs-dir",))
    raise_problems(list(find_missing("dashboard", ["dash", "dash-ag-grid"])))
    from launch.dashboard.server import serve

    serve(Path(given[0] if given else "runs"), options)
    return 0


def bench_command(arguments: list[str]) -> int:
    """Measure the speed of a part."""
    from launch.bench import find_benches, load_bench

    benches = find_benches()
    wants_help = asks_help(arguments)
    name, _ = split_named(
        arguments, benches, lambda name: switches_of(find_leaves(load_bench(name).Options())), ("json", "help")
    )
    if wants_help and not name:
        print("usage: laser bench NAME [--json]\n\nbenches:")
        for name, text in benches.items():
            print(f"  {name:<18}{text}")
        return 0
    if not name:
        raise ConfigError([Problem("bench", "a name is missing", f"benches are {', '.join(benches)}")])
    bench = load_bench(name)
    if wants_help:
        return print_options(f"laser bench {name}", bench.Options())
    _, options = parse_options(arguments, bench.Options(), ("name",))
    result = bench.run(options)
    if options.json:
        print(json.dumps(finite(result)))
    else:
        for key, value in result.items():
            print(f"{key.replace('_', ' ')}: {_readable(value)}")
    return 0


def doctor_command(arguments: list[str]) -> int:
    """Print what is installed and what is missing."""
    from launch.doctor import examine

    if asks_help(arguments):
        print("usage: laser doctor\n\nPrints what is installed, what is missing, and the command that installs it.")
        return 0
    given = split_arguments(arguments, ())
    unknown = [Problem(key, "unknown key", "laser doctor has no keys") for key in (*given.values, *given.valueless)]
    raise_problems([*given.problems, *surplus(given.positionals), *unknown])
    healthy: bool = examine(sys.stdout)
    return 0 if healthy else 1


def completion_command(arguments: list[str]) -> int:
    """Print what makes a shell complete commands."""
    from launch.command_line.completion import SHELLS

    if asks_help(arguments):
        print(
            "usage: laser completion bash|zsh|fish\n\n"
            "Prints what makes the shell complete commands, presets and flags:\n"
            '  bash: eval "$(laser completion bash)" in ~/.bashrc\n'
            '  zsh:  eval "$(laser completion zsh)" in ~/.zshrc, after compinit\n'
            "  fish: laser completion fish >~/.config/fish/completions/laser.fish"
        )
        return 0
    raise_problems(surplus(arguments[1:]))
    if not arguments or arguments[0] not in SHELLS:
        wrong = f"there is no completion for {arguments[0]!r}" if arguments else "a shell is missing"
        raise ConfigError([Problem("completion", wrong, f"shells are {', '.join(SHELLS)}")])
    print(SHELLS[arguments[0]])
    return 0


def _readable(value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
