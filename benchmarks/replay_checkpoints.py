"""Checkpoints of a replay of Atari-like unrolls: bytes of a further save, and the learner's rate meanwhile.

python benchmarks/replay_checkpoints.py [--steps N] [--new-steps N] [--saves N] [--quick]
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from measure import save
from replay_shard import atari_spec, make_message
from torch import device

from laser.ports import SampleRequest, wait
from launch.bench.learner import make_update
from launch.presets import load_preset
from launch.records.replay_segments import ReplaySegments
from launch.records.saved_state import take_arrays_out
from learner.checkpoint import save_checkpoint
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

ENVIRONMENTS = 32
UNROLLS = 1  # of a batch: short updates, so that many end during a save
INTERVAL_S = 60


class Updates(threading.Thread):
    """A learner that draws and updates as fast as it can; it counts its updates."""

    def __init__(self, shard: Shard):
        super().__init__(daemon=True)
        config = load_preset("pong")
        settings = dataclasses.replace(config.algorithm, batch_size=UNROLLS)
        made = make_update(dataclasses.replace(config, algorithm=settings, device="cpu"), atari_spec().environment)
        self._shard, self._batch = shard, made.batch
        learner = dataclasses.replace(config.learner, compile="off")
        self._step = made.make_step(learner, device("cpu"))
        self.num, self.ends = 0, False

    def run(self) -> None:
        while not self.ends:
            wait(self._shard.sample(SampleRequest(0, UNROLLS)), 60.0, "a sample")
            self._step(self._step.to_device(self._batch), 1e-6, {})
            self.num += 1


def insert(shard: Shard, first: int, num_steps: int, rng: np.random.Generator) -> int:
    """Insert unrolls of about this many steps; return the number of the next message."""
    spec = atari_spec()
    num = max(1, num_steps // (ENVIRONMENTS * spec.unroll_length))
    for sequence in range(first, first + num):
        wait(shard.insert(make_message(spec, sequence, ENVIRONMENTS, rng)), 60.0, "an insert")
    return first + num


def save_once(root: Path, segments: ReplaySegments, shard: Shard, step: int) -> float:
    """Save the shard with a checkpoint as a run does; return the seconds."""
    begun = time.perf_counter()
    arrays: dict[str, np.ndarray] = {}
    tree = {"replay": segments.save([shard])}
    save_checkpoint(root / "checkpoints", step, {}, {"tree": take_arrays_out(tree, "", arrays)}, arrays, keep_last=2)
    segments.remove_unused()
    return time.perf_counter() - begun


def size(root: Path) -> dict[str, int]:
    return {str(path): path.stat().st_size for path in root.rglob("*") if path.is_file()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--new-steps", type=int, default=10_000)
    parser.add_argument("--saves", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.new_steps, options.saves = 4000, 400, 2
    rng = np.random.default_rng(0)
    shard = Shard(atari_spec(), ReplayConfig(capacity_steps=options.steps), [MemberSettings(0)])
    at = insert(shard, 0, options.steps, rng)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        segments = ReplaySegments(root / "replay", root / "checkpoints")
        save_once(root, segments, shard, 0)
        before = size(root)
        at = insert(shard, at, options.new_steps, rng)
        save_once(root, segments, shard, 1)
        after = size(root)
        first, second = sum(before.values()), sum(num for path, num in after.items() if path not in before)
        bytes_line = f"first save {first / 1e6:.1f} MB, second {second / 1e6:.1f} MB: {second / first:.1%} of it"
        learner = Updates(shard)
        learner.start()
        while not learner.num:
            time.sleep(0.1)
        free_s = saving_s = 0.0
        free = saving = 0
        for number in range(options.saves):
            at = insert(shard, at, options.new_steps, rng)
            count = learner.num
            taken = save_once(root, segments, shard, 2 + number)
            saving_s, saving = saving_s + taken, saving + learner.num - count
            begun, count = time.perf_counter(), learner.num
            time.sleep(max(2.0, 2 * taken))
            free_s, free = free_s + time.perf_counter() - begun, free + learner.num - count
        learner.ends = True
        learner.join()
    shard.close()
    alone, meanwhile = free / free_s, saving / saving_s
    rate_line = (
        f"{saving_s / options.saves:.2f} s a save; updates/s {alone:.2f}, while saving {meanwhile:.2f}: "
        f"{meanwhile / alone:.0%} of it"
    )
    kept = 1.0 - saving_s / options.saves * max(0.0, 1.0 - meanwhile / alone) / INTERVAL_S
    kept_line = f"with a save every {INTERVAL_S} s the learner keeps {kept:.2%} of its rate"
    results = {
        "first_bytes": first,
        "second_bytes": second,
        "seconds_per_save": saving_s / options.saves,
        "updates_per_second": alone,
        "updates_per_second_while_saving": meanwhile,
    }
    save("replay_checkpoints", vars(options), results, [bytes_line, rate_line, kept_line])


if __name__ == "__main__":
    main()
