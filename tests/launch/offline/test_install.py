"""An environment on top of an interpreter's packages: what is kept, what the bundle brings, and what is refused."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

INSTALLER = Path(__file__).parents[3] / "launch" / "offline" / "install.py"
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
# A backend that needs no package, so that nothing has to be downloaded for these tests.
BACKEND = """
import zipfile

def build_editable(directory, config_settings=None, metadata_directory=None):
    info, name = "laser_rl-9.9.dist-info", "laser_rl-9.9-py3-none-any.whl"
    with zipfile.ZipFile(f"{directory}/{name}", "w") as wheel:
        wheel.writestr("laser_rl.pth", CHECKOUT)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: laser-rl\\nVersion: 9.9\\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        wheel.writestr(f"{info}/entry_points.txt", "[console_scripts]\\nlaser = fake_laser:main\\n")
        wheel.writestr(f"{info}/RECORD", "")
    return name
"""


@pytest.fixture
def checkout(tmp_path):
    """A checkout with the installer and a command that prints."""
    root = tmp_path / "checkout"
    (root / "launch" / "offline").mkdir(parents=True)
    shutil.copy(INSTALLER, root / "launch" / "offline")
    (root / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "laser-rl"\nversion = "9.9"\n'
    )
    (root / "backend.py").write_text(BACKEND + f"\nCHECKOUT = {str(root)!r}\n")
    (root / "fake_laser.py").write_text("def main():\n    print('a command')\n")
    return root


@pytest.fixture
def bundle(tmp_path):
    """A bundle for this Python with a package that is missing here, and another version of one that is not."""
    folder = tmp_path / "bundle"
    folder.mkdir()
    for name, version in (("only_in_bundle", "1.0"), ("pluggy", "99.0"), ("iniconfig", "99.0")):
        info = f"{name}-{version}.dist-info"
        with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(f"{name}.py", f"version = {version!r}\n")
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    requirements = ["only-in-bundle", "pluggy>=90", "iniconfig>=1"]
    (folder / "bundle.json").write_text(json.dumps({"python": HERE, "requirements": requirements}))
    return folder


def install(checkout, bundle, environment, **variables):
    command = [sys.executable, str(checkout / "launch" / "offline" / "install.py"), str(bundle), str(environment)]
    return subprocess.run(
        command, env=os.environ | variables, cwd="/", capture_output=True, text=True, timeout=100, check=False
    )


def test_what_is_missing_or_out_of_bounds_comes_from_the_bundle_and_the_rest_stays(checkout, bundle, tmp_path):
    environment = tmp_path / "environment"
    # What a user's shell may carry must not decide where pip writes.
    made = install(checkout, bundle, environment, PIP_TARGET=str(tmp_path / "elsewhere"), PIP_USER="1")
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    assert made.stdout.count("\n") == 1
    assert "made in" in made.stdout
    looks = (
        "import importlib.metadata as m, importlib.util\n"
        "for name in ('only_in_bundle', 'pluggy', 'iniconfig', 'torch'):\n"
        "    print(importlib.util.find_spec(name).origin)\n"
        "print(m.version('laser-rl'), m.version('pluggy'))"
    )
    run = subprocess.run([environment / "bin" / "python", "-c", looks], capture_output=True, text=True, check=True)
    missing, wrong, kept, torch, versions = run.stdout.splitlines()
    assert Path(missing).is_relative_to(environment)
    assert Path(wrong).is_relative_to(environment)
    assert not Path(kept).is_relative_to(environment)
    assert not Path(torch).is_relative_to(environment)
    assert versions == "9.9 99.0"
    command = subprocess.run([environment / "bin" / "laser"], capture_output=True, text=True, check=True)
    assert command.stdout == "a command\n"

    (environment / "mark").touch()
    again = install(checkout, bundle, environment)
    assert "kept as it was" in again.stdout
    (bundle / "only_in_bundle-1.0-py3-none-any.whl").rename(bundle / "only_in_bundle-1.0-2-py3-none-any.whl")
    assert "made in" in install(checkout, bundle, environment).stdout
    assert not (environment / "mark").exists()


def test_mistakes_are_one_line_each(checkout, bundle, tmp_path):
    def complaint(environment=tmp_path / "environment"):
        ended = install(checkout, bundle, environment)
        assert ended.returncode == 1
        (line,) = ended.stderr.splitlines()
        return line

    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.txt").touch()
    assert complaint(full).startswith(f"error: ENVIRONMENT: {full} is neither empty nor a virtual environment; ")
    assert (full / "thesis.txt").exists()
    assert complaint(full / "thesis.txt").startswith("error: ENVIRONMENT: ")

    listing = json.loads((bundle / "bundle.json").read_text())
    (bundle / "bundle.json").write_text(json.dumps(listing | {"requirements": ["nowhere>=1"]}))
    line = complaint()
    assert line == "error: pip: No matching distribution found for nowhere>=1; collect the bundle anew: make gpu-bundle"
    (bundle / "bundle.json").write_text(json.dumps(listing | {"python": "3.99"}))
    line = complaint()
    assert line.startswith(f"error: PYTHON: {sys.executable} is Python {HERE} and the bundle is for 3.99; ")
    (bundle / "bundle.json").unlink()
    assert complaint().startswith(f"error: BUNDLE: {bundle} holds no readable bundle.json; ")


def test_an_interpreter_without_torch_is_refused(checkout, bundle, tmp_path):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    command = [
        tmp_path / "bare" / "bin" / "python",
        checkout / "launch" / "offline" / "install.py",
        bundle,
        tmp_path / "new",
    ]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "has no torch; use an interpreter that has (run this script with it; " in ended.stderr
    assert not (tmp_path / "new").exists()
