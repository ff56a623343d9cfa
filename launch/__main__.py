"""The `laser` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from launch.shadowing import shadowing_error


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code (see `launch.errors`).

    Args:
        arguments: without the program's name; default: the process's own.
    """
    complaint = shadowing_error()
    if complaint is not None:
        print(complaint, file=sys.stderr)
        return 1
    from launch.command_line.cli import run
    from launch.errors import run_reporting

    return run_reporting(lambda: run(sys.argv[1:] if arguments is None else list(arguments)))


if __name__ == "__main__":
    sys.exit(main())
