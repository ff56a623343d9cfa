import math
import os
import shutil
import sqlite3
from contextlib import closing

import numpy as np
import pytest

from launch.errors import OutputError
from launch.records import run_summary
from launch.records.exchange import COUNTS
from launch.records.metrics_db import MetricsDb, open_to_read, read_names, read_series
from launch.records.run_summary import read_content
from launch.records.series import read_latest
from launch.records.tick import Tick


def tick(step):
    return Tick(
        seconds=step / 10, wall_time=1.7e9 + step / 10, env_steps=step, frames=4 * step, learner_steps=step // 5
    )


def test_points_come_back_on_every_axis(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics.write(tick(10), {"a": 1.0, "b": 5.0}, {"bottleneck": "x"})
        metrics.write(tick(20), {"a": 2.0, "b": 5.0, "nan": math.nan}, {"bottleneck": "x"})
        metrics.write(tick(30), {"a": 2.5}, {"bottleneck": "y"})
        assert read_series(path, "a") == [(10, 1.0), (20, 2.0), (30, 2.5)]  # while it is open for writing
    assert read_series(path, "a", "frames") == [(40, 1.0), (80, 2.0), (120, 2.5)]
    assert read_series(path, "a", "learner_steps") == [(2, 1.0), (4, 2.0), (6, 2.5)]
    assert read_series(path, "a", "seconds")[0] == (1.0, 1.0)
    assert read_series(path, "b") == [(10, 5.0)], "values that did not change are not repeated"
    assert read_names(path) == ["a", "b", "bottleneck"]


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        ("UPDATE points SET value = 'much'", "points.value must be a number, got 'much'"),
        ("UPDATE points SET value = x'00ff'", "points.value must be a number, got b'"),
        ("UPDATE names SET name = x'00ff' WHERE id = 0", "names.name must be a text, got b'"),
        ("UPDATE notes SET value = x'00ff'", "notes.value must be a text, got b'"),
        ("UPDATE ticks SET env_steps = 'ten'", "ticks.env_steps must be a number, got 'ten'"),
        ("UPDATE exchange SET maker = 'me'", "exchange.maker must be a number, got 'me'"),
        ("DELETE FROM meta", "its schema_version must be a whole number, got None"),
        ("UPDATE meta SET value = '1'", "its schema_version must be a whole number, got '1'"),
        ("UPDATE meta SET value = 2", "has schema 2, this LASER writes 1"),
    ],
)
def test_a_value_of_another_kind_is_named_when_the_run_goes_on(tmp_path, damage, says):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics.write(tick(10), {"charts/mean_return": 1.0}, {"bottleneck": "x"}, {0: dict.fromkeys(COUNTS, 1.0)})
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute(damage).rowcount > 0
    with pytest.raises(OutputError) as error:
        MetricsDb(path)
    assert str(path) in str(error.value)
    assert says in str(error.value)


