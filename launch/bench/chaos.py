"""A small run on Ray whose parts are killed and paused at random: what it loses, and how much it trains."""

from __future__ import annotations

import dataclasses
import itertools
import math
import signal
import statistics
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from laser.config import Bounds, Problem, raise_problems
from laser.packages import find_missing
from launch.bench import machine
from launch.bench.chaos_run.accounts import read_accounts, summarise_recoveries
from launch.bench.chaos_run.faults import Faults, small_disk
from launch.bench.chaos_run.place import OneMachine
from launch.bench.chaos_run.plan import CUT_CABLE, FULL_DISK, PAUSE, endless_faults, planned_faults
from launch.bench.chaos_run.two_nodes import TwoNodes, joined_namespaces
from launch.bench.chaos_run.victim import Victim
from launch.recording.progress import Progress

_CALM_S, _CALM_SHARE = 20.0, 0.1
"""Seconds before the first fault and after the last one, in which the undisturbed rate is measured: at least so many,
and this share of the minutes of faults."""
_LEAST_STEPS = 200_000
_NODE_CPUS = (3, 2)
"""CPUs of two nodes: beside the learner on the first, each has an actor and room for another."""
_WORDS_S = 30.0  # between two lines where standard error is no terminal


@dataclass(frozen=True)
class Options:
    """Choice of the measurement."""

    preset: Annotated[str, "preset of the run"] = "cartpole"
    minutes: Annotated[float, Bounds(above=0.0, most=1e5), "minutes of faults, if --kills is 0"] = 10.0
    kills: Annotated[int, Bounds(least=0, most=1e6), "end after N kills, N/8 at least of each part; 0: --minutes"] = 0
    every: Annotated[float, Bounds(above=0.0, most=1e6), "mean seconds between two faults"] = 15.0
    steps: Annotated[int, Bounds(least=0, most=1e12), "env steps after which the run ends by itself; 0: never"] = 0
    nodes: Annotated[
        int, Bounds(least=1, most=2), "Ray nodes; 2: in two network namespaces, with a cable that is cut, too"
    ] = 1
    part: Annotated[
        Literal["all", "any", "learner", "actor", "evaluator", "shard", "store", "driver"],
        "all faults; or nothing but kills, of any part or of one; driver: the main process",
    ] = "all"
    checkpoint_every: Annotated[float, Bounds(above=0.0, most=1e6), "seconds between two checkpoints"] = 10.0
    compile: Annotated[bool, "learners compile their update, as those of large networks do"] = False
    seed: Annotated[int, Bounds(least=0, most=2**31), "seed of the faults"] = 0
    json: Annotated[bool, "print one JSON object"] = False


def run(options: Options) -> dict[str, Any]:
    """Train, break it, and return the accounts at the end.

    Raises:
        ConfigError: a package is missing, this machine does not permit two nodes, or the run did not start, go on or
            end.
    """
    if 0 < options.steps < _LEAST_STEPS:
        what = f"must be 0 or at least {_LEAST_STEPS}, so that the run outlasts its calm start, got {options.steps}"
        raise_problems([Problem("steps", what)])
    raise_problems(list(find_missing("bench", ["ray"])))
    rng = np.random.default_rng(options.seed)
    with _cleaned_up_after_sigterm(), ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="laser-chaos-")))
        namespaces = stack.enter_context(joined_namespaces()) if options.nodes == 2 else None
        disk = folder / "disk"
        disk.mkdir()
        no_disk = stack.enter_context(small_disk(disk))
        nodes = stack.enter_context(TwoNodes(namespaces, folder, _NODE_CPUS)) if namespaces else None
        words, place = folder / "said.txt", nodes or OneMachine()
        more = ["--learner.compile", "on" if options.compile else "off"]
        victim = Victim(options.preset, options.steps, disk / "run", words, place, options.checkpoint_every, more)
        stack.callback(victim.leave_nothing)
        faults = Faults(victim, rng, None if no_disk else disk, nodes)
        shown = _Standing(options, victim, faults)
        stack.enter_context(
            Progress(lambda: shown, 0, interval_s=_WORDS_S, line=lambda *_: shown.words(), share=lambda _: shown.share)
        )
        if nodes is not None:
            nodes.start()  # after the mount: the processes of a namespace may not see a later one
        victim.start()
        trained = _break(options, faults, victim, rng, not no_disk)
        return {
            **{key: value for key, value in dataclasses.asdict(options).items() if key not in ("kills", "json")},
            "kills": faults.kills.total(),
            **{f"kills_{part}": num for part, num in sorted(faults.kills.items())},
            **{f"{fault}s".replace(" ", "_"): num for fault, num in sorted(faults.others.items())},
            **({"full_disk": f"not tried: {no_disk}"} if no_disk else {}),
            **({"nodes_lost": nodes.num_lost} if nodes else {}),
            **read_accounts(victim.path),
            "processes_left": faults.num_left,
            **summarise_recoveries(faults.learner_deaths, victim.looks),
            **trained,
            **machine(),
        }


