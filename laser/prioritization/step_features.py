"""Features of replayed steps for NERS, one vector per step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.config import NetworkConfig
from laser.networks.encoder import ObservationEncoder
from laser.networks.mlp import MLP
from laser.specs import ActionSpec, ContinuousActions, DiscreteActions, EnvironmentSpec, FramesSpec

# Below this many pixels the paper's filters do not fit.
_LEAST_PIXELS = 25
_IMAGE_SIZES = (256, 64, 32)


@dataclass(frozen=True)
class Steps:
    """Inputs of N steps.

    Args:
        observations: observations before and after the step, by name, [2, N, ...].
        actions: [N, ...].
        rewards: [N].
        times: time in the episode, [N], about 0 to 1.
        td_errors: TD errors squashed into [-1, 1], [N]; 1 for a step that was never drawn.
        q_targets: r + gamma Q'(s', a'), in the same form.
    """

    observations: Mapping[str, Tensor]
    actions: Tensor
    rewards: Tensor
    times: Tensor
    td_errors: Tensor
    q_targets: Tensor


class StepFeatures(nn.Module):
    """[s, a, r, s', time, TD error, Q target] of each step, or [r, time, TD error] alone.

    Images of s and s' go through the same two convolutions and layers of 256, 64 and 32; categories are one-hot.

    Args:
        environment: spec of the steps.
        features: "all" or "few".

    Source:
        Oh et al. 2021 (NERS), eq. 2 and appendix B.
    """

    def __init__(self, environment: EnvironmentSpec, features: Literal["all", "few"]):
        super().__init__()
        self._actions = environment.actions
        self.encoder: ObservationEncoder | None = None
        self.images: MLP | None = None
        self.num_features = 3
        if features == "few":
            return
        frames = [spec for spec in environment.observations.values() if isinstance(spec, FramesSpec)]
        small = any(min(spec.frame_shape[:2]) < _LEAST_PIXELS for spec in frames)
        if frames:
            config = NetworkConfig(torso="cells_cnn" if small else "der_cnn")
        else:  # without layers the encoder passes vectors through unchanged
            config = NetworkConfig(torso="mlp", hidden_sizes=())
        self.encoder = ObservationEncoder(environment.observations, config)
        width = self.encoder.num_features
        if frames:
            self.images = MLP(width, _IMAGE_SIZES, "relu")
            width = self.images.num_features
        self.num_features = 2 * width + _width_of(environment.actions) + 4

    def forward(self, steps: Steps) -> Tensor:
        """Return [N, num_features] in the dtype of the weights, or float32 without weights."""
        if self.encoder is None:
            return torch.stack([steps.rewards, steps.times, steps.td_errors], -1).float()
        dtype = next(self.parameters(), steps.rewards).dtype
        both = {name: _in(value.flatten(0, 1), dtype) for name, value in steps.observations.items()}
        seen = self.encoder(both)
        if self.images is not None:
            seen = self.images(seen)
        before, after = seen.unflatten(0, (2, -1)).unbind(0)
        numbers = torch.stack([steps.rewards, steps.times, steps.td_errors, steps.q_targets], -1)
        parts = [before, after, _one_hot(steps.actions, self._actions), numbers]
        return torch.cat([part.to(before.dtype) for part in parts], -1)


def _in(value: Tensor, dtype: torch.dtype) -> Tensor:
    return value.to(dtype) if value.is_floating_point() else value


def _width_of(actions: ActionSpec) -> int:
    if isinstance(actions, ContinuousActions):
        return len(actions.low)
    return actions.num_actions if isinstance(actions, DiscreteActions) else sum(actions.num_actions)


def _one_hot(taken: Tensor, actions: ActionSpec) -> Tensor:
    if isinstance(actions, ContinuousActions):
        return taken
    if isinstance(actions, DiscreteActions):
        return F.one_hot(taken, actions.num_actions)
    choices = zip(taken.unbind(-1), actions.num_actions, strict=True)
    return torch.cat([F.one_hot(choice, size) for choice, size in choices], -1)
