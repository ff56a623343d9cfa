"""Unrolls/s that one shard in its own process samples and inserts over Ray, and unrolls/s that one core decodes.

Unrolls are like Pong's: T = 20, 84x84 frames compressed to about 3 kB. Samples of 128 have a few requests in flight, as
with a learner's prefetch; inserts of 32 come from two actors, each with one in flight. Target: 60,000 unrolls/s
sampled, still compressed, and 10,000 inserted. The rate of a thread that receives and decodes samples is compared with
the rate at which it could decode if samples cost nothing.
"""

from __future__ import annotations

import copy
import itertools
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import measure
import numpy as np

from laser.frames import compress_frames, decompress_frames
from laser.ports import ReplayPort, Sample, SampleRequest, wait
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, FramesSpec
from laser.unroll import HEADER_DTYPE, PackedFrames, Unrolls, UnrollSpec
from launch.runtimes.ray_runtime import RayRuntime
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

SAMPLED_TARGET, INSERTED_TARGET = 60_000, 10_000
NUM_ITEMS, NUM_ENVIRONMENTS, NUM_ACTORS = 128, 32, 2
CAPACITY_STEPS = 200_000
FRAME_BYTES = 3000
SPEC = UnrollSpec(
    20,
    EnvironmentSpec("Pong-like", {"observation": FramesSpec((84, 84), stack=4)}, DiscreteActions(6)),
    {"logits": ArraySpec((6,))},
)


def make_shard() -> Shard:
    return Shard(SPEC, ReplayConfig(capacity_steps=CAPACITY_STEPS), [MemberSettings(0)])


class Stream:
    """The messages of one actor: the same rows repeatedly, under new sequence numbers."""

    def __init__(self, actor: int, rng: np.random.Generator):
        shape = (NUM_ENVIRONMENTS,)
        self.fields = {
            name: np.zeros((*shape, *SPEC.shape(name)), field.array.dtype) for name, field in SPEC.fields.items()
        }
        self.fields["valid"][:] = True
        self.headers = np.zeros(shape, HEADER_DTYPE)
        self.headers["actor"], self.headers["environment"] = actor, np.arange(NUM_ENVIRONMENTS)
        self.frames = {"observation": make_frames(NUM_ENVIRONMENTS, rng)}
        self.sequence = 0

    def next(self) -> Unrolls:
        headers = self.headers.copy()
        headers["sequence"] = self.sequence
        # An episode of 40 unrolls, after which the shard may forget it.
        fields = dict(self.fields)
        if self.sequence % 40 == 39:
            fields["valid"] = fields["valid"].copy()
            fields["valid"][:, -1] = False
            fields["first"] = fields["first"].copy()
            fields["first"][:, -1] = True
        self.sequence += 1
        return Unrolls(headers, fields, self.frames)


def make_frames(num_unrolls: int, rng: np.random.Generator) -> PackedFrames:
    """Return unrolls of a flat background with noise in one patch, so that each compresses to about `FRAME_BYTES`."""
    frames = np.full((num_unrolls, SPEC.num_frames("observation"), 84, 84), 87, np.uint8)
    patch = max(1, FRAME_BYTES // frames.shape[1])
    frames.reshape(num_unrolls, frames.shape[1], -1)[:, :, :patch] = rng.integers(
        256, size=(num_unrolls, frames.shape[1], patch), dtype=np.uint8
    )
    return compress_frames(frames)


def per_second(make: Callable[[], Future[Any]], use: Callable[[Any], None], in_flight: int, seconds: float) -> float:
    """Return calls/s with `in_flight` calls in flight; each result is used before the next call is made."""
    waiting = deque(make() for _ in range(in_flight))
    begun, num_calls = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < seconds:
        use(wait(waiting.popleft(), 30.0, "the shard"))
        waiting.append(make())
        num_calls += 1
    for future in waiting:
        wait(future, 30.0, "the shard")
    return num_calls / passed


def measure_once(port: ReplayPort, streams: list[Stream], in_flight: int, seconds: float) -> dict[str, float]:
    request = SampleRequest(0, NUM_ITEMS)
    out = np.empty((NUM_ITEMS, SPEC.num_frames("observation"), 84, 84), np.uint8)

    def decode(sample: Sample) -> None:
        decompress_frames(sample.unrolls.frames["observation"], out)

    def ask() -> Future[Sample]:
        return port.sample(request)

    # A port sends one insert at a time; every actor has a port of its own.
    ports = [copy.copy(port) for _ in streams]
    turn = itertools.cycle(range(NUM_ACTORS))
    inserts = per_second(
        lambda: ports[actor := next(turn)].insert(streams[actor].next()), lambda _: None, NUM_ACTORS, seconds
    )
    sampled = per_second(ask, lambda _: None, in_flight, seconds)
    decoded = per_second(ask, decode, in_flight, seconds)
    sample = wait(ask(), 30.0, "a sample")
    begun, num_decoded = time.perf_counter(), 0
    while (passed := time.perf_counter() - begun) < 0.5 * seconds:
        decode(sample)
        num_decoded += NUM_ITEMS
    return {
        "inserted_per_second": NUM_ENVIRONMENTS * inserts,
        "sampled_per_second": NUM_ITEMS * sampled,
        "sampled_and_decoded_per_second": NUM_ITEMS * decoded,
        "decodable_per_second": num_decoded / passed,
        "decoding_share": NUM_ITEMS * decoded / (num_decoded / passed),
    }


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds per number and repeat")
    parser.add_argument("--in-flight", type=int, default=3, help="samples in flight")
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.seconds = 1, 0.5
    runtime = RayRuntime()
    try:
        (shard,) = runtime.shards([make_shard])
        rng = np.random.default_rng(0)
        streams = [Stream(actor, rng) for actor in range(NUM_ACTORS)]
        frame_bytes = float(streams[0].frames["observation"].lengths.mean())
        for _ in range(CAPACITY_STEPS // SPEC.unroll_length // NUM_ENVIRONMENTS // NUM_ACTORS + 1):
            for stream in streams:
                wait(shard.insert(stream.next()), 30.0, "an insert")
        side = partial(measure_once, shard, streams, options.in_flight, options.seconds)
        results = measure.alternate({"ray": lambda repeat: side()}, options.repeats)
    finally:
        runtime.close()
    sampled, inserted, decoded, decodable, share = (
        measure.summarise(results["ray"], key, unit)
        for key, unit in (
            ("sampled_per_second", "unrolls/s"),
            ("inserted_per_second", "unrolls/s"),
            ("sampled_and_decoded_per_second", "unrolls/s"),
            ("decodable_per_second", "unrolls/s"),
            ("decoding_share", ""),
        )
    )
    measure.save(
        "replay_ray",
        {**vars(options), "frame_bytes_per_unroll": frame_bytes},
        results,
        [
            f"sampled, {NUM_ITEMS} at a time, {frame_bytes:.0f} bytes of frames each: {sampled} "
            f"(to reach: {SAMPLED_TARGET:,}; {'reached' if sampled.median >= SAMPLED_TARGET else 'missed'})",
            f"inserted, {NUM_ENVIRONMENTS} at a time: {inserted} "
            f"(to reach: {INSERTED_TARGET:,}; {'reached' if inserted.median >= INSERTED_TARGET else 'missed'})",
            f"sampled and decoded by one thread: {decoded}; that thread alone could decode {decodable}: {share}",
        ],
    )


if __name__ == "__main__":
    main()
