"""The recorder: receives the reports of all components, adds them up, and writes the run's metrics."""

from __future__ import annotations

import dataclasses
import math
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from laser.ports import EpisodeResult, Report
from launch.errors import OutputError
from launch.recording.bottleneck import name_bottleneck
from launch.recording.metric_table import RETURN, SCORE
from launch.recording.process_usage import ProcessUsage
from launch.recording.rates import rates
from launch.recording.return_curve import NUM_RETURNS, PastValues, ReturnCurve
from launch.recording.task_returns import TaskReturns, task_metrics
from launch.recording.tracker import Tracker, tracking_key
from launch.records.exchange import Exchange
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick

_LEARNER = "learner"  # the source that always continues its own totals after a resumption
_PROGRESS = ("env_steps", "frames", "learner_steps", "episodes")
_WINDOW_TICKS = 10
_BY_MAKER = "learned_from/"  # MAKER/COUNT, counters of a learner whose replay is shared
# So that ten hours of 256 members take a few tens of MB each.
_EXCHANGE_ROWS_PER_SECOND = 20


@dataclass(frozen=True)
class Snapshot:
    """The state of a run at one moment.

    Args:
        env_steps: agent decisions, over all actors.
        frames: env steps times action repeat.
        learner_steps: updates.
        episodes: training episodes finished.
        mean_return: mean undiscounted return of the last 20 training episodes; NaN before the first.
        seconds: seconds of training, over all resumptions.
        env_steps_per_second: rate over the last seconds.
        learner_steps_per_second: rate over the last seconds.
        bottleneck: the bottleneck of the run, in words; "" while unknown.
        counters: totals over all sources, by name.
        gauges: newest values by name, averaged over sources.
        normalised_score: median over the tasks, of their last 20 training episodes; None while one has no episode, or
            for tasks without reference scores.
        task_returns: mean return of the last 20 training episodes of each task that has any.
    """

    env_steps: int
    frames: int
    learner_steps: int
    episodes: int
    mean_return: float
    seconds: float
    env_steps_per_second: float
    learner_steps_per_second: float
    bottleneck: str
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    normalised_score: float | None = None
    task_returns: dict[str, float] = field(default_factory=dict)


