"""The run that is broken on purpose: its start, its processes, its progress and its end."""

from __future__ import annotations

import itertools
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from laser.config import ConfigError, Problem
from launch.bench.chaos_run.place import Place, titled
from launch.bench.chaos_run.plan import PARTS
from launch.errors import TERMINATED
from launch.records.run_directory import RunDirectory
from learner.checkpoint import list_checkpoints

# The beginnings of the titles that Ray gives to the processes of LASER's parts.
_TITLES = {
    "learner": "ray::_LearnerHost",
    "actor": "ray::_ActorHost",
    "evaluator": "ray::_EvaluatorHost",
    "shard": "ray::_ShardHost",
    "store": "ray::_ParameterHost",
}
_START_S, _END_S, _PART_S, _LOOK_S = 600.0, 300.0, 120.0, 0.25
_STEPS_WITHOUT_END = 1_000_000_000


class Look(NamedTuple):
    """A moment of the run: `time.monotonic()`, deaths noticed so far, the learner's updates, the actors' env steps."""

    at: float
    num_deaths: int
    num_updates: int
    num_steps: int


class Victim:
    """A small run on Ray, under `--restart`. Used from one thread.

    Args:
        preset: preset of the run.
        steps: env steps after which it ends by itself; 0: it goes on until `stop`.
        path: its run directory.
        words: file that gets what it says.
        place: the machine or the nodes on which it runs.
        checkpoint_every: seconds between two checkpoints.
        more: further words of its command.
    """

    def __init__(
        self,
        preset: str,
        steps: int,
        path: Path,
        words: Path,
        place: Place,
        checkpoint_every: float,
        more: Sequence[str],
    ):
        self.path, self.looks = path, list[Look]()
        self._preset, self._steps, self._words, self._place = preset, steps, words, place
        self._checkpoint_every, self._more = checkpoint_every, more
        self._supervisor: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Start the run, and wait until the learner makes updates."""
        words = ["--schedule", "free", "--num-actors", "2", "--num-envs", "4"]
        words += ["--steps", str(self._steps or _STEPS_WITHOUT_END), "--stop-at-return", "inf"]
        words += ["--checkpoint-replay", "--restart", "--max-failures", "1000"]
        words += ["--replay.num-shards", "2", "--replay.min-steps", "128"]
        words += ["--learner.checkpoint-interval-s", str(self._checkpoint_every)]
        words += ["--evaluation.interval", "5000", "--evaluation.episodes", "2", "--run-dir", str(self.path)]
        words += [*self._place.words, *self._more, *more]
        command = [*self._place.prefix, sys.executable, "-m", "launch", "train", self._preset, *words]
        with self._words.open("ab") as log:
            self._supervisor = subprocess.Popen(
                command, env=self._place.environment, stdout=log, stderr=log, start_new_session=True
            )
        self.wait_for_updates()

    @property
    def has_ended(self) -> bool:
        """Whether the run ended by itself, at its number of steps.

        Raises:
            ConfigError: it ended in another way.
        """
        code = self._process().poll()
        if code is None or (code == 0 and self._steps):
            return code is not None
        raise self.failed(f"the run ended by itself with exit code {code}")

    def _process(self) -> subprocess.Popen[bytes]:
        assert self._supervisor is not None
        return self._supervisor

    def wait(self, seconds: float) -> None:
        """Wait, unless the run ends."""
        until = time.monotonic() + seconds
        while not self.has_ended and (left := until - time.monotonic()) > 0.0:
            time.sleep(min(left, _LOOK_S))
            self.look()

    def wait_for_updates(self) -> None:
        """Wait until the learner goes on after what has happened so far, and there is a checkpoint; or for the end."""
        before = len(self.looks)
        self._wait_until(lambda: self._went_on(before) and self._has_checkpoint, _START_S, "made no updates")

    def _wait_until(self, is_so: Callable[[], bool], seconds: float, wrong: str) -> None:
        """Look at the run until something is so, or the run has ended."""
        until = time.monotonic() + seconds
        while not self.has_ended and not is_so():
            if time.monotonic() > until:
                raise self.failed(f"the run {wrong} for {seconds:g} s")
            time.sleep(_LOOK_S)
            self.look()

    def _went_on(self, first: int) -> bool:
        looks = self.looks[first:]
        return any(now.num_updates > before.num_updates for before, now in itertools.pairwise(looks))

    def look(self) -> None:
        """Note where the run is."""
        progress = read_progress(self.path)
        if progress is not None:
            self.looks.append(Look(time.monotonic(), self.num_deaths(), *progress))

    def num_deaths(self) -> int:
        """Return how many deaths of learners and of the main process the run's log tells of."""
        with suppress(FileNotFoundError):
            log = (self.path / "log.txt").read_text(errors="replace")
            return log.count("learner died: ") + log.count("restarted (")
        return 0

    @property
    def _has_checkpoint(self) -> bool:
        return RunDirectory(self.path, resumed=True).has_checkpoint

    def newest_checkpoint(self) -> str:
        """Return the name of the newest checkpoint; "" before the first."""
        found = list_checkpoints(RunDirectory(self.path, resumed=True).checkpoints_path)
        return found[0].name if found else ""

    def wait_for_checkpoint(self, known: str) -> None:
        """Wait until there is another checkpoint than a known one; or for the end.

        Raises:
            ConfigError: none is written.
        """
        seconds = self._checkpoint_every + _PART_S
        self._wait_until(lambda: self.newest_checkpoint() != known, seconds, "wrote no checkpoint")

    def find(self, part: str) -> list[psutil.Process]:
        """Return the processes of a part, once there is one; [] if the run ends meanwhile.

        Raises:
            ConfigError: none appears.
        """
        assert part in PARTS
        until = time.monotonic() + _PART_S
        while not self.has_ended:
            with suppress(psutil.Error):  # a process that ends at this moment
                found: list[psutil.Process] = psutil.Process(self._process().pid).children()
                if part != "driver":
                    own = [process for driver in found for process in self.processes_of(driver)]
                    found = titled(own, _TITLES[part])
                if found:
                    return found
            if time.monotonic() > until:
                raise self.failed(f"no {part} appeared within {_PART_S:g} s")
            time.sleep(_LOOK_S)
            self.look()
        return []

    def processes_of(self, main: psutil.Process) -> list[psutil.Process]:
        """Return the processes that must end with a main process of the run.

        Raises:
            psutil.Error: the main process has just ended.
        """
        return self._place.processes_of(main)

    def stop(self) -> None:
        """Stop the run by SIGTERM, and wait for its end; a benchmark that runs with `&` has a run without Ctrl-C."""
        self._process().send_signal(signal.SIGTERM)
        code = self.wait_for_exit()
        if code != TERMINATED:
            raise self.failed(f"the run ended with exit code {code} after SIGTERM")

    def wait_for_exit(self) -> int:
        """Wait until the run has ended, in whichever way; return its exit code."""
        try:
            return self._process().wait(_END_S)
        except subprocess.TimeoutExpired as error:
            raise self.failed(f"the run did not end within {_END_S:g} s") from error

    def leave_nothing(self) -> None:
        """Kill what is left of the run, after an error."""
        if self._supervisor is not None and self._supervisor.poll() is None:
            own = psutil.Process(self._supervisor.pid).children(recursive=True)
            self._supervisor.kill()
            self._supervisor.wait()
            for process in psutil.wait_procs(own, timeout=60.0)[1]:
                process.kill()

    def failed(self, what: str) -> ConfigError:
        """Return an error with the last line that the run said."""
        lines = self._words.read_text(errors="replace").splitlines()
        return ConfigError([Problem("bench", f"{what}: {lines[-1] if lines else 'it said nothing'}", "see its words")])


def read_progress(run: Path) -> tuple[int, int] | None:
    """Return the learner's updates and the actors' env steps at the last tick of a run's record; None before one."""
    uri = f"file:{run / 'metrics.db'}?mode=ro"
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=10.0)) as database:
            row = database.execute("SELECT learner_steps, env_steps FROM ticks ORDER BY tick DESC LIMIT 1").fetchone()
    except sqlite3.OperationalError:
        return None  # it is being made
    return None if row is None else (int(row[0]), int(row[1]))
