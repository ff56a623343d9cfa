"""The commands for trained agents: evaluated, watched, reported, exported and shared."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launch.command_line.flags import parse_options
from launch.command_line.usage import asks_help, print_options
from launch.standard_output import print_json


def eval_command(arguments: list[str]) -> int:
    """Evaluate trained agents."""
    from launch.evaluation.options import EvalOptions

    if asks_help(arguments):
        return print_options("laser eval RUN_OR_SWEEP | RUN RUN ... | SWEEP SWEEP ...", EvalOptions())
    run_dirs, options = parse_options(arguments, EvalOptions(), ("run-dir",), _further(arguments))
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


def play_command(arguments: list[str]) -> int:
    """Show an agent that plays, in a window."""
    from launch.evaluation.options import PlayOptions

    if asks_help(arguments):
        return print_options("laser play RUN_DIR", PlayOptions())
    (run_dir,), options = parse_options(arguments, PlayOptions(), ("run-dir",))
    from launch.evaluation.play import play

    play(Path(run_dir), options)
    return 0


def report_command(arguments: list[str]) -> int:
    """Write a page about runs."""
    from launch.report.options import ReportOptions

    if asks_help(arguments):
        return print_options("laser report RUN_OR_SWEEP | RUN RUN ...", ReportOptions())
    run_dirs, options = parse_options(arguments, ReportOptions(), ("run-dir",), _further(arguments))
    from launch.report.report import report, report_comparison

    paths = [Path(run_dir) for run_dir in run_dirs]
    result = report(paths[0], options) if len(paths) == 1 else report_comparison(paths, options)
    if not options.quiet and not options.json:
        print(result.page)
    if options.json:
        print_json(result)
    return 0


def export_command(arguments: list[str]) -> int:
    """Write a policy as a file that needs no LASER."""
    from launch.export.options import ExportOptions

    if asks_help(arguments):
        return print_options("laser export RUN_DIR", ExportOptions())
    (run_dir,), options = parse_options(arguments, ExportOptions(), ("run-dir",))
    from launch.export.export import export

    result = export(Path(run_dir), options)
    if not options.quiet and not options.json:
        print(f"{result.file}: agrees with the policy over {result.checked_steps} steps of an episode")
        if names := [each["name"] for each in result.signature["wrappers"]]:
            print(f"its inputs are those of the wrapped environment; --json prints mean and var of {', '.join(names)}")
    if options.json:
        print_json(result)
    return 0


def push_command(arguments: list[str]) -> int:
    """Share an agent with its card."""
    from launch.sharing.options import PushOptions

    if asks_help(arguments):
        return print_options("laser push RUN_DIR OWNER/NAME | ./FOLDER", PushOptions())
    (run_dir, repo), options = parse_options(arguments, PushOptions(), ("run-dir", "repo"))
    from launch.sharing.sharing import push

    place = push(Path(run_dir), repo, options)
    if not options.quiet:
        print(place)
    return 0


def pull_command(arguments: list[str]) -> int:
    """Fetch a shared agent as a run directory."""
    from launch.sharing.options import PullOptions

    if asks_help(arguments):
        return print_options("laser pull OWNER/NAME | ./FOLDER", PullOptions())
    (repo,), options = parse_options(arguments, PullOptions(), ("repo",))
    from launch.sharing.sharing import pull

    path = pull(repo, options)
    if not options.quiet:
        print(path)
    return 0


def _further(arguments: Sequence[str]) -> tuple[str, ...]:
    """Return names for the directories after the first one, as many as there could be."""
    return tuple(f"run-dir-{place}" for place in range(2, 1 + len(arguments)))
