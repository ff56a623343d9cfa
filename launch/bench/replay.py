"""One shard of the replay alone, in this process: inserts and samples per second of a preset's unrolls."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from laser.config import Bounds
from laser.ports import SampleRequest, wait
from laser.unroll import HEADER_DTYPE, PackedFrames, Unrolls, UnrollSpec
from launch.bench import machine
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

_EPISODE_ROWS = 700
# Bytes of a compressed unroll of Pong. Random bytes serve as well, since a shard never decodes them.
_FRAME_BYTES = (2048, 4096)
_DEADLINE_S = 10.0


@dataclass(frozen=True)
class Options:
    """Choice of the measurement."""

    preset: Annotated[str, "preset of the unrolls"] = "pong"
    num_items: Annotated[int, Bounds(least=1, most=1_000_000), "unrolls per sample"] = 128
    num_envs: Annotated[int, Bounds(least=1, most=4096), "unrolls per insert"] = 16
    capacity_steps: Annotated[int, Bounds(least=1, most=10**12), "of the shard, which is full when measured"] = 100_000
    seconds: Annotated[float, Bounds(above=0.0, most=1e6), "seconds of measuring per number"] = 3.0
    json: Annotated[bool, "print one JSON object"] = False


def run(options: Options) -> dict[str, Any]:
    """Measure a full shard: inserts that remove as much as they add, and samples of whole unrolls."""
    config = load_preset(options.preset)
    spec = plan_member(config).unrolls
    per_insert = options.num_envs * spec.unroll_length
    capacity = max(options.capacity_steps, 2 * per_insert)
    shard = Shard(spec, ReplayConfig(capacity_steps=capacity), [MemberSettings(member=0)])
    messages = _Messages(spec, options.num_envs)
    request = SampleRequest(0, options.num_items)

    def insert() -> None:
        wait(shard.insert(messages.next()), _DEADLINE_S, "an insert")

    def sample() -> Any:
        return wait(shard.sample(request), _DEADLINE_S, "a sample")

    try:
        for _ in range(capacity // per_insert + 2):
            insert()
        making_s = _seconds_each(messages.next, 0.2 * options.seconds)
        insert_s = max(1e-9, _seconds_each(insert, options.seconds) - making_s)
        sample_s = _seconds_each(sample, options.seconds)
    finally:
        shard.close()
    parts = {"inserting": insert_s / options.num_envs, "sampling": sample_s / options.num_items}
    slower = max(parts, key=lambda name: parts[name])
    return {
        "preset": config.preset,
        "unroll_rows": spec.unroll_length,
        "inserted_unrolls_per_second": options.num_envs / insert_s,
        "sampled_unrolls_per_second": options.num_items / sample_s,
        "insert_ms": 1e3 * insert_s,
        "sample_ms": 1e3 * sample_s,
        **machine(),
        "bottleneck": f"replay ({slower} costs {1e6 * parts[slower]:.0f} microseconds per unroll)",
    }


class _Messages:
    """Messages of unrolls as an actor sends them, in the order of their sequence numbers."""

    def __init__(self, spec: UnrollSpec, num_envs: int):
        self._spec, self._num_envs, self._sequence = spec, num_envs, 0
        rng = np.random.default_rng(0)
        self._frames = {name: _packed(rng, num_envs) for name in spec.frames}

    def next(self) -> Unrolls:
        """Return the next unroll of every environment; episodes of different environments end at different times."""
        spec, num_envs = self._spec, self._num_envs
        headers = np.zeros(num_envs, HEADER_DTYPE)
        headers["environment"], headers["sequence"] = np.arange(num_envs), self._sequence
        fields = {name: np.zeros((num_envs, *spec.shape(name)), item.array.dtype) for name, item in spec.fields.items()}
        for name in fields:
            if name.startswith("mu/"):
                fields[name] += 1.0
        rows = np.arange(spec.unroll_length + 1) + self._sequence * spec.unroll_length
        rows = rows + 37 * np.arange(num_envs)[:, None]
        fields["first"][:] = rows % _EPISODE_ROWS == 0
        fields["valid"][:] = (rows[:, :-1] + 1) % _EPISODE_ROWS != 0
        self._sequence += 1
        return Unrolls(headers, fields, self._frames)


def _packed(rng: np.random.Generator, num: int) -> PackedFrames:
    lengths = rng.integers(*_FRAME_BYTES, num)
    payload = rng.integers(256, size=int(lengths.sum()), dtype=np.uint8)
    return PackedFrames(payload, np.cumsum(lengths) - lengths, lengths)


def _seconds_each(work: Callable[[], Any], seconds: float) -> float:
    work()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or count == 0:
        work()
        count += 1
    return (time.perf_counter() - start) / count
