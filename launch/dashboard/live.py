"""The live view: one player process at a time, stepped on request, and ended when requests stop."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

IDLE_S = 15.0
"""Seconds without a request after which a player is ended."""

LIMIT_S = 600.0
"""Longest life of a player in seconds, so that a page left open does not compute for days."""

PLAYER = (sys.executable, "-m", "launch.dashboard.player")
"""Command of the player process, without the run directory."""

_START_S = 180.0
_STEP_S = 20.0


class LiveError(RuntimeError):
    """No step could be made; the message gives the reason."""


class LiveBusyError(LiveError):
    """Another step is in progress; try again later."""


class LiveStoppedError(LiveError):
    """Somebody has stopped this run's agent."""


class LiveView:
    """Owner of the single player process. May be used from any thread; `close` ends the player.

    Args:
        idle_s: seconds without a request after which the player is ended.
        limit_s: seconds after which the player is ended in any case.
        command: of the player; the run directory is appended to it.
    """

    def __init__(
        self,
        idle_s: float = IDLE_S,
        limit_s: float = LIMIT_S,
        command: tuple[str, ...] = PLAYER,
    ):
        self._idle_s, self._limit_s, self._command = idle_s, limit_s, command
        self._lock = threading.Lock()
        self._stepping = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._playing = self._stopped = ""
        self._asked_at = self._started_at = 0.0
        self._has_answered = False
        self._is_asked = False  # a slow answer must not count as idle time

    @property
    def playing(self) -> str:
        """Key of the run whose agent plays, or ""."""
        return self._playing if self._process is not None else ""

    def start(self, key: str, run_dir: Path) -> None:
        """Start a player with a run's newest checkpoint; a previous player is ended."""
        with self._lock:
            self._end()
            environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
            self._process = subprocess.Popen(
                [*self._command, str(run_dir.absolute())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
                env=environment,
            )
            self._playing, self._stopped = key, ""
            self._asked_at = self._started_at = time.monotonic()
            self._has_answered = False
            threading.Thread(target=self._watch, args=(self._process,), name="live-view", daemon=True).start()

    def step(self, key: str, patience_s: float = 0.0) -> dict[str, Any]:
        """Make the next step and return its result (see `launch.dashboard.player`).

        Args:
            key: of the run.
            patience_s: seconds to wait for another step in progress.

        Raises:
            LiveBusyError: another step is in progress, for example while the player starts.
            LiveError: this run's agent does not play (any more); a `LiveStoppedError` after `stop`.
        """
        return self.steps(key, 1, patience_s)[0]

    def steps(self, key: str, number: int, patience_s: float = 0.0) -> list[dict[str, Any]]:
        """Make several steps, one after the other, and return their results; see `step`."""
        if not self._stepping.acquire(timeout=patience_s):
            raise LiveBusyError("a step is in progress")
        try:
            return self._steps(key, number)
        finally:
            self._stepping.release()

    def _steps(self, key: str, number: int) -> list[dict[str, Any]]:
        with self._lock:
            process = self._process
            if process is None and self._stopped == key:
                raise LiveStoppedError("it was stopped")
            if process is None or self._playing != key:
                raise LiveError("it does not play (any more)")
            self._is_asked = True
        # Without the lock, so that `start` and `stop` do not wait for the player's answer.
        try:
            answers = [self._ask(process) for _ in range(number)]
        except (OSError, ValueError) as error:
            with self._lock:
                if self._process is not process:
                    raise LiveBusyError("it was stopped") from error
                self._end()
            raise LiveError(f"the player ended: {error}") from error
        finally:
            with self._lock:
                self._is_asked = False
                self._asked_at = time.monotonic()
        with self._lock:
            self._has_answered = self._process is process
        return answers

    def stop(self) -> None:
        """End the player, if there is one."""
        with self._lock:
            if self._process is not None:
                self._stopped = self._playing
            self._end()

    close = stop

    def _ask(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        deadline = _STEP_S if self._has_answered else _START_S
        if not select.select([process.stdout], [], [], deadline)[0]:
            raise ValueError(f"it did not answer for {deadline:g} s")
        line = process.stdout.readline()
        if not line:
            raise ValueError("it gave no answer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise ValueError(answer["error"])
        return answer

    def _watch(self, process: subprocess.Popen[str]) -> None:
        while True:
            time.sleep(min(1.0, self._idle_s / 4))
            with self._lock:
                if self._process is not process:
                    return
                now = time.monotonic()
                is_idle = not self._is_asked and now - self._asked_at > self._idle_s
                if is_idle or now - self._started_at > self._limit_s:
                    self._end()
                    return

    def _end(self) -> None:
        process, self._process, self._playing = self._process, None, ""
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    continue  # unwritten bytes have no reader any more
