"""The table of runs: the numbers that it has at once, and those that it reads in the background."""

import threading

from launch.dashboard.background import Background
from launch.dashboard.library import Library
from launch.dashboard.pages import runs
from launch.recording.metric_table import RETURN
from launch.records.run_summary import summary_path


def rows_of(library, patience_s, monkeypatch):
    monkeypatch.setattr(runs, "_PATIENCE_S", patience_s)
    return {row["name"]: row for row in runs._rows(library)}


def test_runs_with_a_summary_need_no_look_into_their_numbers(tmp_path, make_run, monkeypatch) -> None:
    for name in ("a", "b"):
        make_run(name, [{RETURN: 7.0}])
    monkeypatch.setattr("launch.dashboard.library.read_latest", lambda path: 1 / 0)
    rows = rows_of(Library(tmp_path / "runs"), 0.0, monkeypatch)
    assert {name: (row["return"], row["status"]) for name, row in rows.items()} == {
        "a": (7.0, "finished"),
        "b": (7.0, "finished"),
    }


def test_an_older_run_is_read_in_the_background_and_says_so(tmp_path, make_run, monkeypatch) -> None:
    summary_path(make_run("old", [{RETURN: 7.0}]) / "metrics.db").unlink()
    make_run("new", [{RETURN: 8.0}])
    library = Library(tmp_path / "runs")
    may_read = threading.Event()
    read = library._read_latest
    monkeypatch.setattr(library.background, "_work", lambda entry: may_read.wait(30.0) and read(entry))
    rows = rows_of(library, 0.0, monkeypatch)
    assert (rows["old"]["status"], rows["old"]["return"], rows["new"]["return"]) == ("reading", None, 8.0)
    assert "being read" in rows["old"]["problem"]
    assert "the numbers of 1 older ones are still being read" in runs._where(library, list(rows.values()))
    may_read.set()
    library.background.wait(30.0)
    rows = rows_of(library, 0.0, monkeypatch)
    assert (rows["old"]["status"], rows["old"]["return"], rows["old"]["problem"]) == ("finished", 7.0, "")


def test_a_few_older_runs_are_read_at_once(tmp_path, make_run, monkeypatch) -> None:
    summary_path(make_run("old", [{RETURN: 7.0}]) / "metrics.db").unlink()
    assert rows_of(Library(tmp_path / "runs"), 30.0, monkeypatch)["old"]["return"] == 7.0


def test_a_damaged_older_run_becomes_unreadable(tmp_path, make_run, monkeypatch) -> None:
    path = make_run("old", [{RETURN: 7.0}]) / "metrics.db"
    summary_path(path).unlink()
    path.write_bytes(b"no database" * 1000)
    library = Library(tmp_path / "runs")
    assert rows_of(library, 0.0, monkeypatch)["old"]["status"] == "reading"
    library.background.wait(30.0)
    assert rows_of(library, 0.0, monkeypatch)["old"]["status"] == "unreadable"


def test_a_curve_of_few_points_comes_from_the_summary(tmp_path, make_run, monkeypatch) -> None:
    make_run("a", [{RETURN: float(n)} for n in range(30)])
    library = Library(tmp_path / "runs")
    (entry,) = library.entries().values()
    exact = library.series(entry, [RETURN], 400)[RETURN]
    monkeypatch.setattr("launch.dashboard.library.read_series", lambda *_: 1 / 0)
    assert library.series(entry, [RETURN], 100)[RETURN].values.tolist() == exact.values.tolist()
    assert library.series(entry, ["buckets/mean_return"], 400) == {}, "no bucket has been recorded"


def test_each_item_is_done_once_and_the_thread_ends() -> None:
    begins, done = threading.Event(), []
    background = Background(lambda item: begins.wait(30.0) and done.append(item))
    for item in ("a", "b", "a", "b"):
        background.ask(item, item)
    begins.set()
    background.wait(30.0)
    assert done == ["a", "b"]
    background.ask("a", "a")
    background.wait(30.0)
    assert done == ["a", "b", "a"]
