"""Explanations of GPU errors: what is wrong with the GPU, its driver or torch's build, and what to do, in one line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from laser.config import Problem
from laser.error_words import words_of
from laser.packages import pip_install

Kind = Literal["memory", "driver", "no driver", "build", "hidden", "kernels", "busy", "start", "kernel"]

_MEMORY = re.compile(
    r"CUDA out of memory"
    r"|CUDA (driver )?error: out of memory"
    r"|cudaErrorMemoryAllocation|CUDA_ERROR_OUT_OF_MEMORY"
    r"|CUBLAS_STATUS_ALLOC_FAILED|CUSOLVER_STATUS_ALLOC_FAILED|CUSPARSE_STATUS_ALLOC_FAILED"
    r"|CUDNN_STATUS_ALLOC_FAILED|CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"
    # The libraries report these when no memory is left for their own handles.
    r"|CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_NOT_INITIALIZED"
)
_WANTED = re.compile(r"Tried to allocate ([\d.]+ \w+)\.")
_FREE = re.compile(r"total capacity of ([\d.]+ \w+) of which ([\d.]+ \w+) is free")
_OLD_DRIVER = re.compile(r"NVIDIA driver on your system is too old \(found version (\d+)\)")
_OLD_GPU = (
    re.compile(
        r"(?:Found GPU\d+ )(?P<name>.+?) which is of (?:compute|cuda) capability(?: \(CC\))? (?P<number>[\d.]+)\."
    ),
    re.compile(r"(?P<name>[^\n]+?) with CUDA capability sm_(?P<number>\d+) is not compatible"),
)
# Any later call may report an error of a kernel.
_KERNEL = re.compile(
    r"CUDA (?:driver )?error: (.+?)(?:\n|$|\. (?:Search|CUDA)|Search for|CUDA kernel errors|For debugging)"
)
_LIBRARY = re.compile(r"(?:CUDA error|cuDNN error|cudnn error): ((?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_\w+)")
_OLDEST_CUDA = 12_000
"""The oldest CUDA version of a driver that runs all builds for CUDA 12."""
_ON_THE_CPU = "use --{key} cpu"


@dataclass(frozen=True)
class Build:
    """The installed torch, and the GPUs that its process may see.

    Args:
        torch: the version.
        cuda: the CUDA version torch was built for; "" for none.
        visible: the environment's CUDA_VISIBLE_DEVICES; None if it is not set.
    """

    torch: str
    cuda: str
    visible: str | None = None

    @classmethod
    def installed(cls) -> Build:
        """Return the build of this process."""
        import torch  # importing torch takes seconds, and most errors do not concern a GPU

        return cls(torch.__version__, torch.version.cuda or "", os.environ.get("CUDA_VISIBLE_DEVICES"))


def kind_of(text: str) -> Kind | None:
    """Return the kind of GPU error that a text from torch reports, or None for every other text.

    "memory": no memory is left; "driver": the driver is too old; "no driver": there is no driver; "build": torch is
    built without CUDA; "hidden": no GPU is visible; "kernels": torch has no kernels for this GPU; "busy": another
    process holds the GPU; "start": CUDA cannot be started; "kernel": a kernel failed, and the call that reports the
    failure need not be the one that launched the kernel.
    """
    if _MEMORY.search(text):
        return "memory"
    if _OLD_DRIVER.search(text):
        return "driver"
    if "Found no NVIDIA driver" in text:
        return "no driver"
    if "Torch not compiled with CUDA enabled" in text or "without ATen_cuda library" in text:
        return "build"
    if "No CUDA GPUs are available" in text or "no CUDA-capable device is detected" in text:
        return "hidden"
    if "no kernel image is available" in text or any(pattern.search(text) for pattern in _OLD_GPU):
        return "kernels"
    if "CUDA-capable device(s) is/are busy or unavailable" in text or "devices are busy or unavailable" in text:
        return "busy"
    if (
        "CUDA driver initialization failed" in text
        or "CUDA unknown error" in text
        or "Unexpected error from cudaGetDeviceCount" in text
    ):
        return "start"
    if _LIBRARY.search(text) or _KERNEL.search(text):
        return "kernel"
    return None


def explain(text: str, build: Build, key: str = "device") -> Problem | None:
    """Return what a text from torch means and what to do, or None if the text is not about a GPU.

    Args:
        text: the text of an error or a warning.
        build: the torch that wrote the text.
        key: the setting that chose the GPU.
    """
    cpu = _ON_THE_CPU.format(key=key)
    match kind_of(text):
        case "memory":
            remedy = "lower algorithm.batch-size, unroll-length or network.width, or end other programs on the GPU"
            return Problem(key, f"the GPU has no memory left{memory_words(text)}", remedy)
        case "driver":
            return _driver_problem(text, build, key)
        case "no driver":
            remedy = f"install one, or start the container with its GPUs (docker run --gpus all); or {cpu}"
            return Problem(key, "no NVIDIA driver was found on this machine", remedy)
        case "build":
            wrong = f"this torch ({build.torch}) is built without CUDA, so it cannot use a GPU"
            return Problem(
                key, wrong, f"{pip_install()} --force-reinstall torch=={_release(build.torch)} brings CUDA, or {cpu}"
            )
        case "hidden" if build.visible is not None:
            wrong = f"CUDA_VISIBLE_DEVICES={build.visible!r} hides every GPU of this machine"
            return Problem(key, wrong, f"unset it, or name GPUs that nvidia-smi -L lists; or {cpu}")
        case "hidden":
            return Problem(key, "no CUDA device was found", f"{cpu}; nvidia-smi -L lists what the driver sees")
        case "kernels":
            return _kernels_problem(text, build, key)
        case "busy":
            remedy = f"end that process (nvidia-smi shows it), or {cpu}"
            return Problem(key, "another process has exclusive use of the GPU", remedy)
        case "start":
            (first, *_) = re.split(r"(?<=[.!?])\s", _sentence(text))
            remedy = f"restart the machine or container if its driver was updated; nvidia-smi must work; or {cpu}"
            return Problem(key, f"CUDA cannot be started: {first.rstrip('.')}", remedy)
        case "kernel":
            found = _LIBRARY.search(text) or _KERNEL.search(text)
            assert found is not None
            wrong = f"the GPU stopped with an error: {found[1].strip().rstrip('.')}"
            remedy = "run again with CUDA_LAUNCH_BLOCKING=1, and the traceback names what failed"
            return Problem(key, wrong, remedy)
        case None:
            return None


def explain_error(error: BaseException) -> Problem | None:
    """Return the explanation of an error if it, or one in its chain of causes, is about a GPU; else None.

    A full memory anywhere in the chain takes precedence, since it explains the other errors.
    """
    texts = list(chain_texts(error))
    found = [text for text in texts if kind_of(text) == "memory"] or [text for text in texts if kind_of(text)]
    return explain(found[0], Build.installed()) if found else None


def memory_text(error: BaseException) -> str:
    """Return the text of the first error in the chain of causes that reports a full GPU memory; "" if none does."""
    return next((text for text in chain_texts(error) if kind_of(text) == "memory"), "")


def memory_words(text: str) -> str:
    """Return, in brackets, how much memory was asked for and how much was free; "" if the text states neither."""
    wanted, free = _WANTED.search(text), _FREE.search(text)
    parts = [f"{wanted[1]} more were asked for"] if wanted else []
    parts += [f"{free[2]} of {free[1]} were free"] if free else []
    return f" ({', '.join(parts)})" if parts else ""


def chain_texts(error: BaseException) -> Iterator[str]:
    """Yield the text of an error and of each error in its chain of causes, newest first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield words_of(current)
        current = current.__cause__ or current.__context__


