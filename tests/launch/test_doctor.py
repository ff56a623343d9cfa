import io
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

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
    monkeypatch.setattr("shutil.which", lambda name: str(Path(sys.executable).with_name(name)))
    lines = ["numpy>=1.26,<3", "ray[default]==2.60.*", "torch>=99", 'dm-control==1.0.50; extra == "dm-control"', "rich"]
    lines += ["psutil>=6,<8", 'Box2D>=2; extra == "box2d"', 'ruff>=1; extra == "dev"']

    def found(name):
        if name in ("ray", "dm-control", "psutil", "Box2D", "ruff"):
            raise PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(doctor, "requires", lambda name: lines)
    monkeypatch.setattr("importlib.metadata.requires", lambda name: lines)
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


def test_a_package_that_two_extras_name_is_one_finding(monkeypatch):
    lines = ['Box2D>=2; extra == "box2d"', 'Box2D>=2; extra == "all"']

    def found(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", lambda name: lines)
    monkeypatch.setattr(doctor, "version", found)
    (finding,) = doctor.check_requirements()
    assert finding.remedy.endswith("'laser-rl[box2d]'")


def test_a_torch_without_bytecode_is_told_where_none_may_be_written(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "pycache_prefix", str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (finding,) = doctor.check_bytecode()
    assert finding.state == "note"
    assert "PYTHONDONTWRITEBYTECODE is set" in finding.text
    assert " -m compileall " in finding.remedy
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    (finding,) = doctor.check_bytecode()
    assert finding.state == "ok"


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


@pytest.fixture
def a_gpu(monkeypatch):
    """A machine with one GPU; what is returned changes what it says of itself."""
    facts = {"capability": (9, 0), "free": 78 * 2**30, "driver": "13.0"}
    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("launch.gpus.num_gpus", lambda: 1)
    monkeypatch.setattr("launch.gpus.driver_cuda", lambda: facts["driver"])
    monkeypatch.setattr("torch.cuda.get_device_name", lambda index: "NVIDIA H100 80GB HBM3")
    monkeypatch.setattr("torch.cuda.get_device_capability", lambda index: facts["capability"])
    monkeypatch.setattr("torch.cuda.get_arch_list", lambda: ["sm_75", "sm_90"])
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda index: (facts["free"], 79 * 2**30))
    return facts


def test_a_gpu_is_described(a_gpu):
    driver, gpu = doctor.check_torch()
    assert driver == Finding("ok", "NVIDIA driver", "runs CUDA up to 13.0; this torch is built for 13.0")
    text = "NVIDIA H100 80GB HBM3, compute capability 9.0, 78.0 GB of 79.0 GB free, bfloat16"
    assert gpu == Finding("ok", "cuda:0", text)


@pytest.mark.parametrize(
    ("fact", "value", "text", "remedy"),
    [
        ("capability", (7, 5), "no units for bfloat16", ""),
        ("capability", (6, 0), "has compute capability 6.0, for which this torch", "use another GPU"),
        ("free", 2**29, "512 MB of 79.0 GB free", "end other programs on the GPU"),
    ],
)
def test_what_a_gpu_lacks_is_said_with_its_remedy(a_gpu, fact, value, text, remedy):
    a_gpu[fact] = value
    gpu = list(doctor.check_torch())[-1]
    assert gpu.state == ("note" if remedy else "ok")
    assert text in gpu.text
    assert gpu.remedy.startswith(remedy)


def test_a_gpu_that_does_not_answer_does_not_hide_the_report(a_gpu, monkeypatch):
    def failing(index):
        raise RuntimeError("CUDA error: CUDA-capable device(s) is/are busy or unavailable")

    monkeypatch.setattr("torch.cuda.mem_get_info", failing)
    gpu = list(doctor.check_torch())[-1]
    assert gpu.state == "note"
    assert "another process has exclusive use of the GPU" in gpu.text


@pytest.mark.parametrize(
    ("driver", "text", "state"),
    [("", "Found no NVIDIA driver on your system.", "ok"), ("11.4", "is too old (found version 11040)", "note")],
)
def test_a_gpu_that_lies_idle_is_told_of_and_none_is_well(monkeypatch, driver, text, state):
    def init():
        raise RuntimeError(text if "found no" in text.lower() else f"The NVIDIA driver on your system {text}.")

    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch.cuda.init", init)
    monkeypatch.setattr("launch.gpus.num_gpus", lambda: 0)
    monkeypatch.setattr("launch.gpus.driver_cuda", lambda: driver)
    finding = list(doctor.check_torch())[-1]
    assert (finding.state, finding.subject) == (state, "device")
    assert finding.text.startswith("cpu: ")
    assert bool(finding.remedy) == (state == "note")
