"""The learner's batch: one layout for every algorithm, time-major tensors on the learner's device."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

# Sources of a row.
ONLINE, OWN_REPLAY, FOREIGN_REPLAY = 0, 1, 2

WITHOUT_TIME = frozenset({"last_action", "last_reward", "importance_weights", "core_state"})
"""Fields of a `Batch` whose first axis is B; they have no T axis."""


@dataclass
class Batch:
    """T rows of B sequences, aligned as `laser.unroll` defines.

    Args:
        observations: by name: vectors float32 [T+1, B, ...], categories int32 [T+1, B], frames uint8
            [T+1, B, channels, height, width].
        first: bool [T+1, B], True where an episode begins at this row.
        actions: [T, B] int64, [T, B, k] int64, or [T, B, d] float32.
        rewards: float32 [T, B], as the environment gave them (the algorithm clips them).
        discounts: float32 [T, B], gamma * (1 - terminated); gamma^n for n-step items.
        valid: bool [T, B], False rows hold no transition: an episode's final observation or padding.
        mu: behaviour statistics by name, [T, B, ...].
        last_action: action before row 0, [B, ...].
        last_reward: float32 [B], reward before row 0.
        source: int8 [T, B], ONLINE, OWN_REPLAY or FOREIGN_REPLAY; it may change within a sequence of an episode stream.
        task: int64 [T, B]; it may change within a sequence in the same way.
        policy_lag: float32 [T, B], versions between the policy that acted and the newest one (own experience only).
        importance_weights: float32 [B], 1 for uniform samplers.
        core_state: recurrent state before row 0 by name, [B, ...].
        columns: replay columns that the algorithm declared, by name, float32 [T, B] (zeros for online sequences).
    """

    observations: dict[str, Tensor]
    first: Tensor
    actions: Tensor
    rewards: Tensor
    discounts: Tensor
    valid: Tensor
    mu: dict[str, Tensor]
    last_action: Tensor
    last_reward: Tensor
    source: Tensor
    task: Tensor
    policy_lag: Tensor
    importance_weights: Tensor
    core_state: dict[str, Tensor] = field(default_factory=dict)
    columns: dict[str, Tensor] = field(default_factory=dict)

    @property
    def online(self) -> Tensor:
        """Bool [T, B], True for rows that come fresh from the member's own actors."""
        return self.source == ONLINE

    @property
    def shape(self) -> torch.Size:
        """(T, B)."""
        return self.rewards.shape


def take_columns(batch: Batch, columns: Tensor) -> Batch:
    """Return some sequences of a batch.

    Args:
        batch: a batch whose frames are stacked.
        columns: int64 [n], indices along B.
    """

    def take(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: take(name, item) for key, item in value.items()}
        return value.index_select(0 if name in WITHOUT_TIME else 1, columns)

    return Batch(**{item.name: take(item.name, getattr(batch, item.name)) for item in dataclasses.fields(batch)})
