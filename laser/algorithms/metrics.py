"""Metrics that are kept apart by where the experience came from.

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
def means_by_source(source: Tensor, valid: Tensor, **values: Tensor) -> dict[str, Tensor]:
    """Return the mean of each value over the valid rows of each source, and how many rows there were.

    Args:
        source: int8 [B], see `Batch.source`.
        valid: bool [T, B].
        **values: [T, B] by name; finite on valid rows.
    """
    columns = [valid.float().sum(0), *(torch.where(valid, value, 0.0).sum(0) for value in values.values())]
    wanted = torch.tensor(list(SOURCES), dtype=source.dtype, device=source.device)
    # [sources, 1, B] * [values, B] -> [sources, values]; not a matrix product, which autocast would round.
    sums = ((source == wanted.unsqueeze(-1)).unsqueeze(1) * torch.stack(columns)).sum(-1)
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
