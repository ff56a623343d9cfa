"""The `laser` command."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
from collections.abc import Sequence

from launch.process_settings import prepare_process
from launch.shadowing import shadowing_error
from launch.standard_output import prepare_streams


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
    """End the process at once if it has threads that hang: inside foreign code, Python's own way out would abort."""
    threads = sys.modules.get("laser.foreign_threads")
    if threads is None or not threads.left_behind():
        return
    for child in multiprocessing.active_children():
        child.kill()  # leaving without clean-up would orphan them
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # who reads it may have gone
            stream.flush()
    os._exit(exit_code)


if __name__ == "__main__":
    sys.exit(main())
