"""An environment that holds what training needs and nothing else: it trains, and says in one line what is missing."""

import re
import subprocess
import sys
from importlib.metadata import Distribution, distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from laser.packages import OPTIONAL, required_lines

pytestmark = [pytest.mark.slow]

ROOT = Path(__file__).parents[2]
TINY = ["--learner.compile", "off", "--actor.compile", "off", "--num-actors", "1", "--num-envs", "2", "--quiet"]


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory):
    """Return the Python of an environment with links to the distributions that LASER requires, and their own."""
    place = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", place], check=True)
    (site_packages,) = place.glob("lib/python*/site-packages")
    needed = with_their_requirements(required_lines(requires("laser-rl")))
    for found in [*needed.values(), distribution("laser-rl")]:
        for path in {top_level(file) for file in found.files}:
            source, link = found.locate_file(path), site_packages / path
            is_code = found.name != "laser-rl" or str(path).endswith(".dist-info")  # its code is that of the checkout
            if path.parts[0] not in ("..", "__pycache__") and is_code and not link.exists():
                link.symlink_to(source)
    return place / "bin" / "python"


def test_none_of_the_optional_packages_is_there(bare_python):
    modules = sorted(package.module for package in OPTIONAL.values())
    looks = f"import importlib.util; print([name for name in {modules} if importlib.util.find_spec(name)])"
    assert run(bare_python, "-c", looks).stdout.strip() == "[]"


def test_it_trains(bare_python, tmp_path):
    run_dir = tmp_path / "run"
    command = ["train", "cartpole", "--steps", "700", "--runtime", "local", "--run-dir", str(run_dir), *TINY]
    done = run(bare_python, "-m", "launch", *command)
    assert done.returncode == 0, done.stderr
    assert (run_dir / "metrics.db").is_file()
    played = run(bare_python, "-m", "launch", "eval", str(run_dir), "--episodes", "1", "--num-envs", "1")
    assert played.returncode == 0, played.stderr


@pytest.mark.parametrize(
    ("names", "command"),
    [
        (["ray"], "train cartpole --runtime ray"),
        (["wandb"], "train cartpole --track wandb"),
        (["dash", "dash-ag-grid"], "dashboard ."),
        (["matplotlib"], "report ."),
        (["mujoco"], "train hopper"),
        (["ale-py"], "train pong"),
        (["imageio-ffmpeg"], "train cartpole --capture-video"),
    ],
)
def test_what_is_missing_is_one_line_with_the_command_for_this_environment(names, command, bare_python, tmp_path):
    done = run(bare_python, "-m", "launch", *command.split(), cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert re.match(rf"error: [\w-]+: .*{' and '.join(names)},? .*not installed; .*pip install ", done.stderr)
    assert str(bare_python) in done.stderr
    assert not list(tmp_path.iterdir())


def run(python: Path, *arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(Path.home()), "PYTHONPATH": str(ROOT)}
    command = [str(python), *arguments]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, timeout=100.0, check=False)


def with_their_requirements(lines: list[str]) -> dict[str, Distribution]:
    """Return the installed distributions that requirements name, and those that these require, as pip would."""
    found: dict[str, Distribution] = {}
    waiting = [(Requirement(line), frozenset[str]()) for line in lines]
    seen = set()
    while waiting:
        requirement, extras = waiting.pop()
        if requirement.marker and not any(requirement.marker.evaluate({"extra": extra}) for extra in extras or [""]):
            continue
        name, asked = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if (name, asked) in seen:
            continue
        seen.add((name, asked))
        found[name] = distribution(name)
        waiting += [(Requirement(line), asked) for line in found[name].requires or []]
    return found


def top_level(file: Path) -> Path:
    return Path(file.parts[0])
