"""The tests marked `gpu`: counts of their outcomes, and names of failed tests."""

from __future__ import annotations

import importlib.util
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any

from launch.bench.gpu_steps.checkout import find_tests
from launch.bench.gpu_steps.context import Context

_LEAST_S, _SAY_S = 5.0, 10.0
_PASSED = 0, 1  # pytest's exit codes: all passed, some failed


def run(context: Context) -> None:
    """Run this process's share of the tests, and report every failure at once."""
    tests = find_tests()
    if tests is None:
        context.skip("tests", "needs a checkout")
        return
    if not all(importlib.util.find_spec(name) for name in ("pytest", "pytest_timeout")):
        context.skip("tests", "needs pytest: pip install pytest pytest-timeout")
        return
    import pytest

    os.chdir(tests.parent)
    outcomes = _Outcomes(context)
    # Only files with such a mark: collecting all test files takes longer than running these tests.
    arguments = ["-m", "gpu", "-q", "-p", "no:cacheprovider", *map(str, files_with_mark(tests))]
    code = int(pytest.main(arguments if context.on_gpu else [*arguments, "--collect-only"], [outcomes]))
    outcomes.say()
    if code not in _PASSED and not outcomes.counts:
        context.fail("tests", f"pytest ended with exit code {code}")


def files_with_mark(tests: Path) -> list[Path]:
    """Return the test files that mark a test `gpu`."""
    return [path for path in sorted(tests.rglob("test_*.py")) if "pytest.mark.gpu" in path.read_text(encoding="utf-8")]


class _Outcomes:
    """A pytest plugin that counts outcomes."""

    def __init__(self, context: Context):
        self.counts: Counter[str] = Counter()
        self._context = context
        self._is_over = False
        self._said_at = time.monotonic()

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        index, count = self._context.share
        # Neighbouring tests are similar: assigned in turn, tests that compile are spread evenly over the processes.
        items[:] = [item for item in items if item.get_closest_marker("gpu") is not None][index::count]
        if not self._context.on_gpu:
            self.counts["collected"] = len(items)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self._context.fail(f"collecting {report.nodeid}", _last_line(report), str(report.longreprtext))

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.counts["failed"] += 1
            self._context.fail(report.nodeid, _last_line(report), str(report.longreprtext))
        elif report.skipped:
            self.counts["skipped"] += 1
        elif report.when == "call":
            self.counts["passed"] += 1
        if report.when == "teardown" and time.monotonic() - self._said_at >= _SAY_S:
            self.say()  # a later test may crash the process

    def pytest_runtest_teardown(self, item: Any, nextitem: Any) -> None:
        if nextitem is not None and self._context.left_s < _LEAST_S:
            item.session.shouldstop = "the step's time is spent"
            self._is_over = True

    def say(self) -> None:
        """Report the counts so far."""
        self._said_at = time.monotonic()
        note = "the step's time was spent before the others" if self._is_over else ""
        names = ("passed", "failed", "skipped") if self._context.on_gpu else ("collected",)
        index, count = self._context.share
        part = f", part {index + 1} of {count}" if count > 1 else ""
        for name in names:
            self._context.result(
                f"tests {name}{part}", self.counts[name], "tests", note=note, stand_in=not self._context.on_gpu
            )


def _last_line(report: Any) -> str:
    lines = [line for line in str(report.longreprtext).splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E ")]
    return (errors or lines or ["no words"])[-1].removeprefix("E ").strip()
