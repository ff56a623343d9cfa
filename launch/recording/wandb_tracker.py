"""Weights & Biases: a tracker that sends numbers and videos to its own process, which may be slow, offline or dead."""

from __future__ import annotations

import json
import queue
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from launch.errors import OutputError

_MOST_WAITING = 1000
_PROCESS = (sys.executable, "-m", "launch.recording.wandb_process")


def wandb_id(directory: Path) -> str:
    """Return the `wandb` id of a run directory, the same for all resumptions; the first call makes it."""
    path = directory / "wandb_id.txt"
    if path.is_file():
        return path.read_text(encoding="utf-8").strip()
    made = secrets.token_hex(8)
    path.write_text(made + "\n", encoding="utf-8")
    return made


class WandbTracker:
    """Sends everything to a process that calls `wandb` (see `launch.recording.tracker.Tracker`).

    Training never waits for the process: items that do not fit into the queue are dropped and counted, and the process
    is ended at most `patience_s` after the end of the run. The files it has written by then are under `wandb/` in the
    run's directory; `wandb sync` uploads them. Its output goes to `wandb.log`. It is a process and not a thread, since
    `wandb` delays the exit of the process that imports it.

    Args:
        directory: the run's directory.
        first: arguments of `wandb.init`: project, name, group, config and so on.
        log: function that receives a line about how the process ended.
        patience_s: the most seconds that the end of the run waits.
        process: command of the process, for tests.

    Raises:
        OutputError: the process cannot be started.
    """

    def __init__(
        self,
        directory: Path,
        first: Mapping[str, Any],
        log: Callable[[str], None],
        patience_s: float = 15.0,
        process: Sequence[str] = _PROCESS,
    ):
        self.num_dropped = 0
        self._log = log
        self._patience_s = patience_s
        self._waiting: queue.Queue[dict[str, Any] | None] = queue.Queue(_MOST_WAITING)
        self._output_path = directory / "wandb.log"
        try:
            name = wandb_id(directory)
            with self._output_path.open("a", encoding="utf-8") as output:
                self._process = subprocess.Popen(
                    process,
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,  # Ctrl-C must reach only the run, which then ends this process properly
                )
        except OSError as error:
            wrong = f"its process cannot be started: {error.filename or directory}: {error.strerror or error}"
            raise OutputError("wandb", wrong, "fix that, or use --track none") from error
        self._put({"id": name, "dir": str(directory), **first})
        self._thread = threading.Thread(target=self._send_until_closed, name="wandb", daemon=True)
        self._thread.start()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Queue a row of values."""
        self._put({"values": {**values, "global_step": step}})

    def video(self, step: int, path: Path) -> None:
        """Queue a video."""
        self._put({"video": str(path), "global_step": step})

    def forget_after(self, step: int) -> None:
        """Do nothing: `wandb` cannot remove rows, and repeated ones have their own `global_step`."""

    def close(self) -> None:
        """Send the queued items and let the process finish; kill it after `patience_s`."""
        deadline = time.monotonic() + self._patience_s
        is_told = self._tell_to_end(self._patience_s)
        if is_told:
            self._thread.join(max(0.0, deadline - time.monotonic()))
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
            how = "finished" if code == 0 else f"ended with an error: {self._last_words()}"
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            how = f"did not finish within {self._patience_s:g} s and was ended; wandb sync uploads its files"
        if is_told or self._tell_to_end(1.0):  # with the process gone, the queue empties at once
            self._thread.join(1.0)
        dropped = f"; {self.num_dropped} rows were dropped" if self.num_dropped else ""
        self._log(f"wandb {how}{dropped}")

    def __enter__(self) -> WandbTracker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _tell_to_end(self, timeout_s: float) -> bool:
        try:
            self._waiting.put(None, timeout=timeout_s)
        except queue.Full:
            return False
        return True

    def _put(self, item: dict[str, Any]) -> None:
        try:
            self._waiting.put_nowait(item)
        except queue.Full:
            self.num_dropped += 1

    def _send_until_closed(self) -> None:
        assert self._process.stdin is not None
        is_alive = True
        while (item := self._waiting.get()) is not None:
            try:
                if is_alive:
                    self._process.stdin.write(json.dumps(item).encode() + b"\n")
                    self._process.stdin.flush()
            except OSError:
                is_alive = False
            self.num_dropped += not is_alive
        try:
            self._process.stdin.close()
        except OSError:  # the process has ended, and the items in transit are lost
            self.num_dropped += is_alive

    def _last_words(self) -> str:
        try:
            lines = self._output_path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
        except OSError as error:
            return f"{self._output_path.name} cannot be read: {error.strerror}"
        return lines[-1] if lines else f"{self._output_path.name} is empty"
