"""Notes about runs: where they are kept, and what is never written."""

import pytest

from launch.dashboard.notes import FILE_NAME, Note, Notes


def files(root):
    return sorted((path.as_posix(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.name != FILE_NAME)


def test_notes_are_kept_beside_the_runs_and_nothing_in_them(make_run):
    run = make_run("one", [{"loss": 1.0}])
    before = files(run.parent)
    notes = Notes(run.parent)
    assert notes.read() == {}
    assert notes.of(run) == Note()
    assert not notes.path.exists()
    assert notes.write(run, Note("good <b>", "paper, best", True)) == ""
    assert Notes(run.parent).of(run) == Note("good <b>", "paper, best", True)
    assert notes.write(run, Note("worse")) == ""
    assert notes.read() == {"one": Note("worse")}
    assert files(run.parent) == before


def test_a_run_shown_by_itself_has_its_notes_beside_it(make_run):
    run = make_run("one")
    assert Notes(run).write(run, Note("here")) == ""
    assert Notes(run.parent).of(run) == Note("here")
    assert not (run / FILE_NAME).exists()


def test_a_read_only_dashboard_writes_nothing_at_all(make_run):
    run = make_run("one")
    notes = Notes(run.parent, read_only=True)
    assert notes.write(run, Note("good")) == "this dashboard is read-only"
    assert not notes.path.exists()


@pytest.mark.parametrize("content", [b"no database", b""])
def test_a_damaged_file_is_no_notes_and_the_page_says_that_it_cannot_save(make_run, content):
    run = make_run("one")
    notes = Notes(run.parent)
    notes.path.write_bytes(content)
    assert notes.read() == {}
    assert ("not saved" in notes.write(run, Note("good"))) == bool(content)


def test_a_link_is_not_followed(make_run, tmp_path):
    run = make_run("one")
    notes = Notes(run.parent)
    notes.path.symlink_to(tmp_path / "elsewhere")
    assert "is a link" in notes.write(run, Note("good"))
    assert not (tmp_path / "elsewhere").exists()
