"""Settings of a process that computes with torch: environment variables that libgomp and torch read once."""

from __future__ import annotations

import os
import sys
import warnings

_LATE = (
    "torch was imported before LASER could set GOMP_SPINCOUNT, so threads that wait for each other spin for longer "
    "(TD3 on two cores: 225 updates/s, not 391; 14 where two learners share the cores); write "
    "`from laser import load_preset` above `import torch`, or set GOMP_SPINCOUNT=5000 in the environment"
)


def prepare_process() -> None:
    """Set what libgomp and torch read from the environment, as far as the user has not set it.

    Called before torch is imported by every way in: the `laser` command, the names of the package `laser`, and every
    process that Ray starts. Processes that this one starts inherit it. A second call changes nothing.

    Warns:
        RuntimeWarning: torch is imported already, and has loaded libgomp without it.
    """
    if "OMP_WAIT_POLICY" not in os.environ and "GOMP_SPINCOUNT" not in os.environ:
        if "torch" in sys.modules and sys.platform == "linux":  # elsewhere torch brings another OpenMP
            warnings.warn(_LATE, RuntimeWarning, stacklevel=4)  # the line that looked a name up in `laser`
        os.environ["GOMP_SPINCOUNT"] = spin_count()
    # Activations of many frames are too large for malloc to keep: the kernel hands out their memory anew in every
    # update, page by page. In pages of 2 MiB an update of Pong's net in float32 has 640 page faults, not 33,000, and
    # 15 ms of system time, not 76, of 320 (`laser bench learner --preset impala_pong`). Torch reads this at its first
    # tensor.
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")


def spin_count() -> str:
    """Return how often a thread that shares out an operator looks for the others before it sleeps.

    libgomp's default spins for some milliseconds. When two learners of two threads each run on two cores, each spins
    while what it waits for cannot run: TD3 with nets of 256x256 then made 14 updates/s, alone 225. With 2,000 looks two
    at once made 160 updates/s each on an Intel Xeon and with 5,000 100; but alone 333 and 391, since what is done in
    Python between two updates takes as long as 5,000 looks. So it is 5,000 where the machine has cores to spare for two
    threads as this process begins.
    """
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            others = int(file.read().split()[3].partition("/")[0]) - 1  # threads that run at this moment, and not this
    except (OSError, ValueError, IndexError):  # not Linux, or hidden
        others = 0
    return "5000" if others + 2 <= (os.cpu_count() or 1) else "2000"
