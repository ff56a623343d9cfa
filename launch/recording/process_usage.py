"""CPU, memory and GPU of this process, and CPU and memory of its child processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import psutil

from launch.recording.gpu_usage import gpu_usage

_INTERVAL_S = 5.0


class ProcessUsage:
    """Measures this process every 5 s. Any thread may call; a measurement takes about a millisecond.

    Args:
        with_children: also measure the sum over child processes, e.g. environments in processes of their own.
        clock: seconds, for tests.
    """

    def __init__(self, with_children: bool = True, clock: Callable[[], float] = time.monotonic):
        self._with_children = with_children
        self._clock = clock
        self._lock = threading.Lock()
        self._process = psutil.Process()
        self._process.cpu_percent(None)  # the next value is measured from here on
        self._children: dict[int, psutil.Process] = {}
        self._looked_at = clock()
        self._newest: dict[str, float] = {}

    def newest(self) -> dict[str, float]:
        """Return `cpu_percent` (100: one core) and `memory_bytes` (resident); those of children as `children/...`.

        A process that computes on a GPU has `gpu_memory_bytes` and `gpu_percent` too; see `gpu_usage`.

        Values are {} in the first 5 s and later at most about 5 s old.
        """
        with self._lock:
            now = self._clock()
            if now - self._looked_at >= _INTERVAL_S:
                self._looked_at = now
                self._newest = self._look()
            return dict(self._newest)

    def gauges(self, name: str) -> dict[str, float]:
        """Return the newest values as `process/NAME/...`."""
        return {f"process/{name}/{key}": value for key, value in self.newest().items()}

    def _look(self) -> dict[str, float]:
        cpu, memory = _usage(self._process)
        used = {"cpu_percent": cpu, "memory_bytes": float(memory)} | gpu_usage()
        if self._with_children:
            found = {child.pid: child for child in self._process.children(recursive=True)}
            # Known children keep their objects: a new object has no earlier CPU time to compare with.
            self._children = {pid: self._children.get(pid, child) for pid, child in found.items()}
            of_each = [_usage(child) for child in self._children.values()]
            if of_each:
                used["children/cpu_percent"] = sum(cpu for cpu, _ in of_each)
                used["children/memory_bytes"] = float(sum(memory for _, memory in of_each))
        return used


def _usage(process: psutil.Process) -> tuple[float, int]:
    try:
        return process.cpu_percent(None), process.memory_info().rss
    except psutil.Error:  # the process has ended
        return 0.0, 0
