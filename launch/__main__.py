"""The `laser` command."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Sequence

from launch.process_settings import prepare_process
from launch.shadowing import shadowing_error
from launch.standard_output import prepare_streams

_PATIENCE_S = 5.0
"""Seconds in which threads that a library or an environment has left may end, once the command has."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code (see `launch.errors`).

    Args:
        arguments: without the program's name; default: those of the process, which then ends here if one of its
            threads cannot be ended.
    """
    prepare_streams()
    complaint = shadowing_error()
    if complaint is not None:
        print(complaint, file=sys.stderr)
        return 1
    prepare_process()
    from launch.command_line.cli import run
    from launch.errors import run_reporting
    from launch.restart_link import note_end

    exit_code = run_reporting(lambda: run(sys.argv[1:] if arguments is None else list(arguments)))
    note_end()
    if arguments is None:
        _leave_threads_behind(exit_code)
    return exit_code


def _leave_threads_behind(exit_code: int) -> None:
    """End the process at once if it has threads that hang: inside foreign code, Python's own way out would abort.

    Python waits for other threads at its end, unless they are daemons; this process does so for a few seconds.
    """
    threads = sys.modules.get("laser.foreign_threads")
    if threads is not None and threads.left_behind():
        _leave(exit_code)
    # A thread, since Python first asks idle pools to end, and only then waits.
    with contextlib.suppress(RuntimeError):  # the system may start no more threads
        threading.Thread(target=_leave_in_time, args=(exit_code,), name="end", daemon=True).start()


def _leave_in_time(exit_code: int) -> None:
    time.sleep(_PATIENCE_S)
    left = [each.name for each in threading.enumerate() if not each.daemon and each is not threading.main_thread()]
    if left:
        whose = f"{', '.join(left)} of the environment or a library"
        print(f"warning: threads did not end for {_PATIENCE_S:g} s: {whose}; leaving without them", file=sys.stderr)
        _leave(exit_code)


def _leave(exit_code: int) -> None:
    for child in multiprocessing.active_children():
        child.kill()  # leaving without clean-up would orphan them
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # who reads it may have gone
            stream.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    sys.exit(main())