def test_a_number_that_is_missing_ends_no_run(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics.write(tick(10), {"buckets/mean_return": 1.0, "charts/mean_return": 1.0})
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE points SET value = NULL")
    with MetricsDb(path) as metrics:
        metrics.write(tick(20), {"charts/mean_return": 2.0})


def test_evaluations_that_found_the_same_are_all_there(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        for steps in (10, 20, 30):
            metrics.write(tick(steps), {"evaluation/mean_return": 500.0})
    assert read_series(path, "evaluation/mean_return") == [(10, 500.0), (20, 500.0), (30, 500.0)]


def test_ten_thousand_rows_take_less_than_a_megabyte(tmp_path):
    path = tmp_path / "metrics.db"
    random = np.random.default_rng(0)
    names = [f"losses/some_longer_name_{index}" for index in range(40)]
    with MetricsDb(path) as metrics:
        for step in range(250):
            metrics.write(tick(1000 * step), dict(zip(names, random.normal(size=40).tolist(), strict=True)))
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM points").fetchone() == (10_000,)
    connection.close()
    assert path.stat().st_size < 0.5e6


def test_a_resumed_run_forgets_what_lies_beyond_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        for step in (10, 20, 30):
            metrics.write(tick(step), {"a": float(step), "constant": 1.0}, {"note": str(step)})
    with MetricsDb(path) as metrics:
        metrics.forget_after(20)
        metrics.write(tick(25), {"a": 25.0, "new": 1.0})
    assert read_series(path, "a") == [(10, 10.0), (20, 20.0), (25, 25.0)]
    assert read_series(path, "new") == [(25, 1.0)]


def test_what_was_forgotten_is_written_again(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics.write(tick(10), {"constant": 1.0})
        metrics.forget_after(5)
        metrics.write(tick(8), {"constant": 1.0})
    assert read_series(path, "constant") == [(8, 1.0)]


@pytest.mark.parametrize("content", [b"this is not a database" * 100, b"\0" * 5000])
def test_a_damaged_file_is_an_error(tmp_path, content):
    path = tmp_path / "metrics.db"
    path.write_bytes(content)
    with pytest.raises(OutputError, match=r"metrics\.db: file is not a database; move the file away, and the history"):
        MetricsDb(path)
    with pytest.raises(OutputError):
        read_names(path)


def test_reading_writes_nothing_beside_the_file(tmp_path):
    with MetricsDb(tmp_path / "metrics.db") as db:
        db.write(Tick(1.0, 2.0, 3, 4, 5), {"a": 6.0})
    with open_to_read(tmp_path / "metrics.db") as connection:
        assert connection.execute("SELECT value FROM points").fetchall() == [(6.0,)]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["metrics.db", "metrics.summary.json"]


def test_a_missing_file_is_not_made_by_reading(tmp_path):
    with pytest.raises(OutputError, match="unable to open"):
        read_series(tmp_path / "metrics.db", "a")
    assert not (tmp_path / "metrics.db").exists()


def test_a_directory_that_is_gone_and_a_newer_schema(tmp_path):
    with pytest.raises(OutputError, match="unable to open"):
        MetricsDb(tmp_path / "gone" / "metrics.db")
    path = tmp_path / "metrics.db"
    MetricsDb(path).close()
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = 2")
    connection.close()
    with pytest.raises(OutputError, match="has schema 2"):
        MetricsDb(path)


def test_a_full_disk_is_an_error_and_a_failed_write_leaves_nothing(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics.write(tick(1), {"a": 1.0})
        (pages,) = metrics._connection.execute("PRAGMA page_count").fetchone()
        metrics._connection.execute(f"PRAGMA max_page_count = {pages}")  # sqlite's own way to be out of space
        with pytest.raises(
            OutputError, match="database or disk is full; free space or repair the disk, then"
        ) as caught:
            metrics.write(tick(2), {f"name{index}" * 20: 1.0 for index in range(500)})
    assert caught.value.exit_code == 74
    assert read_series(path, "a") == [(1, 1.0)]


def test_a_file_that_another_program_holds_is_no_full_disk(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        metrics._connection.execute("PRAGMA busy_timeout = 10")
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(OutputError, match="database is locked; end the program that holds it, then continue"):
                metrics.write(tick(1), {"a": 1.0})
            other.execute("ROLLBACK")
        metrics.write(tick(2), {"a": 2.0})
    assert read_series(path, "a") == [(2, 2.0)]


def copy_again(source, target):
    """Copy a run's files as rsync does: with their times, and without removing what the source no longer has."""
    target.mkdir(exist_ok=True)
    for path in source.iterdir():
        if not path.name.endswith("-shm"):
            shutil.copy2(path, target / path.name)


def write_and_copy(tmp_path, closes):
    """Write a run that is copied while it is written, and again later; return the copy."""
    run, copy = tmp_path / "run", tmp_path / "copy"
    run.mkdir()
    with MetricsDb(run / "metrics.db") as metrics:
        metrics.write_all((tick(step), {"a": float(step)}, {}) for step in range(10))
        copy_again(run, copy)
        metrics.write_all((tick(step), {"a": float(step), "b": 1.0}, {}) for step in range(10, 1000))
        if not closes:
            copy_again(run, copy)
    if closes:
        copy_again(run, copy)
    return copy / "metrics.db"


@pytest.mark.parametrize("closes", [False, True])
def test_a_directory_that_is_copied_again_and_again_has_the_newest_numbers(tmp_path, closes):
    path = write_and_copy(tmp_path, closes)
    assert path.with_name("metrics.db-wal").exists()  # of the first copy, if the run has ended
    assert read_series(path, "a")[-1] == (999.0, 999.0)
    assert read_latest(path).values == {"a": 999.0, "b": 1.0}
    assert read_content(path)[2] == closes  # the summary of a run that has ended is as new as its numbers


def test_a_run_resumes_from_a_copy_beside_the_log_of_an_earlier_one(tmp_path):
    path = write_and_copy(tmp_path, closes=True)
    with MetricsDb(path) as metrics:
        metrics.write(tick(1000), {"a": -1.0})
        assert path.with_name("metrics.db-wal").exists()
        assert read_series(path, "a")[-2:] == [(999.0, 999.0), (1000.0, -1.0)]  # the log of this writer is read
    assert read_series(path, "a")[-2:] == [(999.0, 999.0), (1000.0, -1.0)]


@pytest.mark.parametrize("copied", ["with its times", "the log first, with the times of copying"])
def test_the_log_of_a_run_that_was_killed_is_kept(tmp_path, monkeypatch, copied):
    monkeypatch.setattr(run_summary, "INTERVAL_S", 0.0)  # there is a summary, of a run that is open
    path = write_and_copy(tmp_path, closes=False)
    if copied != "with its times":
        os.utime(path)
    MetricsDb(path).close()
    assert read_series(path, "a")[-1] == (999.0, 999.0)


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_the_database_is_one_line(tmp_path):
    path = tmp_path / "pipe.db"  # what has the usual name is read after every test
    os.mkfifo(path)
    for use in (MetricsDb, lambda path: read_series(path, "a")):
        with pytest.raises(OutputError, match=r"pipe\.db: Not a regular file"):
            use(path)


@pytest.mark.timeout(60)
def test_a_pipe_in_the_place_of_the_summary_holds_up_no_reader(tmp_path):
    path = write_and_copy(tmp_path, closes=True)
    summary = run_summary.summary_path(path)
    summary.unlink()
    os.mkfifo(summary)
    assert len(read_series(path, "a")) == 10  # nothing says that the log is left over
