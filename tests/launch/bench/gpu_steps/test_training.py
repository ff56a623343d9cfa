"""Cells of the grid: a program with some of its actors at rest."""

import dataclasses
import io
import json
import sys

from launch.bench._measured_run import ready_to_run
from launch.bench.gpu_steps.context import Context
from launch.bench.gpu_steps.training import _Cells, _Curve
from launch.presets import load_preset
from launch.recording.recorder import Snapshot


def said_by(use, seconds=60.0):
    output = io.StringIO()
    use(Context(output, "cpu", True, seconds))
    return [json.loads(line) for line in output.getvalue().splitlines()]


def cells(seconds, *which):
    config = dataclasses.replace(load_preset("cartpole"), runtime="local", device="cpu", num_actors=2)

    def measure(context):
        with ready_to_run([config]) as running:
            running.run(_Cells(context, running, which, "").is_over)

    return said_by(measure, seconds)


def test_each_cell_is_measured_once_and_threads_switch_as_before_afterwards():
    usual = sys.getswitchinterval()
    said = cells(60.0, (2, False), (1, False), (2, True))
    assert [entry["name"] for entry in said] == [
        "2 actors of 8 environments",
        "1 actor of 8 environments",
        "2 actors of 8 environments, threads switched every 0.2 ms",
    ]
    assert all(entry["value"] > 0 and entry["unit"] == "env steps/s" for entry in said)
    assert sys.getswitchinterval() == usual


def test_cells_that_no_time_is_left_for_are_said_to_be_skipped():
    said = cells(3.0, (2, False), (1, False))
    assert [entry["kind"] for entry in said] == ["skipped", "skipped"]
    assert "time is spent" in said[0]["note"]


def at(seconds, env_steps, episodes, mean_return):
    return Snapshot(env_steps, 4 * env_steps, 1, episodes, mean_return, seconds, 100.0, 10.0, "learner")


def test_a_curve_says_its_points_and_when_it_is_solved():
    def learn(context):
        curve = _Curve(context)
        for seconds, mean_return in ((0.5, -21.0), (1.1, -20.0), (1.5, 17.9), (2.1, 18.0), (2.5, 19.0)):
            assert not curve.look([at(seconds, int(1000 * seconds), 20, mean_return)])
        curve.end()

    said = said_by(learn)
    points = [(entry["name"], entry["value"]) for entry in said if entry["unit"] == "mean return"]
    assert points == [("curve, after 1 s", -20.0), ("curve, after 2 s", 18.0), ("curve, after 2 s", 19.0)]
    (solved,) = [entry for entry in said if entry["name"] == "time to a mean return of 18"]
    assert (solved["kind"], solved["value"], solved["note"]) == ("result", 2.1, "after 2,100 env steps")


def test_a_curve_that_does_not_get_there_says_how_far_it_came():
    def learn(context):
        curve = _Curve(context)
        curve.look([at(1.1, 1100, 20, 17.0)])
        curve.end()

    (last,) = [entry for entry in said_by(learn) if entry["name"] == "time to a mean return of 18"]
    assert (last["kind"], last["note"]) == ("skipped", "not reached in 1 s: 17.0 after 1,100 env steps")


def test_a_curve_ends_before_its_step_is_killed():
    def learn(context):
        assert _Curve(context).look([at(1.1, 1100, 20, 17.0)])

    said_by(learn, seconds=1.0)
