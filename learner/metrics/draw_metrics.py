"""What a sampler draws, against what is stored: errors, values, evenness, and how often items come back."""

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
    """One batch, as `DrawMetrics.add` got it."""

    said: Mapping[str, Tensor]
    probabilities: np.ndarray | None
    times: np.ndarray | None
    num_items: int


class DrawMetrics:
    """Collects draws and summarises them. Used from one thread.

    For each number that a loss says of items (`td_error`, `q`): `sampled_<name>/p10`, `p50`, `p90`, `mean` and `std` of
    the items drawn; `stored_<name>/...` of all that may be drawn, estimated from the same items weighted by 1 / P.

    * `effective_draws`: (sum w)^2 / (N sum w^2) of the weights w = 1 / P of a batch, in (0, 1]; 1 for uniform draws.
    * `times_replayed/p10` ... `max`: how often each drawn item was drawn, this time included.
    """

    def __init__(self) -> None:
        self._newest: deque[_Draws] = deque(maxlen=_MOST_BATCHES)

    def add(
        self,
        said: Mapping[str, Tensor],
        probabilities: np.ndarray | None,
        times: np.ndarray | None,
        num_items: int,
    ) -> None:
        """Take in one batch; little is done with it before somebody looks.

        Args:
            said: by name, [1, B], one number per item, of which the last `num_items` are replayed; what is said of rows
                is passed over.
            probabilities: of the draws, [num_items]; None where they say nothing of what could not be drawn, and so of
                what is stored.
            times: see `Sample.num_draws`.
            num_items: how many were drawn.
        """
        self._newest.append(_Draws(said, probabilities, times, num_items))

    def take(self) -> dict[str, float]:
        """Return the summary of what came since the last call, and begin anew."""
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
        for name, values in _said_of_items(newest).items():
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


def _said_of_items(newest: Sequence[_Draws]) -> dict[str, np.ndarray]:
    """Return what all of these batches say of drawn items, float32 [all items] by name."""
    said = [{name: value for name, value in draws.said.items() if len(value) == 1} for draws in newest]
    names = sorted(set.intersection(*map(set, said)))
    if not names:
        return {}
    of_items = [
        torch.cat(
            [each[name][0, -draws.num_items :].detach().float() for each, draws in zip(said, newest, strict=True)]
        )
        for name in names
    ]
    # One copy: a GPU is waited for once.
    return dict(zip(names, torch.stack(of_items).cpu().numpy(), strict=True))


def _summary(name: str, values: np.ndarray, weights: np.ndarray) -> dict[str, float]:
    mean = float(np.average(values, weights=weights))
    std = float(np.sqrt(np.average((values - mean) ** 2, weights=weights)))
    return named_quantiles(name, values, QUANTILES, weights) | {f"{name}/mean": mean, f"{name}/std": std}


def _evenness(weights: np.ndarray, lengths: list[int]) -> float:
    starts = np.cumsum([0, *lengths[:-1]])
    sums, squares = np.add.reduceat(weights, starts), np.add.reduceat(weights * weights, starts)
    return float(np.mean(sums**2 / (lengths * squares)))
