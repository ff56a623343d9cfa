"""What is said to libgomp and torch before they load, and heard: spinning threads, large pages."""

from __future__ import annotations

import mmap
import os
import re
import subprocess
import sys
from unittest import mock

import pytest

import launch


@pytest.mark.parametrize("module", ["launch.train", "launch.command_line.cli", "laser"])
def test_waiting_threads_spin_for_a_short_time(module):
    assert spin_count(module) in ("2000", "5000")


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
        assert launch._spin_count() == spin


@pytest.mark.parametrize(
    ("variable", "value", "spin"), [("GOMP_SPINCOUNT", "77", "77"), ("OMP_WAIT_POLICY", "passive", "0")]
)
def test_what_the_user_has_set_stands(variable, value, spin):
    assert spin_count("launch.train", **{variable: value}) == spin


@pytest.mark.parametrize("module", ["launch.train", "launch.command_line.cli", "laser"])
def test_large_tensors_begin_with_a_page(module):
    # The kernel can be asked for large pages from there on; elsewhere malloc begins 64 bytes into a page.
    assert start_of_a_large_tensor(module) % mmap.PAGESIZE == 0


def test_large_pages_can_be_switched_off():
    assert start_of_a_large_tensor("launch.train", THP_MEM_ALLOC_ENABLE="0") % mmap.PAGESIZE == 64


def start_of_a_large_tensor(module: str, **variables: str) -> int:
    """Return the address of 32 MiB that torch allocates after this import."""
    looks = "import torch; print(torch.empty(2**23).data_ptr())"
    return int(in_a_fresh_process(module, looks, **variables).stdout)


def spin_count(module: str, **variables: str) -> str:
    """Return what libgomp says when a fresh process loads it after this import, and then trains."""
    made = in_a_fresh_process(module, "", **variables, OMP_DISPLAY_ENV="verbose")
    (found,) = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", made.stderr)
    return found


def in_a_fresh_process(module: str, then: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Import a module where nothing of this was said, and what trains, and run one more statement."""
    said = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE")
    environment = {name: value for name, value in os.environ.items() if name not in said}
    return subprocess.run(
        [sys.executable, "-c", f"import {module}; import laser; laser.train; {then}"],
        env=environment | variables,
        capture_output=True,
        text=True,
        timeout=120.0,
        check=True,
    )
