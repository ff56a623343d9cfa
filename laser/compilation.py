"""Facts about compiling: whether LASER can compile here, and whether matrix products in bfloat16 are faster.

Compiling traces by patching `nn.Module` for the whole process, so it must end before other threads run networks.
Components therefore compile in their `warm_up`, which runs for one component at a time before any of them ticks.
"""

from __future__ import annotations

import importlib
import shutil
import threading
import warnings

import torch
from torch.fx.experimental.proxy_tensor import get_proxy_mode


def is_traced() -> bool:
    """Return whether the running code is being traced, by torch.compile or for a `laser.compiled_program`."""
    return torch.compiler.is_compiling() or get_proxy_mode() is not None


def can_compile(device: torch.device) -> bool:
    """Return whether compiling works here; warn once where a compiler is missing."""
    if device.type == "cuda":  # Triton compiles the launchers of its kernels
        wanted, kinds = "C", ("gcc", "cc", "clang")
    else:
        wanted, kinds = "C++", ("g++", "c++", "clang++")
    if any(shutil.which(name) for name in kinds):
        return True
    warnings.warn(
        f"no {wanted} compiler found: networks run uncompiled, about half as fast; laser doctor shows the remedy",
        RuntimeWarning,
        stacklevel=2,
    )
    return False


def cpu_has_bfloat16() -> bool:
    """Return whether this CPU multiplies bfloat16 matrices faster than float32 ones.

    A CPU without such units takes up to forty times as long as in float32 (two critics of 256x256 on a Zen 3: 200 and
    5 ms).
    """
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def has_bfloat16(device: torch.device) -> bool:
    """Return whether a device multiplies bfloat16 matrices faster than float32 ones."""
    if device.type == "cuda":
        with torch.cuda.device(device):
            return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    return cpu_has_bfloat16()


class CompilerImport:
    """An import of torch's compiler in a thread of its own: it takes 2 s, in which networks can run uncompiled."""

    def __init__(self) -> None:
        target = importlib.import_module
        self._thread = threading.Thread(target=target, args=("laser.torch_compiler",), name="compiler", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """Whether the import has ended. If it failed, compiling raises the same error."""
        return not self._thread.is_alive()

    def wait(self) -> None:
        """Wait until the import has ended: a process must not end while it goes on."""
        self._thread.join()
