"""ERO: a network decides for each step whether it may be replayed, and learns from the change of the agent's return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor, nn

from laser.networks.mlp import MLP
from laser.ops.replay_policy import ero_objective
from laser.ports import ColumnSpec
from laser.prioritization.base import Lesson, Replayed, ReplayReader
from laser.prioritization.learned import LearnedPrioritizer, squashed, time_feature
from laser.specs import EnvironmentSpec

KEEP, KEPT, TD_ERROR = "ero_keep", "ero_kept", "ero_td_error"
_SIZES = (64, 64)


class KeepNetwork(nn.Module):
    """The logit of phi from reward, TD error and time: two layers of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = MLP(3, _SIZES, "relu")
        self.output = nn.Linear(_SIZES[-1], 1)

    def forward(self, rewards: Tensor, td_errors: Tensor, times: Tensor) -> Tensor:
        """Return logits [N] of numbers [N]."""
        logits: Tensor = self.output(self.mlp(torch.stack([rewards, td_errors, times], -1)))
        return logits.squeeze(-1)


class Ero(LearnedPrioritizer):
    """Writes phi, each step's probability of being in the subset from which the sampler `ero` draws uniformly.

    After each update of the network the subset is drawn for the whole replay at once, at a cost that grows with the
    replay; steps never drawn are in the subset. After each evaluation of the agent, the network climbs

        (J(pi) - J(pi before)) * sum_j [I_j log phi_j + (1 - I_j) log(1 - phi_j)]

    over steps j drawn uniformly from all that is stored. Losses are not corrected.

    phi is also written for the steps of a batch, as far as summaries of the paper describe it; all others keep theirs.

    Source:
        Zha et al. 2019 (ERO), algorithms 1 and 2, as described by Oh et al. 2021 and others.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("td_error",),)
    # The sampler itself writes the second.
    columns: ClassVar[tuple[ColumnSpec, ...]] = tuple(ColumnSpec(name, 1.0) for name in (KEEP, KEPT, TD_ERROR))
    corrects: ClassVar[bool] = False

    def make_network(self, environment: EnvironmentSpec) -> nn.Module:
        """See `LearnedPrioritizer.make_network`."""
        return KeepNetwork()

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Prioritizer.values`."""
        td_errors = squashed(per_step["td_error"])
        with torch.inference_mode():
            logits = self.network(*_features(replayed, td_errors[0]))
        return {KEEP: _probability(logits).unsqueeze(0), TD_ERROR: td_errors}

    def learn(self, replay_reward: float, reader: ReplayReader) -> Lesson | None:
        """See `LearnedPrioritizer.learn`."""
        size = self.settings.batch_size
        replayed = reader.draw_uniformly(size * self.settings.num_updates)
        kept, features = replayed.batch.columns[KEPT][0], _features(replayed, replayed.batch.columns[TD_ERROR][0])
        for start in range(0, len(kept), size):
            part = slice(start, start + size)
            logits = self.network(*(feature[part] for feature in features))
            self.climb(ero_objective(logits, kept[part], replay_reward))
        with torch.inference_mode():
            keep = _probability(self.network(*features))
        self._heard |= {"keep_mean": float(keep.mean()), "kept_fraction": float(kept.mean())}
        return Lesson(replayed.sample.keys, {KEEP: keep.unsqueeze(0)}, redraw=True)


def _features(replayed: Replayed, td_errors: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the inputs of the network, each [N]."""
    rewards = replayed.batch.rewards[0]
    return rewards, td_errors, time_feature(replayed, rewards)


def _probability(logits: Tensor) -> Tensor:
    return logits.sigmoid().nan_to_num(1.0)
