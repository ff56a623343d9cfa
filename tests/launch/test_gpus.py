"""Which GPUs torch can use, and the reason where it can use none; the machine is simulated."""

import warnings

import pytest
import torch

from launch import gpus
from launch.gpus import find_lost_gpu, find_old_gpu, is_built_for, num_gpus, why_no_gpu

ARCHITECTURES = ["sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"]
OLD_DRIVER = "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver"


@pytest.fixture
def torch_for_cuda(monkeypatch):
    """Let torch seem built for CUDA; what is returned makes its start fail with a text."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch, "__version__", "2.11.0+cu130")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)

    def failing_with(text):
        def init():
            warnings.warn(f"CUDA initialization: {text}", stacklevel=1)
            raise RuntimeError(text)

        monkeypatch.setattr(torch.cuda, "init", init)

    return failing_with


@pytest.mark.parametrize(
    ("capability", "fits"),
    [
        ((6, 0), False),
        ((7, 0), False),
        ((7, 5), True),
        ((8, 9), True),
        ((9, 0), True),
        ((12, 1), True),
        ((13, 0), False),
    ],
)
def test_code_runs_on_later_gpus_of_the_same_major_number(capability, fits):
    assert is_built_for(capability, ARCHITECTURES) == fits


def test_what_the_driver_compiles_runs_on_everything_later():
    assert is_built_for((13, 0), [*ARCHITECTURES, "compute_120"])
    assert not is_built_for((6, 0), [*ARCHITECTURES, "compute_120"])
    assert is_built_for((9, 0), ["sm_90a"])
    assert is_built_for((6, 0), [])


@pytest.mark.parametrize(
    ("text", "wrong", "is_lost"),
    [
        (OLD_DRIVER, "supports CUDA up to 11.4, and this torch (2.11.0+cu130) needs CUDA 13.0", True),
        ("Found no NVIDIA driver on your system. Please check", "no NVIDIA driver was found", False),
        ("No CUDA GPUs are available", "no CUDA device was found", False),
        ("CUDA unknown error - this may be", "CUDA cannot be started", True),
        ("something that nobody has seen yet", "CUDA cannot be started: something that nobody has seen yet", False),
    ],
)
def test_the_reason_is_said_without_torchs_own_warning(torch_for_cuda, text, wrong, is_lost):
    torch_for_cuda(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert num_gpus() == 0
        assert wrong in why_no_gpu().wrong
        assert (find_lost_gpu() is not None) == is_lost


def test_a_torch_without_cuda_on_a_machine_with_a_driver_leaves_a_gpu_unused(monkeypatch):
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for driver, is_lost in (("", False), ("13.0", True)):
        monkeypatch.setattr(gpus, "driver_cuda", lambda driver=driver: driver)
        assert (find_lost_gpu() is not None) == is_lost


def test_a_gpu_older_than_torchs_kernels_is_named(torch_for_cuda, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ARCHITECTURES)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla P100-PCIE-16GB")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (6, 0))
    problem = find_old_gpu(0, "actor.device")
    assert str(problem).startswith(
        "actor.device: Tesla P100-PCIE-16GB has compute capability 6.0, for which this torch"
    )
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0))
    assert find_old_gpu(0) is None
