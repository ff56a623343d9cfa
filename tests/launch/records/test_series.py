import sqlite3

import numpy as np
import pytest

from launch.records.metrics_db import MetricsDb
from launch.records.series import UnreadableError, read_latest, read_rows, read_series, signature
from launch.records.tick import Tick


def test_a_short_curve_is_read_as_it_was_written(make_run) -> None:
    path = make_run("a", [{"loss": 5.0 - place} for place in range(5)]) / "metrics.db"
    series = read_series(path, ["loss", "not there"])
    assert list(series) == ["loss"]
    np.testing.assert_array_equal(series["loss"].values, [5, 4, 3, 2, 1])
    np.testing.assert_array_equal(series["loss"].axes["env_steps"], [0, 100, 200, 300, 400])
    np.testing.assert_array_equal(series["loss"].axes["frames"], [0, 400, 800, 1200, 1600])
    np.testing.assert_array_equal(series["loss"].axes["learner_steps"], [0, 3, 6, 9, 12])


def test_a_long_curve_is_thinned_to_the_means_of_its_neighbours(make_run) -> None:
    values = np.random.default_rng(0).normal(size=1000)
    path = make_run("a", [{"loss": float(value)} for value in values]) / "metrics.db"
    series = read_series(path, ["loss"], limit=100)["loss"]
    np.testing.assert_allclose(series.values, values.reshape(100, 10).mean(1), rtol=1e-12)
    np.testing.assert_array_equal(series.axes["seconds"], np.arange(9, 1000, 10))


def test_of_very_many_neighbours_the_last_32_are_taken(make_run) -> None:
    values = np.random.default_rng(0).normal(size=1000)
    path = make_run("a", [{"loss": float(value)} for value in values]) / "metrics.db"
    series = read_series(path, ["loss"], limit=10)["loss"]
    np.testing.assert_allclose(series.values, values.reshape(10, 100)[:, -32:].mean(1), rtol=1e-12)
    np.testing.assert_array_equal(series.axes["seconds"], np.arange(99, 1000, 100))


def test_rare_points_of_a_long_run_are_all_there(make_run) -> None:
    rows = [
        {"evaluation/mean_return": float(n), "loss": 0.1 * n} if n % 150 == 0 else {"loss": 0.1 * n}
        for n in range(1000)
    ]
    series = read_series(make_run("a", rows) / "metrics.db", ["evaluation/mean_return"], limit=20)
    assert set(np.arange(0.0, 1000.0, 150.0)) == set(series["evaluation/mean_return"].values)


def test_of_a_counter_the_last_of_neighbours_stands_for_them(make_run) -> None:
    path = make_run("a", [{"totals/rows": float(place)} for place in range(100)]) / "metrics.db"
    series = read_series(path, ["totals/rows"], limit=10)["totals/rows"]
    np.testing.assert_array_equal(series.values, np.arange(9, 100, 10))


def test_a_value_that_stood_still_is_not_drawn_as_a_slope(make_run) -> None:
    rows = [{"entropy": 1.0, "loss": float(place)} for place in range(50)]
    rows += [{"entropy": 2.0, "loss": float(place)} for place in range(50, 100)]
    path = make_run("a", rows) / "metrics.db"
    entropy = read_series(path, ["entropy"])["entropy"]
    at = np.interp(np.arange(100), entropy.axes["seconds"], entropy.values)
    np.testing.assert_array_equal(at[:49], 1.0)
    np.testing.assert_array_equal(at[50:], 2.0)
    assert entropy.axes["seconds"][-1] == 99


def test_a_slow_evaluation_does_not_turn_its_curve_back(tmp_path) -> None:
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        for place in range(100):
            if place % 20 == 10:  # of a policy that is ten moments old
                begun = 100 * (place - 10)
                metrics.write(Tick(place, place, begun, 4 * begun, place), {"evaluation/mean_return": float(place)})
            metrics.write(Tick(place, place, 100 * place, 400 * place, place), {"loss": float(place)})
    series = read_series(path, ["evaluation/mean_return"])["evaluation/mean_return"]
    np.testing.assert_array_equal(series.axes["env_steps"], [0, 2000, 4000, 6000, 8000])
    np.testing.assert_array_equal(series.values, [10, 30, 50, 70, 90])


