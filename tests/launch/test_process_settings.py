"""What is said to libgomp, torch and malloc before they load, and heard: spinning threads, large pages, arenas."""

from __future__ import annotations

import functools
import mmap
import os
import platform
import re
import subprocess
import sys
from unittest import mock

import pytest

from launch.process_settings import spin_count

COMMAND = "from launch.__main__ import main; main(['train', 'cartpole', '--env', 'NotThere-v0'])"
WAYS_IN = [COMMAND, "import laser; laser.train", "from laser import load_preset", "import launch.runtimes.ray_settings"]
NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE", "MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
COUNTS_ARENAS = """
import ctypes, os, tempfile, threading
libc = ctypes.CDLL(None)
libc.fopen.restype = ctypes.c_void_p
libc.malloc_info.argtypes, libc.fclose.argtypes = [ctypes.c_int, ctypes.c_void_p], [ctypes.c_void_p]
end = threading.Event()
threads = [threading.Thread(target=lambda: (bytearray(10_000), end.wait(60))) for _ in range(12)]
for thread in threads:
    thread.start()
with tempfile.NamedTemporaryFile() as place:
    file = libc.fopen(place.name.encode(), b"w")
    libc.malloc_info(0, file)
    libc.fclose(file)
    print(place.read().count(b"<heap nr"), os.environ.get("MALLOC_ARENA_MAX"))
end.set()
"""


@pytest.mark.parametrize("way_in", WAYS_IN)
def test_waiting_threads_spin_for_a_short_time_and_large_tensors_begin_with_a_page(way_in):
    spins, start, _ = look_at(way_in)
    assert spins in ("2000", "5000")
    # The kernel can be asked for large pages from there on; elsewhere malloc begins 64 bytes into a page.
    assert start % mmap.PAGESIZE == 0


@pytest.mark.parametrize("way_in", WAYS_IN[:2])
def test_these_ways_in_import_torch(way_in):
    # Else the test above would not notice an import of torch that comes too early.
    assert look_at(way_in)[2]


@pytest.mark.parametrize(
    ("loadavg", "num_cores", "spin"),
    [
        ("0.00 0.01 0.05 1/110 4242", 2, "5000"),
        ("0.00 0.01 0.05 2/110 4242", 2, "2000"),
        ("9.00 0.01 0.05 3/110 4242", 4, "5000"),
        ("0.00 0.01 0.05 4/110 4242", 4, "2000"),
        ("0.00 0.01 0.05 1/110 4242", 1, "2000"),
        ("", 2, "5000"),
    ],
)
def test_they_spin_for_longer_where_two_cores_are_free(loadavg, num_cores, spin):
    with (
        mock.patch("builtins.open", mock.mock_open(read_data=loadavg)),
        mock.patch("os.cpu_count", return_value=num_cores),
    ):
        assert spin_count() == spin


@pytest.mark.parametrize(
    ("variable", "value", "spins", "start"),
    [
        ("GOMP_SPINCOUNT", "77", "77", 0),
        ("OMP_WAIT_POLICY", "passive", "0", 0),
        ("THP_MEM_ALLOC_ENABLE", "0", None, 64),
    ],
)
def test_what_the_user_has_set_stands(variable, value, spins, start):
    found = look_at(WAYS_IN[1], **{variable: value})
    assert spins in (found[0], None)
    assert found[1] % mmap.PAGESIZE == start


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has arenas")
@pytest.mark.parametrize(
    ("variables", "arenas"),
    [
        ({}, "2 2"),
        ({"MALLOC_ARENA_MAX": "3"}, "3 3"),
        ({"GLIBC_TUNABLES": "glibc.malloc.arena_max=4"}, "4 None"),
    ],
)
def test_threads_share_two_arenas_or_as_many_as_the_user_says(variables, arenas):
    assert in_a_fresh_process("import laser; laser.train", COUNTS_ARENAS, **variables).stdout.strip() == arenas


def test_an_import_alone_sets_nothing():
    looks = f"import os; print([name for name in {NAMES} if name in os.environ])"
    assert in_a_fresh_process("import laser, launch.shadowing, launch.process_settings", looks).stdout.strip() == "[]"


@pytest.mark.parametrize("way_in", WAYS_IN[1:3])
def test_where_torch_came_first_one_line_says_what_it_costs(way_in):
    err = in_a_fresh_process("import torch", f"{way_in}; {way_in}; import laser; laser.evaluate").stderr
    (line,) = [line for line in err.splitlines() if "Warning" in line]
    assert line.startswith("<string>:1: RuntimeWarning: torch was imported before LASER could set GOMP_SPINCOUNT")
    assert "write `from laser import load_preset` above `import torch`, or set GOMP_SPINCOUNT=5000" in line


@pytest.mark.parametrize(("variable", "value"), [("GOMP_SPINCOUNT", "77"), ("OMP_WAIT_POLICY", "passive")])
def test_nothing_is_said_where_the_user_has_chosen(variable, value):
    assert in_a_fresh_process("import torch, laser", "laser.train", **{variable: value}).stderr == ""


def test_nothing_is_said_where_the_remedy_was_followed():
    assert in_a_fresh_process("from laser import load_preset", "import torch, laser; laser.train").stderr == ""


@functools.cache
def look_at(way_in: str, **variables: str) -> tuple[str, int, bool]:
    """Enter LASER in a fresh process, and let torch allocate 32 MiB.

    Returns:
        The spin count that libgomp says when it is loaded, the tensor's address, and whether LASER imported torch.
    """
    looks = "import sys; print('torch' in sys.modules); import torch; print(torch.empty(2**23).data_ptr())"
    done = in_a_fresh_process(way_in, looks, **variables, OMP_DISPLAY_ENV="verbose")
    (spins,) = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stderr)
    imported, start = done.stdout.splitlines()[-2:]
    return spins, int(start), imported == "True"


def in_a_fresh_process(first: str, then: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run two statements where nothing of this was said."""
    environment = {name: value for name, value in os.environ.items() if name not in NAMES}
    return subprocess.run(
        [sys.executable, "-c", f"{first}; {then}"],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=120.0,
        check=True,
    )
