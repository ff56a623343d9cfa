"""Reports of a step: results, failures, skips and warnings."""

import io
import json
import math
import warnings

import pytest

from launch.bench.gpu_steps.context import Context


@pytest.fixture
def output():
    return io.StringIO()


def said(output):
    return [json.loads(line) for line in output.getvalue().splitlines()]


def test_a_number_that_is_not_finite_has_failed(output):
    context = Context(output, "cpu", True, 60.0)
    context.result("a", math.nan, "ms")
    context.result("b", 0.0, "ms", stand_in=True)
    assert said(output) == [
        {"kind": "failed", "name": "a", "note": "nan ms is not a finite number"},
        {"kind": "result", "name": "b", "value": 0.0, "unit": "ms", "stand_in": True},
    ]


def test_what_goes_wrong_costs_one_measurement(output, capsys):
    context = Context(output, "cpu", True, 60.0)
    with context.measuring("a"):
        raise RuntimeError("CUDA error:\n  out of memory")
    with context.measuring("b"):
        context.result("b", 1.0, "ms")
    failed = said(output)[0]
    report = failed.pop("details")["report"]
    assert failed == {"kind": "failed", "name": "a", "note": "RuntimeError: CUDA error: out of memory"}
    assert report.startswith("Traceback")
    assert "test_context.py" in report
    assert said(output)[1]["kind"] == "result"
    assert "Traceback" in capsys.readouterr().err


def test_without_time_something_is_skipped_and_said_to_be(output):
    context = Context(output, "cpu", True, 10.0)
    assert context.has_time("a", 5.0)
    assert not context.has_time("b", 15.0)
    assert [entry["name"] for entry in said(output)] == ["b"]


def test_a_program_that_runs_otherwise_than_asked_says_so_once(output, monkeypatch):
    context = Context(output, "cpu", True, 60.0)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        monkeypatch.setattr(warnings, "showwarning", context.warn)
        for _ in range(2):
            warnings.warn("the loss cannot be compiled and runs uncompiled", RuntimeWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert said(output) == [{"kind": "warned", "note": "the loss cannot be compiled and runs uncompiled"}]
