import fcntl
import os
import time
from pathlib import Path

import pytest

from launch.records.listing import find_entries, find_videos, members_of, printable, read_status

HOSTILE = "<img src=x onerror=alert(1)>"


def test_runs_sweeps_and_members_are_found(tmp_path, make_run) -> None:
    make_run("b")
    make_run("group/a")
    make_run("sweep", facts={"sweep": {"grid": {}}})
    for number in (10, 2):
        make_run(f"sweep/members/{number}", facts={"member": {"index": number, "overrides": {}}})
    make_run("b/checkpoints/not-a-run")
    entries = find_entries(tmp_path / "runs")
    assert [entry.name for entry in entries.values()] == [
        "b",
        "group/a",
        "sweep",
        "sweep/member 10",
        "sweep/member 2",
    ]
    sweep = next(entry for entry in entries.values() if entry.is_sweep)
    assert [member.name for member in members_of(sweep, entries)] == ["sweep/member 2", "sweep/member 10"]


def test_the_directory_may_itself_be_a_run_or_a_sweep(make_run) -> None:
    run = make_run("alone")
    assert [entry.name for entry in find_entries(run).values()] == ["alone"]
    sweep = make_run("sweep", facts={"sweep": {}})
    make_run("sweep/members/0")
    assert [entry.name for entry in find_entries(sweep).values()] == ["sweep", "member 0"]


def test_no_directory_has_no_runs(tmp_path) -> None:
    assert find_entries(tmp_path / "nothing") == {}


def test_a_directory_that_may_not_be_entered_is_passed_over(tmp_path, make_run, monkeypatch) -> None:
    make_run("mine")
    theirs = make_run("theirs")
    is_file = Path.is_file

    def refuse(path: Path) -> bool:
        if path.parent == theirs:
            raise PermissionError(13, "Permission denied", str(path))
        return is_file(path)

    monkeypatch.setattr(Path, "is_file", refuse)
    assert [entry.name for entry in find_entries(tmp_path / "runs").values()] == ["mine"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"config": 3}', "[" * 100_000])
def test_a_record_that_cannot_be_read_is_listed_with_the_reason(tmp_path, make_run, text) -> None:
    (make_run("a") / "config.json").write_text(text)
    (entry,) = find_entries(tmp_path / "runs").values()
    assert entry.problem.startswith("config.json ")
    assert entry.config == {}


def test_hostile_names_are_kept_as_text_and_keys_are_plain(tmp_path, make_run) -> None:
    make_run(HOSTILE)
    make_run("line\nbreak\x1b[31m")
    entries = find_entries(tmp_path / "runs")
    assert {entry.name for entry in entries.values()} == {HOSTILE, "line�break�[31m"}
    assert all(key.isalnum() and key.isascii() for key in entries)


def test_printable_shortens_and_cleans() -> None:
    assert printable("a" * 300, 10) == "a" * 9 + "…"
    assert printable("\ud800") == "�"


@pytest.mark.parametrize(
    ("log", "status"),
    [
        ("2026-01-01 00:00:00 started\n2026-01-01 00:00:00 finished: solved\n", "finished"),
        ("2026-01-01 00:00:00 finished: stopped\n", "stopped"),
        ("2026-01-01 00:00:00 failed: ValueError: bad\n2026-01-01 00:00:00   second line\n", "failed"),
        ("2026-01-01 00:00:00 finished: steps\n2026-01-01 00:00:00 resumed\n", "interrupted"),
        ("", "interrupted"),
    ],
)
def test_without_a_lock_the_log_tells_how_a_run_ended(tmp_path, make_run, log, status) -> None:
    make_run("a", log=log)
    (entry,) = find_entries(tmp_path / "runs").values()
    assert read_status(entry, newest_wall_time=1.0) == status


def test_a_held_lock_means_running_and_looking_does_not_take_it(tmp_path, make_run) -> None:
    path = make_run("a")
    (entry,) = find_entries(tmp_path / "runs").values()
    with (path / "lock").open("w") as file:
        assert read_status(entry, 1.0) == "finished"
        fcntl.flock(file, fcntl.LOCK_EX)
        assert read_status(entry, 1.0) == "running"
    with (path / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_young_numbers_mean_running_where_no_lock_is_seen(tmp_path, make_run) -> None:
    make_run("a", log="2026-01-01 00:00:00 running: there\n")
    (entry,) = find_entries(tmp_path / "runs").values()
    assert read_status(entry, time.time()) == "running"
    assert read_status(entry, time.time() - 3600) == "interrupted"


def test_videos_are_listed_newest_first(tmp_path, make_run) -> None:
    path = make_run("a")
    (entry,) = find_entries(tmp_path / "runs").values()
    assert find_videos(entry) == []
    (path / "videos").mkdir()
    for age, name in enumerate(["new.mp4", "old.webm", "notes.txt"]):
        (path / "videos" / name).write_bytes(b"x")
        stamp = 1_000_000 - age
        os.utime(path / "videos" / name, (stamp, stamp))
    assert [video.name for video in find_videos(entry)] == ["new.mp4", "old.webm"]