def test_what_is_not_finite_is_a_gap(make_run) -> None:
    path = make_run("a", [{"loss": 1.0}, {"loss": float("inf")}, {"loss": 2.0}]) / "metrics.db"
    np.testing.assert_array_equal(read_series(path, ["loss"])["loss"].values, [1.0, np.nan, 2.0])


def test_the_newest_of_everything(make_run) -> None:
    rows = [{"loss": float(place), "constant": 7.0} for place in range(10)]
    path = make_run("a", rows, notes={"bottleneck": "learner"}) / "metrics.db"
    latest = read_latest(path)
    assert latest.values == {"loss": 9.0, "constant": 7.0}
    assert latest.notes == {"bottleneck": "learner"}
    assert latest.moment is not None
    assert (latest.moment.env_steps, latest.moment.learner_steps) == (900, 27)
    assert read_latest(path, ticks_ago=4).values == {"loss": 5.0, "constant": 7.0}


def test_rows_are_complete_and_in_order(make_run) -> None:
    path = make_run("a", [{"loss": float(place), "entropy": 1.0} for place in range(3)]) / "metrics.db"
    rows = list(read_rows(path))
    assert [row[0] for row in rows] == ["entropy", "loss", "loss", "loss"]
    assert rows[-1] == ("loss", 200, 800, 6, 2.0, 1_700_000_002.0, 2.0)
    assert [row[0] for row in read_rows(path, ["entropy"])] == ["entropy"]


@pytest.mark.parametrize("content", [None, b"", b"not a database at all, but long enough to be taken for one" * 40])
def test_what_cannot_be_read_says_so_in_a_line(tmp_path, content) -> None:
    path = tmp_path / "metrics.db"
    if content is not None:
        path.write_bytes(content)
    for read in (lambda: read_latest(path), lambda: read_series(path, ["loss"]), lambda: list(read_rows(path))):
        with pytest.raises(UnreadableError, match=r"metrics\.db") as caught:
            read()
        assert "\n" not in str(caught.value)


def test_a_file_cut_short_says_so(make_run) -> None:
    path = make_run("a", [{f"m{n}": float(place + n) for n in range(20)} for place in range(500)]) / "metrics.db"
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(UnreadableError):
        list(read_rows(path))


def test_a_locked_file_is_given_up_soon(make_run, monkeypatch) -> None:
    monkeypatch.setattr("launch.records.series._TIMEOUT_S", 0.05)
    path = make_run("a", [{"loss": 1.0}]) / "metrics.db"
    holder = sqlite3.connect(path, isolation_level=None)
    try:
        holder.execute("PRAGMA journal_mode=DELETE")
        holder.execute("BEGIN EXCLUSIVE")
        path.with_name("metrics.db-wal").touch()  # as if it were open: then it is not taken for immutable
        with pytest.raises(UnreadableError, match="locked"):
            read_latest(path)
    finally:
        holder.close()


def test_a_running_run_is_read_while_it_writes_and_nothing_is_left_beside_a_finished_one(make_run) -> None:
    path = make_run("a", [{"loss": 1.0}]) / "metrics.db"
    with MetricsDb(path) as metrics:
        before = signature(path)
        metrics.write(Tick(1.0, 2.0, 3, 4, 5), {"loss": 8.0})
        assert signature(path) != before
        assert read_latest(path).values["loss"] == 8.0
    before_reading = sorted(item.name for item in path.parent.iterdir())
    assert "metrics.db-wal" not in before_reading
    read_latest(path)
    read_series(path, ["loss"])
    assert sorted(item.name for item in path.parent.iterdir()) == before_reading


def test_a_run_without_points_has_nothing(tmp_path) -> None:
    path = tmp_path / "metrics.db"
    MetricsDb(path).close()
    assert read_latest(path).moment is None
    assert read_series(path, ["loss"]) == {}
