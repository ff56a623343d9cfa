"""What the texts that torch raises about GPUs are explained as: literal texts of torch 2.11 and 2.13."""

import pytest

from launch.errors import FAILED, run_reporting
from launch.gpu_errors import Build, explain, explain_error, kind_of

BUILD = Build("2.11.0+cu130", "13.0")
_ADVICE = (
    "\nSearch for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/cuda-runtime-api/"
    "group__CUDART__TYPES.html for more information."
    "\nCUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1"
    "\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.83 GiB. GPU 0 has a total capacity of 79.25 GiB of which 8.94 MiB is "
    "free. Including non-PyTorch memory, this process has 79.23 GiB memory in use. Of the allocated memory 77.59 GiB "
    "is allocated by PyTorch, and 17.18 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory "
    "is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#optimizing-memory-usage)"
)
OLD_DRIVER = (
    "The NVIDIA driver on your system is too old (found version {}). Please update your GPU driver by downloading and "
    "installing a new version from the URL: http://www.nvidia.com/Download/index.aspx Alternatively, go to: "
    "https://pytorch.org to install a PyTorch version that has been compiled with your version of the CUDA driver."
)
NO_DRIVER = (
    "Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from "
    "http://www.nvidia.com/Download/index.aspx"
)
OLD_GPU = (
    "Found GPU0 Tesla P100-PCIE-16GB which is of compute capability (CC) 6.0.\nThe following list shows the CCs this "
    "version of PyTorch was built for and the hardware CCs it supports:\n- 7.5 which supports hardware CC >=7.5,<8.0"
)
OLD_GPU_BY_CUBINS = (
    "\nTesla P100-PCIE-16GB with CUDA capability sm_60 is not compatible with the current PyTorch installation.\n"
    "The current PyTorch install supports CUDA capabilities sm_75 sm_80 sm_86 sm_90 sm_100 sm_120.\n"
)

CASES = [
    (
        OUT_OF_MEMORY,
        "memory",
        "(2.83 GiB more were asked for, 8.94 MiB of 79.25 GiB were free)",
        "algorithm.batch-size",
    ),
    ("CUDA error: out of memory" + _ADVICE, "memory", "the GPU has no memory left", "network.width"),
    ("CUDA driver error: out of memory", "memory", "no memory left", "unroll-length"),
    ("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "memory", "no memory", "lower"),
    ("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`", "memory", "no memory", "lower"),
    ("cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "memory", "no memory", "lower"),
    (
        "backend='inductor' raised:\nOutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has",
        "memory",
        "(20.00 MiB more were asked for)",
        "lower",
    ),
    (
        "CUDA initialization: " + OLD_DRIVER.format(11040),
        "driver",
        "the NVIDIA driver supports CUDA up to 11.4, and this torch (2.11.0+cu130) needs CUDA 13.0",
        "install a newer driver; or use --device cpu",
    ),
    (OLD_DRIVER.format(12080), "driver", "CUDA up to 12.8", "or a torch for CUDA 12: "),
    (NO_DRIVER, "no driver", "no NVIDIA driver was found", "docker run --gpus all"),
    (
        "Torch not compiled with CUDA enabled",
        "build",
        "is built without CUDA",
        "pip install --force-reinstall torch==2.11.0",
    ),
    ("No CUDA GPUs are available", "hidden", "no CUDA device was found", "nvidia-smi -L"),
    (OLD_GPU, "kernels", "Tesla P100-PCIE-16GB has compute capability 6.0, for which this torch", "whl/cu126"),
    (
        OLD_GPU_BY_CUBINS,
        "kernels",
        "Tesla P100-PCIE-16GB has compute capability 6.0, for which this torch",
        "whl/cu126",
    ),
    (
        "CUDA error: no kernel image is available for execution on the device" + _ADVICE,
        "kernels",
        "this torch (2.11.0+cu130, CUDA 13.0) has no kernels for this GPU",
        "whl/cu126",
    ),
    (
        "CUDA error: CUDA-capable device(s) is/are busy or unavailable" + _ADVICE,
        "busy",
        "another process",
        "nvidia-smi",
    ),
    (
        "CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable "
        "CUDA_VISIBLE_DEVICES after program start. Setting the available devices to be zero.",
        "start",
        "CUDA cannot be started: CUDA unknown error",
        "nvidia-smi must work",
    ),
    (
        "CUDA driver initialization failed, you might not have a CUDA gpu.",
        "start",
        "CUDA cannot be started: CUDA driver initialization failed, you might not have a CUDA gpu",
        "nvidia-smi must work",
    ),
    (
        "Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() "
        "that might have already set an error? Error 802: system not yet initialized",
        "start",
        "Unexpected error from cudaGetDeviceCount()",
        "nvidia-smi must work",
    ),
    (
        "CUDA error: an illegal memory access was encountered" + _ADVICE,
        "kernel",
        "the GPU stopped with an error: an illegal memory access was encountered",
        "CUDA_LAUNCH_BLOCKING=1",
    ),
    ("CUDA error: device-side assert triggered" + _ADVICE, "kernel", ": device-side assert triggered", "BLOCKING=1"),
    ("CUDA error: unspecified launch failure", "kernel", ": unspecified launch failure", "CUDA_LAUNCH_BLOCKING=1"),
    (
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m, n, k)`",
        "kernel",
        ": CUBLAS_STATUS_EXECUTION_FAILED",
        "CUDA_LAUNCH_BLOCKING=1",
    ),
]


@pytest.mark.parametrize(("text", "kind", "wrong", "remedy"), CASES, ids=[text[:40] for text, *_ in CASES])
def test_each_text_says_what_is_wrong_and_what_to_do(text, kind, wrong, remedy):
    assert kind_of(text) == kind
    problem = explain(text, BUILD)
    assert problem.key == "device"
    assert wrong in problem.wrong
    assert remedy in problem.remedy
    assert "\n" not in str(problem)
    assert "stacktrace" not in str(problem)


@pytest.mark.parametrize(
    "text",
    [
        "mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)",
        "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!",
        "Unable to allocate 2 PiB for an array",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400 bytes.",
        "",
    ],
)
def test_other_texts_are_left_alone(text):
    assert kind_of(text) is None
    assert explain(text, BUILD) is None


@pytest.mark.parametrize("visible", ["", "7", "GPU-8c3e"])
def test_a_variable_that_hides_all_gpus_is_named(visible):
    problem = explain("No CUDA GPUs are available", Build("2.11.0", "13.0", visible), "actor.device")
    assert str(problem).startswith(f"actor.device: CUDA_VISIBLE_DEVICES={visible!r} hides every GPU of this machine; ")
    assert "use --actor.device cpu" in problem.remedy


def test_a_full_memory_explains_what_follows_it():
    later = RuntimeError("CUDA error: operation failed due to a previous error during capture")
    assert "during capture" in explain_error(later).wrong
    later.__context__ = RuntimeError(OUT_OF_MEMORY)
    assert "no memory left" in explain_error(later).wrong


def test_a_gpus_error_ends_any_command_with_one_line_and_others_keep_their_traceback(capsys, monkeypatch):
    def fail():
        raise RuntimeError("CUDA error: device-side assert triggered" + _ADVICE)

    assert run_reporting(fail) == FAILED
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: device: the GPU stopped with an error: device-side assert triggered; run again")
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    assert run_reporting(fail) == FAILED
    first, *_, last = capsys.readouterr().err.splitlines()
    assert (first, last) == ("Traceback (most recent call last):", line)
    with pytest.raises(ZeroDivisionError):
        run_reporting(lambda: 1 // 0)
