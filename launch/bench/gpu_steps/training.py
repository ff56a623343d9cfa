"""Whole runs on Pong: speed by numbers of actors and environments, learning, a sweep, inference on the GPU."""

from __future__ import annotations

import dataclasses
import math
import sys
import time
from collections.abc import Sequence

from laser.networks.config import NetworkConfig
from launch.bench._measured_run import MeasuredRun, Running, difference, measure_run, ready_to_run
from launch.bench.gpu_steps.context import Context
from launch.presets import load_preset
from launch.recording.recorder import Snapshot
from launch.settings.train_config import TrainConfig

_ELSEWHERE = "200M frames within an hour on an A40 with 32 cores (published)"
_ACTORS, _ENVS = 4, 64  # of each actor: 256 environments, about what 16 cores emulate while the learner has two of them
_LEARNING_ENVS = 32  # fewer, so that the acting policy is newer
_LEARNING_S, _POINT_S = 120.0, 10.0
_RATES_AFTER_S = 15.0
_SOLVED = 18.0
_MARGIN_S = 4.0  # for ending a run
_SHORT_SWITCH_S = 2e-4
_NUM_LEARNERS = 4
_SETTLE_S, _CELL_S = 0.7, 2.5
_QUICK_CELL_S = 0.5


def learning(context: Context) -> None:
    """Let the small net learn for two minutes, and report its curve and the run's speed."""
    config = _pong(context, _ACTORS, _LEARNING_ENVS)
    curve = _Curve(context)
    seconds = min(2.0 if context.quick else _LEARNING_S, context.left_s - _MARGIN_S)
    (measured,) = measure_run([config], seconds, watch=curve.look)
    curve.end()
    _say(context, f"small net, {_environments(config)}", measured)


def residual(context: Context) -> None:
    """Measure a run with IMPALA's residual net."""
    config = _pong(context, _ACTORS, _ENVS, NetworkConfig(torso="impala_resnet"))
    (measured,) = measure_run([config], _seconds(context, 6.0), alone=context.alone)
    _say(context, f"residual net, {_environments(config)}", measured)


def grid_64(context: Context) -> None:
    """Measure 4, 2 and 1 actors of 64 environments."""
    _measure_cells(context, _pong(context, _ACTORS, _ENVS), (4, 2, 1))


def grid_16(context: Context) -> None:
    """Measure 8, 4, 2 and 1 actors of 16 environments."""
    _measure_cells(context, _pong(context, 8, 16), (4, 8, 2, 1))


def preset(context: Context) -> None:
    """Measure one actor of 32 environments, as in the preset."""
    _measure_cells(context, _pong(context, 1, 32), (1,))


def grid_8x64(context: Context) -> None:
    """Measure 8 actors of 64 environments."""
    _measure_cells(context, _pong(context, 8, _ENVS), (8,))


def few_threads(context: Context) -> None:
    """Measure 4 actors of 64 environments with two emulation threads per group, in place of half of all cores."""
    config = _pong(context, _ACTORS, _ENVS)
    config = dataclasses.replace(config, environment=dataclasses.replace(config.environment, emulation_threads=2))
    _measure_cells(context, config, (4,), ", two emulation threads each")


def inference(context: Context) -> None:
    """Measure policies that act on the GPU; the grid has their speed on the CPU."""
    if not context.on_gpu:
        context.skip("inference on the GPU", "needs a GPU")
        return
    config = _pong(context, _ACTORS, _ENVS)
    config = dataclasses.replace(config, actor=dataclasses.replace(config.actor, device="cuda"))
    _measure_cells(context, config, (4, 1), ", inference on the GPU")


def _measure_cells(context: Context, config: TrainConfig, actors: Sequence[int], suffix: str = "") -> None:
    """Measure a run with each of these numbers of actors; the first number again, with short thread switches."""
    numbers = [min(number, config.num_actors) for number in actors]
    cells = [(number, False) for number in numbers] + [(numbers[0], True)]
    with ready_to_run([config]) as running, context.alone():
        running.run(_Cells(context, running, list(dict.fromkeys(cells)), suffix).is_over)


