"""`laser sweep`: several agents at the same pace, from one config to one result."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

from laser.config import raise_mistyped, raise_problems
from laser.torch_threads import torch_threads
from launch.commands import resume_command
from launch.evaluation.sweep_evaluation import MemberRecord, read_best_curve
from launch.planning.plan import Plan
from launch.recording.progress import Progress
from launch.recording.recorder import Recorder
from launch.records.lineage import Lineage
from launch.records.run_directory import RunDirectory, open_run
from launch.records.run_record import newest_run, read_record
from launch.records.settings_schedule import SCHEDULE_NAME, read_changes
from launch.restart_link import announce
from launch.settings.values import show
from launch.standard_output import name_long_waits, say
from launch.start_directory import located, paths_from_here
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.schedule import Evolution
from launch.supervision.session import plan_session, run_session
from launch.supervision.signals import stop_on_signals
from launch.supervision.training_result import result_of
from launch.sweeps.evolution import PopulationTraining
from launch.sweeps.halving import PrunerConfig, rungs_below
from launch.sweeps.population import find_strangers
from launch.sweeps.pruning import RECORD_NAME, Pruning
from launch.sweeps.scores import takes_evaluations
from launch.sweeps.search_space import whole_keys
from launch.sweeps.sweep_config import SweepConfig, SweepMember
from launch.sweeps.sweep_progress import SweepSnapshot, closing_table, describe_sweep, look_at
from launch.sweeps.sweep_record import find_changes, read_base, sweep_from_json
from launch.sweeps.sweep_result import MemberResult, SweepResult
from launch.sweeps.tuning import STUDY_NAME, Tuning, find_unfit_ends


@torch_threads(1)
def sweep(config: SweepConfig, command: Sequence[str] | None = None) -> SweepResult:
    """Train all members of a sweep until each has made its steps or is solved, or a signal asks to stop.

    A member that fails does not end the others. The sweep fails only if all members fail.

    Args:
        config: see `SweepConfig`; checked here before anything starts.
        command: the user's command line, for the record.

    Raises:
        ConfigError: all mistakes in the config.
        LaunchError: a problem with a run directory, a checkpoint, memory or an environment.
        Interrupted: Ctrl-C came before all members had ended; the state was saved.
        StoppedError: SIGTERM came before that; the state was saved.
    """
    raise_mistyped({"config": (config, SweepConfig)}, "laser.SweepConfig(base, grid) makes one")
    raise_mistyped({"command": (command, Sequence[str] | None)})
    members = config.members()
    if config.base.resume:
        config = _resumed(config)
    base, share_replay = config.base, config.options.share_replay
    with ExitStack() as stack:
        stack.enter_context(paths_from_here())
        stack.enter_context(name_long_waits(base.quiet))
        plan = plan_session([member.config for member in members], share_replay, config.options.concurrent)
        if config.options.pbt:
            raise_problems(find_strangers(plan.members))
        if config.options.tunes:
            raise_problems(find_unfit_ends(config, members, plan.members))
        run = stack.enter_context(open_run(base, command, facts={"sweep": config.to_json()}))
        announce(run.place)
        pruning = _pruning_of(config, members, run) if config.options.prunes else None
        tuning = None
        if config.options.tunes:
            tuning = stack.enter_context(_open_tuning(config, members, run, pruning))
            plan = plan.with_members([tuning.begins(member) for member in plan.members[: plan.num_at_begin]])
        openers = [partial(_open_member, members, member.number, run, command) for member in members]
        runs = [stack.enter_context(opener()) for opener in openers[: plan.num_at_begin]]
        stop = stack.enter_context(stop_on_signals())
        waits = f", {plan.num_at_once} at a time" if plan.num_at_once < len(members) else ""
        if plan.num_at_begin < plan.num_at_once:
            waits = f", at most{waits[1:]}, of which the cluster has room for {plan.num_at_begin} now"
        if not base.quiet:
            sharing = "sharing one replay" if share_replay else "each with its own replay"
            place = f"in {run.path}{plan.where}"
            say(f"{len(members)} members{waits}, {sharing}, {place}; they will need {plan.needs_in(run.place)}")
            for line in plan.seen_as:
                say(line)
        begun_at = time.monotonic()
        try:
            outcomes = run_session(
                plan,
                runs,
                stop,
                lambda recorders: _progress(config, plan, recorders, pruning),
                _evolution_of(config, run, runs) if config.options.pbt else None,
                openers[plan.num_at_begin :],
                pruner=pruning,
                tuner=tuning,
                further=[_path_of(member, run) for member in members[plan.num_at_begin :]] if base.resume else (),
                sweep_run=run,
            )
        finally:
            run.goes_on = all(its_run.goes_on for its_run in runs)
        env_steps = sum(outcome.snapshot.env_steps for outcome in outcomes)
        run.log(f"finished: {', '.join(outcome.finished for outcome in outcomes)}")
        is_over = len(outcomes) == len(members) and all(each.finished is not Ending.STOPPED for each in outcomes)
        if stop.requested and not is_over:
            raise stop.error(f"saved at {env_steps:,} env steps; to continue: {resume_command(run.path)}")
        paths = [_path_of(member, run) for member in members]
        results = [
            MemberResult(
                member.number,
                member.overrides,
                member.config.seed,
                result_of(outcome, path),
                "" if outcome.error is None else " ".join(str(outcome.error).split()),
                read_changes(located(path / SCHEDULE_NAME))[-1].settings if config.options.pbt else {},
                pruning.verdict(member.number) if pruning and outcome.finished is Ending.PRUNED else None,
            )
            for member, outcome, path in zip(members, outcomes, paths, strict=True)
        ]
        result = SweepResult(
            results,
            time.monotonic() - begun_at if waits else max(item.result.seconds for item in results),
            run.path,
            config.options.share_replay,
            read_best_curve(
                [
                    MemberRecord(RunDirectory(path, False).metrics_path, member.config.env, member.overrides)
                    for member, path in zip(members, paths, strict=True)
                ]
            ),
        )
        if not base.quiet:
            say(closing_table(result, base.preset))
        return result


def _open_member(
    members: Sequence[SweepMember], number: int, run: RunDirectory, command: Sequence[str] | None
) -> AbstractContextManager[RunDirectory]:
    member = members[number]  # a tuner chooses it when its turn comes
    path = _path_of(member, run)
    # A member whose turn had not come when the sweep was stopped has no directory.
    resume = member.config.resume and located(path).exists()
    shown = {key: show(value) for key, value in member.overrides.items()}
    facts = {"member": {"index": member.number, "overrides": shown}}
    return open_run(dataclasses.replace(member.config, run_dir=path, resume=resume), command, facts=facts)


def _path_of(member: SweepMember, run: RunDirectory) -> Path:
    return run.path / "members" / str(member.number)


def _progress(config: SweepConfig, plan: Plan, recorders: Sequence[Recorder], pruning: Pruning | None) -> Progress:
    steps = min(member.steps for member in plan.configs)

    def look() -> SweepSnapshot:
        return look_at(recorders, len(plan.members), pruning.verdict if pruning is not None else lambda number: None)

    return Progress(look, steps, config.base.env, config.base.quiet, line=describe_sweep)


def _pruning_of(config: SweepConfig, members: Sequence[SweepMember], run: RunDirectory) -> Pruning:
    configs = {member.number: member.config for member in members}
    first = config.pruner.first(list(configs.values()))
    return Pruning(
        config.pruner.reduction,
        {number: rungs_below(each.steps, first, config.pruner.reduction) for number, each in configs.items()},
        {member.number: member.setting for member in members},
        takes_evaluations(config.options.score, list(configs.values())),
        run.place / RECORD_NAME,
        run.log,
    )


def _resumed(config: SweepConfig) -> SweepConfig:
    """Return the config of a sweep that goes on, whose rungs stay where they are.

    Raises:
        ConfigError: it is not the sweep that was begun.
        NothingToResumeError: there is none.
        UntrustedError: as `open_run` says.
    """
    base = config.base
    path = base.run_dir or newest_run(base.preset, base.env, of_sweeps=True)
    record = read_record(path)
    began = sweep_from_json(record, read_base(record, path))
    if config.pruner == PrunerConfig():
        config = dataclasses.replace(config, pruner=began.pruner)
    raise_problems(find_changes(began, config))
    return config


@contextmanager
def _open_tuning(
    config: SweepConfig, members: list[SweepMember], run: RunDirectory, pruning: Pruning | None
) -> Iterator[Tuning]:
    from launch.sweeps.optuna_search import OptunaSearch

    whole, path = whole_keys(config.space, config.base), run.place / STUDY_NAME
    by_evaluation = takes_evaluations(config.options.score, [member.config for member in members])
    base, num_settings = config.base, config.options.sample
    # A member's setting is in the study before the member has a directory. One that was killed earlier begins anew.
    goes_on = base.resume and any(located(_path_of(member, run)).exists() for member in members)
    with OptunaSearch(config.space, whole, path, base.seed, base.steps, num_settings, goes_on) as search:
        verdict = (lambda number: None) if pruning is None else pruning.verdict
        yield Tuning(config, members, search, by_evaluation, verdict)


def _evolution_of(
    config: SweepConfig, run: RunDirectory, runs: Sequence[RunDirectory]
) -> Callable[[Sequence[MemberSupervisor]], Evolution]:
    def make(supervisors: Sequence[MemberSupervisor]) -> Evolution:
        lineage = Lineage(run.place / "lineage.jsonl")
        return PopulationTraining(config.pbt, supervisors, runs, lineage, config.base.seed, config.keys)

    return make
