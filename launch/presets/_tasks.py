"""The presets by the kind of task that they were made for; the recommended one of each kind comes first."""

from __future__ import annotations

TASKS: dict[str, tuple[str, ...]] = {
    "Atari": ("atari_small", "pong", "impala_pong", "atari", "acer", "reactor", "rainbow"),
    "MinAtar, small pictures": ("minatar", "dqn_mini"),
    "MiniGrid, rare rewards": ("minigrid",),
    "DeepMind Lab": ("dmlab30",),
    "MuJoCo, continuous actions": (
        "mujoco",
        "sac",
        "td3",
        "ners_sac",
        "ners_td3",
        "ddpg",
        "naf",
        "racer",
        "v_racer",
        "acer_continuous",
        "ppo",
        "halfcheetah",
        "hopper",
    ),
    "Vectors, discrete actions": (
        "box2d",
        "vectors",
        "cartpole",
        "impala_cartpole",
        "acer_cartpole",
        "reactor_cartpole",
        "dqn_cartpole",
    ),
    "Small tasks, in seconds to minutes": (
        "mini",
        "reactor_mini",
        "sac_pendulum",
        "td3_pendulum",
        "ddpg_pendulum",
        "naf_pendulum",
        "racer_pendulum",
        "v_racer_pendulum",
        "ppo_pendulum",
        "acer_pendulum",
        "sac_sparse_pendulum",
        "td3_sparse_pendulum",
    ),
}
