"""The token of a Ray of our own, before Ray starts, and starts that fail."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launch.errors import LaunchError, RuntimeFailedError
from launch.planning.needs import Needs


@pytest.fixture
def make_token_private():
    """Import Ray only here: it takes a second, and the other tests do without."""
    from launch.runtimes.ray_loopback import make_token_private

    return make_token_private


@pytest.fixture
def token(make_token_private, monkeypatch, tmp_path):
    """Return where the token of a new user would be."""
    for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".ray" / "auth_token"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def write(token, permissions):
    token.parent.mkdir()
    token.write_text("secret")
    token.chmod(permissions)


@pytest.fixture
def read_only(monkeypatch):
    """Modes cannot be changed, as on a mounted secret."""

    def chmod(path, permissions, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    return lambda: monkeypatch.setattr(Path, "chmod", chmod)


def test_a_new_token_is_its_owners_alone(make_token_private, token):
    make_token_private()
    assert mode(token) == 0o600
    assert len(token.read_text()) == 64


def test_a_token_that_others_can_read_is_kept_from_them(make_token_private, token):
    write(token, 0o644)
    make_token_private()
    assert (mode(token), token.read_text()) == (0o600, "secret")


@pytest.mark.parametrize("permissions", [0o600, 0o400])
def test_a_private_token_is_left_alone(make_token_private, token, read_only, permissions):
    write(token, permissions)
    read_only()
    make_token_private()
    assert (mode(token), token.read_text()) == (permissions, "secret")


@pytest.mark.parametrize("permissions", [0o644, 0o640, 0o604])
def test_a_mode_that_cannot_be_changed_is_one_line(make_token_private, token, read_only, permissions):
    write(token, permissions)
    read_only()
    with pytest.raises(LaunchError) as caught:
        make_token_private()
    assert str(caught.value) == (
        f"runtime: {token} cannot be made private: Read-only file system; give it mode 0600, or set RAY_AUTH_TOKEN_PATH"
    )


def test_a_link_to_nothing_is_one_line(make_token_private, token):
    token.parent.mkdir()
    token.symlink_to("gone")
    with pytest.raises(LaunchError, match="cannot be made private: No such file or directory"):
        make_token_private()


def test_a_start_that_times_out_is_one_line_and_leaves_nothing(monkeypatch, tmp_path):
    from launch.runtimes import ray_loopback

    session = tmp_path / f"session_2026-01-01_00-00-00_000000_{os.getpid()}"
    others = tmp_path / "session_2026-01-01_00-00-00_000000_1"
    orphans = []

    def start():
        others.mkdir()
        session.mkdir()
        command = [sys.executable, "-c", "import time; time.sleep(60)", f"--session-dir={session}"]
        orphans.append(subprocess.Popen(command))
        raise Exception("The current node timed out during startup.\nThis could happen because ...")

    monkeypatch.setattr(ray_loopback, "make_token_private", lambda: None)
    monkeypatch.setattr(ray_loopback, "get_default_ray_temp_dir", lambda: str(tmp_path))
    monkeypatch.setattr(ray_loopback, "_start_ray", start)
    with pytest.raises(RuntimeFailedError) as caught:
        ray_loopback.OwnRay(Needs())
    line = "runtime: Ray did not start: The current node timed out during startup. This could happen because ..."
    assert str(caught.value) == f"{line}; --runtime local needs no Ray"
    assert orphans[0].wait(10.0) == -9
    assert not session.exists()
    assert others.exists()
