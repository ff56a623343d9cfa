"""Learning what to replay: log-probabilities of draws by score, and the objectives of NERS and ERO."""

from __future__ import annotations

from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor


def log_draw_probabilities(scores: Tensor, exponent: float) -> Tensor:
    """Return log p_i, where p_i = scores_i^exponent / sum_j scores_j^exponent.

    Args:
        scores: [N], positive.
        exponent: alpha.

    Source:
        Oh et al. 2021 (NERS), eq. 1.
    """
    return torch.log_softmax(exponent * scores.log(), -1)


def ners_objective(
    scores: Tensor,
    replay_reward: float,
    exponent: float,
    normalizer: Literal["batch", "none"] = "batch",
    chosen: Tensor | None = None,
) -> Tensor:
    """Return what NERS climbs: replay_reward * sum_{i chosen} log p_i.

    With the normaliser "none" it is replay_reward * mean_{i chosen} log score_i, as the authors' code has it: there a
    positive reward pushes all scores up.

    Args:
        scores: [N], in (0, 1).
        replay_reward: how much better the policy has become.
        exponent: alpha.
        normalizer: see above.
        chosen: int64 [n], which of the items p is normalised over were drawn; None: all.

    Source:
        Oh et al. 2021 (NERS), eq. 7.
    """
    logs = scores.log() if normalizer == "none" else log_draw_probabilities(scores, exponent)
    logs = logs if chosen is None else logs[chosen]
    return replay_reward * (logs.mean() if normalizer == "none" else logs.sum())


def ero_objective(logits: Tensor, kept: Tensor, replay_reward: float) -> Tensor:
    """Return what ERO climbs: replay_reward * sum_j [I_j log phi_j + (1 - I_j) log(1 - phi_j)].

    Args:
        logits: of phi, [N].
        kept: I, [N], 1 where an item was in the subset that minibatches come from, else 0.
        replay_reward: how much better the policy has become.

    Source:
        Zha et al. 2019 (ERO), eq. 7.
    """
    return -replay_reward * F.binary_cross_entropy_with_logits(logits, kept, reduction="sum")
