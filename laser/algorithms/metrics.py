"""Metrics of a loss: masked means, also by source of the experience.

A per-source metric is called `<name>_<source>` and is a mean over the valid rows of that source; `num_steps_<source>`
is the number of these rows. If it is 0, the mean is 0 and has no meaning: `MetricMeans` leaves it out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from laser.batch import FOREIGN_REPLAY, ONLINE, OWN_REPLAY
from laser.gpu import to_device

# Steps whose metrics wait for a sum: one sum over many steps costs a small agent less than many sums.
_MOST_UNSUMMED = 256

SOURCES = {ONLINE: "online", OWN_REPLAY: "own_replay", FOREIGN_REPLAY: "foreign_replay"}


@torch.no_grad()
def means(rows: Tensor, **values: Tensor) -> dict[str, Tensor]:
    """Return the mean of each value over the chosen rows; 0 where there are none.

    Args:
        rows: bool [T, B].
        **values: [T, B] by name.
    """
    selected = torch.where(rows, torch.stack(list(values.values())), 0.0)
    averages = selected.sum((1, 2)) / rows.sum().clamp(min=1)
    return dict(zip(values, averages.unbind(), strict=True))


@torch.no_grad()
def explained_variance(values: Tensor, targets: Tensor, rows: Tensor) -> Tensor:
    """Return 1 - Var(targets - values) / Var(targets) over the chosen rows; 0 where the targets do not vary.

    Args:
        values: [T, B].
        targets: [T, B].
        rows: bool [T, B].
    """
    both = torch.stack([targets - values, targets])
    count = rows.sum().clamp(min=1)
    centred = both - (torch.where(rows, both, 0.0).sum((1, 2), keepdim=True) / count)
    error_variance, target_variance = (torch.where(rows, centred, 0.0).square().sum((1, 2)) / count).unbind()
    return torch.where(target_variance > 0, 1.0 - error_variance / target_variance, 0.0)


@torch.no_grad()
def means_by_source(source: Tensor, valid: Tensor, **values: Tensor) -> dict[str, Tensor]:
    """Return the mean of each value over the valid rows of each source, and how many rows there were.

    Args:
        source: int8 [T, B], see `Batch.source`.
        valid: bool [T, B].
        **values: [T, B] by name; finite on valid rows.
    """
    counted = torch.stack([valid.float(), *(torch.where(valid, value, 0.0) for value in values.values())])
    # One pass per source, [values, T, B] -> [values]; not a matrix product, which autocast would round.
    sums = torch.stack([(counted * (source == wanted)).sum((1, 2)) for wanted in SOURCES])
    means = sums / sums[:, :1].clamp(min=1.0)
    metrics = {}
    for row, name in enumerate(SOURCES.values()):
        metrics[f"num_steps_{name}"] = sums[row, 0]
        for column, value_name in enumerate(values, start=1):
            metrics[f"{value_name}_{name}"] = means[row, column]
    return metrics


class StackedMetrics(Mapping[str, Tensor]):
    """Scalars by name in one vector.

    Args:
        names: names of the scalars.
        vector: float32 [names].
    """

    def __init__(self, names: Sequence[str], vector: Tensor):
        self._places = {name: place for place, name in enumerate(names)}
        self.vector = vector

    def __getitem__(self, name: str) -> Tensor:
        return self.vector[self._places[name]]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def stack(metrics: Mapping[str, Tensor]) -> StackedMetrics:
    """Return scalars in one vector."""
    if isinstance(metrics, StackedMetrics):
        return metrics
    values = [value if value.dtype == torch.float32 else value.float() for value in metrics.values()]
    return StackedMetrics(tuple(metrics), torch.stack(values))


class MetricMeans:
    """Means of a loss's metrics over many learner steps; they stay on the metrics' device until `take`.

    A per-source mean is weighted by the number of rows of that source, so that a batch without any has no effect; a
    source without rows since the last `take` is left out. A loss may leave out metrics of terms that are not due: each
    mean is over the steps with the metric. Used from one thread.
    """

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, ...], _Means] = {}  # by the names of a step's metrics

    def add(self, metrics: Mapping[str, Tensor]) -> None:
        """Take in the scalars of one learner step."""
        kind = tuple(metrics)
        if kind not in self._kinds:
            self._kinds[kind] = _Means()
        self._kinds[kind].add(metrics)

    def take(self) -> dict[str, float]:
        """Return the means since the last call, and reset them."""
        sums: dict[str, tuple[float, float]] = {}
        for means in self._kinds.values():
            for name, (total, weight) in means.take().items():
                before = sums.get(name, (0.0, 0.0))
                sums[name] = before[0] + total, before[1] + weight
        return {name: total / weight for name, (total, weight) in sums.items() if weight}


class _Means:
    """Sums and weights of steps with the same metrics, summed up many steps at a time."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._weight_of: Tensor | None = None  # index in (metrics..., 1) of each metric's weight
        self._sums: Tensor | None = None  # [2, metrics]: weighted values, weights
        self._newest: list[Tensor] = []  # [metrics] of each step that is not in the sums

    def add(self, metrics: Mapping[str, Tensor]) -> None:
        """Take in the scalars of one learner step."""
        self._names = self._names or list(metrics)
        self._newest.append(stack(metrics).vector)
        if len(self._newest) == _MOST_UNSUMMED:
            self._sum_up()

    def take(self) -> dict[str, tuple[float, float]]:
        """Return sum and weight of each metric since the last call, and reset them."""
        self._sum_up()
        if self._sums is None:
            return {}
        sums, weights = self._sums.tolist()
        self._sums = None
        return dict(zip(self._names, zip(sums, weights, strict=True), strict=True))

    def _sum_up(self) -> None:
        if not self._newest:
            return
        values = torch.stack(self._newest)
        self._newest.clear()
        if self._weight_of is None:
            places = [self._names.index(count) if count else len(self._names) for count in map(_count_of, self._names)]
            self._weight_of = to_device(torch.tensor(places), values.device)
        weights = torch.cat([values, values.new_ones(len(values), 1)], 1)[:, self._weight_of]
        sums = torch.stack([(values * weights).sum(0), weights.sum(0)])
        self._sums = sums if self._sums is None else self._sums + sums


def _count_of(name: str) -> str | None:
    for source in SOURCES.values():
        if name.endswith(f"_{source}") and not name.startswith("num_steps_"):
            return f"num_steps_{source}"
    return None
