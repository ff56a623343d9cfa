"""The checkout that LASER runs from, if there is one: its tests, and the shared modules that they import."""

from __future__ import annotations

import sys
from pathlib import Path

_SHARED = ("actors", "golden", "launch", "oracles", "laser/algorithms", "probes")  # as tests/conftest.py has them


def find_tests() -> Path | None:
    """Return the folder of the tests; None in an installation without them."""
    tests = Path(__file__).resolve().parents[3] / "tests"
    return tests if (tests / "conftest.py").is_file() else None


def import_from_tests(tests: Path) -> None:
    """Make the tests' shared modules importable by their names."""
    sys.path[:0] = [str(tests / folder) for folder in _SHARED]
