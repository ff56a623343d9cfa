"""What a bundle holds, and what becomes of one that weighs too much."""

import json
import random
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from laser.packages import OPTIONAL, split_requirement
from launch.offline import collect

PROJECT = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())


def names(lines):
    return [split_requirement(line)[0] for line in lines]


def test_a_bundle_holds_what_training_needs_and_what_installs_and_tests_it():
    lines = collect.bundle_requirements(PROJECT)
    core = set(names(PROJECT["project"]["dependencies"])) - OPTIONAL.keys() - {"torch"}
    assert set(names(lines)) == core | {"pytest", "pytest-timeout", "hypothesis", "hatchling", "editables"}
    (gymnasium,) = [line for line in lines if line.startswith("gymnasium")]
    assert "mujoco" not in gymnasium


def test_optional_packages_come_along_when_asked_for():
    lines = collect.bundle_requirements(PROJECT, ["mujoco", "ale-py"])
    added = set(names(lines)) - set(names(collect.bundle_requirements(PROJECT)))
    assert added == {"mujoco", "ale-py"}
    assert "gymnasium[mujoco]>=1.1.1,<2" in lines


@pytest.fixture
def downloads(monkeypatch):
    def download(requirements, python, directory):
        for name, size in (("numpy", 2_000_000), ("rich", 900_000)):
            with zipfile.ZipFile(directory / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
                wheel.writestr(f"{name}/code.so", random.Random(0).randbytes(size))

    monkeypatch.setattr(collect, "_download", download)


def test_wheels_are_listed_with_their_sizes(downloads, tmp_path, capsys):
    bundle = tmp_path / "bundle"
    assert collect.main([str(bundle), "--with", "ale-py"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines] == [
        ["compressing", "numpy-1.0-py3-none-any.whl"],
        ["2.00", "MB", "numpy-1.0-py3-none-any.whl"],
        ["0.90", "MB", "rich-1.0-py3-none-any.whl"],
        ["2.90", "MB", "in"],
    ]
    listing = json.loads((bundle / "bundle.json").read_text())
    assert listing == {"python": "3.12", "requirements": collect.bundle_requirements(PROJECT, ["ale-py"])}
    assert len(list(bundle.glob("*.whl"))) == 2


def test_large_wheels_are_made_smaller_and_hold_the_same(tmp_path):
    wheel = tmp_path / "large-1.0-py3-none-any.whl"
    files = {"large/a.py": b"a = 1\n" * 400_000, "large/b.so": 12 * random.Random(1).randbytes(100_000), "large/e": b""}
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in files.items():
            written.writestr(name, content)
        program = zipfile.ZipInfo("large.data/scripts/run")
        program.external_attr = 0o100755 << 16
        written.writestr(program, b"#!/bin/sh\n")
    before = wheel.stat().st_size
    collect.squeeze(wheel)
    assert wheel.stat().st_size < before / 5
    with zipfile.ZipFile(wheel) as read:
        assert {name: read.read(name) for name in files} == files
        assert read.getinfo("large.data/scripts/run").external_attr == 0o100755 << 16
        assert read.testzip() is None
    assert list(tmp_path.iterdir()) == [wheel]


def test_files_that_nothing_runs_stay_behind_and_the_rest_installs(tmp_path):
    wheel = tmp_path / "ray-9.9-py3-none-any.whl"
    record = "ray/jars/ray.jar,,\nray/__init__.py,,\nray-9.9.dist-info/METADATA,,\nray-9.9.dist-info/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as written:
        written.writestr("ray/jars/ray.jar", random.Random(1).randbytes(1_200_000))
        written.writestr("ray/__init__.py", "answer = 42\n")
        written.writestr("ray-9.9.dist-info/METADATA", "Metadata-Version: 2.1\nName: ray\nVersion: 9.9\n")
        written.writestr("ray-9.9.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        written.writestr("ray-9.9.dist-info/RECORD", record)
    collect.squeeze(wheel)
    place = tmp_path / "there"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", place, wheel]
    subprocess.run(command, check=True)
    assert (place / "ray" / "__init__.py").read_text() == "answer = 42\n"
    assert not (place / "ray" / "jars").exists()
    assert "jars" not in (place / "ray-9.9.dist-info" / "RECORD").read_text()


def test_what_the_other_machine_has_is_left_out_and_an_old_bundle_replaced(downloads, tmp_path):
    bundle = tmp_path / "bundle"
    assert collect.main([str(bundle)]) == 0
    assert collect.main([str(bundle), "--without", "numpy", "--limit-mb", "1.5"]) == 0
    assert [path.name for path in bundle.glob("*.whl")] == ["rich-1.0-py3-none-any.whl"]


def test_a_bundle_above_the_limit_is_an_error_and_not_written(downloads, tmp_path, capsys):
    assert collect.main([str(tmp_path / "bundle"), "--limit-mb", "2.5"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: gpu-bundle: weighs 2.9 MB; ")
    assert not (tmp_path / "bundle").exists()


def test_a_download_that_fails_is_one_line(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    assert collect.main([str(tmp_path / "bundle")]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: gpu-bundle: No matching distribution found for ")
