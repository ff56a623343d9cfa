"""Learning what to replay: log-probabilities of draws by score, and the objectives of NERS and ERO."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def log_draw_probabilities(scores: Tensor, exponent: float, stored: Tensor) -> Tensor:
    """Return log p_i, where p_i = scores_i^exponent / sum_j stored_j^exponent.

    Args:
        scores: [n], positive.
        exponent: alpha.
        stored: scores of all items that may be drawn, [N]. With a uniform part of them the sum is off by a factor,
            without effect on derivatives.

    Source:
        Oh et al. 2021 (NERS), eq. 1.
    """
    return exponent * scores.log() - torch.logsumexp(exponent * stored.log(), -1)


def ners_objective(scores: Tensor, replay_reward: float, exponent: float, stored: Tensor) -> Tensor:
    """Return NERS's objective, to be maximised: replay_reward * sum_i log p_i.

    Its gradient is that of the mean replay reward, on average over what is drawn. Normalised over the drawn items alone
    (`stored` is `scores`) it is not: where scores are equal it is 0, and elsewhere it makes them more or less equal,
    whichever items caused the reward.

    Args:
        scores: scores of the items drawn, [n], in (0, 1).
        replay_reward: how much better the policy has become.
        exponent: alpha.
        stored: see `log_draw_probabilities`.

    Source:
        Oh et al. 2021 (NERS), eq. 7.
    """
    return replay_reward * log_draw_probabilities(scores, exponent, stored).sum()


def ners_objective_of_code(scores: Tensor, replay_reward: float) -> Tensor:
    """Return the objective of the NERS authors' code, replay_reward * mean_i log score_i: all scores rise or fall.

    Args:
        scores: of the items drawn, [n], in (0, 1).
        replay_reward: how much better the policy has become.
    """
    return replay_reward * scores.log().mean()


def ero_objective(logits: Tensor, kept: Tensor, replay_reward: float) -> Tensor:
    """Return ERO's objective: replay_reward * sum_j [I_j log phi_j + (1 - I_j) log(1 - phi_j)].

    Args:
        logits: logits of phi, [N].
        kept: I, [N], 1 where an item was in the subset that minibatches come from, else 0.
        replay_reward: how much better the policy has become.

    Source:
        Zha et al. 2019 (ERO), eq. 7.
    """
    return -replay_reward * F.binary_cross_entropy_with_logits(logits, kept, reduction="sum")
