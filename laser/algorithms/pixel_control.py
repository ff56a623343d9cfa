"""Pixel control in a loss: choice of the picture, and the auxiliary loss on a head of its own."""

from __future__ import annotations

import torch
from torch import Tensor

from laser.batch import Batch
from laser.networks.pixel_control import PixelControlHead
from laser.ops.action_masks import find_mask, mask_logits
from laser.ops.pixel_control import pixel_changes, pixel_control_targets
from laser.ops.policy_gradient import value_loss
from laser.specs import DiscreteActions, EnvironmentSpec, FramesSpec


class PixelControl:
    """Learns, beside the agent's own task, which actions change which cells of the picture.

    Args:
        environment: spaces.
        cell: edge of a cell in pixels.
        discount: of the pseudo-rewards.

    Raises:
        ValueError: there is not exactly one picture, actions are not discrete, or a cell is larger than the picture.
    """

    def __init__(self, environment: EnvironmentSpec, cell: int, discount: float):
        pictures = {n: spec for n, spec in environment.observations.items() if isinstance(spec, FramesSpec)}
        if len(pictures) != 1 or not isinstance(environment.actions, DiscreteActions):
            raise ValueError(
                f"algorithm.pixel-control-cost: needs one picture and discrete actions, and {environment.id} has "
                f"{len(pictures)} and {environment.actions.space} actions; use 0"
            )
        ((self._name, spec),) = pictures.items()
        self._colours = spec.channels // spec.stack
        self._num_actions = environment.actions.num_actions
        self._rows, self._columns = (edge // cell for edge in spec.frame_shape[:2])
        self._cell, self._discount = cell, discount
        if min(self._rows, self._columns) < 1:
            raise ValueError(
                f"algorithm.pixel-control-cell: must be at most the picture's edge ({min(spec.frame_shape[:2])} "
                f"pixels), got {cell}; lower it"
            )

    def make_head(self, num_features: int) -> PixelControlHead:
        """Return the head that `loss` reads."""
        return PixelControlHead(num_features, self._num_actions, self._rows, self._columns)

    def loss(self, action_values: Tensor, batch: Batch, used: Tensor, weights: Tensor) -> Tensor:
        """Return sum over rows and cells of w * (target - Q(a))^2 / 2.

        Args:
            action_values: [T+1, B, num_actions, rows, columns], from the head.
            batch: batch with frames, actions and terminations.
            used: bool [T, B], rows to learn from.
            weights: [T, B], 0 where not used.
        """
        newest = batch.observations[self._name][:, :, -self._colours :]
        action_values = action_values.float()
        mask = find_mask(batch.observations)
        allowed = mask_logits(action_values, None if mask is None else mask[..., None, None])
        with torch.no_grad():
            targets = pixel_control_targets(
                pixel_changes(newest, self._cell),
                allowed.amax(2),
                batch.discounts == 0.0,
                used,
                self._discount,
            )
        chosen = batch.actions[..., None, None, None].expand(-1, -1, 1, self._rows, self._columns)
        taken = action_values[:-1].gather(2, chosen).squeeze(2)
        return value_loss(taken, targets, weights[..., None, None])
