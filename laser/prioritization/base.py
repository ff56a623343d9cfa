"""What a prioritizer is: it lives beside the learner and writes the columns that a sampler reads."""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from laser.batch import Batch
from laser.ports import ColumnSpec, Sample
from laser.prioritization.config import SamplingConfig
from laser.specs import EnvironmentSpec


class Prioritizer(ABC):
    """Turns what a loss says about replayed items into column values. Used from the learner's thread.

    A subclass sets what it needs and writes. One file per rule in this folder; a sampler of the replay is fed by the
    rule that declares the column it reads (`prioritizer_for`).

    Args:
        config: settings.
        environment: what items hold.
        device: of the learner.
        seed: of initial weights and of choices.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Names in `LossOutput.per_step`: of each group, one is enough."""
    columns: ClassVar[tuple[ColumnSpec, ...]] = ()
    corrects: ClassVar[bool] = True
    """Whether losses correct for its draws."""

    @property
    def relative_weights(self) -> bool:
        """Whether corrections are divided by the largest one of a batch."""
        return True

    def __init__(self, config: SamplingConfig, environment: EnvironmentSpec, device: torch.device, seed: int):
        self.config = config

    @abstractmethod
    def values(self, batch: Batch, per_step: Mapping[str, Tensor], sample: Sample) -> dict[str, Tensor]:
        """Return new column values of a batch that has just been learned from.

        Args:
            batch: fresh columns first, then the replayed ones.
            per_step: see `LossOutput.per_step`; without gradients.
            sample: the replayed items of the batch.

        Returns:
            by column, [T, B] or [1, B], finite.
        """


def prioritizer_for(column: str) -> type[Prioritizer] | None:
    """Return the rule that writes this column, or None where no sampler's rule does."""
    found = [kind for kind in _find() if column in {spec.name for spec in kind.columns}]
    if len(found) > 1:
        raise ValueError(f"the column {column!r} must be one rule's, but {found[0]} and {found[1]} declare it")
    return found[0] if found else None


def missing_numbers(kind: type[Prioritizer], per_step: tuple[str, ...]) -> list[str]:
    """Return what a rule needs that a loss does not say, e.g. ["td_error or priority"]."""
    return [" or ".join(group) for group in kind.needs if not set(group) & set(per_step)]


def _find() -> list[type[Prioritizer]]:
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    found = _subclasses(Prioritizer)  # type: ignore[type-abstract]
    return [kind for kind in found if kind.__module__.startswith(f"{package}.") and kind.columns]


def _subclasses(parent: type[Prioritizer]) -> list[type[Prioritizer]]:
    children = parent.__subclasses__()
    return children + [grandchild for child in children for grandchild in _subclasses(child)]
