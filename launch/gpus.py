"""The GPUs that torch can use on this machine, or the reason why there are none."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from laser.config import Problem
from launch.gpu_errors import Build, explain, kind_of


def num_gpus() -> int:
    """Return how many GPUs torch sees."""
    with _without_warnings():  # `why_no_gpu` says it in one line
        return torch.cuda.device_count() if torch.cuda.is_available() else 0


def why_no_gpu(key: str = "device") -> Problem:
    """Return why torch sees no GPU, and what to do."""
    text = _reason()
    problem = explain(text, Build.installed(), key)
    if problem is None:
        line = " ".join(text.split())[:200]
        problem = Problem(key, f"CUDA cannot be started: {line}", f"use --{key} cpu; nvidia-smi must work")
    return problem


def find_lost_gpu() -> Problem | None:
    """Return why a GPU that this machine seems to have cannot be used; None if one can, or there is none to lose."""
    if num_gpus():
        return find_old_gpu(0)
    kind = kind_of(_reason())
    has_driver = kind == "build" and driver_cuda() != ""
    return why_no_gpu() if has_driver or kind in ("driver", "busy", "start") else None


def find_old_gpu(index: int, key: str = "device") -> Problem | None:
    """Return why a GPU cannot run this torch's kernels, or None if it can."""
    build = Build.installed()
    if not build.cuda:  # AMD's, which torch also calls cuda
        return None
    major, minor = capability(index)
    if is_built_for((major, minor), torch.cuda.get_arch_list()):
        return None
    text = f"Found GPU{index} {torch.cuda.get_device_name(index)} which is of compute capability (CC) {major}.{minor}."
    return explain(text, build, key)


def capability(index: int) -> tuple[int, int]:
    """Return a GPU's compute capability."""
    with _without_warnings():  # torch's own about the kernels it has, in ten lines
        return torch.cuda.get_device_capability(index)


def is_built_for(capability: tuple[int, int], architectures: list[str]) -> bool:
    """Return whether code for these architectures runs on a GPU.

    Args:
        capability: the GPU's compute capability.
        architectures: such as "sm_90", which runs on 9.0 and later ones of the same major number, and "compute_90",
            which the driver compiles for 9.0 and everything later. Empty: unknown, so it may.
    """
    for architecture in architectures:
        kind, _, number = architecture.partition("_")
        code = divmod(int(number.rstrip("af")), 10)
        if code <= capability and (kind == "compute" or code[0] == capability[0]):
            return True
    return not architectures


def index_of(device: str) -> int:
    """Return the number of a GPU called cuda or cuda:N."""
    return int(device.partition(":")[2] or 0)


def driver_cuda() -> str:
    """Return the newest CUDA that the NVIDIA driver runs, such as "12.8"; "" without a driver."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}" if version.value else ""


def free_bytes(device: str) -> int:
    """Return the bytes that this process may still take of a GPU's memory, with what torch holds back for it."""
    index = index_of(device)
    free, _ = torch.cuda.mem_get_info(index)
    return int(free) + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _reason() -> str:
    """Return what torch says of why it sees no GPU."""
    if not Build.installed().cuda:
        return "Torch not compiled with CUDA enabled"
    try:
        with _without_warnings():
            torch.cuda.init()
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the reason
        return str(error)
    return "No CUDA GPUs are available"
