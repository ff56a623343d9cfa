"""Measurement of a training run or a sweep for some seconds, from its first updates on; it writes no files."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from laser.ports import wait
from laser.torch_threads import torch_threads
from launch.planning.member_plan import plan_population
from launch.planning.needs import Needs
from launch.recording.recorder import Recorder, Snapshot
from launch.settings.train_config import TrainConfig
from launch.supervision.learner_recovery import START_DEADLINE_S
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.session import make_runtime, make_schedule
from launch.supervision.starting import start_all
from launch.topology import Topology, place_population
from learner.learner import Learner

_LEARNER_SECONDS = ("learner_step", "publish", "learner_wait")
_ACTOR_SECONDS = ("environment", "inference", "insert_wait")


@dataclass(frozen=True)
class MeasuredRun:
    """Measurements of one agent.

    Args:
        warm_up_s: seconds until learner and actors were compiled and ready.
        start_s: seconds until the first update, the warm-up included; they are not part of the measurement.
        seconds: length of the measurement.
        env_steps_per_second: agent decisions.
        frames_per_second: env steps times action repeat.
        updates_per_second: of the learner.
        idle_share: share of the learner's time spent waiting for batches.
        actor_shares: share of the actors' time spent on each of their parts.
        policy_lag: quantiles over the newest batches, in parameter versions, by name.
        mean_return: of the last 20 training episodes; NaN before the first.
        bottleneck: the limit of the run's speed in words; "" while unknown.
    """

    warm_up_s: float
    start_s: float
    seconds: float
    env_steps_per_second: float
    frames_per_second: float
    updates_per_second: float
    idle_share: float
    actor_shares: dict[str, float]
    policy_lag: dict[str, float]
    mean_return: float
    bottleneck: str


@dataclass(frozen=True)
class Running:
    """Agents that are ready to train: compiled, with their environments made.

    Args:
        topologies: one for each agent.
        recorders: of the agents' progress.
        warm_up_s: seconds until the agents were ready.
    """

    topologies: list[Topology]
    recorders: list[Recorder]
    warm_up_s: float

    def run(self, is_over: Callable[[], bool]) -> None:
        """Train until `is_over` returns True; it is called about ten times a second. Call this method once."""
        supervisors = [MemberSupervisor(*each) for each in zip(self.topologies, self.recorders, strict=True)]
        configs = [topology.config for topology in self.topologies]
        make_schedule(configs, supervisors, is_over, lambda *_: None).run()

    def snapshots(self) -> list[Snapshot]:
        """Return the progress of each agent."""
        return [recorder.snapshot() for recorder in self.recorders]

    def has_learned(self) -> bool:
        """Return whether every agent has made an update."""
        return all(recorder.position().learner_steps > 0 for recorder in self.recorders)


@contextmanager
def ready_to_run(configs: Sequence[TrainConfig], *, share_replay: bool = False) -> Iterator[Running]:
    """Make agents ready to train, and shut them down at the end.

    Args:
        configs: checked; one for each agent.
        share_replay: one replay for all agents.
    """
    configs = [_endless(config) for config in configs]
    begun = time.monotonic()
    with ExitStack() as stack:
        stack.enter_context(torch_threads(1))
        in_turns = configs[0].takes_turns
        recorders = [stack.enter_context(Recorder(in_turns=in_turns)) for _ in configs]
        num_actors = sum(config.num_actors for config in configs)
        members = plan_population(configs, share_replay=share_replay)
        runtime = make_runtime(configs[0], Needs(num_learners=len(configs), num_actors=num_actors))
        stack.callback(runtime.close)
        topologies = place_population(members, recorders, runtime, share_replay)
        start_all(topologies)
        yield Running(topologies, recorders, time.monotonic() - begun)


def measure_run(
    configs: Sequence[TrainConfig],
    seconds: float,
    *,
    share_replay: bool = False,
    watch: Callable[[Sequence[Snapshot]], bool] | None = None,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> list[MeasuredRun]:
    """Train for some seconds and return the measurements of each agent.

    Args:
        configs: checked; one for each agent.
        seconds: of measuring, from the moment at which every agent has made an update.
        share_replay: one replay for all agents.
        watch: called with the agents' progress about ten times a second while measuring; True ends the measurement.
        alone: makes a context that is entered once all agents are ready, and left after training.
    """
    with ready_to_run(configs, share_replay=share_replay) as running, alone():
        started = time.monotonic()
        span = _Span(running, seconds, watch)
        running.run(span.is_over)
        assert span.begin, "a learner made no update"
        start_s = running.warm_up_s + span.begun - started
        return [
            difference(before, after, running.warm_up_s, start_s)
            for before, after in zip(span.begin, running.snapshots(), strict=True)
        ]


class _Span:
    """The measured time span: begins when every agent has made an update."""

    def __init__(self, running: Running, seconds: float, watch: Callable[[Sequence[Snapshot]], bool] | None):
        self.begin: list[Snapshot] = []
        self.begun = math.nan
        self._running, self._seconds, self._watch = running, seconds, watch
        self._give_up = time.monotonic() + START_DEADLINE_S
        self._is_over = False

    def is_over(self) -> bool:
        self._is_over = self._is_over or self._go_on()
        return self._is_over

    def _go_on(self) -> bool:
        if self.begin:
            snapshots = self._running.snapshots()
            seen_enough = self._watch is not None and self._watch(snapshots)
            return seen_enough or min(snapshot.seconds for snapshot in snapshots) >= self._seconds
        if self._running.has_learned():
            for topology, recorder in zip(self._running.topologies, self._running.recorders, strict=True):
                recorder.report(wait(topology.learner.call(Learner.report), START_DEADLINE_S, "the learner's report"))
            for recorder in self._running.recorders:
                recorder.begin()
            self.begun = time.monotonic()
            self.begin = self._running.snapshots()
        return time.monotonic() > self._give_up


def _endless(config: TrainConfig) -> TrainConfig:
    """Return a config that neither ends by itself, nor evaluates, nor writes checkpoints."""
    return dataclasses.replace(
        config,
        steps=2**62,
        stop_at_return=math.inf,
        evaluation=dataclasses.replace(config.evaluation, interval=0),
        learner=dataclasses.replace(config.learner, checkpoint_interval_s=1e9),
    )


def difference(begin: Snapshot, end: Snapshot, warm_up_s: float, start_s: float) -> MeasuredRun:
    """Return the measurements between two snapshots of one agent."""
    span_s = end.seconds - begin.seconds

    def spent(name: str) -> float:
        return end.counters.get(f"time/{name}", 0.0) - begin.counters.get(f"time/{name}", 0.0)

    learner = {name: spent(name) for name in _LEARNER_SECONDS}
    actors = {name: spent(name) for name in _ACTOR_SECONDS}
    return MeasuredRun(
        warm_up_s=warm_up_s,
        start_s=start_s,
        seconds=span_s,
        env_steps_per_second=(end.env_steps - begin.env_steps) / span_s,
        frames_per_second=(end.frames - begin.frames) / span_s,
        updates_per_second=(end.learner_steps - begin.learner_steps) / span_s,
        idle_share=_share(learner["learner_wait"], learner),
        actor_shares={name: _share(value, actors) for name, value in actors.items()},
        policy_lag={
            name.removeprefix("policy_lag/"): value
            for name, value in end.gauges.items()
            if name.startswith("policy_lag/")
        },
        mean_return=end.mean_return,
        bottleneck=end.bottleneck,
    )


def _share(part: float, parts: dict[str, float]) -> float:
    return part / (sum(parts.values()) or 1.0)
