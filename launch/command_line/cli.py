"""The commands of `laser`: parsing of their arguments, with every mistake at once, and calls of the functions.

Heavy modules are imported when they are needed: `laser --help` must not wait for torch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from laser.config import ConfigError, Problem, find_problems, raise_problems
from laser.packages import find_missing
from launch.command_line.flags import (
    Arguments,
    format_flags,
    split_arguments,
    split_named,
    surplus,
    switches_of,
    without_value,
)
from launch.settings.values import apply_overrides, find_leaves, nearest
from launch.standard_output import finite, name_long_waits, print_json

if TYPE_CHECKING:
    from launch.sweeps.sweep_config import SweepConfig

O = TypeVar("O")  # noqa: E741

_USAGE = """\
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

_HELP_FLAGS = ("--help", "-h")


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Raises:
        ConfigError: mistakes in the arguments.
        LaunchError: the command failed; the error has its exit code.
    """
    if not arguments or arguments[0] in (*_HELP_FLAGS, "help"):
        print(_USAGE)
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


def _train(arguments: list[str]) -> int:
    if any(flag in arguments for flag in _HELP_FLAGS):
        return _train_help([argument for argument in arguments if argument not in _HELP_FLAGS])
    from launch.command_line.restarts import supervise_if_asked

    if (exit_code := supervise_if_asked(["train", *arguments])) is not None:
        return exit_code
    from launch.command_line.arguments import parse_train, with_preset

    with name_long_waits(_is_quiet(arguments)):
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


def _sweep(arguments: list[str]) -> int:
    if any(flag in arguments for flag in _HELP_FLAGS):
        return _sweep_help([argument for argument in arguments if argument not in _HELP_FLAGS])
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

    with name_long_waits(_is_quiet(arguments)):
        arguments, note = with_preset(arguments, sweep_leaves())
    config = parse_sweep(arguments)
    if not config.base.quiet:
        if note:
            print(note, file=sys.stderr)
        for warning in config.warnings():
            print(f"warning: {warning}", file=sys.stderr)
    return arguments, config


def _is_quiet(arguments: Sequence[str]) -> bool:
    return any(argument in ("--quiet", "--quiet=true") for argument in arguments)


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
    from launch.presets import load_preset

    names = [argument for argument in arguments if not argument.startswith("-")]
    if names:
        from launch.command_line.resume_options import ResumeOptions
        from launch.settings.train_config import NOT_FLAGS

        leaves = [leaf for leaf in find_leaves(load_preset(names[0])) if leaf.key not in NOT_FLAGS]
        leaves += find_leaves(ResumeOptions())
        print(f"usage: laser train {names[0]} [--config FILE.toml] [--KEY VALUE ...]\n")
        print(format_flags(leaves))
        return 0
    print(_USAGE.partition("\n  laser sweep")[0].replace("COMMAND ...", "train PRESET ...") + "\n")
    _print_presets()
    print("\nlaser train PRESET --help lists every key with its default and range.")
    return 0


def _presets(arguments: list[str]) -> int:
    if any(flag in arguments for flag in _HELP_FLAGS):
        print(
            "usage: laser presets\n\nThe presets by kind of task; laser train PRESET --help lists the settings of one."
        )
        return 0
    raise_problems(surplus(arguments))
    _print_presets()
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


def _eval(arguments: list[str]) -> int:
    from launch.evaluation.options import EvalOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser eval RUN_OR_SWEEP | RUN RUN ... | SWEEP SWEEP ...", EvalOptions())
    run_dirs, options = _parse_options(arguments, EvalOptions(), ("run-dir",), _further(arguments))
    values = {name: value for name, value in vars(options).items() if name != "json"}
    if len(run_dirs) == 1:
        from launch.evaluation.evaluate import evaluate

        result: Any = evaluate(Path(run_dirs[0]), **values)
    else:
        from launch.evaluation.several import evaluate_runs

        result = evaluate_runs([Path(run_dir) for run_dir in run_dirs], **values)
    if options.json:
        print_json(result)
    return 0


def _play(arguments: list[str]) -> int:
    from launch.evaluation.options import PlayOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser play RUN_DIR", PlayOptions())
    (run_dir,), options = _parse_options(arguments, PlayOptions(), ("run-dir",))
    from launch.evaluation.play import play

    play(Path(run_dir), options)
    return 0


def _dashboard(arguments: list[str]) -> int:
    from launch.dashboard.options import DashboardOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser dashboard [RUNS_DIR]", DashboardOptions())
    given, options = _parse_options(arguments, DashboardOptions(), (), ("runs-dir",))
    raise_problems(list(find_missing("dashboard", ["dash", "dash-ag-grid"])))
    from launch.dashboard.server import serve

    serve(Path(given[0] if given else "runs"), options)
    return 0


def _report(arguments: list[str]) -> int:
    from launch.report.options import ReportOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser report RUN_OR_SWEEP | RUN RUN ...", ReportOptions())
    run_dirs, options = _parse_options(arguments, ReportOptions(), ("run-dir",), _further(arguments))
    from launch.report.report import report, report_comparison

    paths = [Path(run_dir) for run_dir in run_dirs]
    result = report(paths[0], options) if len(paths) == 1 else report_comparison(paths, options)
    if not options.quiet and not options.json:
        print(result.page)
    if options.json:
        print_json(result)
    return 0


def _further(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return names for the directories after the first one, as many as there could be."""
    return tuple(f"run-dir-{place}" for place in range(2, 1 + len(arguments)))


