"""One update alone, eager, compiled and with CUDA graphs: speed, share of the measured peak, host time, memory."""

from __future__ import annotations

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from laser.batch import Batch
from laser.networks.config import NetworkConfig
from laser.specs import ContinuousActions, EnvironmentSpec, VectorSpec
from launch.bench.gpu_steps.ceilings import HOST_BANDWIDTH, MATRIX_PEAK
from launch.bench.gpu_steps.context import Context
from launch.bench.gpu_steps.modes import MODES, as_asked, settings_of
from launch.bench.learner import Update, make_update, median_s
from launch.presets import load_preset
from learner.updating.updater import Updater

# Updates/s that LeanRL publishes for its CUDA-graph variants on an H100, env steps included.
_LEANRL = {"sac": 725, "td3": 936}
# The shapes of Hopper-v5, so that MuJoCo is not needed.
_HOPPER = EnvironmentSpec(
    "Hopper-v5", {"observation": VectorSpec((11,))}, ContinuousActions((-1.0,) * 3, (1.0,) * 3, (3,))
)
_LEAST_S = {"eager": 5.0, "compiled": 20.0, "graphs": 15.0}
_LEAST_QUICK_S = 3.0
_SECONDS, _QUICK_SECONDS = 2.0, 0.1
_HOST_CALLS = 10


def small(context: Context) -> None:
    """Measure the Atari net of Mnih et al. 2016."""
    _measure_frames(context, NetworkConfig(layer_norm=True, centered_filters=True))


def residual(context: Context) -> None:
    """Measure IMPALA's residual net."""
    _measure_frames(context, NetworkConfig(torso="impala_resnet"))


def residual_4x(context: Context) -> None:
    """Measure the residual net with four times the channels, LASER's net on Atari."""
    _measure_frames(context, NetworkConfig(torso="impala_resnet", width=4))


def sac(context: Context) -> None:
    """Measure SAC's update, 256 x 256 and batches of 256."""
    _measure_steps(context, "sac")


def td3(context: Context) -> None:
    """Measure TD3's update, 256 x 256 and batches of 256."""
    _measure_steps(context, "td3")


def _measure_frames(context: Context, network: NetworkConfig) -> None:
    config = load_preset("pong")
    batch_size, unroll_length = (2, 4) if context.quick else (160, 20)
    config = dataclasses.replace(
        config,
        algorithm=dataclasses.replace(config.algorithm, batch_size=batch_size),
        unroll_length=unroll_length,
        network=network,
        device=context.device,
    )
    update = make_update(config)
    update = dataclasses.replace(update, batch=_with_random_frames(update.batch))
    modes: Sequence[str] = MODES
    if context.quick and not context.on_gpu:  # on a CPU one compiled net is enough to try the mode
        modes = ("eager", "graphs") if network.torso == "auto" else ("eager",)
    _measure_modes(context, update, modes)


def _measure_steps(context: Context, preset: str) -> None:
    config = dataclasses.replace(load_preset(preset), runtime="local", device=context.device)
    beside = f"LeanRL {_LEANRL[preset]} on an H100, env step included"
    # The mode to compare with the published number comes first.
    modes = ("eager",) if context.quick and not context.on_gpu else ("graphs", "eager", "compiled")
    _measure_modes(context, make_update(config, _HOPPER), modes, beside)


def _measure_modes(context: Context, update: Update, modes: Sequence[str], beside: str = "") -> None:
    """Compile the update in each mode while other steps prepare, and then measure one mode at a time, alone."""
    device = torch.device(context.device)
    flops = update.count_flops(device)
    ready: dict[str, Updater] = {}
    for mode in modes:
        if context.has_time(mode, _LEAST_QUICK_S if context.quick else _LEAST_S[mode]):
            with context.measuring(mode):
                ready[mode] = _make_ready(context, update, mode)
    with context.alone():
        for mode, step in ready.items():
            if context.has_time(mode, _LEAST_QUICK_S):
                with context.measuring(mode):
                    _measure_mode(context, update, mode, step, flops, beside)
        if ready and update.spec.frames and context.has_time("batches from the host", _LEAST_QUICK_S):
            with context.measuring("batches from the host"):
                _measure_transfer(context, update, ready[list(ready)[-1]])


def _make_ready(context: Context, update: Update, mode: str) -> Updater:
    """Return the update after compilation and its first calls; report their seconds and memory."""
    device = torch.device(context.device)
    before = _start_counting_memory(device)
    started = time.perf_counter()
    step = update.make_step(dataclasses.replace(update.config.learner, **settings_of(mode)), device)
    with as_asked():
        step = step.warm_up(update.batch, {})
        moved = step.to_device(update.batch)
        for _ in range(2):
            step(moved, 1e-6, {})
    _synchronize(device)
    stand_in = mode == "graphs" and not context.on_gpu
    seconds, num_bytes = time.perf_counter() - started, _peak_bytes(device) - before
    context.result(f"{mode}, until it is ready", seconds, "s", note="beside other steps", stand_in=stand_in)
    note = "networks, optimiser, batch and activations" if context.on_gpu else "of the whole process"
    context.result(f"{mode}, peak memory", num_bytes / 2**20, "MiB", note=note, stand_in=not context.on_gpu)
    return step


