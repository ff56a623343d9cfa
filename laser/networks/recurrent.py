"""Recurrent cores: an agent's memory within an episode, between torso and heads."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.mlp import MLP
from laser.ops.lstm import lstm_scan
from laser.specs import ActionSpec, ContinuousActions, DiscreteActions, MultiDiscreteActions

# Width of the MLP that embeds the last action and the last reward for the predictor.
CONTROL_SIZE = 64


class LSTMCore(nn.Module):
    """One LSTM that sees the torso's features, the last action and the last reward.

    Args:
        num_features: width of the torso's output.
        actions: action spec of the environment.
        size: width of the state.

    Source:
        Espeholt et al. 2018 (IMPALA), figure 3.
    """

    def __init__(self, num_features: int, actions: ActionSpec, size: int):
        super().__init__()
        self.past = PastInput(actions)
        self.cell = LSTMWeights(num_features + self.past.num_features, size)
        self.num_features = size

    def forward(
        self,
        features: Tensor,
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Process T rows of B sequences; see `PreCoCore.forward`."""
        past = self.past(last_actions, last_rewards, first).to(features.dtype)
        return _walk([self.cell], [torch.cat([features, past], -1)], first, core_state)


class FeaturesLSTMCore(nn.Module):
    """One LSTM that sees the torso's features alone, without the last action and reward.

    Args:
        num_features: width of the torso's output.
        actions: action spec of the environment; not seen.
        size: width of the state.

    Source:
        Gruslys et al. 2017 (the Reactor), figure 1.
    """

    def __init__(self, num_features: int, actions: ActionSpec, size: int):
        super().__init__()
        self.cell = LSTMWeights(num_features, size)
        self.num_features = size

    def forward(
        self,
        features: Tensor,
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Process T rows of B sequences; see `PreCoCore.forward`."""
        return _walk([self.cell], [features], first, core_state)


class PreCoCore(nn.Module):
    """A predictor-corrector LSTM: two LSTMs that update one state in turn.

        (h, c) <- predictor(embedding of last action and last reward, (h, c))    before the observation
        (h, c) <- corrector(features, (h, c))                                    with the observation

    Args:
        num_features: width of the torso's output.
        actions: action spec of the environment.
        size: width of the state.

    Source:
        Amos et al. 2018, section 4, without its auxiliary losses; Schmitt et al. 2020 (LASER), section 5. The wiring
        in the agent is not published.
    """

    def __init__(self, num_features: int, actions: ActionSpec, size: int):
        super().__init__()
        self.past = PastInput(actions)
        self.embedding = MLP(self.past.num_features, (CONTROL_SIZE,), "relu")
        self.predictor = LSTMWeights(CONTROL_SIZE, size)
        self.corrector = LSTMWeights(num_features, size)
        self.num_features = size

    def forward(
        self,
        features: Tensor,
        last_actions: Tensor,
        last_rewards: Tensor,
        first: Tensor,
        core_state: Mapping[str, Tensor],
    ) -> dict[str, Tensor]:
        """Process T rows of B sequences.

        Args:
            features: [T, B, num_features].
            last_actions: [T, B, ...], the action before each row; ignored where `first`.
            last_rewards: [T, B], the reward before each row; ignored where `first`.
            first: bool [T, B]; where True the state is reset before the row is used.
            core_state: {"hidden", "cell"} before row 0, [B, size].

        Returns:
            {"hidden", "cell"} after each row, float32 [T, B, size]; "hidden" is the input of the heads.
        """
        controls = self.embedding(self.past(last_actions, last_rewards, first))
        return _walk([self.predictor, self.corrector], [controls, features], first, core_state)


class PastInput(nn.Module):
    """Last action (one-hot, or unchanged if continuous) and last reward clipped to [-1, 1]; 0 where `first`.

    Args:
        actions: action spec of the environment.
    """

    def __init__(self, actions: ActionSpec):
        super().__init__()
        match actions:
            case DiscreteActions():
                self._choices: tuple[int, ...] | None = (actions.num_actions,)
                self.num_features = actions.num_actions + 1
            case MultiDiscreteActions():
                self._choices = actions.num_actions
                self.num_features = sum(actions.num_actions) + 1
            case ContinuousActions():
                self._choices = None
                self.num_features = len(actions.low) + 1

    def forward(self, last_actions: Tensor, last_rewards: Tensor, first: Tensor) -> Tensor:
        """Map [T, B, ...] and [T, B] to [T, B, num_features]."""
        parts = [last_rewards.clamp(-1.0, 1.0).unsqueeze(-1)]
        if self._choices is None:
            parts.append(last_actions)
        else:
            choices = last_actions.view(*first.shape, len(self._choices)).unbind(-1)
            parts += [F.one_hot(x, n).to(parts[0].dtype) for x, n in zip(choices, self._choices, strict=True)]
        return torch.where(first.unsqueeze(-1), 0.0, torch.cat(parts, -1))


class LSTMWeights(nn.Module):
    """The weights of one LSTM cell; the gates are input, forget, output, update.

    Weights start uniform in +-1/sqrt(size), the forget gate's bias at 1 so that memory lasts from the beginning.

    Args:
        num_inputs: width of the input.
        size: width of the state.
    """

    def __init__(self, num_inputs: int, size: int):
        super().__init__()
        bound = 1.0 / math.sqrt(size)
        self.input_weight = nn.Parameter(torch.empty(4 * size, num_inputs).uniform_(-bound, bound))
        self.state_weight = nn.Parameter(torch.empty(size, 4 * size).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(4 * size))
        with torch.no_grad():
            self.bias[size : 2 * size] = 1.0

    def forward(self, inputs: Tensor) -> Tensor:
        """Map [T, B, num_inputs] to the inputs' part of the gates, [T, B, 4 * size]."""
        return F.linear(inputs, self.input_weight, self.bias).to(self.bias.dtype)


def _walk(
    cells: list[LSTMWeights], inputs: list[Tensor], first: Tensor, core_state: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    # The products with the inputs may run in bfloat16; the recurrence is float32, so that rounding does not add up.
    projected = torch.stack([cell(part) for cell, part in zip(cells, inputs, strict=True)], 1)
    weights = torch.stack([cell.state_weight for cell in cells])
    hidden, cell = core_state["hidden"].to(weights.dtype), core_state["cell"].to(weights.dtype)
    hiddens, all_cells = lstm_scan(projected, weights, first, hidden, cell)
    return {"hidden": hiddens[:, -1], "cell": all_cells[:, -1]}