class _Cells:
    """Measures the cells of a grid during one run: pauses some actors, waits a moment, and counts env steps."""

    def __init__(self, context: Context, running: Running, cells: Sequence[tuple[int, bool]], suffix: str):
        self._context, self._running, self._waiting, self._suffix = context, running, list(cells), suffix
        self._usual_switch_s = sys.getswitchinterval()
        self._cell: tuple[int, bool] | None = None
        self._begin: Snapshot | None = None
        self._is_over = False
        self._since = time.monotonic()
        settle_s, cell_s = (_QUICK_CELL_S, _QUICK_CELL_S) if context.quick else (_SETTLE_S, _CELL_S)
        self._settle_s, self._cell_s = settle_s, cell_s

    def is_over(self) -> bool:
        """Continue the measurement; return whether all cells are measured, or no time is left for another."""
        self._is_over = self._is_over or self._go_on()
        return self._is_over

    def _go_on(self) -> bool:
        spent_s = time.monotonic() - self._since
        if self._cell is None:
            return self._running.has_learned() and not self._enter_next()
        if self._begin is None:
            if spent_s >= self._settle_s:
                (self._begin,) = self._running.snapshots()
                self._since = time.monotonic()
            return False
        if spent_s < self._cell_s:
            return False
        (end,) = self._running.snapshots()
        name, warm_up_s = self._name(self._cell), self._running.warm_up_s
        _say_briefly(self._context, name, difference(self._begin, end, warm_up_s, warm_up_s))
        return not self._enter_next()

    def _enter_next(self) -> bool:
        """Start the actors of the next cell and pause the others; return whether there is a next cell."""
        sys.setswitchinterval(self._usual_switch_s)
        if not self._waiting:
            return False
        if self._context.left_s < _MARGIN_S + self._settle_s + self._cell_s:
            for cell in self._waiting:
                self._context.skip(self._name(cell), "the step's time is spent")
            return False
        num_actors, short = self._cell = self._waiting.pop(0)
        for number, actor in enumerate(self._running.topologies[0].actors):
            if number < num_actors:
                actor.start()
            else:
                actor.stop()
        sys.setswitchinterval(_SHORT_SWITCH_S if short else self._usual_switch_s)
        self._begin, self._since = None, time.monotonic()
        return True

    def _name(self, cell: tuple[int, bool]) -> str:
        num_actors, short = cell
        config = dataclasses.replace(self._running.topologies[0].config, num_actors=num_actors)
        return f"{_environments(config)}{self._suffix}{', threads switched every 0.2 ms' if short else ''}"


def sweep(context: Context) -> None:
    """Measure four learners on one device that share a replay."""
    configs = [dataclasses.replace(_pong(context, 1, _LEARNING_ENVS), seed=seed) for seed in range(_NUM_LEARNERS)]
    measured = measure_run(configs, _seconds(context, 5.0), share_replay=True, alone=context.alone)
    env_steps = sum(each.env_steps_per_second for each in measured)
    updates = [each.updates_per_second for each in measured]
    environments = f"{_NUM_LEARNERS} learners, each with {_environments(configs[0])}"
    context.result(
        f"{environments}: in all", env_steps, "env steps/s", details={"idle": [each.idle_share for each in measured]}
    )
    context.result(f"{environments}: each", sum(updates) / len(updates), "updates/s", details={"each": updates})
    context.result(f"{environments}: start", measured[0].start_s, "s")


def _pong(context: Context, num_actors: int, num_envs: int, network: NetworkConfig | None = None) -> TrainConfig:
    """Return Pong with sticky actions, half of each batch replayed."""
    config = load_preset("pong")
    config = dataclasses.replace(
        config,
        device=context.device,
        num_actors=num_actors,
        num_envs=num_envs,
        environment=dataclasses.replace(config.environment, sticky_actions=0.25),
        algorithm=dataclasses.replace(config.algorithm, replay_fraction=0.5),
        network=network or config.network,
    )
    return _tiny(config) if context.quick else config


def _tiny(config: TrainConfig) -> TrainConfig:
    return dataclasses.replace(
        config,
        num_actors=min(2, config.num_actors),
        num_envs=4,
        unroll_length=5,
        algorithm=dataclasses.replace(config.algorithm, batch_size=4),
        replay=dataclasses.replace(config.replay, min_steps=50, capacity_steps=2_000),
        learner=dataclasses.replace(config.learner, compile="off"),
        actor=dataclasses.replace(config.actor, compile="off"),
    )


