"""The wheel in a fresh environment, outside the checkout: every command does its work."""

import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def laser(tmp_path_factory):
    """Run a command of `laser` from the wheel, in an empty directory, and return its standard output."""
    place = tmp_path_factory.mktemp("wheel")
    isolation = ["--no-build-isolation"] if importlib.util.find_spec("hatchling") else []
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", *isolation, "--wheel-dir", place, ROOT], check=True, timeout=300)
    environment = place / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True, timeout=120)
    python = environment / "bin" / "python"
    (packages,) = (environment / "lib").glob("python*/site-packages")
    # The needs of the wheel, but not this checkout: files *.pth in that folder are not read.
    (packages / "needs.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    (wheel,) = place.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", packages, wheel], check=True, timeout=120)
    (place / "work").mkdir()

    def start(*arguments, stderr=subprocess.PIPE):
        command = [python, "-c", "from launch.__main__ import main; raise SystemExit(main())", *map(str, arguments)]
        variables = {**os.environ, "PYTHONPATH": "", "HOME": str(place)}
        return subprocess.Popen(
            command, cwd=place / "work", env=variables, stdout=subprocess.PIPE, stderr=stderr, text=True
        )

    def run(*arguments):
        process = start(*arguments)
        output, errors = process.communicate(timeout=240)
        assert process.returncode == 0, f"{arguments}: {errors}"
        assert "Traceback" not in errors
        return output

    run.start, run.work, run.packages = start, place / "work", packages
    return run


def test_it_is_the_wheel_that_runs(laser):
    assert (laser.packages / "launch" / "__main__.py").is_file()
    done = subprocess.run(
        [laser.packages.parents[2] / "bin" / "python", "-c", "import laser; print(laser.__file__)"],
        cwd=laser.work,
        env={**os.environ, "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert Path(done.stdout.strip()).is_relative_to(laser.packages)


def test_commands_that_only_print(laser):
    assert re.match(r"laser \d+\.\d+", laser("--version"))
    assert "laser train" in laser("--help")
    assert "cartpole" in laser("presets")
    assert "LASER can run here." in laser("doctor")
    assert "laser/figure-4" in laser("reproduce", "list")
    assert "complete -o default -F _laser laser" in laser("completion", "bash")
    assert "--algorithm.policy-clip" in laser("train", "minatar", "--help")


@pytest.mark.timeout(300)
def test_a_run_from_its_training_to_its_report(laser):
    for name in ("run", "shared", "pulled"):  # of a first try
        shutil.rmtree(laser.work / name, ignore_errors=True)
    laser("train", "cartpole", "--steps", 600, "--run-dir", "run", "--quiet")
    laser("train", "cartpole", "--steps", 900, "--run-dir", "run", "--resume", "--quiet")
    assert "mean return" in laser("eval", "run", "--episodes", 2)
    assert laser("report", "run").strip().endswith("index.html")
    assert "agrees with the policy" in laser("export", "run", "--format", "torch")
    assert laser("push", "run", "./shared", "--episodes", 1, "--no-video").strip() == "shared"
    assert laser("pull", "./shared", "--run-dir", "pulled").strip() == "pulled"
    assert " return " in laser("eval", "pulled", "--episodes", 1)
    assert (laser.work / "run" / "report" / "index.html").is_file()


def test_a_sweep_and_a_figure(laser):
    shutil.rmtree(laser.work / "sweep", ignore_errors=True)  # of a first try
    laser("sweep", "cartpole", "--seeds", 2, "--steps", 400, "--run-dir", "sweep", "--quiet")
    assert (laser.work / "sweep" / "members" / "1" / "metrics.db").is_file()
    assert "laser train" in laser("reproduce", "refer/figure-3", "--small", "--dry-run")


def test_the_dashboard_answers(laser):
    process = laser.start("dashboard", ".", "--port", 0, stderr=subprocess.STDOUT)
    try:
        found = next(filter(None, (re.search(r"http://\S+", line) for line in process.stdout)))
        assert "LASER" in urllib.request.urlopen(found.group(), timeout=30).read().decode()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
