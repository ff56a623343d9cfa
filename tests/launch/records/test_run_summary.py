import dataclasses
import json
import math
import os

import numpy as np
import pytest

from launch.recording import metric_table, return_curve
from launch.records import run_summary
from launch.records.metrics_db import MetricsDb
from launch.records.run_summary import NUM_POINTS, Best, ThinCurve, summary_path
from launch.records.series import read_best, read_latest, read_series
from launch.records.summary_reader import read_summary
from launch.records.tick import Tick

RETURN, EPISODES = run_summary.RETURN, run_summary.EPISODES


def tick(step):
    return Tick(step / 10, 1.7e9 + step / 10, step, 4 * step, step // 5)


def record(path, returns, **more):
    """Write a run whose every moment has a mean return and one episode more."""
    with MetricsDb(path) as metrics:
        for number, value in enumerate(returns, 1):
            metrics.write(tick(10 * number), {RETURN: value, EPISODES: float(number), **more}, {"bottleneck": "actors"})


def test_it_holds_what_the_file_holds(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, [float(n) for n in range(50)], **{"buckets/ends_at": 7.0, "losses/x": 3.0})
    found = read_summary(path)
    assert found.is_current
    assert dataclasses.replace(found.latest, best=None) == read_latest(path)
    np.testing.assert_array_equal(found.curves[RETURN].values, np.arange(50.0))
    np.testing.assert_array_equal(found.curves[RETURN].axes["frames"], 40.0 * np.arange(1, 51))
    assert set(found.curves) == {RETURN, EPISODES, "buckets/ends_at"} == found.whole


def test_the_best_return_is_a_mean_of_twenty_episodes(tmp_path):
    path = tmp_path / "metrics.db"
    returns = [485.0 if n == 5 else 196.0 if n == 30 else 100.0 for n in range(1, 41)]
    record(path, returns)
    assert read_summary(path).latest.best == Best(196.0, 300), "one lucky episode at the beginning is none"
    assert read_best(path) == Best(196.0, 300), "for runs without a summary"


def test_a_run_of_few_episodes_has_no_best(tmp_path):
    record(tmp_path / "metrics.db", [5.0] * 19)
    assert read_summary(tmp_path / "metrics.db").latest.best is None
    assert read_best(tmp_path / "metrics.db") is None


def test_a_resumed_run_continues_its_summary_and_forgets_what_lies_beyond(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, [100.0] * 25 + [900.0] * 5, **{"losses/old": 1.0})
    with MetricsDb(path) as metrics:
        metrics.forget_after(250)
        metrics.write(tick(260), {RETURN: 120.0, EPISODES: 26.0})
    found = read_summary(path)
    assert found.latest.best == Best(120.0, 260)
    np.testing.assert_array_equal(found.curves[RETURN].values, [100.0] * 25 + [120.0])
    assert found.latest.values == read_latest(path).values


def test_a_summary_that_is_older_than_the_file_says_so(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, [1.0])
    os.utime(path, ns=(0, os.stat(summary_path(path)).st_mtime_ns + 1))
    assert not read_summary(path).is_current
    record(path, [1.0])
    path.write_bytes(path.read_bytes() + b"\0")
    os.utime(path, ns=(0, 0))
    assert not read_summary(path).is_current, "the file has another size"


def test_a_running_run_writes_it_now_and_then(tmp_path, monkeypatch):
    path = tmp_path / "metrics.db"
    now = [0.0]
    with MetricsDb(path) as metrics:
        monkeypatch.setattr(metrics._summary, "_clock", lambda: now[0])
        metrics._summary._written = 0.0
        steps = []
        for second in range(12):
            now[0] = float(second)
            metrics.write(tick(second), {"a": float(second)})
            found = read_summary(path)
            steps.append(None if found is None else found.latest.moment.env_steps)
    assert steps == [None] * 5 + [5] * 5 + [10] * 2
    assert read_summary(path).latest.moment.env_steps == 11


@pytest.mark.parametrize("num_points", [1, NUM_POINTS, 2 * NUM_POINTS, 1000, 5000])
def test_a_thin_curve_is_the_mean_of_neighbours(num_points):
    values = np.random.default_rng(0).normal(size=num_points)
    curve = ThinCurve(counts=False)
    for place, value in enumerate(values):
        curve.add((place, float(value)))
    found = np.array(curve.rows())
    assert min(num_points, NUM_POINTS) <= len(found) <= 2 * NUM_POINTS
    edges = np.arange(0, num_points, curve.width)
    expected = [values[low : low + curve.width].mean() for low in edges]
    np.testing.assert_allclose(found[:, 1], expected, rtol=1e-9)
    np.testing.assert_array_equal(found[:, 0], np.minimum(edges + curve.width, num_points) - 1)


def test_a_thin_counter_is_the_last_of_neighbours():
    curve = ThinCurve(counts=True)
    for place in range(1000):
        curve.add((place, float(place)))
    assert all(place == value for place, value in curve.rows())


def test_a_return_that_stands_still_is_not_a_slope(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, [1.0] * 40 + [2.0] * 10)
    curve = read_summary(path).curves[RETURN]
    np.testing.assert_array_equal(np.interp(np.arange(10, 401, 10), curve.axes["env_steps"], curve.values), 1.0)


def test_a_long_run_has_the_same_summary_after_a_resumption(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, np.random.default_rng(0).normal(size=700).tolist())
    before = json.loads(summary_path(path).read_text())
    MetricsDb(path).close()
    after = json.loads(summary_path(path).read_text())
    assert before == after


def test_nan_and_infinity_do_not_spoil_it(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, [math.nan, 2.0], **{"losses/inf": math.inf})
    assert json.loads(summary_path(path).read_text(), parse_constant=pytest.fail)["values"][RETURN] == 2.0


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{",
        b'{"schema_version": 1}',
        b'{"schema_version": 2}',
        b"[" * 100_000,
        b'{"schema_version": 1, "values": {"a": "x"}, "notes": {}, "best": null, "curves": {}, "tick": {}}',
        b'{"schema_version": 1, "values": {}, "notes": {}, "best": null, "curves": {"a": [1, [[0], [1, 2], [1], [1], '
        b'[1], [1]]]}, "tick": {"seconds": 1, "wall_time": 1, "env_steps": 1, "frames": 1, "learner_steps": 1}}',
        b'{"schema_version": 1, "values": {}, "notes": {}, "best": null, "curves": {}, "tick": '
        b'{"seconds": -1, "wall_time": 1, "env_steps": 1, "frames": 1, "learner_steps": 1}}',
    ],
)
def test_a_damaged_summary_is_none(tmp_path, content):
    path = tmp_path / "metrics.db"
    record(path, [1.0])
    summary_path(path).write_bytes(content)
    assert read_summary(path) is None


