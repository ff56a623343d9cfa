"""Reading ahead of a page, and the moments at which its curves are drawn anew."""

import time

import pytest

from launch.dashboard.library import Library
from launch.records import listing
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick

RUNNING = "2026-01-01 00:00:00 running: there\n"


def grown(library: Library, path, seconds: float) -> str:
    """Lets a run record a number at a time of its training; returns the version of its picture."""
    with MetricsDb(path / "metrics.db") as metrics:
        metrics.write(Tick(seconds, time.time(), int(seconds), 4, 5), {"loss": seconds})
    return library.picture_version(library.entries().values(), 100)


def test_a_directory_that_takes_long_to_look_through_is_looked_through_rarely(tmp_path, monkeypatch) -> None:
    looked = []

    def slowly(root):
        looked.append(root)
        time.sleep(0.2)
        return {}

    monkeypatch.setattr("launch.dashboard.library.find_entries", slowly)
    library = Library(tmp_path)
    deadline = time.monotonic() + 1.5
    while time.monotonic() < deadline:
        library.entries(age_s=0.0)
        time.sleep(0.01)
    assert len(looked) == 1


def test_a_picture_is_new_when_a_running_run_has_grown_by_a_points_share(tmp_path, make_run) -> None:
    path = make_run("run", log=RUNNING)
    library = Library(tmp_path / "runs")
    first = grown(library, path, 100.0)
    assert grown(library, path, 100.2) == first
    assert grown(library, path, 101.5) != first


def test_a_picture_of_a_long_run_is_new_after_ten_seconds(tmp_path, make_run) -> None:
    path = make_run("run", log=RUNNING)
    library = Library(tmp_path / "runs")
    first = grown(library, path, 100_000.0)
    assert grown(library, path, 100_009.0) == first
    assert grown(library, path, 100_011.0) != first


def test_a_picture_is_new_when_a_run_ends_and_when_it_records_something_else(tmp_path, make_run) -> None:
    path = make_run("run", log=RUNNING)
    library = Library(tmp_path / "runs")
    before = grown(library, path, 1000.0)
    with MetricsDb(path / "metrics.db") as metrics:
        metrics.write(Tick(1000.5, time.time(), 1000, 4, 5), {"evaluation": 1.0})
    more = library.picture_version(library.entries().values(), 100)
    assert more != before
    (path / "log.txt").write_text(RUNNING + "2026-01-01 00:00:01 finished: steps\n")
    assert library.picture_version(library.entries().values(), 100) != more


def test_members_with_the_same_problem_are_named_in_one_sentence(tmp_path, make_run) -> None:
    make_run("sweep", facts={"sweep": {"grid": {}, "options": {}}})
    for number, state in enumerate(["failed: ValueError: bad", "finished: steps", "failed: ValueError: bad"]):
        facts = {"member": {"index": number, "overrides": {}}}
        make_run(f"sweep/members/{number}", [{"loss": 1.0}], facts=facts, log=f"2026-01-01 00:00:00 {state}\n")
    library = Library(tmp_path / "runs")
    sweep = next(entry for entry in library.entries().values() if entry.is_sweep)
    said = library.findings(library.summary(sweep))
    assert said == [
        "members 0, 2: the run failed: ValueError: bad; it had no checkpoint yet, so it can only be begun again"
    ]


def test_a_listing_that_leaves_runs_out_says_so(tmp_path, make_run, monkeypatch) -> None:
    from launch.dashboard.pages import runs

    for number in range(4):
        make_run(f"run{number}")
    row = {"status": "finished"}
    library = Library(tmp_path / "runs")
    assert len(library.entries()) == 4
    assert runs._where(library, [row] * 4) == f"4 in {tmp_path / 'runs'}, 0 running"
    monkeypatch.setattr(listing, "MOST", 3)
    library = Library(tmp_path / "runs")
    assert len(library.entries()) == 3
    assert runs._where(library, [row] * 3).endswith(", 0 running; further ones are left out: open a directory below it")


@pytest.mark.parametrize("name", ["", "sweep"])
def test_what_a_page_will_ask_for_is_read_before_it_asks(tmp_path, make_run, monkeypatch, name) -> None:
    make_run("run", [{"charts/mean_return": 4.0}])
    make_run("sweep", facts={"sweep": {"grid": {}, "options": {}}})
    for number in range(3):
        facts = {"member": {"index": number, "overrides": {}}}
        make_run(f"sweep/members/{number}", [{"charts/mean_return": float(number)}], facts=facts)
    library = Library(tmp_path / "runs")
    library.expect(name)
    library.background.wait(10.0)
    read = []
    monkeypatch.setattr("launch.dashboard.library.read_latest", read.append)
    monkeypatch.setattr("launch.dashboard.library.read_summary", read.append)
    whose = [library.find("run"), library.find("sweep")] if name == "" else [library.find("sweep")]
    for entry in whose:
        assert library.summary(entry).latest.values["charts/mean_return"] == (2.0 if entry.is_sweep else 4.0)
    for member in library.members(library.find("sweep")):
        assert list(library.series(member, ["charts/mean_return"], 100)) == ["charts/mean_return"]
    assert not read


def test_nothing_is_read_for_a_name_that_no_run_has(tmp_path, make_run, monkeypatch) -> None:
    make_run("run", [{"charts/mean_return": 4.0}])
    library = Library(tmp_path / "runs")
    monkeypatch.setattr(library.background, "ask", lambda *asked: pytest.fail(f"{asked} was asked for"))
    library.expect("another")
