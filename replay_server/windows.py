"""n-step windows: rewards and discounts folded over consecutive rows of a stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from replay_server.episodes import NO_PAGE, EpisodeIndex


@dataclass(frozen=True)
class Windows:
    """N folded windows.

    Args:
        rewards: float32 [N], sum of gamma^k r_(t+k) over the window.
        discounts: float32 [N], what multiplies the value of the bootstrap observation: gamma^n, or 0 after termination.
        terminated: bool [N], the window ends with a termination.
        pages: int32 [N], page of the bootstrap observation.
        boundaries: int64 [N], its boundary row in 0..T of that page.
    """

    rewards: np.ndarray
    discounts: np.ndarray
    terminated: np.ndarray
    pages: np.ndarray
    boundaries: np.ndarray


def fold(index: EpisodeIndex, pages: np.ndarray, rows: np.ndarray, num_steps: int, discount: float) -> Windows:
    """Fold up to `num_steps` steps from each valid row (pages[i], rows[i]).

    A window stops early after a termination (nothing remains), before a row that holds no transition (a truncation: its
    observation bootstraps), and where the stored stream ends (the last stored observation bootstraps). O(N *
    num_steps).
    """
    rewards_of, terminated_of, valid_of = (index.pages.rows[name] for name in ("rewards", "terminated", "valid"))
    unroll_length = index.unroll_length
    at = pages.astype(np.int64) * unroll_length + rows
    rewards = rewards_of[at].astype(np.float64)
    terminated = terminated_of[at]
    remaining = np.where(terminated, 0.0, discount)
    end_pages, boundaries = pages, rows + 1
    going = ~terminated
    for _ in range(num_steps - 1):
        # A window that stands at boundary T goes on at row 0 of the page after it, if that is stored.
        at_end = boundaries == unroll_length
        next_pages = np.where(at_end, index.next_page[end_pages], end_pages)
        next_rows = np.where(at_end, 0, boundaries)
        going = going & (next_pages != NO_PAGE)
        at = next_pages.astype(np.int64) * unroll_length + next_rows
        going &= valid_of.take(at, mode="clip")
        if not going.any():
            break
        at = np.where(going, at, 0)
        rewards += np.where(going, remaining * rewards_of[at], 0.0)
        ends = going & terminated_of[at]
        remaining = np.where(going, np.where(ends, 0.0, remaining * discount), remaining)
        terminated = terminated | ends
        end_pages = np.where(going, next_pages, end_pages)
        boundaries = np.where(going, next_rows + 1, boundaries)
        going &= ~ends
    return Windows(rewards.astype(np.float32), remaining.astype(np.float32), terminated, end_pages, boundaries)