def test_a_summary_that_leads_elsewhere_is_none(tmp_path):
    path = tmp_path / "run" / "metrics.db"
    path.parent.mkdir()
    record(path, [1.0])
    summary_path(path).rename(tmp_path / "elsewhere.json")
    summary_path(path).symlink_to(tmp_path / "elsewhere.json")
    assert read_summary(path) is None


def test_a_run_whose_files_are_gone_writes_none(tmp_path):
    path = tmp_path / "run" / "metrics.db"
    path.parent.mkdir()
    with MetricsDb(path) as metrics:
        metrics.write(tick(10), {RETURN: 1.0})
        path.parent.rename(tmp_path / "moved")
    assert not path.parent.exists()


def test_its_names_are_those_of_the_metric_table():
    assert (RETURN, run_summary.NUM_RETURNS) == (metric_table.RETURN, return_curve.NUM_RETURNS)
    assert metric_table.known_key(EPISODES) == EPISODES


def test_thin_curves_agree_with_the_file(tmp_path):
    path = tmp_path / "metrics.db"
    record(path, [float(n % 7) for n in range(100)])
    thin, whole = read_summary(path).curves[RETURN], read_series(path, [RETURN], None)[RETURN]
    np.testing.assert_array_equal(thin.values, whole.values)
    np.testing.assert_array_equal(thin.ticks, whole.ticks)
