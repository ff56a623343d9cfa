"""Memory of a replay with a million env steps of Pong and of Breakout, filled by playing the games.

Reports the bytes that the shard counts, the growth of the process while the shard was made and filled, and the bytes of
the compressed frames. Target: at most 0.8 GB per game (28 GB as raw stacks, 7 GB as single raw frames).

A trained agent sees busier screens and plays longer episodes: `--run GAME=RUN_DIR` plays with the run's newest policy.
Without it, an untrained policy plays.
"""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
import time
from pathlib import Path

import measure
import numpy as np
import psutil

from actors.policy import Policy
from laser.environments import describe_environment
from laser.ports import Parameters, wait
from laser.specs import EnvironmentSpec
from launch.factories import make_actor
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.settings.train_config import TrainConfig
from launch.topology import shard_factories
from learner.checkpoint import load_newest_checkpoint
from learner.publishing.parameter_store import ParameterStore

GAMES = {"pong": "ALE/Pong-v5", "breakout": "ALE/Breakout-v5"}
TO_REACH_GB = 0.8


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="env steps that the replay holds")
    parser.add_argument("--run", action="append", default=[], metavar="GAME=RUN_DIR", help="run whose policy plays")
    parser.add_argument("--game", choices=GAMES, action="append", help="default: both")
    parser.add_argument("--alone", action="store_true", help="fill in this process and print JSON (used by the script)")
    options = parser.parse_args()
    if options.quick:
        options.steps = 20_000
    runs = dict(words.split("=", 1) for words in options.run)
    if options.alone:
        (game,) = options.game
        print(json.dumps(fill(game, options.steps, Path(runs[game]) if game in runs else None)))
        return

    results, conclusions = {}, []
    for game in options.game or GAMES:
        command = [sys.executable, __file__, "--alone", "--game", game, "--steps", str(options.steps)]
        for words in options.run:
            command += ["--run", words]
        # A process per game: memory that one game left in the allocator must not count for the other.
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=measure.ROOT)
        if done.returncode:
            raise measure.BenchmarkError(done.stderr)
        results[game] = row = json.loads(done.stdout.splitlines()[-1])
        conclusions.append(
            f"{game} ({row['policy']}): {row['memory_bytes'] / 1e9:.3f} GB held for {row['num_steps']:,} env steps, "
            f"of it {row['frame_bytes'] / 1e9:.3f} GB compressed frames; the process grew by "
            f"{row['grown_bytes'] / 1e9:.3f} GB; to reach {TO_REACH_GB} GB per million"
        )
        print(conclusions[-1], flush=True)
    measure.save("memory", vars(options), results, conclusions)


def fill(game: str, num_steps: int, run_dir: Path | None) -> dict:
    """Fill one shard by playing until it has forgotten its first episodes; return its sizes."""
    preset = load_preset("pong")
    config = dataclasses.replace(
        preset,
        env=GAMES[game],
        # Without fresh draws there is no online queue, so inserts wait for nobody.
        algorithm=dataclasses.replace(preset.algorithm, replay_fraction=1.0),
        replay=dataclasses.replace(preset.replay, capacity_steps=num_steps),
    )
    environment = describe_environment(config.env, config.environment)
    process = psutil.Process()
    before = process.memory_info().rss
    member = plan_member(config, environment)
    (make_shard,) = shard_factories([member])
    shard = make_shard()
    empty = process.memory_info().rss - before
    store = ParameterStore()
    store.publish(Parameters(0, parameters_of(config, environment, run_dir)))
    actor = make_actor(member, shard, store, index=0, incarnation=0)
    begun, forgotten = time.monotonic(), False
    while not forgotten:
        actor.run_unroll()
        actor.settle()
        stats = wait(shard.stats(), 60.0, "the shard's numbers")
        forgotten = stats.ledger.removed > 0
    actor.close()
    stats = wait(shard.stats(), 60.0, "the shard's numbers")
    return {
        "policy": f"policy of {run_dir}" if run_dir else "untrained policy",
        "num_steps": stats.num_steps,
        "memory_bytes": stats.memory_bytes,
        "frame_bytes": stats.frame_bytes,
        "frame_capacity_bytes": stats.frame_capacity_bytes,
        "grown_empty_bytes": empty,
        "grown_bytes": process.memory_info().rss - before,
        "seconds": time.monotonic() - begun,
    }


def parameters_of(config: TrainConfig, environment: EnvironmentSpec, run_dir: Path | None) -> np.ndarray:
    """Return the flat parameters of a run's newest checkpoint, or of fresh networks."""
    policy = Policy(config.algorithm.build(environment, config.network), environment, seed=1)
    if run_dir is not None:
        checkpoint, _ = load_newest_checkpoint(run_dir / "checkpoints")
        policy.networks.load_state_dict(checkpoint.tensors["networks"])
    return policy.parameters.to_numpy()


if __name__ == "__main__":
    main()