def _measure_mode(context: Context, update: Update, mode: str, step: Updater, flops: int, beside: str) -> None:
    device, seconds = torch.device(context.device), _QUICK_SECONDS if context.quick else _SECONDS
    stand_in = mode == "graphs" and not context.on_gpu
    moved = step.to_device(update.batch)
    step_s = _in_a_row_s(lambda: step(moved, 1e-6, {}), device, seconds)
    details = {"computes": step.description, "batch_rows": update.num_rows, "flops": flops}
    if update.spec.frames:
        context.result(f"{mode}, frames", update.num_rows / step_s, "frames/s", stand_in=stand_in, details=details)
    else:
        context.result(f"{mode}, updates", 1 / step_s, "updates/s", beside=beside, stand_in=stand_in, details=details)
    context.result(f"{mode}, update", 1e3 * step_s, "ms", stand_in=stand_in)
    peak = context.known.get(f"ceilings: {MATRIX_PEAK}")
    if peak:
        share = 100 * flops / step_s / 1e12 / peak
        context.result(f"{mode}, share of the measured bf16 peak", share, "%", stand_in=not context.on_gpu)
    host_s = _host_s(step, moved, device)
    note = "until the call returns; the GPU may still compute" if context.on_gpu else "a CPU has finished then"
    context.result(f"{mode}, host time", 1e3 * host_s, "ms", note=note, stand_in=stand_in)


def _measure_transfer(context: Context, update: Update, step: Updater) -> None:
    """Measure batches copied from the host's memory, as by the learner's prefetching thread."""
    device, seconds = torch.device(context.device), _QUICK_SECONDS if context.quick else _SECONDS
    num_bytes = sum(tensor.nbytes for tensor in _tensors(update.batch))
    moved = step.to_device(update.batch)

    def update_and_copy_the_next() -> None:
        nonlocal moved
        step(moved, 1e-6, {})
        with step.to_device.beside():
            moved = step.to_device(update.batch)

    name = "batches from the host"
    both_s = _in_a_row_s(update_and_copy_the_next, device, seconds)
    note = "each batch is copied during the update of the batch before"
    context.result(f"{name}, frames", update.num_rows / both_s, "frames/s", note=note)
    if not context.on_gpu:
        return  # nothing is copied
    copy_s = median_s(lambda: step.to_device(update.batch), device, 0.5 * seconds)
    ceiling = context.known.get(f"ceilings: {HOST_BANDWIDTH}")
    note = f"{ceiling:.3g} GB/s were measured from pinned memory" if ceiling else ""
    context.result(f"{name}, copy", 1e3 * copy_s, "ms", note=f"{num_bytes / 2**20:.1f} MiB, through a pinned buffer")
    context.result(f"{name}, bandwidth", num_bytes / copy_s / 1e9, "GB/s", note=note)


def _in_a_row_s(work: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """Return the mean seconds of a call among many in a row without a wait in between, as in a learner."""
    for _ in range(2):
        work()
    _synchronize(device)
    started, count = time.perf_counter(), 0
    while count < 2 or time.perf_counter() - started < seconds:
        work()
        count += 1
    _synchronize(device)
    return (time.perf_counter() - started) / count


def _host_s(step: Updater, batch: Batch, device: torch.device) -> float:
    """Return the median seconds until the call of an update returns."""
    times = []
    for _ in range(_HOST_CALLS if device.type == "cuda" else 2):
        _synchronize(device)
        started = time.perf_counter()
        step(batch, 1e-6, {})
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _with_random_frames(batch: Batch) -> Batch:
    """Return the batch with noise as frames: zeros would cost a GPU less power, and so be faster."""
    observations = {
        name: torch.randint_like(value, 256) if value.dtype == torch.uint8 else torch.randn_like(value)
        for name, value in batch.observations.items()
    }
    return dataclasses.replace(batch, observations=observations)


def _tensors(batch: Batch) -> list[torch.Tensor]:
    values = [getattr(batch, item.name) for item in dataclasses.fields(batch)]
    return [tensor for value in values for tensor in (value.values() if isinstance(value, dict) else [value])]


def _start_counting_memory(device: torch.device) -> int:
    """Begin to count the peak; return the bytes that are allocated now."""
    if device.type != "cuda":
        return 0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats(device)
    return torch.cuda.memory_allocated(device)


def _peak_bytes(device: torch.device) -> int:
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _synchronize(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