def _export(arguments: list[str]) -> int:
    from launch.export.options import ExportOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser export RUN_DIR", ExportOptions())
    (run_dir,), options = _parse_options(arguments, ExportOptions(), ("run-dir",))
    from launch.export.export import export

    result = export(Path(run_dir), options)
    if not options.quiet and not options.json:
        print(f"{result.file}: agrees with the policy over {result.checked_steps} steps of an episode")
        if names := [each["name"] for each in result.signature["wrappers"]]:
            print(f"its inputs are those of the wrapped environment; --json prints mean and var of {', '.join(names)}")
    if options.json:
        print_json(result)
    return 0


def _replay(arguments: list[str]) -> int:
    from launch.command_line.replay_import import USAGE, import_log
    from launch.logs.options import ReplayOptions

    usage = "laser replay export RUN_DIR minari:NAMESPACE/NAME-vN"
    draw = "laser replay draw RUN_DIR FILE.npz"
    what, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if what == "draw":
        return _replay_draw(rest)
    if any(flag in arguments for flag in _HELP_FLAGS):
        _options_help(usage, ReplayOptions())
        print(f"\n       {USAGE}\n       {draw}\n\nThe flags of import are those of laser train.")
        return 0
    if what == "import":
        return import_log(rest, _is_quiet(rest))
    if what != "export":
        wrong = f"there is no laser replay {what}" if what else "needs to know what to do"
        raise ConfigError([Problem("replay", wrong, f"use {usage}, {draw}, or {USAGE}")])
    (run_dir, name), options = _parse_options(rest, ReplayOptions(), ("run-dir", "name"))
    from launch.logs.export import export_replay

    result = export_replay(Path(run_dir), name, options)
    if options.json:
        print_json(result)
    elif not options.quiet:
        numbers = f"{result.episodes:,} episodes, {result.env_steps:,} env steps, mean return {result.mean_return:,.1f}"
        print(f"{result.name}: {numbers}")
    return 0


def _replay_draw(arguments: list[str]) -> int:
    from launch.logs.options import DrawOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser replay draw RUN_DIR FILE.npz", DrawOptions())
    (run_dir, file), options = _parse_options(arguments, DrawOptions(), ("run-dir", "file"))
    from launch.logs.draw import draw_replay

    result = draw_replay(Path(run_dir), Path(file), options)
    if options.json:
        print_json(result)
    elif not options.quiet:
        print(f"{result.file}: {result.items} {result.view}, drawn by {result.sampler} from {result.num_stored:,}")
    return 0


