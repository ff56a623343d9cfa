"""The rows of docs/results.md: a question, the sides that answer it, and what LASER is to reach.

A side is a command whose last line is a JSON object; `results.py` runs it once for every seed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import peer_venv

LASER, PPO, DQN = "LASER", "SB3 PPO", "SB3 DQN"
SIDES = (LASER, PPO, DQN)
"""All sides, in the order of their colours; ours is the first."""
_MINATAR_LENGTHS = {"": 200_000, "_1m": 1_000_000}
_PPO_MINATAR = {  # the best of five on seed 100; the others: 1e-3, entropy 0.01, RL Zoo for Atari with 2.5e-4 and 1e-3
    "n_envs": 8,
    "n_steps": 256,
    "n_epochs": 10,
    "batch_size": 64,
    "learning_rate": 3e-4,
    "clip_range": 0.2,
    "ent_coef": 0.0,
}
_PPO_MINATAR_SOURCE = "its defaults, but 8 environments x 256 steps, not 1 x 2,048; the best of five on seed 100"
_DQN_MINATAR = {  # Young and Tian 2019, as far as its settings exist here
    "learning_rate": 2.5e-4,
    "buffer_size": 100_000,
    "learning_starts": 5_000,
    "batch_size": 32,
    "train_freq": 1,
    "target_update_interval": 1_000,
    "exploration_final_eps": 0.1,
}
_DQN_MINATAR_EXPLORES = 100_000  # env steps until the final exploration
_PPO_MINIGRID = {  # RL Zoo, but with the observations of LASER's `GridPlanes` and the same net
    "n_envs": 8,
    "n_steps": 128,
    "batch_size": 64,
    "gae_lambda": 0.95,
    "gamma": 0.99,
    "n_epochs": 10,
    "ent_coef": 0.0,
    "learning_rate": 2.5e-4,
    "clip_range": 0.2,
}
_PPO_LUNAR_LANDER = {  # RL Zoo
    "n_envs": 16,
    "n_steps": 1024,
    "batch_size": 64,
    "gae_lambda": 0.98,
    "gamma": 0.999,
    "n_epochs": 4,
    "ent_coef": 0.01,
}
_DQN_LUNAR_LANDER_STEPS = 500_000
_DQN_LUNAR_LANDER = {  # RL Zoo, for 100,000 env steps; a longer run explores as long as that one
    "learning_rate": 6.3e-4,
    "batch_size": 128,
    "buffer_size": 50_000,
    "learning_starts": 0,
    "gamma": 0.99,
    "target_update_interval": 250,
    "train_freq": 4,
    "gradient_steps": -1,
    "exploration_fraction": 0.12 * 100_000 / _DQN_LUNAR_LANDER_STEPS,
    "exploration_final_eps": 0.1,
    "policy_kwargs": {"net_arch": [256, 256]},
}


@dataclass(frozen=True)
class Peer:
    """A side that runs Stable-Baselines3.

    Args:
        algorithm: ppo or dqn.
        steps: env steps, which its schedules depend on.
        settings: of the algorithm, as RL Zoo writes them.
        source: of the settings.
    """

    algorithm: str
    steps: int
    settings: Mapping[str, object]
    source: str

    def words(self, env: str, target: float | None) -> list[str]:
        """Return the arguments of `peers/sb3_train.py`, without the seed."""
        words = ["--algorithm", self.algorithm, "--env", env, "--steps", str(self.steps)]
        words += ["--target", str(target)] if target is not None else []
        return [*words, "--settings", json.dumps(dict(self.settings))]


@dataclass(frozen=True)
class Row:
    """One question of the page.

    Args:
        title: the question.
        env: id of the environment.
        preset: LASER's settings.
        steps: LASER's env steps.
        peers: by name.
        seeds: of every side; none of them helped to choose settings.
        seen: how seeds had been looked at all the same before the settings were final.
        target: the result is the env steps until the last 20 episodes average this; None: the final return, the mean
            of the episodes that ended in the last tenth of the env steps.
        to_reach: LASER's aim, as the ratio to the best peer: at most this for env steps, at least this for returns.
        goal: LASER's aim whatever the peers do: a final return of at least this with every seed, or at most so many env
            steps in the median, and `worst` with every seed.
        worst: see `goal`.
        algorithm: of LASER's side, if it is not LASER's own.
    """

    title: str
    env: str
    preset: str
    steps: int
    peers: Mapping[str, Peer] = field(default_factory=dict)
    seeds: tuple[int, ...] = (11, 12, 13, 14, 15)
    seen: str = ""
    target: float | None = None
    to_reach: float = 1.0
    goal: float | None = None
    worst: float = math.inf
    algorithm: str = ""

    @property
    def unit(self) -> str:
        """Unit of the results."""
        return "return" if self.target is None else "env steps"

    @property
    def game(self) -> str:
        """Game of MinAtar; of other environments nothing."""
        return self.env.removeprefix("MinAtar/").removesuffix("-v1") if self.env.startswith("MinAtar/") else ""


def _minatar(game: str, steps: int) -> Row:
    dqn = {**_DQN_MINATAR, "exploration_fraction": _DQN_MINATAR_EXPLORES / steps}
    return Row(
        f"MinAtar {game}, {steps:,} env steps: final return",
        f"MinAtar/{game}-v1",
        "minatar",
        steps,
        {
            PPO: Peer("ppo", steps, _PPO_MINATAR, _PPO_MINATAR_SOURCE),
            DQN: Peer("dqn", steps, dqn, "Young and Tian 2019"),
        },
        to_reach=1.3,
    )


ROWS: dict[str, Row] = {
    "cartpole": Row(
        "CartPole-v1: env steps to a mean return of 475",
        "CartPole-v1",
        "cartpole",
        100_000,
        {PPO: Peer("ppo", 100_000, peer_venv.PPO_CARTPOLE, "RL Zoo")},
        seeds=tuple(range(40, 52)),
        seen="all, in three measurements between which settings changed",
        target=475.0,
        goal=18_000.0,
        worst=35_000.0,
    ),
    "lunar_lander": Row(
        "LunarLander-v3: env steps to a mean return of 200",
        "LunarLander-v3",
        "box2d",
        500_000,
        {
            PPO: Peer("ppo", 1_000_000, _PPO_LUNAR_LANDER, "RL Zoo"),
            DQN: Peer("dqn", _DQN_LUNAR_LANDER_STEPS, _DQN_LUNAR_LANDER, "RL Zoo"),
        },
        seen="11, with LASER's own agent, before double DQN took its place",
        target=200.0,
        to_reach=0.5,
        algorithm="double DQN",
    ),
    "doorkey": Row(
        "MiniGrid-DoorKey-5x5-v0: env steps to a mean return of 0.9",
        "MiniGrid-DoorKey-5x5-v0",
        "minigrid",
        100_000,
        {PPO: Peer("ppo", 100_000, _PPO_MINIGRID, "RL Zoo")},
        target=0.9,
        to_reach=0.5,
    ),
    "pong": Row(
        "Pong from pixels, sticky actions, 2,000,000 env steps: final return",
        "ALE/Pong-v5",
        "atari_small",
        2_000_000,
        goal=15.0,
    ),
    "halfcheetah": Row(
        "HalfCheetah-v5, LASER's own agent, 300,000 env steps: final return",
        "HalfCheetah-v5",
        "halfcheetah",
        300_000,
        goal=3_000.0,
    ),
    **{
        f"minatar_{game.lower()}{suffix}": _minatar(game, steps)
        for suffix, steps in _MINATAR_LENGTHS.items()
        for game in ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
    },
}
