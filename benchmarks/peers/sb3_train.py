"""Stable-Baselines3 PPO or DQN on any task with discrete actions; runs in its own virtual environment (peer_venv.py).

`--settings` is a JSON object of arguments as RL Zoo writes them: "lin_0.1" shrinks linearly to 0. The last line of
standard output is one JSON object: the curve is the mean return of the episodes that ended in each twentieth of the env
steps, `final` that of the last tenth. `seconds` counts only training, without imports and construction.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections import deque
from typing import Any

import gymnasium
import numpy as np
import stable_baselines3
import torch
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

NUM_POINTS, LAST = 20, 0.1


class Cells(BaseFeaturesExtractor):
    """MinAtar's net: 16 filters 3x3, 128 units, as LASER's `minatar_cnn`; pictures are bools, channels last."""

    def __init__(self, space: gymnasium.spaces.Box) -> None:
        super().__init__(space, 128)
        height, width, channels = space.shape
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(channels, 16, 3),
            torch.nn.ReLU(),
            torch.nn.Flatten(),
            torch.nn.Linear(16 * (height - 2) * (width - 2), 128),
            torch.nn.ReLU(),
        )

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        return self.net(observations.permute(0, 3, 1, 2).contiguous())


class GridAndDirection(BaseFeaturesExtractor):
    """The same net for MiniGrid's grid, with the direction beside its units."""

    def __init__(self, space: gymnasium.spaces.Dict) -> None:
        super().__init__(space, 128 + gymnasium.spaces.flatdim(space["direction"]))
        self.grid = Cells(space["image"])

    def forward(self, observations: dict[str, torch.Tensor]) -> torch.Tensor:
        return torch.cat([self.grid(observations["image"]), observations["direction"].flatten(1)], 1)


class Episodes(BaseCallback):
    """Keeps (env steps, return) of every episode, and ends training once the last 20 average at least the target."""

    def __init__(self, target: float) -> None:
        super().__init__()
        self.target = target
        self.newest: deque[float] = deque(maxlen=20)
        self.episodes: list[tuple[int, float]] = []
        self.solved_at: tuple[int, float] | None = None
        self.started_at = 0.0

    def _on_training_start(self) -> None:
        self.started_at = time.perf_counter()

    @property
    def mean_return(self) -> float:
        return sum(self.newest) / max(len(self.newest), 1)

    def _on_step(self) -> bool:
        for info in self.locals["infos"]:
            if "episode" in info:
                self.newest.append(info["episode"]["r"])
                self.episodes.append((self.num_timesteps, float(info["episode"]["r"])))
        if len(self.newest) == 20 and self.mean_return >= self.target:
            self.solved_at = (self.num_timesteps, time.perf_counter() - self.started_at)
            return False
        return True


def make_env(env_id: str) -> gymnasium.Env:
    if env_id.startswith("MinAtar/"):
        from laser.environments.minatar import MinAtar  # the same game object as LASER's

        return MinAtar(env_id.removeprefix("MinAtar/").removesuffix("-v1"), minimal_actions=True)
    if env_id.startswith("MiniGrid-"):
        import minigrid  # noqa: F401 - registers the ids

        from laser.environments.minigrid import GridPlanes  # the same observations as LASER's

        return GridPlanes(gymnasium.make(env_id))
    return gymnasium.make(env_id)


def read_value(value: Any) -> Any:
    if isinstance(value, str) and value.startswith("lin_"):
        start = float(value.removeprefix("lin_"))
        return lambda remaining: remaining * start
    return value


def mean_between(episodes: list[tuple[int, float]], begin: float, end: float) -> float | None:
    returns = [value for at, value in episodes if begin < at <= end]
    return float(np.mean(returns)) if returns else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", choices=("ppo", "dqn"), required=True)
    parser.add_argument("--env", required=True)
    parser.add_argument("--steps", type=int, required=True, help="also the length of all schedules")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", type=float, default=float("inf"), help="mean of 20 returns that ends training")
    parser.add_argument("--settings", type=json.loads, default={}, help="JSON object of the algorithm's arguments")
    # On two cores one thread is the faster choice for nets this small; the peer gets its best setting.
    parser.add_argument("--threads", type=int, default=1, help="torch threads")
    options = parser.parse_args()

    torch.set_num_threads(options.threads)
    settings = {key: read_value(value) for key, value in options.settings.items()}
    envs = make_vec_env(lambda: make_env(options.env), n_envs=settings.pop("n_envs", 1), seed=options.seed)
    policy_kwargs = settings.pop("policy_kwargs", {})
    if options.env.startswith("MinAtar/"):
        policy_kwargs |= {"features_extractor_class": Cells, "net_arch": []}
    policy = "MlpPolicy"
    if options.env.startswith("MiniGrid-"):
        policy = "MultiInputPolicy"
        policy_kwargs |= {"features_extractor_class": GridAndDirection, "net_arch": []}
    kind = PPO if options.algorithm == "ppo" else DQN
    model = kind(policy, envs, seed=options.seed, device="cpu", policy_kwargs=policy_kwargs, **settings)
    kept = Episodes(options.target)
    begun = time.perf_counter()
    model.learn(total_timesteps=options.steps, callback=kept)
    env_steps, seconds = kept.solved_at or (model.num_timesteps, time.perf_counter() - begun)
    ends = [options.steps * index / NUM_POINTS for index in range(NUM_POINTS + 1)]
    points = [(end, mean_between(kept.episodes, begin, end)) for begin, end in itertools.pairwise(ends)]
    result = {
        "env_steps": env_steps,
        "seconds": seconds,
        "final": mean_between(kept.episodes, (1 - LAST) * options.steps, options.steps),
        "curve": [[at, round(value, 3)] for at, value in points if value is not None],
        "mean_return": kept.mean_return,
        "episodes": len(kept.episodes),
        "solved": kept.solved_at is not None,
        "stable_baselines3": stable_baselines3.__version__,
        "torch": torch.__version__,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
