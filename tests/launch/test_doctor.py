import io
from importlib.metadata import PackageNotFoundError, version

import pytest

from launch import doctor
from launch.doctor import CHECKS, Finding, examine


def test_this_machine_is_usable():
    stream = io.StringIO()
    assert examine(stream)
    report = stream.getvalue()
    for subject in (
        "python",
        "packages",
        "torch",
        "gymnasium",
        "Atari ROMs",
        "DeepMind Lab",
        "memory",
        "disk",
        "device",
    ):
        assert f" {subject}: " in report
    assert report.endswith("LASER can run here.\n")


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_whatever_is_not_well_comes_with_a_remedy(check):
    for finding in check():
        assert finding.state in ("ok", "note", "missing")
        assert finding.state == "ok" or finding.remedy


def test_missing_and_wrong_versions(monkeypatch):
    lines = ["numpy>=1.26,<3", "ray[default]==2.60.*", "torch>=99", 'dm-control==1.0.50; extra == "dm-control"', "rich"]
    lines += ["psutil>=6,<8", 'Box2D>=2; extra == "box2d"', 'ruff>=1; extra == "dev"']

    def found(name):
        if name in ("ray", "dm-control", "psutil", "Box2D", "ruff"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "requires", lambda name: lines)
    monkeypatch.setattr(doctor, "version", found)
    findings = {finding.subject: finding for finding in doctor.check_requirements()}
    assert findings["numpy"].state == "ok"
    assert findings["ray"] == Finding(
        "note", "ray", "is not installed (needed only for --runtime ray)", "pip install 'ray[default]==2.60.*'"
    )
    assert findings["psutil"] == Finding(
        "missing", "psutil", "is not installed, <8,>=6 is needed", "pip install 'psutil<8,>=6'"
    )
    assert findings["Box2D"].state == "note"
    assert "ruff" not in findings
    assert findings["torch"].state == "missing"
    assert findings["torch"].text.endswith("is installed, >=99 is known to work")
    assert findings["dm-control"].state == "note"
    assert findings["dm-control"].remedy == "pip install 'laser-rl[dm-control]'"


def test_what_is_missing_makes_it_unusable(monkeypatch):
    broken = Finding("missing", "x", "is not installed", "pip install x")
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter([broken]), lambda: iter([Finding("note", "y", "slow", "z")])))
    stream = io.StringIO()
    assert not examine(stream)
    assert "missing  x: is not installed\n         -> pip install x\n" in stream.getvalue()
    monkeypatch.setattr(doctor, "CHECKS", (lambda: iter([Finding("note", "y", "slow", "z")]),))
    assert examine(io.StringIO())


def test_without_a_compiler(monkeypatch):
    monkeypatch.setattr(doctor.shutil, "which", lambda name: None)
    monkeypatch.delenv("CXX", raising=False)
    (finding,) = doctor.check_compiler()
    assert finding.state == "note"
    assert "apt install g++" in finding.remedy


def test_rendering(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "egl")
    monkeypatch.setattr(doctor, "is_installed", lambda name: True)
    assert [finding.state for finding in doctor.check_rendering()] == ["ok"]
    monkeypatch.setattr(doctor, "is_installed", lambda name: False)
    assert list(doctor.check_rendering()) == []


def test_shadowed_packages_are_found(monkeypatch):
    monkeypatch.setattr(doctor, "find_shadowed", lambda: iter([("actors", "/elsewhere/actors")]))
    (finding,) = doctor.check_own_packages()
    assert finding.state == "missing"
    assert "/elsewhere/actors" in finding.text
