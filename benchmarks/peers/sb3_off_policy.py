"""Stable-Baselines3 SAC, TD3 or DDPG: env steps per second while learning, and the greedy policy's return in the end.

Runs in its own virtual environment (benchmarks/peer_venv.py); the last line of standard output is one JSON object.
`env_steps_per_second` is measured from `--timed-from` env steps on, after the warm-up.
"""

from __future__ import annotations

import argparse
import json
import time

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DDPG, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv


class Clock(BaseCallback):
    """Records the time at given numbers of env steps."""

    def __init__(self, timed_from: int) -> None:
        super().__init__()
        self.timed_from = timed_from
        self.began_at = 0.0

    def _on_step(self) -> bool:
        if self.num_timesteps == self.timed_from:
            self.began_at = time.perf_counter()
        return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=("sac", "td3", "ddpg"), required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--timed-from", type=int, required=True)
    parser.add_argument("--random-steps", type=int, required=True, help="steps at random before learning")
    parser.add_argument("--learning-rate", type=float, required=True)
    parser.add_argument("--hidden", type=int, required=True, help="width of both layers")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    parser.add_argument("--together", type=int, default=1, help="updates at a time, after as many env steps")
    parser.add_argument("--episodes", type=int, default=0, help="of evaluation; 0: none")
    parser.add_argument("--evaluation-seed", type=int, default=0, help="of the first reset for evaluation")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    env = gymnasium.make(options.env)
    shared = {
        "learning_rate": options.learning_rate,
        "buffer_size": 1_000_000,
        "learning_starts": options.random_steps,
        "batch_size": 256,
        "tau": 0.005,
        "gamma": 0.99,
        "train_freq": options.together,
        "gradient_steps": options.together,
        "policy_kwargs": {"net_arch": [options.hidden, options.hidden]},
        "seed": options.seed,
        "device": "cpu",
    }
    if options.algorithm == "sac":
        model = SAC("MlpPolicy", env, ent_coef="auto", **shared)
    else:
        (size,) = env.action_space.shape or ()
        # In units of [-1, 1], which SB3 scales actions to before it adds the noise.
        noise = NormalActionNoise(np.zeros(size), np.full(size, 0.1))
        if options.algorithm == "ddpg":
            model = DDPG("MlpPolicy", env, action_noise=noise, **shared)
        else:
            model = TD3("MlpPolicy", env, action_noise=noise, policy_delay=2, target_policy_noise=0.2, **shared)
    clock = Clock(options.timed_from)
    begun = time.perf_counter()
    model.learn(options.steps, callback=clock)
    ended = time.perf_counter()
    result = {
        "env_steps": model.num_timesteps,
        "learner_steps": model._n_updates,
        "seconds": ended - begun,
        "env_steps_per_second": (model.num_timesteps - options.timed_from) / (ended - clock.began_at),
        "stable_baselines3": stable_baselines3.__version__,
        "torch": torch.__version__,
    }
    if model.ep_info_buffer:  # over as many training episodes as LASER's
        result["mean_return"] = float(np.mean([episode["r"] for episode in list(model.ep_info_buffer)[-20:]]))
    if options.episodes:
        test = DummyVecEnv([lambda: gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.make(options.env))])
        test.seed(options.evaluation_seed)
        returns, _ = evaluate_policy(model, test, options.episodes, deterministic=True, return_episode_rewards=True)
        result["evaluation_mean_return"] = float(np.mean(returns))
    print(json.dumps(result))


if __name__ == "__main__":
    main()
