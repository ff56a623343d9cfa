"""The GPUs that torch can use on this machine, or the reason why it can use none."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from laser.config import Problem
from launch.gpu_errors import Build, explain, kind_of


def num_gpus() -> int:
    """Return the number of GPUs that torch sees."""
    with _without_warnings():  # `why_no_gpu` gives the reason in one line
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
    """Return why this machine's GPU cannot be used; None if a GPU can be used or the machine seems to have none."""
    if num_gpus():
        return find_old_gpu(0)
    kind = kind_of(_reason())
    has_driver = kind == "build" and driver_cuda() != ""
    return why_no_gpu() if has_driver or kind in ("driver", "busy", "start") else None


def find_old_gpu(index: int, key: str = "device") -> Problem | None:
    """Return why a GPU cannot run this torch's kernels, or None if it can."""
    build = Build.installed()
    if not build.cuda:  # an AMD GPU, which torch also calls cuda
        return None
    major, minor = capability(index)
    if is_built_for((major, minor), torch.cuda.get_arch_list()):
        return None
    text = f"Found GPU{index} {torch.cuda.get_device_name(index)} which is of compute capability (CC) {major}.{minor}."
    return explain(text, build, key)


def capability(index: int) -> tuple[int, int]:
    """Return a GPU's compute capability."""
    with _without_warnings():  # torch warns about its kernels in ten lines
        return torch.cuda.get_device_capability(index)


def is_built_for(capability: tuple[int, int], architectures: list[str]) -> bool:
    """Return whether code that was built for these architectures runs on a GPU.

    Args:
        capability: the GPU's compute capability.
        architectures: names such as "sm_90", which runs on 9.0 and later with the same major number, and "compute_90",
            which the driver compiles for 9.0 and everything later. Empty: unknown, and True is returned.
    """
    for architecture in architectures:
        kind, _, number = architecture.partition("_")
        code = divmod(int(number.rstrip("af")), 10)
        if code <= capability and (kind == "compute" or code[0] == capability[0]):
            return True
    return not architectures


def index_of(device: str) -> int:
    """Return the index of a GPU with the name cuda or cuda:N."""
    return int(device.partition(":")[2] or 0)


def driver_cuda() -> str:
    """Return the newest CUDA version that the NVIDIA driver supports, such as "12.8"; "" without a driver."""
    version = ctypes.c_int(0)
    try:
        ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    except (OSError, AttributeError):
        return ""
    return f"{version.value // 1000}.{version.value % 1000 // 10}" if version.value else ""


def free_bytes(device: str) -> int:
    """Return the bytes of GPU memory that this process may still use, with those that torch has reserved for it."""
    index = index_of(device)
    free, _ = torch.cuda.mem_get_info(index)
    return int(free) + torch.cuda.memory_reserved(index) - torch.cuda.memory_allocated(index)


@contextmanager
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _reason() -> str:
    """Return torch's error text about why it sees no GPU."""
    if not Build.installed().cuda:
        return "Torch not compiled with CUDA enabled"
    try:
        with _without_warnings():
            torch.cuda.init()
    except Exception as error:  # noqa: BLE001 - any error here is the reason
        return str(error)
    return "No CUDA GPUs are available"
