"""Metrics of a sampler's draws, compared with the stored items: errors, values, evenness, number of replays."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from learner.quantiles import QUANTILES, WITH_LARGEST, named_quantiles

# Newest batches between two reports that count: a bound on memory and on the time that a report takes.
_MOST_BATCHES = 20


@dataclass(frozen=True)
class _Draws:
    """Arguments of `DrawMetrics.add` for one batch."""

    per_item: Mapping[str, Tensor]
    probabilities: np.ndarray | None
    times: np.ndarray | None
    num_items: int


class DrawMetrics:
    """Collects draws and summarises them. Used from one thread.

    For each number per item that a loss returns (`td_error`, `q`): `sampled_<name>/p10`, `p50`, `p90`, `mean` and `std`
    of the items drawn; `stored_<name>/...` of all items that may be drawn, estimated from the same items weighted by
    1 / P.

    * `effective_draws`: (sum w)^2 / (N sum w^2) of the weights w = 1 / P of a batch, in (0, 1]; 1 for uniform draws.
    * `times_replayed/p10` ... `max`: number of draws of each drawn item, this one included.
    """

    def __init__(self) -> None:
        self._newest: deque[_Draws] = deque(maxlen=_MOST_BATCHES)

    def add(
        self,
        per_item: Mapping[str, Tensor],
        probabilities: np.ndarray | None,
        times: np.ndarray | None,
        num_items: int,
    ) -> None:
        """Keep one batch; `take` computes the metrics.

        Args:
            per_item: numbers per item by name, [1, B]; the last `num_items` items are replayed. Numbers per row
                ([T, B]) are ignored.
            probabilities: of the draws, [num_items]; None if some stored items could not be drawn, so that nothing
                follows about the stored items.
            times: see `Sample.num_draws`.
            num_items: number of items drawn.
        """
        self._newest.append(_Draws(per_item, probabilities, times, num_items))

    def take(self) -> dict[str, float]:
        """Return the summary of the newest batches since the last call, and begin anew."""
        taken: dict[str, float] = {}
        newest = list(self._newest)
        self._newest.clear()
        if not newest:
            return taken
        weights = None
        stated = [1.0 / draws.probabilities for draws in newest if draws.probabilities is not None]
        if stated:
            weights = np.concatenate(stated)
            taken["effective_draws"] = _evenness(weights, [len(part) for part in stated])
        for name, values in _per_drawn_item(newest).items():
            finite = np.isfinite(values)
            if not finite.any():
                continue
            numbers = {name: values[finite]}
            if name == "td_error":
                numbers["abs_td_error"] = np.abs(values[finite])
            for key, found in numbers.items():
                taken |= _summary(f"sampled_{key}", found, np.ones(len(found)))
                if weights is not None:
                    taken |= _summary(f"stored_{key}", found, weights[finite])
        all_times = [draws.times for draws in newest if draws.times is not None]
        if all_times:
            times = np.concatenate(all_times).astype(np.float64)
            taken |= named_quantiles("times_replayed", times, WITH_LARGEST)
        return taken


def _per_drawn_item(newest: Sequence[_Draws]) -> dict[str, np.ndarray]:
    """Return the numbers per drawn item that all of these batches have, float32 [all items] by name."""
    per_item = [{name: value for name, value in draws.per_item.items() if len(value) == 1} for draws in newest]
    names = sorted(set.intersection(*map(set, per_item)))
    if not names:
        return {}
    of_items = [
        torch.cat(
            [each[name][0, -draws.num_items :].detach().float() for each, draws in zip(per_item, newest, strict=True)]
        )
        for name in names
    ]
    # One copy, so that the GPU is synchronised once.
    return dict(zip(names, torch.stack(of_items).cpu().numpy(), strict=True))


def _summary(name: str, values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    mean = float(np.average(values, weights=weights))
    std = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    return named_quantiles(name, values, QUANTILES, weights) | {f"{name}/mean": mean, f"{name}/std": std}


def _evenness(weights: np.ndarray, lengths: list[int]) -> float:
    starts = np.cumsum([0, *lengths[:-1]])
    sums, squares = np.add.reduceat(weights, starts), np.add.reduceat(weights * weights, starts)
    return float(np.mean(sums**2 / (lengths * squares)))
