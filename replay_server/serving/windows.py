"""n-step windows: rewards and discounts folded over consecutive rows of an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from replay_server.storage.episode_index import NO_PAGE, EpisodeIndex


@dataclass(frozen=True)
class Windows:
    """N folded windows.

    Args:
        rewards: float32 [N], sum of gamma^k r_(t+k) over the window.
        discounts: float32 [N], factor of the bootstrap observation's value: gamma^n, or 0 after termination.
        terminated: bool [N], whether the window ends with a termination.
        pages: int [N], page of the bootstrap observation.
        boundaries: int64 [N], boundary row, in 0..T, of the bootstrap observation in its page.
    """

    rewards: np.ndarray
    discounts: np.ndarray
    terminated: np.ndarray
    pages: np.ndarray
    boundaries: np.ndarray


def fold(
    index: EpisodeIndex,
    pages: np.ndarray,
    rows: np.ndarray,
    n_step: int,
    discount: float,
    reward_clip: float = math.inf,
) -> Windows:
    """Fold up to `n_step` steps from each valid row (pages[i], rows[i]).

    A window stops early after a termination (discount 0), before a row without a transition (a truncation: the row's
    observation bootstraps), and at the end of the stored rows (the last stored observation bootstraps). Each reward is
    clipped to +- `reward_clip` before it is summed. O(N * n_step).
    """
    unroll_length = index.unroll_length
    rewards_of, terminated_of, valid_of = (index.pages.rows[name] for name in ("rewards", "terminated", "valid"))
    if n_step == 1:  # the most common case, three times faster: a window never leaves its page
        at = pages.astype(np.int64) * unroll_length + rows
        ends = terminated_of.take(at)
        return Windows(
            _clipped(rewards_of[at], reward_clip),
            np.where(ends, 0.0, discount).astype(np.float32),
            ends,
            pages,
            rows + 1,
        )
    offsets = rows[:, None] + np.arange(n_step)
    at = pages.astype(np.int64)[:, None] * unroll_length + offsets
    stored: np.ndarray | bool = True
    last_offset = int(offsets.max(initial=0))
    if last_offset >= unroll_length:
        # `chain`: the page itself, the next page, and so on; NO_PAGE after the last stored page.
        chain = [pages]
        for _ in range(last_offset // unroll_length):
            chain.append(np.where(chain[-1] == NO_PAGE, NO_PAGE, index.next_page[chain[-1]]))
        hops, in_page = np.divmod(offsets, unroll_length)
        page_at = np.take_along_axis(np.stack(chain, axis=1), hops, axis=1).astype(np.int64)
        stored = page_at != NO_PAGE
        at = np.where(stored, page_at * unroll_length + in_page, 0)
    terminated = terminated_of.take(at)
    going = valid_of.take(at) & stored
    going[:, 1:] &= ~terminated[:, :-1]
    np.logical_and.accumulate(going, axis=1, out=going)
    powers = float(discount) ** np.arange(n_step + 1)
    rewards = np.where(going, _clipped(rewards_of.take(at), reward_clip), 0.0) @ powers[:-1]
    num_going = going.sum(axis=1)
    ends = (terminated & going).any(axis=1)
    remaining = np.where(ends, 0.0, powers[num_going])
    last_at = at[np.arange(len(at)), num_going - 1]
    end_pages, last_rows = np.divmod(last_at, unroll_length)
    return Windows(rewards.astype(np.float32), remaining.astype(np.float32), ends, end_pages, last_rows + 1)


def _clipped(rewards: np.ndarray, limit: float) -> np.ndarray:
    return rewards if math.isinf(limit) else rewards.clip(-limit, limit)
