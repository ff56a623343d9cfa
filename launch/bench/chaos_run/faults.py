"""Faults of a run: a part is killed or paused, its disk is full, the cable between its nodes is cut."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
import psutil

from launch.bench.chaos_run.plan import CUT_CABLE, FULL_DISK, PARTS, PAUSE
from launch.bench.chaos_run.two_nodes import TwoNodes
from launch.bench.chaos_run.victim import Victim
from launch.errors import OutputError

_PAUSE_S, _CUT_S = (1.0, 5.0), (2.0, 20.0)
_DISK_MB = 256
_DISK = "laser-chaos-"
"""The beginning of the name of a small disk, before the id of its process."""
_CHUNK = bytes(2**20)
_WAIT_S = 60.0
_MOST_UNSAVED = 3
"""Kills of the main process without a new checkpoint between; `--restart` gives up at the fifth."""


@contextmanager
def small_disk(folder: Path) -> Iterator[str]:
    """Mount a small disk in memory on an empty folder; yield why that was not possible, "" if it was.

    Those that a killed process could not unmount go first.
    """
    for disk in psutil.disk_partitions(all=True):
        made_by = re.fullmatch(rf"{_DISK}(\d+)", disk.device)
        if made_by and not psutil.pid_exists(int(made_by[1])):
            _unmount(disk.mountpoint)
    command = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m", f"{_DISK}{os.getpid()}", str(folder)]
    try:
        why = subprocess.run(command, capture_output=True, text=True).stderr
    except OSError as error:
        why = str(error)
    try:
        yield " ".join(why.split())
    finally:
        if not why:
            _unmount(str(folder))


def _unmount(folder: str) -> None:
    subprocess.run(["umount", "--lazy", folder], capture_output=True)


class Faults:
    """Makes faults in a run, and counts them. Used from one thread.

    Args:
        victim: the run, which has started.
        rng: chooses among the processes of a part, and how long one is paused or the cable is cut.
        disk: the small disk with the run's directory; None: the disk cannot be filled.
        nodes: those of the run, which have a cable; None: it is on one machine.
    """

    def __init__(self, victim: Victim, rng: np.random.Generator, disk: Path | None, nodes: TwoNodes | None):
        self._victim, self._rng, self._disk, self._nodes = victim, rng, disk, nodes
        self._newest, self._num_unsaved = "", 0  # the newest checkpoint when the main process was killed, and how often
        self.kills: Counter[str] = Counter()
        self.others: Counter[str] = Counter()
        self.learner_deaths: list[tuple[float, int]] = []
        """For each learner that was killed the time, and how many deaths had been noticed before."""
        self.num_left = 0
        """Processes that outlived the main process they belonged to."""

    def make(self, fault: str) -> None:
        """Make a fault of the plan; nothing if the run has ended meanwhile."""
        if self._nodes is not None:
            self._nodes.restore()
        if fault == PAUSE:
            self._pause()
        elif fault == CUT_CABLE:
            self._cut_cable()
        elif fault == FULL_DISK:
            self._fill_disk()
        else:
            self._kill(fault)

    def _kill(self, part: str) -> None:
        if part == "driver":
            self._let_it_save()
        found = self._victim.find(part)
        if not found:
            return
        victim = found[int(self._rng.integers(len(found)))]
        own: list[psutil.Process] = []
        try:
            if part == "driver":
                own = self._victim.processes_of(victim)
            if part == "learner":
                self.learner_deaths.append((time.monotonic(), self._victim.num_deaths()))
            victim.kill()
        except psutil.NoSuchProcess:
            return  # the run is ending
        self.kills[part] += 1
        if part == "driver":
            self.num_left += len(psutil.wait_procs(own, timeout=_WAIT_S)[1])
            self._victim.wait_for_updates()

    def _let_it_save(self) -> None:
        """Count a kill of the main process; before one too many without a new checkpoint, wait for the next one."""
        if self._num_unsaved == _MOST_UNSAVED:
            self._victim.wait_for_checkpoint(self._newest)
        newest = self._victim.newest_checkpoint()
        self._num_unsaved = self._num_unsaved + 1 if newest == self._newest else 1
        self._newest = newest

    def _pause(self) -> None:
        found = self._victim.find(PARTS[int(self._rng.integers(len(PARTS)))])
        if found:
            paused = found[int(self._rng.integers(len(found)))]
            with suppress(psutil.NoSuchProcess):
                paused.suspend()
                try:
                    self._victim.wait(self._rng.uniform(*_PAUSE_S))
                finally:
                    paused.resume()
                self.others[PAUSE] += 1

    def _cut_cable(self) -> None:
        if self._nodes is None or self._victim.has_ended:
            return
        self._nodes.second.pull_cable()
        try:
            self._victim.wait(self._rng.uniform(*_CUT_S))
        finally:
            self._nodes.second.plug_cable()
        self.others[CUT_CABLE] += 1

    def _fill_disk(self) -> None:
        """Leave no room on the run's disk until the run has ended; then make room, and go on as the run said."""
        if self._disk is None or self._victim.has_ended:
            return
        filler = self._disk / "filler"
        try:
            _fill(filler)
            code = self._victim.wait_for_exit()
        finally:
            filler.unlink(missing_ok=True)
        if code != OutputError.exit_code:
            raise self._victim.failed(f"the run ended with exit code {code} on a full disk")
        self.others[FULL_DISK] += 1
        self._victim.start("--resume")


def _fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(_CHUNK):
            pass