class Recorder:
    """Adds up reports and, from `begin` on, writes them about once a second. Implements `laser.ports.ReportPort`.

    `report` and `snapshot` may be called from any thread; they take microseconds and never touch a file, since writing
    has a thread of its own. In a lockstep run the caller of `report` writes when a write is due.

    The file holds gauges under their own names, `charts/...` for values derived here and `totals/...` for counters.
    What a learner drew of each member of a population has a table of its own there, and goes to no tracker.
    Trackers get the names that CleanRL's users know: `charts/episodic_return`, `charts/SPS`, `losses/...`.

    Reports with `at_env_steps` set are evaluations: their episodes do not enter the training statistics.

    A tracker that fails for another reason than a full disk is removed; training does not end because of it.

    Args:
        metrics: file to write to, or None.
        trackers: further receivers of the numbers; `track` adds more.
        interval_s: seconds between two writes.
        in_turns: the run is in lockstep: only one component works at a time, and no thread may write meanwhile.
        clock: seconds, for tests.
        tasks: ids of the tasks, in the order of the environment's spec.
        bucket_frames: width of the buckets of training curves, in frames.
        usage: measurement of the process, or None.
        log: function that receives a line about each failure.
        curve_steps: env steps between two points of `charts/mean_return`, so that the curve is the same in every
            repetition of a lockstep run; 0: it is written together with all other values, by the clock.
    """

    def __init__(
        self,
        metrics: MetricsDb | None = None,
        trackers: Sequence[Tracker] = (),
        interval_s: float = 1.0,
        in_turns: bool = False,
        clock: Callable[[], float] = time.monotonic,
        tasks: Sequence[str] = ("",),
        bucket_frames: int = 1_000_000,
        usage: ProcessUsage | None = None,
        log: Callable[[str], None] | None = None,
        curve_steps: int = 0,
    ):
        self._metrics, self._interval_s, self._clock = metrics, interval_s, clock
        self._trackers = list(trackers)
        self._usage = usage
        self._log = log
        self._lock = threading.Lock()
        self._write_lock = threading.Lock()  # taken before `_lock`, never inside it
        self._failure: Exception | None = None
        self._totals: defaultdict[str, float] = defaultdict(float)
        self._last: dict[str, dict[str, float]] = {}
        self._gauges: dict[str, dict[str, float]] = {}
        self._curve = ReturnCurve(curve_steps)
        self._tasks = tuple(tasks)
        self._task_returns = TaskReturns(tasks, bucket_frames)
        self.marks: dict[str, int] = {}
        """Positions of other components in the recorded episodes and steps; saved with the recorder's state."""
        self.has_failed = False
        """Whether an error has ended the run."""
        self._new_episodes: list[EpisodeResult] = []
        self._evaluations: list[tuple[int, dict[str, float]]] = []
        self._newest_evaluation: tuple[int, float] | None = None
        self._heard: list[Report] | None = None
        self._begin = self._written = clock()
        self._drawn_at_s = -math.inf
        self._seconds_before = 0.0
        self._window: deque[tuple[float, dict[str, float]]] = deque([(self._begin, {})], maxlen=_WINDOW_TICKS)
        self._has_begun = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._write_until_closed, name="recorder", daemon=True)
        self._in_turns = in_turns

    def track(self, tracker: Tracker) -> None:
        """Add a tracker, which receives all numbers from now on; its owner closes it."""
        with self._write_lock:
            self._trackers.append(tracker)

    def video(self, env_steps: int, path: Path) -> None:
        """Pass a new video of the policy at `env_steps` to the trackers."""
        with self._write_lock:
            self._tell(lambda tracker: tracker.video(env_steps, path))

    def begin(self) -> None:
        """Start training time and writing.

        Construction and imports before this call do not count as training time. Nothing is written before it, since a
        resumed run would appear to be at its beginning until its state is loaded.
        """
        with self._lock:
            now = self._clock()
            self._begin, self._written = now - self._seconds_before, now
            self._window = deque([(now, dict(self._totals))], maxlen=_WINDOW_TICKS)
            was_begun, self._has_begun = self._has_begun, True
        if not self._in_turns and not was_begun:
            self._thread.start()

    def report(self, report: Report) -> None:
        """Add a report.

        Raises:
            OutputError: an earlier write failed, e.g. because the disk is full.
        """
        self.check()
        with self._lock:
            self._add(report)
        if self._in_turns and self._clock() - self._written >= self._interval_s:
            self.flush()

    def check(self) -> None:
        """Raise the error of a failed write in the background, if there was one."""
        if self._failure is not None:
            raise self._failure

    def listen(self) -> None:
        """Keep every report that holds episodes from now on, for `take_heard`."""
        with self._lock:
            self._heard = []

    def take_heard(self) -> list[Report]:
        """Return the reports with episodes since the last call, in the order of their arrival."""
        with self._lock:
            heard, self._heard = self._heard or [], []
        return heard

    def start_over(self, source: str) -> None:
        """Let a source's counters begin at 0 again after a restart. A falling counter counts as a restart by itself."""
        with self._lock:
            self._last.pop(source, None)

    def rewind_learner(self, earlier: Mapping[str, float]) -> None:
        """Let the learner's counters continue from an earlier state, from which a new learner continues.

        Args:
            earlier: the learner's counters then, from `counters_of`; {}: it counts from 0.
        """
        with self._lock:
            now = self._clock()
            for name, total in self._last.get(_LEARNER, {}).items():
                self._totals[name] += earlier.get(name, 0.0) - total
            self._last[_LEARNER] = dict(earlier)
            # Rates over this moment would be negative.
            self._window = deque([(now, dict(self._totals))], maxlen=_WINDOW_TICKS)

    def has_gauge(self, name: str) -> bool:
        """Whether a gauge has been reported since the start."""
        with self._lock:
            return name in self._gauges

    def gauge(self, name: str) -> float | None:
        """Return a gauge's newest value, of several sources their mean; None before the first."""
        with self._lock:
            values = self._gauges.get(name)
            return None if values is None else _mean_of_sources(values)

    def counters_of(self, source: str) -> dict[str, float]:
        """Return the newest values of a source's counters since the source's start."""
        with self._lock:
            return dict(self._last.get(source, {}))

    def last(self, source: str, counter: str) -> float:
        """Return the newest value of a source's counter since the source's start."""
        with self._lock:
            return self._last.get(source, {}).get(counter, 0.0)

    def snapshot(self) -> Snapshot:
        """Return the state of the run now."""
        with self._lock:
            return self._snapshot(self._clock())

    def position(self) -> Snapshot:
        """Return a snapshot without counters, gauges and bottleneck: cheap enough to call at every step."""
        with self._lock:
            return self._position(self._clock())

    def newest_returns(self, num_episodes: int) -> list[float]:
        """Return the returns of the newest training episodes: at most `num_episodes`, and at most 20."""
        with self._lock:
            return list(self._curve.newest)[-NUM_RETURNS:][-num_episodes:]

    def fitness(self) -> float | None:
        """Return the agent's fitness from its newest training episodes; None before there are 20 of them."""
        with self._lock:
            return self._task_returns.fitness()

    def newest_evaluation(self) -> tuple[int, float] | None:
        """Return the newest evaluation: env steps when it began, and its mean return; None before the first."""
        with self._lock:
            return self._newest_evaluation

    def flush(self) -> None:
        """Write everything reported since the last write; nothing before `begin`.

        Raises:
            OutputError: a file cannot be written.
        """
        if not self._has_begun:
            return
        with self._write_lock:
            now = self._clock()
            with self._lock:
                snapshot = self._snapshot(now)
                episodes, self._new_episodes = self._new_episodes, []
                evaluations, self._evaluations = self._evaluations, []
                past = self._take_past(snapshot)
                derived = self._task_returns.metrics() | rates(*self._growth(now)) | {SCORE: self._curve.score}
                self._window.append((now, dict(self._totals)))
                self._written = now
            self._write(snapshot, episodes, evaluations, past, derived)

    def close(self) -> None:
        """Write the rest and stop the thread; the files stay open for their owner to close.

        Raises:
            OutputError: this write or an earlier one failed.
        """
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join()
        self.check()
        with self._lock:
            self._task_returns.finish(int(self._totals["frames"]))
            self._curve.finish(*self._reached())
        self.flush()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except Exception:
            if error is None:
                raise  # an error that is already being raised explains more

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to continue counting, as JSON values."""
        with self._lock:
            return {
                "seconds": self._clock() - self._begin,
                "totals": dict(self._totals),
                "last": {source: dict(values) for source, values in self._last.items()},
                "returns": list(self._curve.newest),
                "marks": dict(self.marks),
                "task_returns": self._task_returns.state_dict(),
                "newest_evaluation": self._newest_evaluation,
            }

    def load_state_dict(self, state: Mapping[str, Any], sources_start_over: bool) -> None:
        """Continue from `state_dict`, and remove from the files everything that an interrupted run wrote after it.

        Args:
            state: a result of `state_dict`.
            sources_start_over: all sources but the learner count from 0 again; False: all continue their own totals.
        """
        with self._lock:
            now = self._clock()
            self._seconds_before = state["seconds"]
            self._begin, self._written = now - self._seconds_before, now
            self._totals = defaultdict(float, state["totals"])
            self._last = {
                source: dict(last)
                for source, last in state["last"].items()
                if source == _LEARNER or not sources_start_over
            }
            self.marks = dict(state.get("marks", {}))
            evaluated = state.get("newest_evaluation")
            self._newest_evaluation = None if evaluated is None else (int(evaluated[0]), float(evaluated[1]))
            if "task_returns" in state:
                self._task_returns.load_state_dict(state["task_returns"])
            self._window = deque([(now, dict(self._totals))], maxlen=_WINDOW_TICKS)
            env_steps = int(self._totals["env_steps"])
            self._curve.load(state["returns"], env_steps)
        with self._write_lock:
            if self._metrics:
                self._metrics.forget_after(env_steps)
            self._tell(lambda tracker: tracker.forget_after(env_steps + 1))

    def _add(self, report: Report) -> None:
        last = self._last.setdefault(report.source, {})
        for name, total in report.counters.items():
            before = last.get(name, 0.0)
            # A counter falls if its source was restarted and counts from 0.
            self._totals[name] += total - before if total >= before else total
            last[name] = total
        gauges = dict(report.gauges)
        if self._heard is not None and report.episodes:
            self._heard.append(report)
        if report.at_env_steps is None:
            if report.episodes:
                self._new_episodes.extend(report.episodes)
                self._curve.add(episode.episode_return for episode in report.episodes)
            self._task_returns.add(report.episodes, int(self._totals["frames"]))
            self._curve.extend(*self._reached())
        elif report.episodes:
            gauges["evaluation/mean_return"] = _mean([episode.episode_return for episode in report.episodes])
            gauges["evaluation/mean_length"] = _mean([episode.length for episode in report.episodes])
            gauges |= self._evaluation_by_task(report.episodes)
            self._newest_evaluation = report.at_env_steps, gauges["evaluation/mean_return"]
        if report.at_env_steps is not None:
            self._evaluations.append((report.at_env_steps, gauges))
        for name, value in gauges.items():
            self._gauges.setdefault(name, {})[report.source] = value

    def _reached(self) -> tuple[int, int]:
        """Return env steps and frames now."""
        return int(self._totals["env_steps"]), int(self._totals["frames"])

    def _take_past(self, snapshot: Snapshot) -> list[PastValues]:
        """Return the values of curve points and buckets since the last write, each with its own moment."""
        steps_per_frame = snapshot.env_steps / max(1, snapshot.frames)
        buckets = [
            PastValues(round(end * steps_per_frame), end, values) for end, values in self._task_returns.take_closed()
        ]
        return sorted([*self._curve.take(), *buckets], key=lambda past: past.env_steps)

    def _evaluation_by_task(self, episodes: Sequence[EpisodeResult]) -> dict[str, float]:
        returns: defaultdict[int, list[float]] = defaultdict(list)
        for episode in episodes:
            returns[episode.task].append(episode.episode_return)
        return task_metrics(self._tasks, {task: _mean(values) for task, values in returns.items()}, "evaluation")

    def _snapshot(self, now: float) -> Snapshot:
        growth, span = self._growth(now)
        return dataclasses.replace(
            self._position(now),
            bottleneck=name_bottleneck(growth, span, self._in_turns),
            counters=dict(self._totals),
            gauges={name: _mean_of_sources(values) for name, values in self._gauges.items()},
            normalised_score=self._task_returns.normalised_score(),
            task_returns=self._task_returns.newest_means(),
        )

    def _position(self, now: float) -> Snapshot:
        then, before = self._window[0]
        span = now - then
        env_steps, frames, learner_steps, episodes = (int(self._totals.get(name, 0.0)) for name in _PROGRESS)
        return Snapshot(
            env_steps=env_steps,
            frames=frames,
            learner_steps=learner_steps,
            episodes=episodes,
            mean_return=self._curve.mean,
            seconds=now - self._begin,
            env_steps_per_second=(env_steps - before.get("env_steps", 0.0)) / span if span > 0.0 else 0.0,
            learner_steps_per_second=(learner_steps - before.get("learner_steps", 0.0)) / span if span > 0.0 else 0.0,
            bottleneck="",
        )

    def _growth(self, now: float) -> tuple[dict[str, float], float]:
        """Return the growth of the counters over the last seconds, and the length of this span in seconds."""
        then, before = self._window[0]
        return {name: total - before.get(name, 0.0) for name, total in self._totals.items()}, now - then

    def _write(
        self,
        snapshot: Snapshot,
        episodes: list[EpisodeResult],
        evaluations: list[tuple[int, dict[str, float]]],
        past: list[PastValues],
        derived: dict[str, float],
    ) -> None:
        wall_time = time.time()
        charts = {
            "mean_return": snapshot.mean_return,
            "SPS": snapshot.env_steps_per_second,
            "learner_steps_per_second": snapshot.learner_steps_per_second,
        }
        if episodes:
            charts["episodic_return"] = _mean([episode.episode_return for episode in episodes])
            charts["episodic_length"] = _mean([episode.length for episode in episodes])
        at = {step for step, _ in evaluations}
        now = {f"charts/{name}": value for name, value in charts.items()} | derived
        now |= {name: value for name, value in snapshot.gauges.items() if not name.startswith("evaluation/")}
        now |= self._usage.gauges("main") if self._usage else {}
        if dropped := sum(tracker.num_dropped for tracker in self._trackers):
            now["tracking/num_dropped"] = float(dropped)
        totals = {
            f"totals/{name}": value
            for name, value in snapshot.counters.items()
            if name not in _PROGRESS[:3] and not name.startswith(_BY_MAKER)
        }
        if self._metrics:

            def tick_at(env_steps: int, frames: int) -> Tick:
                return Tick(snapshot.seconds, wall_time, env_steps, frames, snapshot.learner_steps)

            for step in sorted(at):
                values = {
                    name: value for where, gauges in evaluations if where == step for name, value in gauges.items()
                }
                # The frames and learner steps of that moment are no longer known; they are at most these.
                past.append(PastValues(step, round(step * snapshot.frames / max(1, snapshot.env_steps)), values))
            recorded = {name: value for name, value in now.items() if name != RETURN or not self._curve.steps}
            notes = {"bottleneck": snapshot.bottleneck}
            self._metrics.write_all(
                [
                    *((tick_at(each.env_steps, each.frames), each.values, {}) for each in past),
                    (tick_at(snapshot.env_steps, snapshot.frames), recorded | totals, notes),
                ],
                self._drawn(snapshot),
            )
        tracked = _finite({tracking_key(name): value for name, value in (now | totals).items()})

        def write(tracker: Tracker) -> None:
            for step, gauges in evaluations:
                tracker.write(step, _finite(gauges))
            tracker.write(snapshot.env_steps, tracked)

        self._tell(write)

    def _drawn(self, snapshot: Snapshot) -> Exchange | None:
        """Return what was drawn of each member over the whole run; None while a row of each is not due."""
        drawn: defaultdict[int, dict[str, float]] = defaultdict(dict)
        for name, value in snapshot.counters.items():
            if name.startswith(_BY_MAKER):
                maker, _, count = name.removeprefix(_BY_MAKER).partition("/")
                drawn[int(maker)][count] = value
        due_s = self._drawn_at_s + len(drawn) / _EXCHANGE_ROWS_PER_SECOND
        if snapshot.seconds < due_s and not self._closing.is_set():
            return None
        self._drawn_at_s = snapshot.seconds
        return drawn

    def _tell(self, tell: Callable[[Tracker], None]) -> None:
        for tracker in list(self._trackers):
            try:
                tell(tracker)
            except OutputError:
                raise
            except Exception as error:  # noqa: BLE001 - an external program must not end training
                self._trackers.remove(tracker)
                if self._log is not None:
                    self._log(f"{type(tracker).__name__} failed and is not used again: {type(error).__name__}: {error}")

    def _write_until_closed(self) -> None:
        while not self._closing.wait(self._interval_s):
            try:
                self.flush()
            except Exception as error:  # noqa: BLE001 - raised by `check`, in the thread that can end the run
                self._failure = error
                return


def _mean_of_sources(values: dict[str, float]) -> float:
    # Nearly every gauge has one source, and a schedule reads all gauges many times a second.
    return next(iter(values.values())) if len(values) == 1 else _mean(list(values.values()))


def _mean(values: list[float] | list[int]) -> float:
    return math.fsum(values) / len(values) if values else math.nan


def _finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if math.isfinite(value)}
