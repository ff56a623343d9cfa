"""Run directories of strangers in the dashboard: links that lead out of them, and rows that no run writes."""

import json
import os
import sqlite3
import sys
import threading
from pathlib import Path

import pytest

from launch.dashboard.library import Library
from launch.dashboard.live import LiveView
from launch.dashboard.pages.runs import _rows
from launch.dashboard.server import make_app
from launch.dashboard.sweeps import read_decisions, read_schedule
from launch.records.inside import is_inside, is_own_file
from launch.records.listing import find_entries, find_videos, last_state, log_tail
from launch.records.series import UnreadableError, read_latest, read_rows, read_series

ROWS = [{"charts/mean_return": float(place), "totals/rows": float(place)} for place in range(10)]
SECRET = "2026-01-01 00:00:00 failed: this is a secret\n"


@pytest.fixture
def outside(tmp_path, make_run) -> Path:
    """A directory beside the runs, with files that a link may lead to."""
    folder = make_run("../outside", ROWS, log=SECRET)
    (folder / "videos").mkdir()
    (folder / "videos" / "film.mp4").write_bytes(b"secret")
    (folder / "lineage.jsonl").write_text('{"env_steps": 1, "member": 0}\n')
    (folder / "schedule.json").write_text('[{"env_steps": 1, "settings": {}}]')
    return folder


def entry_at(path: Path):
    return next(entry for entry in find_entries(path.parent).values() if entry.path == path)


@pytest.mark.parametrize("link", ["videos", "videos/film.mp4"])
@pytest.mark.parametrize("is_relative", [True, False])
def test_a_video_elsewhere_is_neither_listed_nor_served(make_run, outside, link, is_relative) -> None:
    run = make_run("theirs", ROWS)
    (run / link).parent.mkdir(exist_ok=True)
    target = outside / link
    (run / link).symlink_to(os.path.relpath(target, (run / link).parent) if is_relative else target)
    assert (run / "videos" / "film.mp4").read_bytes() == b"secret"
    entry = entry_at(run)
    assert find_videos(entry) == []
    app = make_app(Library(run.parent), LiveView(command=(sys.executable, "-c", "pass")))
    asked = app.server.test_client().get(f"/video?run={entry.key}&name=film.mp4", headers={"Host": "localhost"})
    assert asked.status_code == 404


def test_links_inside_a_run_and_to_a_run_are_followed(make_run, tmp_path) -> None:
    run = make_run("mine", ROWS)
    (run / "videos").mkdir()
    (run / "film.mp4").write_bytes(b"mine")
    (run / "videos" / "newest.mp4").symlink_to("../film.mp4")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "linked").symlink_to(run)
    entry = entry_at(tmp_path / "elsewhere" / "linked")
    assert [video.name for video in find_videos(entry)] == ["newest.mp4"]
    assert last_state(entry.path) == "finished: steps"
    assert read_latest(entry.metrics_path).moment is not None


def test_no_file_is_read_through_a_link_that_leads_out(make_run, outside) -> None:
    run = make_run("theirs")
    for name in ("log.txt", "metrics.db", "lineage.jsonl", "schedule.json"):
        (run / name).unlink(missing_ok=True)
        (run / name).symlink_to(outside / name)
        assert (run / name).read_bytes()
    assert log_tail(run) == ""
    assert read_decisions(run / "lineage.jsonl") == []
    assert read_schedule(run / "schedule.json") == []
    for read in (read_latest, lambda path: read_series(path, ["loss"]), lambda path: list(read_rows(path))):
        with pytest.raises(UnreadableError, match="leads out of the run's directory"):
            read(run / "metrics.db")
    (row,) = _rows(Library(run))
    assert row["status"] == "unreadable"
    assert row["problem"] == "metrics.db cannot be read: it leads out of the run's directory"


def test_a_record_or_a_member_elsewhere_is_not_shown(make_run, outside) -> None:
    run = make_run("theirs")
    (run / "config.json").unlink()
    (run / "config.json").symlink_to(outside / "config.json")
    entry = entry_at(run)
    assert (entry.config, entry.problem[:26]) == ({}, "config.json cannot be read")
    sweep = make_run("sweep", facts={"sweep": {}})
    (sweep / "members").mkdir()
    (sweep / "members" / "0").symlink_to(outside)
    assert [entry.name for entry in find_entries(sweep).values()] == ["sweep"]


def test_a_pipe_in_place_of_a_file_is_not_waited_for(make_run) -> None:
    run = make_run("theirs")
    (run / "log.txt").unlink()
    os.mkfifo(run / "log.txt")
    read: list[str] = []
    reader = threading.Thread(target=lambda: read.append(log_tail(run)), daemon=True)
    reader.start()
    reader.join(5.0)
    assert read == [""]


def test_links_in_a_circle_lead_nowhere(tmp_path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    assert not is_own_file(tmp_path / "a", tmp_path)
    assert not is_inside(tmp_path / "a" / "c", tmp_path)


DAMAGED = ["'text'", "x'ff00'", "-1", "9e999", "1e300", "4611686018427387904", "'<img src=x onerror=alert(1)>'"]
PLACES = [
    *(f"UPDATE ticks SET {column} = %s WHERE tick = 9" for column in ("seconds", "wall_time", "env_steps", "frames")),
    "UPDATE ticks SET learner_steps = %s WHERE tick = 3",
    "UPDATE points SET value = %s WHERE tick = 9",
    "UPDATE points SET tick = %s WHERE tick = 9",
    "UPDATE names SET name = %s WHERE id = 0",
    "INSERT INTO notes VALUES (0, 9, %s)",
]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", DAMAGED)
def test_a_damaged_row_of_one_run_leaves_the_others_as_they_are(make_run, place, value) -> None:
    sound, damaged = make_run("sound", ROWS), make_run("damaged", ROWS)
    whole = {row["name"]: row for row in _rows(Library(sound.parent))}
    with sqlite3.connect(damaged / "metrics.db") as connection:
        connection.execute(place % value)
    connection.close()
    library = Library(sound.parent)
    rows = {row["name"]: row for row in _rows(library)}
    assert rows["sound"] == whole["sound"]
    assert set(rows) == {"sound", "damaged"}
    json.dumps(list(rows.values()), allow_nan=False)  # as the browser wants it
    entry = library.find("damaged")
    assert entry is not None
    library.findings(library.summary(entry))
    library.picture_version([entry], 100)
    library.series(entry, list(ROWS[0]), 100)
    if place.startswith(("UPDATE ticks SET seconds", "UPDATE ticks SET wall_time")):
        assert rows["damaged"]["status"] == "unreadable"
        assert rows["damaged"]["problem"].startswith("metrics.db has a damaged row: ")


def test_a_run_that_is_only_busy_or_new_is_not_called_damaged(make_run) -> None:
    assert [row["status"] for row in _rows(Library(make_run("new")))] == ["finished"]
