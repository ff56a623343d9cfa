"""The `laser` command."""

from __future__ import annotations

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit code (see `launch.errors`).

    Args:
        arguments: without the program's name; default: the process's own.
    """
    from launch.errors import run_reporting
    from launch.shadowing import check_packages

    def command() -> int:
        check_packages()
        from launch.cli import run

        return run(sys.argv[1:] if arguments is None else list(arguments))

    return run_reporting(command)


if __name__ == "__main__":
    sys.exit(main())