class _Curve:
    """Reports points of a learning curve, and the time at which Pong counts as solved."""

    def __init__(self, context: Context):
        self._context = context
        self._point_s = 1.0 if context.quick else _POINT_S
        self._next_s = self._point_s
        self._solved = False
        self._newest: Snapshot | None = None
        self._rates_said = False

    def look(self, snapshots: Sequence[Snapshot]) -> bool:
        """Report the run's progress; return whether too little time is left to continue."""
        (snapshot,) = snapshots
        self._newest = snapshot
        if snapshot.seconds >= self._next_s:
            self._next_s += self._point_s
            self._say_point(snapshot)
        if not self._rates_said and snapshot.seconds >= min(_RATES_AFTER_S, 1.5 * self._point_s):
            self._rates_said = True  # reported early, in case the run is killed before its end
            rate = snapshot.env_steps_per_second
            self._context.result("learning, first seconds", rate, "env steps/s", note=snapshot.bottleneck)
        if not self._solved and snapshot.episodes >= 20 and snapshot.mean_return >= _SOLVED:
            self._solved = True
            note = f"after {snapshot.env_steps:,} env steps"
            self._context.result(f"time to a mean return of {_SOLVED:g}", snapshot.seconds, "s", note=note)
        return self._context.left_s < _MARGIN_S

    def end(self) -> None:
        """Report the last point, and the return that was reached if Pong was not solved."""
        if self._newest is None:
            return
        self._say_point(self._newest)
        if not self._solved:
            newest = self._newest
            reached = f"{newest.mean_return:.1f}" if newest.episodes else "no episode"
            why = f"not reached in {newest.seconds:.0f} s: {reached} after {newest.env_steps:,} env steps"
            self._context.skip(f"time to a mean return of {_SOLVED:g}", why)

    def _say_point(self, snapshot: Snapshot) -> None:
        name = f"curve, after {snapshot.seconds:.0f} s"
        details = {"seconds": round(snapshot.seconds, 1), "env_steps": snapshot.env_steps}
        if math.isfinite(snapshot.mean_return):
            note = f"{snapshot.env_steps:,} env steps, {snapshot.episodes} episodes"
            self._context.result(name, snapshot.mean_return, "mean return", note=note, details=details)
        else:
            self._context.skip(name, f"no episode has ended in {snapshot.env_steps:,} env steps")


def _say(context: Context, name: str, measured: MeasuredRun) -> None:
    """Report all numbers of a run."""
    note = f"over {measured.seconds:.0f} s; {measured.bottleneck or 'too short to find the bottleneck'}"
    context.result(name, measured.env_steps_per_second, "env steps/s", note=note, details=_details(measured))
    frames = 3600 * measured.frames_per_second / 1e6
    context.result(f"{name}: per hour", frames, "million frames", beside=_ELSEWHERE)
    context.result(f"{name}: updates", measured.updates_per_second, "updates/s")
    context.result(f"{name}: learner idle", 100 * measured.idle_share, "%")
    for quantile in ("p50", "p90", "max"):
        lag = measured.policy_lag.get(f"online/{quantile}")
        if lag is not None:
            context.result(f"{name}: policy lag, {quantile}", lag, "updates")
    context.result(
        f"{name}: start", measured.start_s, "s", note=f"{measured.warm_up_s:.0f} s of it until all was ready"
    )


def _say_briefly(context: Context, name: str, measured: MeasuredRun) -> None:
    """Report the speed of a run, and its other numbers in a note."""
    inference = 100 * measured.actor_shares["inference"]
    note = (
        f"{measured.updates_per_second:.0f} updates/s, learner idle {100 * measured.idle_share:.0f} %, "
        f"actors infer for {inference:.0f} % of their time; {measured.warm_up_s:.0f} s until all was ready"
    )
    context.result(name, measured.env_steps_per_second, "env steps/s", note=note, details=_details(measured))


def _details(measured: MeasuredRun) -> dict[str, object]:
    return {key: value for key, value in dataclasses.asdict(measured).items() if value == value}


def _environments(config: TrainConfig) -> str:
    actors = f"{config.num_actors} actor{'s' if config.num_actors > 1 else ''}"
    return f"{actors} of {config.num_envs} environments"


def _seconds(context: Context, seconds: float) -> float:
    """Return the seconds of measuring that fit into the step's time."""
    return 1.5 if context.quick else max(1.0, min(seconds, context.left_s - _MARGIN_S))
