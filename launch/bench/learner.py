"""The update alone: frames per second, the operating system's work for it, and the share of a known GPU's peak."""

from __future__ import annotations

import dataclasses
import resource
import statistics
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from torch.utils.flop_counter import FlopCounterMode

from laser.algorithms.base import Algorithm
from laser.batch import Batch
from laser.config import Bounds, raise_problems
from laser.specs import EnvironmentSpec
from laser.unroll import UnrollSpec
from launch.bench import machine
from launch.planning.computing import resolve_device
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from learner.experience.collate import example_batch
from learner.updating.factory import make_updater
from learner.updating.updater import Updater

# Dense bfloat16 operations per second, from data sheets; the first key that occurs in the GPU's name counts.
_PEAK_FLOPS = {
    "H200": 989e12,
    "H100 PCIe": 756e12,
    "H100": 989e12,
    "A100": 312e12,
    "L40S": 362e12,
    "L4": 121e12,
    "A10": 125e12,
    "RTX 4090": 165e12,
}


@dataclass(frozen=True)
class Options:
    """Choice of the measurement."""

    preset: Annotated[str, "preset of networks, algorithm and batch"] = "pong"
    device: Annotated[str, "auto, cpu, cuda or cuda:N"] = "auto"
    batch_size: Annotated[int, Bounds(least=0, most=1_000_000), "unrolls per batch; 0: the preset's"] = 0
    seconds: Annotated[float, Bounds(above=0.0, most=1e6), "seconds of measuring"] = 5.0
    json: Annotated[bool, "print one JSON object"] = False


@dataclass(frozen=True)
class Update:
    """The parts of a config's update.

    Args:
        config: of the run.
        algorithm: the loss.
        spec: layout of the items of a batch.
        batch: an example, in the host's memory.
    """

    config: TrainConfig
    algorithm: Algorithm
    spec: UnrollSpec
    batch: Batch

    @property
    def num_rows(self) -> int:
        """Rows of a batch: number of items times their length; also the number of frames, if there are any."""
        return self.config.algorithm.batch_size * self.spec.unroll_length

    def make_step(self, settings: LearnerConfig, device: torch.device) -> Updater:
        """Return the update with fresh networks; nothing is compiled yet."""
        return make_updater(self.algorithm, self.algorithm.make_networks(), self.spec, settings, device, seed=0)

    def count_flops(self, device: torch.device) -> int:
        """Return the floating-point operations of one update, without element-wise ones, which are few."""
        step = self.make_step(dataclasses.replace(self.config.learner, compile="off"), device)
        counter = FlopCounterMode(display=False)
        # Counts per module are not needed, and tracking modules fails if a loss calls autograd itself.
        counter.mod_tracker = _NoModules()  # type: ignore[assignment]
        with counter:
            step(step.to_device(self.batch), 1e-6, {})
        return int(counter.get_total_flops())


def make_update(config: TrainConfig, environment: EnvironmentSpec | None = None) -> Update:
    """Return the update of a checked config, with an example of its batches.

    Args:
        config: of a run.
        environment: spec of its environment; None: make the environment to find out.
    """
    settings = config.algorithm
    member = plan_member(config, environment)
    algorithm, spec = member.algorithm, member.own_unrolls
    spec = dataclasses.replace(spec, unroll_length=settings.rows_per_item(spec.unroll_length))
    columns = [column.name for column in algorithm.columns]
    return Update(config, algorithm, spec, example_batch(spec, settings.batch_size, columns, settings.view))


def run(options: Options) -> dict[str, Any]:
    """Measure the update on a batch that is on the device already, and the copy of a batch to the device."""
    config = dataclasses.replace(load_preset(options.preset), device=options.device, runtime="local")
    raise_problems(list(config.single_problems()))
    if options.batch_size:
        algorithm = dataclasses.replace(config.algorithm, batch_size=options.batch_size)
        config = dataclasses.replace(config, algorithm=algorithm)
    update, device = make_update(config), torch.device(resolve_device(config))
    flops = update.count_flops(device)
    step = update.make_step(config.learner, device)
    step = step.warm_up(update.batch, {})
    moved = step.to_device(update.batch)
    step_s = median_s(lambda: step(moved, 1e-6, {}), device, options.seconds)
    transfer_s = (
        median_s(lambda: step.to_device(update.batch), device, 0.1 * options.seconds) if device.type == "cuda" else 0.0
    )
    result = {
        "preset": config.preset,
        "computes": step.description,
        "batch_rows": update.num_rows,
        "frames_per_second": update.num_rows / step_s,
        "updates_per_second": 1.0 / step_s,
        "step_ms": 1e3 * step_s,
        "transfer_ms": 1e3 * transfer_s,
        "tflops_per_second": flops / step_s / 1e12,
        **kernel_work(lambda: step(moved, 1e-6, {}), times=max(1, min(10, int(options.seconds / step_s)))),
    }
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        result["gpu"] = name
        peak = next((value for key, value in _PEAK_FLOPS.items() if key in name), None)
        if peak is not None:
            result["share_of_peak"] = flops / step_s / peak
    result |= machine()
    result["bottleneck"] = "transfer" if transfer_s > step_s else "learner"
    return result


def kernel_work(work: Callable[[], Any], times: int) -> dict[str, float]:
    """Return "system_ms" and "page_faults" of one call, over all threads: newly allocated memory costs both.

    Args:
        work: the call.
        times: number of calls to average.
    """
    before = resource.getrusage(resource.RUSAGE_SELF)
    for _ in range(times):
        work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    system_s = after.ru_stime - before.ru_stime
    return {"system_ms": 1e3 * system_s / times, "page_faults": (after.ru_minflt - before.ru_minflt) / times}


class _NoModules(nullcontext[None]):
    parents: ClassVar[set[str]] = {"Global"}


def median_s(work: Callable[[], Any], device: torch.device, seconds: float) -> float:
    """Return the median seconds of a call; the device is idle before and after each call."""

    def once() -> float:
        start = time.perf_counter()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return time.perf_counter() - start

    for _ in range(3):
        once()
    end, times = time.perf_counter() + seconds, [once()]
    while time.perf_counter() < end:
        times.append(once())
    return statistics.median(times)
