"""Directories are flushed after their entries have changed."""

import os

from laser import directories
from laser.directories import make_directory, sync_directory


def synced(monkeypatch):
    """Return the list of the directories that are flushed from now on."""
    flushed = []
    monkeypatch.setattr(directories.os, "fsync", lambda number: flushed.append(os.readlink(f"/proc/self/fd/{number}")))
    return flushed


def test_each_directory_that_gets_an_entry_is_flushed(tmp_path, monkeypatch):
    flushed = synced(monkeypatch)
    make_directory(tmp_path / "a" / "b")
    make_directory(tmp_path / "a" / "b")  # it is there already
    assert flushed == [str(tmp_path), str(tmp_path / "a")]
    sync_directory(tmp_path / "a" / "b")
    assert flushed[2:] == [str(tmp_path / "a" / "b")]