def _push(arguments: list[str]) -> int:
    from launch.sharing.options import PushOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser push RUN_DIR OWNER/NAME | ./FOLDER", PushOptions())
    (run_dir, repo), options = _parse_options(arguments, PushOptions(), ("run-dir", "repo"))
    from launch.sharing.sharing import push

    place = push(Path(run_dir), repo, options)
    if not options.quiet:
        print(place)
    return 0


def _pull(arguments: list[str]) -> int:
    from launch.sharing.options import PullOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser pull OWNER/NAME | ./FOLDER", PullOptions())
    (repo,), options = _parse_options(arguments, PullOptions(), ("repo",))
    from launch.sharing.sharing import pull

    path = pull(repo, options)
    if not options.quiet:
        print(path)
    return 0


def _reproduce(arguments: list[str]) -> int:
    from launch.reproductions.options import ReproduceOptions

    if any(flag in arguments for flag in _HELP_FLAGS):
        return _options_help("laser reproduce list [PAPER] | FIGURE | PAPER | all", ReproduceOptions())
    given, options = _parse_options(arguments, ReproduceOptions(), ("figure",), ("of",))
    from launch.reproductions.reproduce import reproduce

    results = reproduce(given[0], options, *given[1:])
    if options.json:
        print(json.dumps(finite({"figures": results})), flush=True)
    return 0


def _bench(arguments: list[str]) -> int:
    from launch.bench import find_benches, load_bench

    benches = find_benches()
    asks_help = any(flag in arguments for flag in _HELP_FLAGS)
    name, _ = split_named(
        arguments, benches, lambda name: switches_of(find_leaves(load_bench(name).Options())), ("json", "help")
    )
    if asks_help and not name:
        print("usage: laser bench NAME [--json]\n\nbenches:")
        for name, text in benches.items():
            print(f"  {name:<18}{text}")
        return 0
    if not name:
        raise ConfigError([Problem("bench", "a name is missing", f"benches are {', '.join(benches)}")])
    bench = load_bench(name)
    if asks_help:
        return _options_help(f"laser bench {name}", bench.Options())
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
        print("usage: laser doctor\n\nPrints what is installed, what is missing, and the command that installs it.")
        return 0
    given = split_arguments(arguments, ())
    unknown = [Problem(key, "unknown key", "laser doctor has no keys") for key in (*given.values, *given.valueless)]
    raise_problems([*given.problems, *surplus(given.positionals), *unknown])
    healthy: bool = examine(sys.stdout)
    return 0 if healthy else 1


def _completion(arguments: list[str]) -> int:
    from launch.command_line.completion import SHELLS

    if any(flag in arguments for flag in _HELP_FLAGS):
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


def _complete(arguments: list[str]) -> int:
    """Print what the last word may become, one candidate on each line; shells call this command."""
    from launch.command_line.completion import find_candidates

    for candidate in find_candidates(arguments, list(COMMANDS)):
        print(candidate)
    return 0


COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "train": _train,
    "sweep": _sweep,
    "eval": _eval,
    "play": _play,
    "report": _report,
    "export": _export,
    "replay": _replay,
    "push": _push,
    "pull": _pull,
    "reproduce": _reproduce,
    "dashboard": _dashboard,
    "bench": _bench,
    "presets": _presets,
    "doctor": _doctor,
    "completion": _completion,
}


def _parse_options(
    arguments: Sequence[str], options: O, positionals: tuple[str, ...], optional: tuple[str, ...] = ()
) -> tuple[list[str], O]:
    given: Arguments = split_arguments(arguments, switches_of(find_leaves(options)))
    missing = [Problem(name, "is missing", "see --help") for name in positionals[len(given.positionals) :]]
    options, found = apply_overrides(options, given.values, all_texts=True)
    too_many = surplus(given.positionals[len(positionals) + len(optional) :])
    valueless = without_value(given, list(find_leaves(options)))
    raise_problems([*given.problems, *missing, *too_many, *valueless, *found, *find_problems(options)])
    return given.positionals, options


def _options_help(usage: str, options: Any) -> int:
    print(f"usage: {usage} [--KEY VALUE ...]\n")
    print(format_flags(find_leaves(options)).replace("run:", "options:", 1))
    return 0
