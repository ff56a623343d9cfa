"""SAC on Hopper-v5 (MuJoCo), with the usual constants and one learner step per env step.

The preset runs in lockstep, like all presets with an update per step of one environment: on two cores lockstep is a
quarter faster than threads, which wait for each other anyway. On a GPU use `--runtime local`.
"""

from actors.config import ActorConfig
from laser.algorithms.sac import SacConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig

BATCH_SIZE = 256


def sac() -> TrainConfig:
    """Return the config: two layers of 256, B = 256, 3e-4, gamma 0.99, 10,000 steps at random."""
    return TrainConfig(
        env="Hopper-v5",
        steps=1_000_000,
        runtime="lockstep",
        num_envs=1,
        unroll_length=4,
        algorithm=SacConfig(batch_size=BATCH_SIZE),
        network=NetworkConfig(hidden_sizes=(256, 256), activation="relu"),
        # A batch drawn per step inserted is one learner step per env step.
        replay=ReplayConfig(capacity_steps=1_000_000, min_steps=10_000, samples_per_insert=float(BATCH_SIZE)),
        # Matrix products of this size take most of a learner step, and half the time in bfloat16 where the processor
        # has units for it. One draw serves the four steps of an unroll, during which the policy stays the same anyway.
        learner=LearnerConfig(compile="on", precision="bfloat16", batches_per_draw=4),
        actor=ActorConfig(compile="on"),
    )
