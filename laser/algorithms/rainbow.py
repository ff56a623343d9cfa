"""Data-efficient Rainbow: DQN with all extensions on; priorities come from the replay, `--replay.sampler per`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from laser.algorithms.base import Fraction
from laser.algorithms.dqn import DqnConfig
from laser.config import Bounds


@dataclass(frozen=True)
class RainbowConfig(DqnConfig):
    """DQN's settings with the values of van Hasselt et al. 2019, appendix E; sigma_0 is the NERS paper's."""

    name: ClassVar[str] = "rainbow"

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 1e-4
    num_steps: Annotated[int, Bounds(least=1), "env steps whose rewards are summed before the bootstrap"] = 20
    reward_clip: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "each reward is clipped to +- this before sums; inf: none is"
    ] = 1.0
    double: Annotated[bool, "the networks choose the next action, their target network values it"] = True
    dueling: Annotated[bool, "a branch for the state's value and one for the actions' advantages"] = True
    distributional: Annotated[bool, "learn the distribution of returns on num-atoms values (C51)"] = True
    noisy: Annotated[bool, "learned noise on the weights of the head, which explores"] = True
    noisy_std: Annotated[float, Bounds(above=0.0), "noisy: sigma_0, size of the noise at the start"] = 0.1
    head_size: Annotated[int, Bounds(least=0), "width of a layer between torso and output, per branch; 0: none"] = 256
    # Actions are random until learning begins; after that only the noise explores.
    epsilon: Annotated[float, Fraction, "share of random actions in the end"] = 0.0
    epsilon_updates: Annotated[int, Bounds(least=1), "learner steps over which the share changes linearly"] = 1
    target_period: Annotated[int, Bounds(least=1), "learner steps between two moves of the target network"] = 2_000
