"""Speed at which one shard samples and inserts, in-process: medians, with the machine and the commit.

python benchmarks/replay_shard.py [--repeats N] [--block-bytes B ...]
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import replay_server.storage.arena
import replay_server.store.sizes
from laser.ports import SampleRequest, wait
from laser.specs import ArraySpec, ContinuousActions, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, PackedFrames, Unrolls, UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

EPISODE_ROWS = 700


def atari_spec() -> UnrollSpec:
    environment = EnvironmentSpec("Atari", {"observation": FramesSpec((84, 84), stack=4)}, DiscreteActions(6))
    return UnrollSpec(20, environment, {"logits": ArraySpec((6,))})


def vector_spec() -> UnrollSpec:
    environment = EnvironmentSpec(
        "Vector", {"observation": VectorSpec((17,))}, ContinuousActions((-1.0,) * 6, (1.0,) * 6)
    )
    return UnrollSpec(20, environment, {"mean": ArraySpec((6,)), "deviation": ArraySpec((6,))})


def make_message(spec: UnrollSpec, sequence: int, num_environments: int, rng: np.random.Generator) -> Unrolls:
    """Return one unroll of each environment; blobs have 2-4 kB of random bytes."""
    headers = np.zeros(num_environments, HEADER_DTYPE)
    headers["environment"], headers["sequence"] = np.arange(num_environments), sequence
    fields = {
        name: np.zeros((num_environments, *spec.shape(name)), field.array.dtype) for name, field in spec.fields.items()
    }
    length = spec.unroll_length
    rows = np.arange(sequence * length, (sequence + 1) * length + 1)
    # Environments end their episodes at different times.
    rows = rows + 37 * np.arange(num_environments)[:, None]
    fields["first"][:] = rows % EPISODE_ROWS == 0
    fields["valid"][:] = (rows[:, :-1] + 1) % EPISODE_ROWS != 0
    frames = {}
    if spec.frames:
        lengths = rng.integers(2048, 4096, num_environments)
        starts = np.cumsum(lengths) - lengths
        payload = rng.integers(256, size=int(lengths.sum()), dtype=np.uint8)
        frames["observation"] = PackedFrames(payload, starts, lengths)
    return Unrolls(headers, fields, frames)


def make_shard(spec: UnrollSpec, capacity_steps: int) -> Shard:
    return Shard(spec, ReplayConfig(capacity_steps=capacity_steps), [MemberSettings(0)])


def fill(shard: Shard, spec: UnrollSpec, num_messages: int, rng: np.random.Generator) -> None:
    for sequence in range(num_messages):
        wait(shard.insert(make_message(spec, sequence, 32, rng)), 10, "insert")


def median_s(repeats: int, call: Callable[[int], None]) -> float:
    for i in range(20):
        call(i)
    times = []
    for i in range(20, 20 + repeats):
        begin = time.perf_counter()
        call(i)
        times.append(time.perf_counter() - begin)
    return float(np.median(times))


def measure_unrolls(repeats: int) -> None:
    spec, rng = atari_spec(), np.random.default_rng(0)
    shard = make_shard(spec, 200_000)
    fill(shard, spec, 400, rng)  # past the capacity: every insert also forgets
    request = SampleRequest(0, 128)
    seconds = median_s(repeats, lambda _: wait(shard.sample(request), 10, "sample") and None)
    print(f"sample 128 Atari unrolls: {seconds * 1e6:.0f} us, {128 / seconds:,.0f} unrolls/s")
    for num in (16, 32):
        messages = [make_message(spec, i, num, rng) for i in range(repeats + 20)]
        for message in messages:
            message.headers["actor"] = num
        seconds = median_s(repeats, lambda i, m=messages: wait(shard.insert(m[i]), 10, "insert") and None)
        print(f"insert {num} Atari unrolls, evicting: {seconds * 1e6:.0f} us, {num / seconds:,.0f} unrolls/s")
    request = SampleRequest(0, 128, view="steps", n_step=3, discount=0.99)
    seconds = median_s(repeats, lambda _: wait(shard.sample(request), 10, "sample") and None)
    print(f"sample 128 Atari steps, n=3, as windows of compressed unrolls: {seconds * 1e6:.0f} us")
    shard.close()


def measure_steps(repeats: int) -> None:
    spec, rng = vector_spec(), np.random.default_rng(0)
    shard = make_shard(spec, 1_000_000)
    fill(shard, spec, 1700, rng)
    for num_steps in (1, 5):
        request = SampleRequest(0, 256, view="steps", n_step=num_steps, discount=0.99)
        seconds = median_s(repeats, lambda _, r=request: wait(shard.sample(r), 10, "sample") and None)
        print(f"sample 256 steps of 17 numbers, n={num_steps}, 1M stored: {seconds * 1e6:.0f} us")
    shard.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--block-bytes", type=int, nargs="*", default=[replay_server.storage.arena.BLOCK_BYTES])
    arguments = parser.parse_args()
    root = Path(__file__).parents[1]
    commit = subprocess.run(
        ["git", "-C", str(root), "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    print(f"{platform.machine()}, {os.cpu_count()} cores, NumPy {np.__version__}, commit {commit.stdout.strip()}")
    for block_bytes in arguments.block_bytes:
        replay_server.storage.arena.BLOCK_BYTES = replay_server.store.sizes.BLOCK_BYTES = block_bytes
        replay_server.storage.arena.Arena.__init__.__defaults__ = (block_bytes,)
        print(f"blocks of {block_bytes} bytes")
        measure_unrolls(arguments.repeats)
    measure_steps(arguments.repeats)


if __name__ == "__main__":
    main()
