"""`laser reproduce`: a figure's runs from the check of their settings to the picture, the table and the verdict."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem, key_of, raise_problems
from launch.errors import LaunchError, OutputError
from launch.presets import load_preset
from launch.records.run_record import RUNS_ROOT
from launch.reproductions.catalogue import ALL, CLAIMS, choose
from launch.reproductions.figure import Figure, Rule
from launch.reproductions.listing import as_data, cost_of, listing
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.outcomes import choose_settings, read_outcomes
from launch.reproductions.plan import Run, find_missing_games, make_plan, make_tuning, restrict
from launch.reproductions.results import Account, how_small, save_results
from launch.reproductions.running import run_all
from launch.reproductions.state import Reproduction
from launch.reproductions.verdict import judge
from launch.standard_output import say as say_aloud

LIST = "list"


class RunsFailedError(LaunchError):
    """Runs of a reproduction failed; the others are drawn."""


def reproduce(name: str, options: ReproduceOptions, of: str = "") -> list[dict[str, Any]]:
    """Run figures, or list what there is, and return each one's results without its curves; with `json`, the list.

    Args:
        name: of a figure, of a paper, `all`, or `list`.
        options: see `ReproduceOptions`.
        of: with `list`: a figure or a paper, instead of all.

    Raises:
        ConfigError: unknown names, wrong settings, runs shorter than their warm-up, games that are not installed; all
            of these before anything starts.
        LaunchError: no cluster answers at the address.
        CannotCreateError: the directory holds a reproduction with other settings.
        RunsFailedError: runs failed.
        Interrupted: Ctrl-C; the same command goes on.
    """
    if name == LIST:
        raise_problems(list(_without_effect(options)))
        listed = choose(of) if of else [*choose(ALL), *choose(CLAIMS)]
        if not options.json:
            print("\n".join(listing(listed)))
        return [as_data(figure) for figure in listed] if options.json else []
    if of:
        raise ConfigError([Problem("argument", f"{of!r} is one too many", "name one figure, one paper, or all")])
    figures = choose(name)
    if options.preset:
        load_preset(options.preset)  # its name may be wrong
    (only,) = figures if len(figures) == 1 else (None,)
    if only is not None and not only.has_runs:
        raise ConfigError([Problem(only.name, *_why_nothing(only))])
    if options.out is not None and only is None:
        raise ConfigError([Problem("out", f"is for one figure, and {name} has several", "leave it out")])
    plans = _plans(figures, options, only is not None)
    if options.dry_run:
        address = f" --ray-address {options.ray_address}" if options.ray_address else ""
        for figure, runs in plans:
            tuning = make_tuning(figure, options)
            if tuning:
                print(f"# {figure.name}, tuning: {len(tuning)} runs, {cost_of(tuning)}")
                print("\n".join(f"{run}{address}" for run in tuning))
            best = ", each with its arm's best setting on its game" if tuning else ""
            print(f"# {figure.name}: {len(runs)} runs{best}, {cost_of(runs)}")
            print("\n".join(f"{run}{address}" for run in runs))
        return []
    if options.ray_address:
        # Imported here, since it imports Ray, which most reproductions do without.
        from launch.runtimes.ray_cluster import check_reachable

        check_reachable(options.ray_address)
    missing = {figure.name: list(find_missing_games(figure, runs, options)) for figure, runs in plans}
    if only is not None:
        raise_problems(missing[only.name])
    for problems in missing.values():
        for problem in problems[:1]:
            print(f"left out: {problem}", file=sys.stderr)
    ready = [(figure, runs) for figure, runs in plans if not missing[figure.name]]
    elsewhere = "" if only is not None else "run this figure alone with another --out"
    reproductions = [Reproduction(options.out or _place(figure, options), elsewhere=elsewhere) for figure, _ in ready]
    for reproduction, (figure, runs) in zip(reproductions, ready, strict=True):
        # The commands of the comparison follow from those of the tuning.
        reproduction.begin(figure, options, make_tuning(figure, options) or runs)
    results: list[dict[str, Any]] = []
    failures: dict[str, str] = {}
    with ExitStack() as held:
        for each in {reproduction.path: reproduction for reproduction in reproductions}.values():
            held.enter_context(each.held())
        for reproduction, (figure, runs) in zip(reproductions, ready, strict=True):
            try:
                results.append(_run(reproduction, figure, runs, options))
            except OutputError as error:
                failures[figure.name] = str(error.problem)
                continue
            failures |= {f"{figure.name} {run}": line for run, line in results[-1]["failures"].items()}
    if failures:
        first, line = next(iter(failures.items()))
        number = "1 run" if len(failures) == 1 else f"{len(failures)} runs"
        wrong = f"{number} failed, {first} among them: {line}"
        raise RunsFailedError("reproduce", wrong, "the same command tries them again")
    return results


def _without_effect(options: ReproduceOptions) -> Iterator[Problem]:
    """Yield the options that a list takes no notice of."""
    for field in fields(ReproduceOptions):
        if field.name not in ("json", "quiet") and getattr(options, field.name) != field.default:
            yield Problem(
                key_of(field.name), f"has no effect on {LIST}", "leave it out, or use --dry-run with a figure"
            )


def _plans(figures: Sequence[Figure], options: ReproduceOptions, is_one: bool) -> list[tuple[Figure, list[Run]]]:
    """Return figures with their runs. Of several figures those that cannot be run so are left out, with a line.

    Raises:
        ConfigError: the only figure, or every one, cannot be run with these options.
    """
    plans: list[tuple[Figure, list[Run]]] = []
    problems: list[Problem] = []
    for figure in figures:
        if not figure.has_runs:
            continue
        try:
            chosen = restrict(figure, options)
            plans.append((chosen, make_plan(chosen, options)))
        except ConfigError as error:
            problems += error.problems[:1] if not is_one else error.problems
    if is_one or not plans:
        raise_problems(problems)
    for problem in problems:
        print(f"left out: {problem}", file=sys.stderr)
    return plans


def _run(reproduction: Reproduction, figure: Figure, runs: Sequence[Run], options: ReproduceOptions) -> dict[str, Any]:
    def say(text: str) -> None:
        if not options.quiet:
            say_aloud(text)

    say(f"{figure.name}: {len(runs)} runs, {cost_of(list(runs))}; in {reproduction.path}")
    tuning, failures, tuned = make_tuning(figure, options), {}, {}
    if tuning:
        say(f"tuning: {len(tuning)} runs, {cost_of(tuning)}")
        failures = run_all(reproduction, tuning, options.jobs, options.ray_address, say)
        tuned = dict(choose_settings(figure, tuning, reproduction.places(tuning), options.small))
        runs = make_plan(figure, options, tuned)
    failures |= run_all(reproduction, runs, options.jobs, options.ray_address, say)
    outcomes = read_outcomes(figure, runs, reproduction.places(runs), options.small)
    rules = rules_for(figure, options, outcomes.normalised)
    verdicts = [judge(rule, outcomes) for rule in rules]
    seconds = reproduction.seconds([*tuning, *runs])
    commits = reproduction.commits([*tuning, *runs])
    account = Account(how_small(figure, options), [str(run) for run in runs], failures, tuned, seconds, commits)
    directory = reproduction.path / figure.name.partition("/")[2]
    content = save_results(directory, outcomes, verdicts, account)
    for verdict in verdicts:
        say(str(verdict))
    say(f"picture, table and report: {directory}")
    return {key: value for key, value in content.items() if key != "curves"}


def rules_for(figure: Figure, options: ReproduceOptions, normalised: bool) -> list[Rule]:
    """Return the rules that can be judged: the paper's thresholds are about its games, its scores and its steps.

    Args:
        figure: the figure.
        options: see `ReproduceOptions`.
        normalised: whether the returns of the runs are.
    """
    is_whole = not how_small(figure, replace(options, seeds=0, arms="")) and normalised == figure.normalised
    return [rule for rule in figure.rules if rule.compare != "value" or is_whole]


def _place(figure: Figure, options: ReproduceOptions) -> Path:
    """Return the directory of a figure's runs at a size; sizes do not mix."""
    parts = [figure.owner.replace("/", "-"), *(["small"] if options.small else [])]
    return RUNS_ROOT / "reproduce" / "-".join(parts)


def _why_nothing(figure: Figure) -> tuple[str, str]:
    if figure.nothing:
        return f"there is nothing to run: {figure.nothing}", f"laser reproduce list {figure.paper} names the others"
    return f"cannot be run: {'; '.join(figure.missing)}", f"laser reproduce list {figure.paper} names the others"
