"""Limits on threads, processes and open files, which the system refuses to exceed: an explanation in one line."""

from __future__ import annotations

import errno
import os
import resource

from laser.config import Problem
from laser.error_words import words_of

MORE_THREADS = "raise the limit on processes (ulimit -u, or that of the container), or ask for fewer actors"
MORE_FILES = "raise the limit on open files (ulimit -n)"


def explain_limit(error: BaseException) -> Problem | None:
    """Return what is wrong where the system refused a thread, a process or an open file; None for other errors."""
    if isinstance(error, RuntimeError) and "can't start new thread" in words_of(error):
        return Problem("threads", "the system starts no more threads", MORE_THREADS)
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return Problem("files", f"{os.strerror(error.errno).lower()}, at most {most_files()}", MORE_FILES)
    if isinstance(error, BlockingIOError) and error.filename is not None:  # a program that could not be started
        return Problem("processes", f"the system starts no more processes: {error.filename}", MORE_THREADS)
    return None


def most_files() -> int:
    """Return how many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2**62 if soft == resource.RLIM_INFINITY else soft
