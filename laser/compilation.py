"""How LASER compiles: one place for the options that torch.compile needs on a CPU and on a GPU.

Compiling traces by patching `nn.Module` for the whole process, so it must be through before other threads run networks:
components compile in their `warm_up`, which is called for one after the other before anything ticks.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from typing import Any

import torch


def can_compile(device: torch.device) -> bool:
    """Return whether torch.compile works here; warn once where a C++ compiler is missing."""
    if device.type == "cuda" or any(shutil.which(name) for name in ("g++", "c++", "clang++")):
        return True
    warnings.warn(
        "no C++ compiler found: networks run uncompiled, about half as fast; laser doctor says how to mend it",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def compile_for_gpu(function: Callable[..., Any]) -> Any:
    """Return `function` compiled for fixed shapes; its kernels are launched as one CUDA graph.

    `torch.autograd.grad` is traced too, so that a loss and its gradient can be one program. CPUs have
    `laser.compiled_program`.
    """
    torch._dynamo.config.trace_autograd_ops = True
    # The members of a sweep may each need a program of their own; beyond the default of 8 the others run uncompiled.
    torch._dynamo.config.recompile_limit = 1_000
    return torch.compile(function, dynamic=False, mode="reduce-overhead")


def cpu_has_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices faster than float32 ones."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())
