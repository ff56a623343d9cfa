"""Reward transformation in algorithms that learn from unrolls: settings, and the transformed rewards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from torch import Tensor

from laser.algorithms.base import AlgorithmConfig
from laser.config import Bounds
from laser.ops.rewards import asymmetric_rewards, clip_rewards

_TRANSFORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "none": lambda rewards: rewards,
    "clip": clip_rewards,
    "asymmetric": asymmetric_rewards,
}


@dataclass(frozen=True)
class RewardConfig(AlgorithmConfig):
    """Settings of algorithms that squash and scale rewards before they learn from them."""

    reward_transform: Annotated[
        Literal["none", "clip", "asymmetric"],
        "how rewards are learned from; clip: to [-1, 1]; asymmetric: squashed, losses to 0.3 of gains",
    ] = "none"
    reward_scale: Annotated[
        float,
        Bounds(above=0.0),
        "rewards are multiplied by this before they are learned from; values of about 1 let the critic keep up",
    ] = 1.0

    def learned_from(self, rewards: Tensor) -> Tensor:
        """See `AlgorithmConfig.learned_from`."""
        return _TRANSFORMS[self.reward_transform](rewards) * self.reward_scale
