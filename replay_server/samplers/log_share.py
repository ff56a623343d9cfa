"""Draws with a given number of items from a log, and the others from what actors made."""

from __future__ import annotations

import numpy as np

from replay_server.samplers.base import Draw, Sampler


def draw_with_log(sampler: Sampler, num_items: int, num_from_log: int, rng: np.random.Generator) -> Draw:
    """Draw `num_from_log` items from a log and the others from the rest; where one has no item, all from the other.

    An item's probability is the share of the draw that its part has, times its probability in that part.

    Args:
        sampler: `draws_parts`; its index splits the log.
        num_items: N.
        num_from_log: in [0, N].
        rng: source of randomness.
    """
    index = sampler.index
    assert index.parts is not None, "the shard serves such draws only if it splits the log"
    parts = (index.parts.log, index.parts.own)
    in_log, in_own = (index.num_in(part, sampler.view) for part in parts)
    if not in_log or not in_own:
        num_from_log = num_items if in_log else 0
    counts = (num_from_log, num_items - num_from_log)
    draws = [(sampler.draw_part(part, num, rng), num) for part, num in zip(parts, counts, strict=True) if num]
    return Draw(
        np.concatenate([draw.pages for draw, _ in draws]),
        np.concatenate([draw.rows for draw, _ in draws]),
        np.concatenate([draw.probabilities * (num / num_items) for draw, num in draws]),
        in_log + in_own,
    )
