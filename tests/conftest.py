"""Makes the folders of shared test material importable by name; options, order and time limits of the tests.

Tests that need a package which is not installed are left out, after `NEEDS`, and the end of pytest's output says which.
With `--all-packages`, and wherever CI is set, a missing package is an error instead.
"""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
for folder in ("actors", "golden", "launch", "oracles", "laser/algorithms", "probes"):
    sys.path.insert(0, str(TESTS / folder))

# Modules that tests need besides those that training does: of a folder, a file or a single test.
NEEDS = {
    "actors/test_film.py": ("imageio_ffmpeg",),
}
GPU_TIMEOUT_S = 300  # the first compilation of an update takes a minute or two

absent = {module for modules in NEEDS.values() for module in modules if importlib.util.find_spec(module) is None}


def pytest_addoption(parser):
    parser.addoption("--write-golden", action="store_true", help="keep the losses of today as the golden ones")
    parser.addoption("--all-packages", action="store_true", help="fail if a package that some tests need is missing")


def pytest_configure(config):
    if absent and (config.getoption("all_packages") or os.environ.get("CI")):
        modules = ", ".join(sorted(absent))
        raise pytest.UsageError(f"tests need {modules}, not installed here; pip install -e '.[dev]'")


def pytest_ignore_collect(collection_path):
    return bool(missing_for(collection_path.relative_to(TESTS).as_posix())) or None


def pytest_collection_modifyitems(items):
    # Last: Ray's processes stay until pytest ends, and take a third of a core from the tests after them.
    items.sort(key=lambda item: item.get_closest_marker("ray") is not None)
    for item in items:
        missing = missing_for(item.nodeid.removeprefix("tests/"))
        if missing:
            item.add_marker(pytest.mark.skip(reason=f"needs {', '.join(missing)}, not installed here"))
        if item.get_closest_marker("gpu") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(GPU_TIMEOUT_S))


def pytest_terminal_summary(terminalreporter):
    left_out = [f"{place}: needs {', '.join(missing)}" for place in NEEDS if (missing := missing_for(place))]
    if left_out:
        terminalreporter.section("left out, since packages are not installed")
        terminalreporter.line("\n".join(left_out))


def missing_for(place):
    """Return the modules that a path below tests/, or a test in it, needs and that are not installed."""
    return [
        module
        for needing, modules in NEEDS.items()
        if place == needing or place.startswith((f"{needing}/", f"{needing}::", f"{needing}["))
        for module in modules
        if module in absent
    ]
