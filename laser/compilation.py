"""Whether LASER can compile here, and torch.compile for GPUs; what runs on CPUs is in `laser.compiled_program`.

Compiling traces by patching `nn.Module` for the whole process, so it must be through before other threads run networks:
components compile in their `warm_up`, which is called for one after the other before anything ticks.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode


def is_traced() -> bool:
    """Return whether what runs now is being compiled, by torch.compile or as a `laser.compiled_program`."""
    return torch.compiler.is_compiling() or get_proxy_mode() is not None


def can_compile(device: torch.device) -> bool:
    """Return whether compiling works here; warn once where a C++ compiler is missing."""
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

    `torch.autograd.grad` is traced too, so that a loss and its gradient can be one program.
    """
    torch._dynamo.config.trace_autograd_ops = True
    # The members of a sweep may each need a program of their own; beyond the default of 8 the others run uncompiled.
    torch._dynamo.config.recompile_limit = 1_000
    return torch.compile(function, dynamic=False, mode="reduce-overhead")


def cpu_has_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices faster than float32 ones.

    One that does not takes up to forty times as long as in float32 (two critics of 256x256 on a Zen 3: 200 and 5 ms).
    """
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device multiplies bfloat16 matrices faster than float32 ones."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return cpu_has_bfloat16()