@contextmanager
def _cleaned_up_after_sigterm() -> Iterator[None]:
    """Let SIGTERM end the block as an error does: run, disk and namespaces would outlive this process."""

    def end(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@dataclass(frozen=True)
class _Standing:
    """Progress of a measurement, for its display."""

    options: Options
    victim: Victim
    faults: Faults
    begun_at: float = field(default_factory=time.monotonic)

    @property
    def share(self) -> float:
        """The share of the kills, or of the minutes, that are over."""
        if self.options.kills:
            return min(1.0, self.faults.kills.total() / self.options.kills)
        return min(1.0, self._minutes / self.options.minutes)

    @property
    def _minutes(self) -> float:
        return (time.monotonic() - self.begun_at) / 60.0

    def words(self) -> str:
        """Return faults, updates and minutes so far."""
        if not self.victim.looks:
            return "a run on Ray starts"
        kills, asked = self.faults.kills.total(), self.options.kills
        done = f"{kills} of {asked} kills" if asked else f"{kills} kills"
        others = "".join(f" · {num} {fault}{'s' * (num > 1)}" for fault, num in sorted(self.faults.others.items()))
        return f"{done}{others} · {self.victim.looks[-1].num_updates:,} updates · {self._minutes:.1f} minutes"


def _break(
    options: Options, faults: Faults, victim: Victim, rng: np.random.Generator, can_fill_disk: bool
) -> dict[str, Any]:
    """Make the faults in a run that has started, end it, and return how much it trained meanwhile."""
    calm_s = max(_CALM_S, _CALM_SHARE * 60.0 * options.minutes)
    rates = [_undisturbed_rate(victim, calm_s)]
    begun_at, num_before = time.monotonic(), victim.looks[-1].num_updates
    _make_all(options, faults, victim, rng, can_fill_disk)
    victim.wait_for_updates()  # what the last fault cost is part of the account, and what follows is not
    victim.look()
    updates, seconds = victim.looks[-1].num_updates - num_before, time.monotonic() - begun_at
    while options.steps and not victim.has_ended:
        victim.wait_for_updates()
    ended_by_itself = victim.has_ended
    if not ended_by_itself:
        rates.append(_undisturbed_rate(victim, calm_s))
        victim.stop()
    return {
        "ended_by_itself": ended_by_itself,
        "undisturbed_updates_per_second": rates,
        "effective_training_time": updates / max(1e-9, statistics.fmean(rates) * seconds),
    }


def _undisturbed_rate(victim: Victim, calm_s: float) -> float:
    """Return the updates per second of some calm seconds: the rate changes while the replay fills and the agent learns.

    A run that ends meanwhile has the rate until its end.
    """
    begin = victim.looks[-1]
    while not victim.has_ended and victim.looks[-1].at - begin.at < calm_s:
        victim.wait_for_updates()
    return (victim.looks[-1].num_updates - begin.num_updates) / max(1e-9, victim.looks[-1].at - begin.at)


def _faults(options: Options, rng: np.random.Generator, can_fill_disk: bool) -> Iterable[str]:
    """Return the faults that are asked for, in their order."""
    if options.part not in ("all", "any"):
        return itertools.repeat(options.part, options.kills) if options.kills else itertools.repeat(options.part)
    possible = {PAUSE: True, FULL_DISK: can_fill_disk, CUT_CABLE: options.nodes == 2}
    others = [fault for fault, is_possible in possible.items() if is_possible and options.part == "all"]
    return planned_faults(options.kills, rng, others) if options.kills else endless_faults(rng, others)


def _make_all(options: Options, faults: Faults, victim: Victim, rng: np.random.Generator, can_fill_disk: bool) -> None:
    """Make faults until the kills or the minutes are over, or the run has ended.

    Each fault's time is drawn from the begin of the one before: what that one took is no part of the pause. A fault
    whose victim is away, since another fault ended it, waits for it.
    """
    begun_at = time.monotonic()
    until = math.inf if options.kills else time.monotonic() + 60.0 * options.minutes
    for fault in _faults(options, rng, can_fill_disk):
        victim.wait(min(until, begun_at + rng.exponential(options.every)) - time.monotonic())
        begun_at = time.monotonic()
        if victim.has_ended or begun_at >= until:
            return
        faults.make(fault)
