"""The check, beforehand, of the system's limits for a program that aborts without a useful word where it meets them."""

from __future__ import annotations

import resource
import threading

from launch.errors import LimitError
from launch.limits import MORE_FILES, MORE_THREADS, most_files


def check_limits(what: str, num_threads: int, num_files: int, otherwise: str) -> None:
    """Check that threads can be started and files opened: a program that aborts without them says nothing useful.

    The limit on open files is raised first, as far as this user may.

    Args:
        what: the program.
        num_threads: threads of all its processes.
        num_files: files that one of its processes opens.
        otherwise: what to do without them.

    Raises:
        LimitError: the system allows fewer.
    """
    _raise_file_limit(num_files)
    most = most_files()
    if most < num_files:
        wrong = f"{what} needs {num_files} open files in a process, and the limit is {most}"
        raise LimitError("files", wrong, f"{MORE_FILES}; {otherwise}")
    started = _num_startable(num_threads)
    if started < num_threads:
        wrong = f"{what} needs about {num_threads} threads, and the system starts no more than {started}"
        raise LimitError("threads", wrong, f"{MORE_THREADS}; {otherwise}")


def _raise_file_limit(num_files: int) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < num_files:
        wanted = num_files if hard == resource.RLIM_INFINITY else min(num_files, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _num_startable(num_threads: int) -> int:
    """Return how many threads can be started now, at most `num_threads`; they end again at once.

    No number of the system says so: users, containers and the kernel have limits of their own.
    """
    end = threading.Event()
    started: list[threading.Thread] = []
    try:
        while len(started) < num_threads:
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError:
        pass
    finally:
        end.set()
        for thread in started:
            thread.join()
    return len(started)