def _driver_problem(text: str, build: Build, key: str) -> Problem:
    cpu = _ON_THE_CPU.format(key=key)
    found = _OLD_DRIVER.search(text)
    assert found is not None
    version = int(found[1])
    wrong = (
        f"the NVIDIA driver supports CUDA up to {version // 1000}.{version % 1000 // 10}, and this torch "
        f"({build.torch}) needs CUDA {build.cuda}"
    )
    other = f", or a torch for CUDA 12: {_for_cuda_12(build)}" if version >= _OLDEST_CUDA and build.cuda >= "13" else ""
    return Problem(key, wrong, f"install a newer driver{other}; or {cpu}")


def _kernels_problem(text: str, build: Build, key: str) -> Problem:
    found = next(filter(None, (pattern.search(text) for pattern in _OLD_GPU)), None)
    if found is None:
        wrong = f"this torch ({build.torch}, CUDA {build.cuda}) has no kernels for this GPU"
    else:
        number = found["number"] if "." in found["number"] else f"{found['number'][:-1]}.{found['number'][-1]}"
        name = found["name"].split("UserWarning: ")[-1].strip()
        wrong = f"{name} has compute capability {number}, for which this torch ({build.torch}) has no kernels"
    return Problem(
        key,
        wrong,
        f"use another GPU, or a torch with kernels since compute capability 5.0: {_for_cuda_12(build)}; or "
        + _ON_THE_CPU.format(key=key),
    )


def _for_cuda_12(build: Build) -> str:
    """Return the command that installs the same torch built for CUDA 12, with kernels since compute capability 5.0."""
    index = "https://download.pytorch.org/whl/cu126"
    return f"{pip_install()} --force-reinstall torch=={_release(build.torch)} --index-url {index}"


def _release(version: str) -> str:
    """Return a version without its suffix for the device, for example 2.8.0 for 2.8.0+cu126."""
    return version.partition("+")[0]


def _sentence(text: str) -> str:
    """Return a text on one line, without the prefixes that torch and Python put before it."""
    line = " ".join(text.split())
    return re.sub(r"^(?:\w+(?:Error|Warning): )?(?:CUDA initialization: )?", "", line)
