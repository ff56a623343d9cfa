"""Memory of a plan: an estimate before the start, and the check that it is free."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from laser.config import Problem
from laser.unroll import UnrollSpec
from launch.planning.member_plan import MemberPlan
from launch.words import MB, size

# Resident sizes measured on Linux with torch on the CPU: one process with torch imported, and a gymnasium or Atari
# environment inside it. Each process of the Ray runtime imports torch again.
_PROCESS_BYTES = 350 * MB
# A shard's process, which has no torch, without the steps it stores. Ray imports pyarrow where it is installed, 25 MB.
_SHARD_PROCESS_BYTES = 150 * MB
# A parameter store's process on Ray, and the processes of a run's own Ray: head, raylet and agents.
_STORE_PROCESS_BYTES, _RAY_BYTES = 130 * MB, 450 * MB
_ENVIRONMENT_BYTES = 10 * MB
_LEARNER_COPIES = 6  # of all weights: parameters, gradients, two moments, published copies
_STATE_COPIES = 4  # of all weights in a learner's state: parameters, two moments, targets
MOST_BACKUP_BYTES = 2**30
"""Memory that copies of learners may take in the main process of a run on Ray, for all members together."""
_HEADROOM = 0.9
"""Fraction of the free memory that a run may plan for; estimates are rough and other programs need memory too."""


@dataclass(frozen=True)
class MemoryEstimate:
    """The bytes a run will need at most, by component.

    Args:
        replay: what is stored.
        actors: of all members.
        learner: of all members.
        networks: the share of weights in actors and learner.
        shard_processes: what the processes of shards need beside what they store; 0 where shards share a process.
        others: what evaluators, parameter stores, Ray's own processes and the copies of learners in the main process
            need; 0 where all share a process.
    """

    replay: int
    actors: int
    learner: int
    networks: int = 0
    shard_processes: int = 0
    others: int = 0

    @property
    def total(self) -> int:
        """Sum of all components."""
        return self.shards + self.actors + self.learner + self.others

    @property
    def shards(self) -> int:
        """The replay with the processes of its shards."""
        return self.replay + self.shard_processes

    def __str__(self) -> str:
        """Return the total and its parts in words."""
        parts = f"replay {size(self.shards)}, actors {size(self.actors)}, learner {size(self.learner)}"
        if self.others:
            parts += f", other processes {size(self.others)}"
        return f"{size(self.total)} ({parts})"


def estimate_memory(
    members: Sequence[MemberPlan],
    num_weights: Sequence[int],
    replay_bytes: int,
    num_shards: int,
    num_at_once: int | None = None,
) -> MemoryEstimate:
    """Return the memory that the members of a population will need at most.

    Args:
        members: the plans of the members.
        num_weights: number of weights in each member's networks.
        replay_bytes: the most that all replays together need.
        num_shards: number of shards of all replays together.
        num_at_once: number of members that train at the same time, in any composition; None: all.
    """
    num_at_once = num_at_once or len(members)
    parts = [_member_bytes(*each) for each in zip(members, num_weights, strict=True)]
    # Threads share one process; on Ray every learner imports torch again, and every shard has a process, too.
    has_processes = members[0].config.has_processes
    num_learners = num_at_once if has_processes else 1
    return MemoryEstimate(
        replay=replay_bytes,
        actors=_largest((actors for actors, _ in parts), num_at_once),
        learner=_largest((learner for _, learner in parts), num_at_once) + num_learners * _PROCESS_BYTES,
        networks=_largest(
            (
                4 * number * (_LEARNER_COPIES + member.config.num_actors)
                for member, number in zip(members, num_weights, strict=True)
            ),
            num_at_once,
        ),
        shard_processes=num_shards * _SHARD_PROCESS_BYTES if has_processes else 0,
        others=_other_bytes(members, num_weights, num_at_once) if has_processes else 0,
    )


def _other_bytes(members: Sequence[MemberPlan], num_weights: Sequence[int], num_at_once: int) -> int:
    """Return the bytes on Ray beside those of replay, actors and learners."""
    evaluators = _largest((_PROCESS_BYTES * (member.config.evaluation.interval > 0) for member in members), num_at_once)
    kept = min(_largest((4 * number * _STATE_COPIES for number in num_weights), num_at_once), MOST_BACKUP_BYTES)
    return evaluators + num_at_once * _STORE_PROCESS_BYTES + _RAY_BYTES + 2 * kept  # one copy, and the next one


def _largest(parts: Iterable[int], num: int) -> int:
    """Return the sum of the `num` largest parts."""
    return sum(sorted(parts)[-num:])


def _member_bytes(member: MemberPlan, num_weights: int) -> tuple[int, int]:
    """Return the bytes of a member's actors and of its learner, without the learner's process."""
    config, spec = member.config, member.unrolls
    stacked = sum(item.num_frame_bytes * item.stack for item in spec.frames.values())
    raw_unroll = spec.num_fixed_bytes + (spec.unroll_length + 1) * stacked
    networks = 4 * num_weights
    num_rows = config.algorithm.rows_per_item(spec.unroll_length) + 1
    batch = config.algorithm.batch_size * raw_unroll * num_rows // (spec.unroll_length + 1)
    # Activations take about ten times the input in float32; on a GPU they are not in this memory.
    on_gpu = member.device.name.startswith("cuda")
    activations = 0 if on_gpu else 10 * 4 * config.algorithm.batch_size * num_rows * _largest_input(spec)
    learner = _LEARNER_COPIES * networks + (config.learner.num_prefetch + 2) * batch + activations
    per_actor = networks + config.num_envs * (_ENVIRONMENT_BYTES + (config.actor.max_unacknowledged + 1) * raw_unroll)
    processes = config.num_actors if config.has_processes else 0
    actors = config.num_actors * per_actor + processes * _PROCESS_BYTES
    return actors, learner


def find_memory_problems(
    estimate: MemoryEstimate, available: int, num_members: int = 1, share_replay: bool = False
) -> Iterator[Problem]:
    """Yield why a population does not fit into `available` bytes, with the setting to lower."""
    room = int(_HEADROOM * available)
    if estimate.total <= room:
        return
    if num_members > 1:
        wrong = f"{num_members} members need {estimate}, but only {size(room)} can be used here"
        sharing = "" if share_replay else ", or --share-replay"
        yield Problem("grid", wrong, f"use fewer members, or lower replay.capacity-steps{sharing}")
        return
    if 2 * estimate.networks > estimate.total:
        wrong = f"the run needs {estimate}, nearly all of it for weights, but only {size(room)} can be used here"
        yield Problem("network", wrong, "use smaller layers: network.hidden-sizes, network.width")
        return
    largest = max(("replay", "actors", "learner"), key=lambda part: int(getattr(estimate, part)))
    key, remedy = {
        "replay": ("replay.capacity-steps", "lower it, or replay.capacity-bytes"),
        "actors": ("num-actors", "lower it, or num-envs"),
        "learner": ("algorithm.batch-size", "lower it, or unroll-length"),
    }[largest]
    yield Problem(key, f"the run needs {estimate}, but only {size(room)} can be used here", remedy)


def available_memory() -> int:
    """Return the bytes that this process may still use: free memory, within its container's limit."""
    available = int(psutil.virtual_memory().available)
    limit, used = _control_group()
    return available if limit is None else max(0, min(available, limit - used))


def _largest_input(spec: UnrollSpec) -> int:
    pixels = [item.num_frame_bytes * item.stack for item in spec.frames.values()]
    vectors = sum(field.array.size for name, field in spec.fields.items() if name.startswith("observations/"))
    return max([*pixels, vectors, 64])


def _control_group(root: Path = Path("/sys/fs/cgroup")) -> tuple[int | None, int]:
    """Return memory limit and use of this process's control group (version 2, then 1); (None, 0) without a limit."""
    for limit_name, used_name in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        try:
            limit, used = (root / limit_name).read_text().strip(), (root / used_name).read_text().strip()
        except OSError:
            continue
        # Version 1 writes a number near 2^63 for "no limit".
        if limit.isdigit() and int(limit) < 2**60:
            return int(limit), int(used)
        return None, 0
    return None, 0
