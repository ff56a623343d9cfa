"""RLlib's IMPALA on Pong from pixels: env steps/s while learning, after a warm-up.

RLlib gets its best setting: ale-py's native vector environment (no Python wrappers, uint8 frames), workers at niceness
0, and the same network and preprocessing as LASER: 84x84x4 grey, frame skip 4, 16@8x8/4, 32@4x4/2, 256 units.
Runs in its own virtual environment (benchmarks/peer_venv.py); the last line of standard output is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import os
import time

# Ray starts workers at nice 15, where they starve beside the driver. Set before ray is imported.
os.environ["RAY_worker_niceness"] = "0"  # noqa: SIM112 - Ray spells it so
os.environ.setdefault("RAY_DEDUP_LOGS", "0")

import ale_py
import gymnasium
import numpy as np
import ray
import torch
from ale_py.vector_env import AtariVectorEnv
from ray.rllib.algorithms.impala import IMPALAConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.tune.registry import register_env
from torch import nn


class SingleAtari(gymnasium.Env):
    """One environment of the vector, from which RLlib reads the spaces."""

    def __init__(self) -> None:
        self.observation_space = gymnasium.spaces.Box(0, 255, (4, 84, 84), np.uint8)
        self.action_space = gymnasium.spaces.Discrete(6)

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[np.ndarray, dict]:
        return np.zeros((4, 84, 84), np.uint8), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        return np.zeros((4, 84, 84), np.uint8), 0.0, False, False, {}


def make_pong(context: dict) -> gymnasium.Env | AtariVectorEnv:
    """Return the native vector environment, or the stand-in when RLlib asks for a single one."""
    if "num_envs" not in context:
        return SingleAtari()
    return AtariVectorEnv(
        "pong",
        context["num_envs"],
        num_threads=1,
        repeat_action_probability=0.0,
        frameskip=4,
        stack_num=4,
        noop_max=30,
        episodic_life=False,
        reward_clipping=True,
    )


class SmallAtariNet(TorchRLModule, ValueFunctionAPI):
    """The small Atari convolutional net with a policy and a value head."""

    def setup(self) -> None:
        self.body = nn.Sequential(
            nn.Conv2d(4, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(),
            nn.Linear(32 * 9 * 9, 256), nn.ReLU(),
        )  # fmt: skip
        self.policy = nn.Linear(256, self.action_space.n)
        self.value = nn.Linear(256, 1)

    def _features(self, batch: dict) -> torch.Tensor:
        frames = batch[Columns.OBS]
        flat = frames.reshape(-1, *frames.shape[-3:]).float().div(255.0)
        return self.body(flat).reshape(*frames.shape[:-3], 256)

    def _forward(self, batch: dict, **kwargs: object) -> dict:
        return {Columns.ACTION_DIST_INPUTS: self.policy(self._features(batch))}

    def _forward_train(self, batch: dict, **kwargs: object) -> dict:
        features = self._features(batch)
        return {Columns.ACTION_DIST_INPUTS: self.policy(features), Columns.EMBEDDINGS: features}

    def compute_values(self, batch: dict, embeddings: torch.Tensor | None = None) -> torch.Tensor:
        features = self._features(batch) if embeddings is None else embeddings
        return self.value(features).squeeze(-1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--warm-up", type=float, default=30.0, help="seconds before the window")
    parser.add_argument("--window", type=float, default=60.0, help="seconds that are measured")
    parser.add_argument("--runners", type=int, default=2, help="environment runner processes")
    parser.add_argument("--envs", type=int, default=16, help="environments per runner")
    # On two cores a learner in its own process keeps up with a third of the samples, in the driver with all.
    parser.add_argument("--learners", type=int, default=0, help="learner processes; 0: in the driver")
    parser.add_argument("--unroll-length", type=int, default=20)
    parser.add_argument("--batch", type=int, default=640, help="env steps per update")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    # Without "local" Ray would attach to any cluster that already runs on the machine.
    ray.init(address="local", include_dashboard=False, num_cpus=8, logging_level="ERROR", _node_ip_address="127.0.0.1")
    register_env("pong", make_pong)
    algorithm = (
        IMPALAConfig()
        .environment("pong")
        .env_runners(
            num_env_runners=options.runners,
            num_envs_per_env_runner=options.envs,
            gym_env_vectorize_mode="vector_entry_point",
            rollout_fragment_length=options.unroll_length,
        )
        .learners(num_learners=options.learners)
        .rl_module(rl_module_spec=RLModuleSpec(module_class=SmallAtariNet))
        .training(train_batch_size_per_learner=options.batch, lr=6e-4, grad_clip=40.0, entropy_coeff=0.01)
        .reporting(min_time_s_per_iteration=2)
        .debugging(seed=options.seed, log_level="ERROR")
        .build_algo()
    )

    def totals() -> tuple[float, float, float]:
        """Train for an iteration; return the time, env steps sampled and env steps learned from."""
        result = algorithm.train()
        sampled = result.get("env_runners", {}).get("num_env_steps_sampled_lifetime", 0)
        learned = result.get("learners", {}).get("__all_modules__", {}).get("num_env_steps_trained_lifetime", 0)
        return time.perf_counter(), float(sampled), float(learned)

    begun = time.perf_counter()
    while (first := totals())[0] - begun < options.warm_up or not first[2]:
        if first[0] - begun > options.warm_up + 120.0:
            raise RuntimeError("RLlib learned nothing within two minutes after the warm-up")
    while (last := totals())[0] - first[0] < options.window:
        pass
    seconds = last[0] - first[0]
    result = {
        "env_steps": last[1],
        "env_steps_per_second": (last[1] - first[1]) / seconds,
        "learned_steps_per_second": (last[2] - first[2]) / seconds,
        "seconds": seconds,
        "runners": options.runners,
        "envs": options.envs,
        "learners": options.learners,
        "ray": ray.__version__,
        "torch": torch.__version__,
        "ale_py": ale_py.__version__,
    }
    algorithm.stop()
    ray.shutdown()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
