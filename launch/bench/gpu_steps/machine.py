"""The machine that the GPU check runs on: GPU, driver, torch, CUDA, cores, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from typing import Any

import torch

from launch import bench
from launch.records.run_record import commit_of_sources

_QUERY_S = 10.0


def machine_facts(device: str) -> dict[str, Any]:
    """Return the facts that every number depends on, by name, without use of the GPU in this process."""
    gpu, driver = _ask_driver() if device.startswith("cuda") else ("none", "none")
    has_affinity = hasattr(os, "sched_getaffinity")
    return {
        "GPU": gpu,
        "driver": driver,
        "torch": torch.__version__,
        "CUDA": torch.version.cuda or "none",
        "python": platform.python_version(),
        "processor": bench.processor(),
        "cores": len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count(),
        # A copy without Git history may get its commit from the environment.
        "commit": commit_of_sources() or os.environ.get("LASER_COMMIT") or "unknown",
    }


def _ask_driver() -> tuple[str, str]:
    try:
        answer = subprocess.run(
            ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader", "--id=0"],
            capture_output=True,
            text=True,
            timeout=_QUERY_S,
            check=True,
            stdin=subprocess.DEVNULL,
        ).stdout
        name, _, driver = answer.splitlines()[0].rpartition(", ")
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown", "unknown"
    return name, driver
