"""Process settings: what libgomp, torch and malloc read once."""

from __future__ import annotations

import ctypes
import os
import sys
import warnings

_LATE = (
    "torch was imported before LASER could set GOMP_SPINCOUNT, so threads that wait for each other spin for longer "
    "(TD3 on two cores: 225 updates/s, not 391; 14 where two learners share the cores); write "
    "`from laser import load_preset` above `import torch`, or set GOMP_SPINCOUNT=5000 in the environment"
)

_NUM_ARENAS = "2"
_M_ARENA_MAX = -8  # of glibc's malloc.h


def prepare_process() -> None:
    """Set the variables that the user has not set.

    Every entry point calls this before torch is imported: the `laser` command, the names of the package `laser`, and
    each process that Ray starts. Child processes inherit the variables. A second call changes nothing.

    Warns:
        RuntimeWarning: torch is imported already, and has loaded libgomp without them.
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
    _limit_arenas()


def _limit_arenas() -> None:
    """Limit the arenas of glibc's malloc, in this process and its children, unless the user has set a number.

    glibc gives threads up to eight arenas per core, and each keeps what was freed in it. The learner of a Pong run on
    Ray, with 38 threads, grew by 100 MB in an hour and a half. The limit costs no updates
    (benchmarks/notes/2026-11-memory.md).
    """
    if "MALLOC_ARENA_MAX" in os.environ or "glibc.malloc.arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "mallopt"):  # musl has none
        libc.mallopt(_M_ARENA_MAX, int(_NUM_ARENAS))  # malloc has read the variable when this process began
        os.environ["MALLOC_ARENA_MAX"] = _NUM_ARENAS


def spin_count() -> str:
    """Return the number of polls with which a thread of an operator waits for the others before it sleeps.

    libgomp's default polls for some milliseconds. When two learners of two threads each run on two cores, a thread
    polls while the thread it waits for cannot run: TD3 with nets of 256x256 then made 14 updates/s, alone 225. With
    2,000 polls two such learners made 160 updates/s each on an Intel Xeon, and with 5,000 polls 100. One learner alone
    made 333 and 391, since the Python code between two updates takes as long as 5,000 polls. The number is 5,000 if
    the machine has two idle cores when this process begins, else 2,000.
    """
    try:
        with open("/proc/loadavg", encoding="ascii") as file:
            others = int(file.read().split()[3].partition("/")[0]) - 1  # threads that run now, without this one
    except (OSError, ValueError, IndexError):  # not Linux, or hidden
        others = 0
    return "5000" if others + 2 <= (os.cpu_count() or 1) else "2000"
