"""A small run on Ray whose processes are killed at random: what it loses, and the share of time that it trains."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from laser.config import Bounds, ConfigError, Problem, raise_problems
from laser.packages import find_missing
from launch.bench import machine
from launch.records.metrics_db import read_names, read_series
from launch.records.run_directory import RunDirectory

# Titles that Ray gives to the processes of LASER's parts; learner, actors and evaluator have the same.
_PARTS = {"worker": "ray::_WorkerHost", "shard": "ray::_ShardHost", "store": "ray::_ParameterHost"}
_CHANCES = {"worker": 0.6, "shard": 0.15, "store": 0.1, "driver": 0.15}
_CALM_S = 15.0
"""Seconds of training before the first kill, in which the undisturbed rate is measured."""
_START_S, _END_S = 600.0, 300.0


@dataclass(frozen=True)
class Options:
    """Choice of the measurement."""

    preset: Annotated[str, "preset of the run"] = "cartpole"
    minutes: Annotated[float, Bounds(above=0.0, most=1e5), "minutes of kills"] = 10.0
    every: Annotated[float, Bounds(above=0.0, most=1e6), "mean seconds between two kills"] = 15.0
    seed: Annotated[int, Bounds(least=0, most=2**31), "seed of the kills"] = 0
    json: Annotated[bool, "print one JSON object"] = False


def run(options: Options) -> dict[str, Any]:
    """Train, kill, and return the accounts at the end.

    Raises:
        ConfigError: a package is missing, or the run did not start or end.
    """
    raise_problems(list(find_missing("bench", ["ray"])))
    rng = np.random.default_rng(options.seed)
    with tempfile.TemporaryDirectory(prefix="laser-chaos-") as folder:
        chaos = _Chaos(options, Path(folder) / "run")
        try:
            chaos.start()
            chaos.be_calm()
            until = time.monotonic() + 60.0 * options.minutes
            while (left_s := until - time.monotonic()) > 0.0:
                time.sleep(min(left_s, rng.exponential(options.every)))
                chaos.kill(rng.choice(list(_CHANCES), p=list(_CHANCES.values())), rng)
            chaos.end()
        finally:
            chaos.leave_nothing()
        return chaos.result() | machine()


class _Chaos:
    """A run of its own, the kills of its processes, and its accounts. Used from one thread."""

    def __init__(self, options: Options, path: Path):
        self._options, self._path = options, path
        self._supervisor: subprocess.Popen[bytes] | None = None
        self._kills: Counter[str] = Counter()
        self._rate, self._calm_updates, self._begun_at, self._ended_at = 0.0, 0, 0.0, 0.0
        self._num_left = 0

    def start(self) -> None:
        """Start the run, and wait until the learner makes updates."""
        words = ["--runtime", "ray", "--schedule", "free", "--num-actors", "2", "--num-envs", "4"]
        words += ["--steps", "1000000000", "--stop-at-return", "inf", "--checkpoint-replay", "--restart"]
        words += ["--replay.num-shards", "2", "--replay.min-steps", "128", "--max-failures", "1000"]
        words += ["--learner.compile", "off", "--learner.checkpoint-interval-s", "10"]
        words += ["--evaluation.interval", "20000", "--evaluation.episodes", "2", "--run-dir", str(self._path)]
        command = [sys.executable, "-m", "launch", "train", self._options.preset, *words]
        with self._path.with_name("said.txt").open("ab") as log:
            self._supervisor = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        self._wait_for_updates(0)

    def _wait_for_updates(self, before: int) -> None:
        """Wait until the learner has made more updates than before."""
        until = time.monotonic() + _START_S
        while not self._has_checkpoint() or not (ticks := self._ticks()) or ticks[-1][1] <= before:
            if time.monotonic() > until:
                raise self._failed("the run did not start")
            self._check()
            time.sleep(0.5)

    def _check(self) -> subprocess.Popen[bytes]:
        """Return the supervisor if it is alive."""
        assert self._supervisor is not None
        if self._supervisor.poll() is not None:
            raise self._failed("the run ended by itself")
        return self._supervisor

    def be_calm(self) -> None:
        """Measure the undisturbed rate."""
        begin = self._ticks()[-1]
        until = time.monotonic() + _START_S
        while (now := self._ticks()[-1])[0] - begin[0] < _CALM_S:
            if time.monotonic() > until:
                raise self._failed("the run made no updates")
            time.sleep(0.5)
        self._rate = (now[1] - begin[1]) / (now[0] - begin[0])
        self._calm_updates, self._begun_at = now[1], time.monotonic()

    def kill(self, kind: str, rng: np.random.Generator) -> None:
        """Kill a process of this run; its supervisor starts a killed main process again."""
        import psutil

        (trainer,) = psutil.Process(self._check().pid).children()
        own = trainer.children(recursive=True)
        if kind == "driver":
            before = self._ticks()[-1][1]
            trainer.kill()
            self._num_left += len(psutil.wait_procs(own, timeout=60.0)[1])
            self._kills[kind] += 1
            self._wait_for_updates(before)
            return
        parts = [process for process in own if _title(process).startswith(_PARTS[kind])]
        if parts:
            parts[int(rng.integers(len(parts)))].kill()
            self._kills[kind] += 1

    def end(self) -> None:
        """Stop the run as Ctrl-C does, and wait for its end."""
        supervisor = self._check()
        self._ended_at = time.monotonic()
        supervisor.send_signal(signal.SIGINT)
        try:
            supervisor.wait(_END_S)
        except subprocess.TimeoutExpired as error:
            raise self._failed("the run did not end") from error

    def leave_nothing(self) -> None:
        """Kill what is left of the run, after an error."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            import psutil

            own = psutil.Process(self._supervisor.pid).children(recursive=True)
            self._supervisor.kill()
            self._supervisor.wait()
            for process in psutil.wait_procs(own, timeout=60.0)[1]:
                process.kill()

    def result(self) -> dict[str, Any]:
        """Return the accounts."""
        metrics = self._path / "metrics.db"
        names = [name for name in read_names(metrics) if name.startswith(("ledger/", "totals/"))]
        # What was first recorded after the checkpoint of a killed run has a name, and no point any more.
        newest = {name: points[-1][1] for name in names if (points := read_series(metrics, name))}

        def total(prefix: str) -> float:
            return sum(value for name, value in newest.items() if name.startswith(prefix))

        lost_on_the_way = total("totals/unrolls_lost/") - newest.get("totals/unrolls_lost/shard", 0.0)
        arrived = sum(newest[f"ledger/{name}"] for name in ("inserted", "rejected", "failed", "lost"))
        made = newest["totals/unrolls"] + total("totals/unrolls_unreported/")
        updates, seconds = self._ticks()[-1][1] - self._calm_updates, self._ended_at - self._begun_at
        reasons = ("totals/restarts/", "totals/unrolls_lost/", "totals/updates_lost/", "totals/shards_lost")
        return {
            "preset": self._options.preset,
            "kills": sum(self._kills.values()),
            **{f"kills_{kind}": num for kind, num in sorted(self._kills.items())},
            **{name.removeprefix("totals/"): int(n) for name, n in sorted(newest.items()) if name.startswith(reasons)},
            "unaccounted": int(made - arrived - lost_on_the_way),
            "imbalance": int(total("ledger/imbalance/")),
            "duplicates": int(newest["ledger/duplicates"]),
            "invalid_checkpoints": self._num_invalid(),
            "processes_left": self._num_left,
            "effective_training_time": updates / max(1e-9, self._rate * seconds),
        }

    def _num_invalid(self) -> int:
        from launch.supervision.checkpointing import check_saved_run
        from learner.checkpoint import BadCheckpointError, list_checkpoints, load_checkpoint

        num = 0
        for path in list_checkpoints(RunDirectory(self._path, resumed=True).checkpoints_path):
            try:
                check_saved_run(load_checkpoint(path))
            except (BadCheckpointError, ValueError):
                num += 1
        return num

    def _ticks(self) -> list[tuple[float, int]]:
        """Return seconds of training and updates over time."""
        path = self._path / "metrics.db"
        if not path.exists():
            return []
        try:
            with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10.0)) as database:
                return database.execute("SELECT seconds, learner_steps FROM ticks ORDER BY tick").fetchall()
        except sqlite3.OperationalError:
            return []  # it is being made

    def _has_checkpoint(self) -> bool:
        return RunDirectory(self._path, resumed=True).has_checkpoint

    def _failed(self, what: str) -> ConfigError:
        lines = self._path.with_name("said.txt").read_text(errors="replace").splitlines()
        return ConfigError([Problem("bench", f"{what}: {lines[-1] if lines else 'it said nothing'}", "see its words")])


def _title(process: Any) -> str:
    import psutil

    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""  # it has just ended
