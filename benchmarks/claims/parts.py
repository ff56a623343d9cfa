"""Shared parts of the claims about inner numbers: the benchmarks' own, and a pool of processes.

Claims about runs are reproductions: `laser reproduce list claims`.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
import measure

__all__ = ["measure", "worker_pool"]


def worker_pool() -> ProcessPoolExecutor:
    """Return a pool with a process per core; the processes end when this one does, however it ends."""
    return ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn"), _end_with_parent)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
