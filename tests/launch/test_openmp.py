"""Learners that run side by side do not spin each other's cores away: what libgomp itself says it was told."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["launch.train", "launch.command_line.cli", "laser"])
def test_waiting_threads_spin_for_a_short_time(module):
    assert spin_count(module) == "2000"


@pytest.mark.parametrize(
    ("variable", "value", "spin"), [("GOMP_SPINCOUNT", "77", "77"), ("OMP_WAIT_POLICY", "passive", "0")]
)
def test_what_the_user_has_set_stands(variable, value, spin):
    assert spin_count("launch.train", **{variable: value}) == spin


def spin_count(module: str, **variables: str) -> str:
    """Return what libgomp says when a fresh process loads it after this import, and then trains."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
    }
    made = subprocess.run(
        [sys.executable, "-c", f"import {module}; import laser; laser.train"],
        env=environment | variables | {"OMP_DISPLAY_ENV": "verbose"},
        capture_output=True,
        text=True,
        timeout=120.0,
        check=True,
    )
    (found,) = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", made.stderr)
    return found
