"""The table of who learned from whom, against counts that were written down by hand."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import laser
from launch.records.exchange_reader import read_course, read_exchange_sums
from launch.records.metrics_db import MetricsDb
from launch.records.series import UnreadableError
from launch.records.summary_reader import read_summary
from launch.records.tick import Tick


def counts(steps, kl=None):
    return {"steps": float(steps), "accepted": steps / 2, "lag": 3.0 * steps} | ({} if kl is None else {"kl": kl})


def tick(number):
    return Tick(float(number), 1e9 + number, 100 * number, 400 * number, number)


# Over the whole run so far, by moment and then by maker.
DRAWN = [{0: counts(4)}, {0: counts(4), 2: counts(6)}, {0: counts(10), 2: counts(6)}, {0: counts(11), 2: counts(8)}]


@pytest.fixture
def run(tmp_path):
    with MetricsDb(tmp_path / "metrics.db") as metrics:
        for number, drawn in enumerate(DRAWN):
            metrics.write(tick(number), {"charts/mean_return": 1.0}, drawn=drawn)
    return tmp_path


def rows(path):
    with closing(sqlite3.connect(path / "metrics.db")) as connection:
        return connection.execute(
            "SELECT maker, tick, steps, accepted, kl FROM exchange ORDER BY tick, maker"
        ).fetchall()


def test_there_is_one_row_for_each_maker_that_was_drawn_between_two_moments(run):
    expected = [(0, 0, 4, 2, None), (2, 1, 6, 3, None), (0, 2, 6, 3, None), (0, 3, 1, 0.5, None), (2, 3, 2, 1, None)]
    assert rows(run) == expected
    assert read_exchange_sums(run / "metrics.db") == DRAWN[-1]
    assert laser.metric_names(run) == ["charts/mean_return"]


def test_the_course_is_what_was_drawn_in_each_span(run):
    course = read_course(run / "metrics.db", 400)
    assert course.makers == [0, 2]
    np.testing.assert_array_equal(course.axes["env_steps"], [0.0, 100.0, 200.0, 300.0])
    np.testing.assert_array_equal(course.counts["steps"], [[4, 0], [0, 6], [6, 0], [1, 2]])
    assert course.counts.keys() == {"steps", "accepted", "lag"}
    course = read_course(run / "metrics.db", 2)
    np.testing.assert_array_equal(course.counts["steps"], [[4, 6], [7, 2]])
    np.testing.assert_array_equal(course.axes["frames"], [400.0, 1200.0])


def test_users_get_it_as_columns(run):
    found = laser.read_exchange(run, axis="learner_steps")
    assert found.keys() == {"learner_steps", "maker", "steps", "accepted", "lag"}
    assert found["maker"].dtype == np.int64
    np.testing.assert_array_equal(found["maker"], [0, 2, 0, 0, 2])
    np.testing.assert_array_equal(found["learner_steps"], [0, 1, 2, 3, 3])
    np.testing.assert_array_equal(found["lag"], 3.0 * found["steps"])


def test_a_run_that_draws_nobody_elses_has_no_rows(tmp_path):
    with MetricsDb(tmp_path / "metrics.db") as metrics:
        metrics.write(tick(0), {"charts/mean_return": 1.0})
    assert read_exchange_sums(tmp_path / "metrics.db") == {}
    assert read_course(tmp_path / "metrics.db", 400).makers == []
    assert {name: len(values) for name, values in laser.read_exchange(tmp_path).items()} == {
        "env_steps": 0,
        "maker": 0,
        "steps": 0,
    }


@pytest.mark.parametrize("again", [{0: counts(5), 2: counts(9)}, {0: counts(12), 2: counts(9)}])
def test_a_resumed_run_counts_on_from_the_rows_that_it_keeps(run, again):
    """The counts that a checkpoint holds may be a little newer or older than the last row before it."""
    with MetricsDb(run / "metrics.db") as metrics:
        metrics.forget_after(100)
        metrics.write(tick(2), {"charts/mean_return": 1.0}, drawn=again)
    assert rows(run)[:2] == [(0, 0, 4, 2, None), (2, 1, 6, 3, None)]
    assert read_exchange_sums(run / "metrics.db") == again


def test_counts_that_fall_take_back_what_a_dead_learner_had_drawn(run):
    with MetricsDb(run / "metrics.db") as metrics:
        metrics.write(tick(4), {}, drawn={0: counts(7), 2: counts(8)})
    assert read_exchange_sums(run / "metrics.db") == {0: counts(7), 2: counts(8)}
    assert rows(run)[-1] == (0, 4, -4, -2, None)


def test_the_summary_has_the_sums_of_a_run_and_of_a_resumed_one(run):
    path = run / "metrics.db"
    assert read_summary(path).exchange == DRAWN[-1]
    with MetricsDb(path) as metrics:
        metrics.write(tick(4), {})
    assert read_summary(path).exchange == DRAWN[-1]
    with MetricsDb(path) as metrics:
        metrics.write(tick(5), {}, drawn={0: counts(20) | {"kl": float("nan")}})
    assert read_summary(path).exchange == {0: counts(20), 2: counts(8)}


# Before this table there were five points for each maker, of the counts over the whole run.
def old_points(drawn):
    return {f"totals/learned_from/{maker}/{name}": n for maker, by in drawn.items() for name, n in by.items()}


@pytest.fixture
def old_run(tmp_path):
    with MetricsDb(tmp_path / "metrics.db") as metrics:
        for number, drawn in enumerate(DRAWN):
            metrics.write(tick(number), old_points(drawn))
    with closing(sqlite3.connect(tmp_path / "metrics.db")) as connection:
        connection.execute("DROP TABLE exchange")
    return tmp_path


def test_an_old_run_reads_like_a_new_one(run, old_run):
    course, old = read_course(run / "metrics.db", 400), read_course(old_run / "metrics.db", 400)
    assert read_exchange_sums(old_run / "metrics.db") == DRAWN[-1]
    for name, values in course.counts.items():
        np.testing.assert_array_equal(old.counts[name], values)


def test_an_old_run_goes_on_as_a_new_one(old_run):
    with MetricsDb(old_run / "metrics.db") as metrics:
        metrics.forget_after(200)
        metrics.write(tick(3), {}, drawn=DRAWN[3])
    assert rows(old_run) == [(0, 3, 1, 0.5, None), (2, 3, 2, 1, None)]
    assert read_exchange_sums(old_run / "metrics.db") == DRAWN[-1]
    np.testing.assert_array_equal(
        read_course(old_run / "metrics.db", 400).counts["steps"], [[4, 0], [0, 6], [6, 0], [1, 2]]
    )


@pytest.mark.parametrize("wrong", ["'x', 0, 2, 2, 2, 2, 2", "0, 77, 2, 2, 2, 2, 2"])
def test_a_damaged_row_is_said(tmp_path, wrong):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics.write(tick(0), {"charts/mean_return": 1.0})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"INSERT INTO exchange VALUES ({wrong})")
        connection.commit()
    with pytest.raises(UnreadableError, match="damaged row"):
        read_course(path, 400)
