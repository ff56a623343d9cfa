"""Namespaces and small disks of a `laser bench chaos` that was killed: the next one deletes them."""

import subprocess
import sys

import psutil
import pytest

from laser.config import ConfigError
from launch.bench.chaos_run.faults import small_disk
from launch.bench.chaos_run.two_nodes import joined_namespaces

MAKES_THEM = """
import subprocess, sys, time
from pathlib import Path
from launch.bench.chaos_run.faults import small_disk
from launch.bench.chaos_run.two_nodes import joined_namespaces
with joined_namespaces() as (first, _), small_disk(Path(sys.argv[1])) as why:
    sleeper = subprocess.Popen([*first.prefix, "sleep", "100"], stdout=subprocess.DEVNULL)
    print(sleeper.pid, why, flush=True)
    time.sleep(100)
"""


@pytest.fixture
def ours(tmp_path):
    """Names of the namespaces of a process that was killed, the process inside them, and the folder of its disk."""
    folder = tmp_path / "left"
    folder.mkdir()
    maker = subprocess.Popen([sys.executable, "-c", MAKES_THEM, str(folder)], stdout=subprocess.PIPE, text=True)
    assert maker.stdout is not None
    said = maker.stdout.readline().split(maxsplit=1)
    maker.kill()
    maker.communicate()
    return [f"laser-{maker.pid}-{num}" for num in (1, 2)], psutil.Process(int(said[0])), folder, said[1:]


@pytest.fixture
def _permitted():
    try:
        with joined_namespaces():
            pass
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.usefixtures("_permitted")
def test_what_a_killed_one_left_is_deleted_by_the_next(ours, tmp_path):
    names, sleeper, folder, no_disk = ours
    assert set(names) <= set(namespaces())
    assert sleeper.is_running()
    assert no_disk or str(folder) in mounts()
    empty = tmp_path / "next"
    empty.mkdir()
    with joined_namespaces(), small_disk(empty):
        assert not set(names) & set(namespaces())
        assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE
        assert str(folder) not in mounts()
        assert no_disk or str(empty) in mounts()
        # A disk of a process that lives stays.
        another = tmp_path / "another"
        another.mkdir()
        with small_disk(another):
            assert no_disk or str(empty) in mounts()
    assert not {str(empty), str(another)} & set(mounts())


def namespaces() -> list[str]:
    return subprocess.check_output(["ip", "netns", "list"], text=True).split()


def mounts() -> list[str]:
    return [disk.mountpoint for disk in psutil.disk_partitions(all=True)]
