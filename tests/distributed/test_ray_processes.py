"""How a process that Ray starts is set up, where it inherits nothing: on a cluster its parent is not LASER."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ray]

SCRIPT = Path(__file__).with_name("set_up_late.py")


def test_a_worker_sets_the_spin_count_before_it_imports_torch():
    command = [sys.executable, "-W", "ignore", SCRIPT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100.0, check=False)
    assert done.returncode == 0, done.stderr
    (spins,) = re.findall(r"GOMP_SPINCOUNT = '(\d+)'", done.stdout)
    assert spins in ("2000", "5000")
