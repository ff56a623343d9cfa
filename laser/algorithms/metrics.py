"""Metrics of a loss: masked means, also kept apart by where the experience came from.

A per-source metric is called `<name>_<source>` and is a mean over the valid rows of that source; `num_steps_<source>`
says how many those were. Where it is 0 the mean is 0 too and means nothing: `drop_absent_sources` takes it out.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from laser.batch import FOREIGN_REPLAY, ONLINE, OWN_REPLAY

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


def drop_absent_sources(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics without the means of sources from which there were no steps."""
    absent = tuple(f"_{name}" for name in SOURCES.values() if metrics.get(f"num_steps_{name}") == 0)
    return {
        name: value for name, value in metrics.items() if name.startswith("num_steps_") or not name.endswith(absent)
    }
