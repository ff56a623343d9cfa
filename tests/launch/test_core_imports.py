"""The packages that training needs: those of LASER's requirements that are not optional, and no others."""

import json
import os
import subprocess
import sys
from importlib.metadata import packages_distributions, requires
from pathlib import Path

import pytest

from laser.packages import OPTIONAL, required_lines, split_requirement

CORE = {split_requirement(line)[0] for line in required_lines(requires("laser-rl"))}
ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("run_without.py")
TINY = ["--quiet", "--learner.compile", "off", "--actor.compile", "off", "--num-actors", "1", "--num-envs", "2"]


def test_training_imports_the_core_packages_and_no_others(tmp_path):
    cartpole = ["train", "cartpole", "--steps", "700", *TINY]
    found = run_without(
        OPTIONAL,
        [
            ["doctor"],
            [*cartpole, "--runtime", "local", "--run-dir", str(tmp_path / "local")],
            [*cartpole, "--runtime", "lockstep", "--run-dir", str(tmp_path / "lockstep")],
            ["eval", str(tmp_path / "local"), "--episodes", "1"],
        ],
    )
    assert found == CORE
    assert not list(tmp_path.rglob("events.out.tfevents*"))
    assert (tmp_path / "local" / "metrics.db").is_file()


def test_atari_needs_ale_py_besides(tmp_path):
    values = {
        "--steps": "200",
        "--unroll-length": "5",
        "--algorithm.batch-size": "4",
        "--replay.capacity-steps": "1000",
        "--replay.min-steps": "50",
        "--environment.emulation-threads": "1",
        "--run-dir": str(tmp_path / "pong"),
    }
    pong = ["train", "pong", "--runtime", "local", *TINY, *(word for pair in values.items() for word in pair)]
    assert run_without(OPTIONAL.keys() - {"ale-py"}, [pong]) == CORE - {"packaging"} | {"ale-py"}


def test_another_import_is_noticed():
    assert "pytest" in run_without(OPTIONAL, [], "import pytest")


def test_an_optional_import_fails():
    with pytest.raises(AssertionError, match="ModuleNotFoundError: No module named 'ray'"):
        run_without(OPTIONAL, [], "import ray")


def run_without(names, commands, statement=""):
    """Run commands that must succeed where optional packages are missing; return the distributions LASER imported."""
    modules = [OPTIONAL[name].module for name in names]
    run = subprocess.run(
        [sys.executable, SCRIPT, json.dumps(modules), statement, json.dumps(commands)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=100.0,
    )
    assert run.returncode == 0, run.stderr
    report = json.loads(run.stdout.splitlines()[-1])
    assert report["exit_codes"] == [0] * len(commands), run.stdout + run.stderr
    distributions = packages_distributions()
    return {name for module in report["imported"] for name in distributions[module]}
