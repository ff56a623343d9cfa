"""The step that runs the tests marked `gpu`."""

import json
import subprocess
import sys

import pytest

from launch.bench.gpu_steps.checkout import find_tests
from launch.bench.gpu_steps.gpu_tests import files_with_mark

CONFTEST = """
def pytest_configure(config):
    config.addinivalue_line("markers", "gpu: needs a GPU")
"""
TESTS = """
import pytest
@pytest.mark.gpu
def test_passes():
    pass
@pytest.mark.gpu
@pytest.mark.parametrize("number", [1, 2])
def test_fails(number):
    assert number == 1, "two is not one"
@pytest.mark.gpu
def test_is_skipped():
    pytest.skip("another GPU")
def test_of_another_kind():
    raise AssertionError
"""
RUN = """
import os, sys
from pathlib import Path
from launch.bench.gpu_steps import gpu_tests
from launch.bench.gpu_steps.context import Context
gpu_tests.find_tests = lambda: Path(sys.argv[1])
output = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
share = int(sys.argv[4]), int(sys.argv[5])
gpu_tests.run(Context(output, sys.argv[2], True, float(sys.argv[3]), share=share))
"""


@pytest.fixture
def tests(tmp_path):
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_them.py").write_text(TESTS)
    (folder / "test_others.py").write_text("raise ImportError('is not needed')")
    return folder


def run(tests, device, seconds=60.0, share=(0, 1)):
    command = [sys.executable, "-c", RUN, str(tests), device, str(seconds), *map(str, share)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_outcomes_are_counted_and_failures_named(tests):
    said = run(tests, "cuda")
    counts = {entry["name"]: entry["value"] for entry in said if entry["kind"] == "result"}
    assert counts == {"tests passed": 2, "tests failed": 1, "tests skipped": 1}
    (failure,) = [entry for entry in said if entry["kind"] == "failed"]
    assert failure["name"].endswith("test_them.py::test_fails[2]")
    assert "assert 2 == 1" in failure["note"]


def test_processes_share_the_tests_out(tests):
    said = [run(tests, "cuda", share=(index, 3)) for index in range(3)]
    counts = [{entry["name"]: entry["value"] for entry in each if entry["kind"] == "result"} for each in said]
    assert counts == [
        {"tests passed, part 1 of 3": 1, "tests failed, part 1 of 3": 0, "tests skipped, part 1 of 3": 1},
        {"tests passed, part 2 of 3": 1, "tests failed, part 2 of 3": 0, "tests skipped, part 2 of 3": 0},
        {"tests passed, part 3 of 3": 0, "tests failed, part 3 of 3": 1, "tests skipped, part 3 of 3": 0},
    ]


def test_without_a_gpu_they_are_only_collected(tests):
    assert run(tests, "cpu") == [
        {"kind": "result", "name": "tests collected", "value": 4.0, "unit": "tests", "stand_in": True}
    ]


def test_without_time_the_rest_is_left_out(tests):
    said = run(tests, "cuda", seconds=1.0)
    assert [(entry["name"], entry["value"]) for entry in said] == [
        ("tests passed", 1.0),
        ("tests failed", 0.0),
        ("tests skipped", 0.0),
    ]
    assert "time was spent" in said[0]["note"]


def test_a_file_that_cannot_be_imported_is_named(tests):
    (tests / "test_them.py").write_text("import pytest\n@pytest.mark.gpu\nraise ImportError('no such thing')")
    said = run(tests, "cuda")
    assert said[0]["kind"] == "failed"
    assert "test_them.py" in said[0]["name"]


def test_without_a_checkout_they_are_skipped():
    script = RUN.replace("lambda: Path(sys.argv[1])", "lambda: None")
    command = [sys.executable, "-c", script, "none", "cuda", "60", "0", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(ended.stdout) == {"kind": "skipped", "name": "tests", "note": "needs a checkout"}


def test_the_files_that_mark_some_are_found():
    tests = find_tests()
    assert tests is not None
    names = {path.name for path in files_with_mark(tests)}
    assert "test_frame_stacks.py" in names
    assert "test_turns.py" not in names
