"""GPU memory of a plan: an estimate for its learners before the start, and the check that it is free."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from laser.compilation import has_bfloat16
from laser.config import Problem
from laser.unroll import UnrollSpec
from launch.gpus import free_bytes, index_of
from launch.planning.member_plan import MemberPlan
from launch.settings.train_config import TrainConfig
from launch.words import size
from learner.gpu_memory import CONTEXT_BYTES, learner_bytes


@dataclass(frozen=True)
class GpuEstimate:
    """The GPU memory that learners will need.

    Args:
        of_each: bytes by the GPU's name; None if a network makes them impossible to count.
    """

    of_each: Mapping[str, int | None] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the estimate as the end of a sentence about memory; "" if no learner uses a GPU."""
        names = {name: "the GPU" if len(self.of_each) == 1 else name for name in self.of_each}
        return "".join(f", and {_words(names[name], num_bytes)}" for name, num_bytes in self.of_each.items())


def estimate_gpus(members: Sequence[MemberPlan], num_at_once: int | None = None) -> GpuEstimate:
    """Return the memory that the learners on each GPU will need together: the `num_at_once` largest, or all.

    On Ray a learner's GPU is not known yet, so the estimate is that of the largest learner on a GPU of its own. There
    is no estimate for `auto` on a cluster, which may have no GPU.
    """
    known: dict[object, int | None] = {}
    of_each: dict[str, list[int | None]] = {}
    for member in members:
        config, device = member.config, member.device.name
        if device == "cpu" or (device == "auto" and config.ray_address):
            continue
        key = (config.env, config.environment, config.algorithm, config.network, config.learner, config.unroll_length)
        if key not in known:
            known[key] = learner_bytes(
                member.algorithm,
                member.unrolls,
                config.learner,
                compiled=config.learner.compile != "off" and not _is_uncompiled(config),
                bfloat16=_computes_in_bfloat16(config, member.unrolls, device),
            )
        name = "cuda:0" if device == "auto" else f"cuda:{index_of(device)}"
        of_each.setdefault(name, []).append(known[key])
    in_processes = members[0].config.has_processes
    num_at_once = num_at_once or len(members)
    return GpuEstimate({name: _total(parts, in_processes, num_at_once) for name, parts in of_each.items()})


def find_gpu_problems(estimate: GpuEstimate, num_members: int = 1) -> Iterator[Problem]:
    """Yield a problem for each GPU with too little free memory for its learners.

    The check itself takes some of a GPU's memory (`CONTEXT_BYTES`), so call it in the learners' own process.
    """
    for name, needed in estimate.of_each.items():
        free = free_bytes(name) + CONTEXT_BYTES
        if needed is None or needed <= free:
            continue
        smaller = "unroll-length or network.width"
        key, remedy = "algorithm.batch-size", f"lower it, {smaller}, or end other programs on the GPU"
        if num_members > 1:
            key, remedy = "grid", f"use fewer members, or lower algorithm.batch-size, {smaller}"
        yield Problem(key, f"about {size(needed)} are needed on the GPU ({name}), where {size(free)} are free", remedy)


def _total(parts: Sequence[int | None], in_processes: bool, num_at_once: int) -> int | None:
    counted = [part for part in parts if part is not None]
    if len(counted) < len(parts):
        return None
    return CONTEXT_BYTES + sum(sorted(counted)[-(1 if in_processes else num_at_once) :])


def _is_uncompiled(config: TrainConfig) -> bool:
    return config.learner.compile == "auto" and config.takes_turns


def _computes_in_bfloat16(config: TrainConfig, spec: UnrollSpec, device: str) -> bool:
    wanted = config.learner.precision == "bfloat16" or (config.learner.precision == "auto" and bool(spec.frames))
    return wanted and (config.has_processes or has_bfloat16(torch.device(device)))


def _words(name: str, num_bytes: int | None) -> str:
    if num_bytes is None:
        return f"an amount on {name} that cannot be estimated for this network"
    return f"about {size(num_bytes)} on {name}"
