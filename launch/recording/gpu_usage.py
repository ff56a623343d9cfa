"""Use of the GPU that this process computes on."""

from __future__ import annotations

import sys
from typing import Any


def gpu_usage() -> dict[str, float]:
    """Return `gpu_memory_bytes`, that torch holds in this process, and `gpu_percent`; {} in a process that uses no GPU.

    `gpu_percent` is the share of the last second in which the GPU computed for any process, as `nvidia-smi` shows it.
    It needs nvidia-ml-py, and is missing where the driver does not measure it, as for a part of a GPU (MIG).
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return {}
    # The allocator's own count: questions to the CUDA runtime could disturb the recording of a CUDA graph.
    used = {"gpu_memory_bytes": float(torch.cuda.memory_reserved())}
    percent = _percent(torch.cuda)
    return used if percent is None else used | {"gpu_percent": percent}


def _percent(cuda: Any) -> float | None:
    try:
        from pynvml import NVMLError
    except ImportError:
        return None
    try:
        return float(cuda.utilization())
    except (NVMLError, RuntimeError):
        return None
