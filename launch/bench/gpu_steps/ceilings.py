"""Ceilings of the device: memory bandwidth, matrix products in bfloat16, and copies from the host."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import torch

from launch.bench.gpu_steps.context import Context

MATRIX_PEAK = "bf16 matrix peak"
HOST_BANDWIDTH = "host to device"
_GB = 1e9


def measure(context: Context) -> None:
    """Measure the limits of the device, which bound all other numbers."""
    device = torch.device(context.device)
    with context.measuring("device to device"):
        _measure_copies(context, device)
    with context.measuring(MATRIX_PEAK):
        _measure_products(context, device)
    with context.measuring(HOST_BANDWIDTH):
        _measure_host_copies(context, device)


def _measure_copies(context: Context, device: torch.device) -> None:
    num_bytes = 4 * 2**30 if context.on_gpu and not context.quick else 32 * 2**20
    source = torch.randint(0, 255, (num_bytes,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    seconds = _median_s(lambda: target.copy_(source), device, times=30)
    context.result(
        "device to device",
        2 * num_bytes / seconds / _GB,
        "GB/s",
        note=f"read and written, {num_bytes / 2**30:.3g} GiB each way, median of 30",
        stand_in=not context.on_gpu,
        details={"gpu": torch.cuda.get_device_name(device)} if context.on_gpu else None,
    )


def _measure_products(context: Context, device: torch.device) -> None:
    size = 8192 if context.on_gpu and not context.quick else 512
    left, right = (torch.randn(size, size, device=device).to(torch.bfloat16) for _ in range(2))
    seconds = _median_s(lambda: left @ right, device, times=50 if context.on_gpu else 5)
    context.result(
        MATRIX_PEAK,
        2 * size**3 / seconds / 1e12,
        "TFLOP/s",
        note=f"{size} x {size} times {size} x {size}, random numbers",
        stand_in=not context.on_gpu,
    )


def _measure_host_copies(context: Context, device: torch.device) -> None:
    num_bytes = 2**30 if context.on_gpu and not context.quick else 16 * 2**20
    source = torch.ones(num_bytes, dtype=torch.uint8, pin_memory=context.on_gpu)
    target = torch.empty(num_bytes, dtype=torch.uint8, device=device)
    seconds = _median_s(lambda: target.copy_(source, non_blocking=True), device, times=20)
    note = f"{'pinned' if context.on_gpu else 'ordinary'} memory, {num_bytes / 2**20:.0f} MiB, median of 20"
    context.result(HOST_BANDWIDTH, num_bytes / seconds / _GB, "GB/s", note=note, stand_in=not context.on_gpu)


def _median_s(work: Callable[[], Any], device: torch.device, times: int) -> float:
    """Return the median seconds of a call, by the GPU's own clock if there is a GPU."""
    for _ in range(3):
        work()
    if device.type == "cpu":
        return statistics.median(_seconds(work) for _ in range(times))
    spans = []
    for _ in range(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        spans.append((begin, end))
    torch.cuda.synchronize(device)
    return statistics.median(float(begin.elapsed_time(end)) for begin, end in spans) / 1e3


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
