"""What a prioritizer is: it lives beside the learner and writes the columns that a sampler reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from laser.batch import Batch
from laser.discovery import find_subclasses
from laser.ports import ColumnSpec, Sample
from laser.prioritization.config import SamplingConfig
from laser.specs import EnvironmentSpec
from laser.user_classes import find_class


@dataclass(frozen=True)
class Replayed:
    """Items of a replay, as they came and as the loss sees them.

    Args:
        sample: N items.
        batch: the same on the learner's device, after fresh columns if there are any.
    """

    sample: Sample
    batch: Batch


class ReplayReader(Protocol):
    """Reads stored steps beside the sampler; a look at the replay that draws nothing from its pace."""

    def read(self, keys: np.ndarray) -> Replayed | None:
        """Return the steps with these keys; those that are gone are left out, None where all are."""

    def draw_uniformly(self, num_items: int) -> Replayed:
        """Return steps of which each that is stored was equally likely."""


@dataclass(frozen=True)
class Lesson:
    """What follows from an update of a rule's own network.

    Args:
        keys: KEY_DTYPE [N].
        values: new column values of these rows, [1, N] by name.
        redraw: samplers shall make their random choice of what may be drawn anew.
    """

    keys: np.ndarray
    values: dict[str, Tensor]
    redraw: bool = False


class Prioritizer(ABC):
    """Turns what a loss says about replayed items into column values.

    A subclass sets what it needs and writes. One file per rule in this folder. A sampler of the replay is fed by the
    rule that it names, else by the one here that declares the column it reads (`find_rule`). Its settings are
    those of its sampler, `self.settings`. Used from the learner's thread, but for `prepare`.

    Args:
        config: of the sampler.
        environment: what items hold.
        device: of the learner.
        seed: of initial weights and of choices.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Names in `LossOutput.per_step`: of each group, one is enough."""
    columns: ClassVar[tuple[ColumnSpec, ...]] = ()
    corrects: ClassVar[bool] = True
    """Whether losses correct for its draws."""

    def __init__(self, config: SamplingConfig, environment: EnvironmentSpec, device: torch.device, seed: int):
        self.config = config
        self.settings: Any = config.own_settings

    @property
    def relative_weights(self) -> bool:
        """Whether corrections are divided by the largest one of a batch."""
        return True

    def prepare(self, replayed: Sequence[Replayed]) -> list[dict[str, Tensor]]:
        """Return what can be said before the loss, ahead of time; may be called from another thread.

        Args:
            replayed: batches of one size that were drawn together.

        Returns:
            column values of each batch, like `values`.
        """
        return [{} for _ in replayed]

    def forget_keys(self) -> None:  # noqa: B027 - most keep none
        """Forget which steps were drawn: the replay that they lay in is gone."""

    def forget_agent(self) -> None:  # noqa: B027 - most do not ask how it does
        """Forget how the agent did: another has taken its place, and no draw brought that about."""

    @abstractmethod
    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return new column values of a batch that has just been learned from.

        Args:
            replayed: with the batch's fresh columns.
            per_step: see `LossOutput.per_step`; without gradients.

        Returns:
            by column, [T, B] or [1, B], finite.
        """

    def mark_evaluation(self) -> None:  # noqa: B027 - most do not ask how it does
        """An evaluation of the agent as it is now begins: what is drawn from here on has no part in its return."""

    def hear(self, mean_return: float, reader: ReplayReader) -> Lesson | None:
        """Hear how the agent did at the last mark, or does now where none was set, and learn from it.

        Returns:
            what is to be written; None where nothing follows.
        """
        return None

    def metrics(self) -> dict[str, float]:
        """Return what to record, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return what continues this rule: "tensors" by name, and "numbers", JSON values and arrays."""
        return {"tensors": {}, "numbers": {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - rules that do not learn keep nothing
        """Restore what `state_dict` gave.

        Raises:
            ValueError: it belongs to other settings.
        """


def find_rule(place: str, column: str) -> type[Prioritizer] | None:
    """Return the rule that feeds a sampler, or None where none does.

    Args:
        place: of the rule, "module:Name", as the sampler names it; "": it names none.
        column: that the sampler reads; "": none.

    Raises:
        ValueError: the sampler names a rule that is not there.
    """
    if place:
        return find_class(place, Prioritizer, "name a subclass of laser.prioritization.base.Prioritizer")
    return prioritizer_for(column) if column else None


def prioritizer_for(column: str) -> type[Prioritizer] | None:
    """Return the rule that writes this column, or None where no rule does.

    Raises:
        ValueError: two rules declare it.
    """
    found = [kind for kind in find_prioritizers() if column in {spec.name for spec in kind.columns}]
    if len(found) > 1:
        raise ValueError(f"a column must be one rule's, but {found[0]} and {found[1]} both declare {column!r}")
    return found[0] if found else None


def missing_numbers(kind: type[Prioritizer], per_step: tuple[str, ...]) -> list[str]:
    """Return what a rule needs that a loss does not say, e.g. ["td_error or priority"]."""
    return [" or ".join(group) for group in kind.needs if not set(group) & set(per_step)]


def find_prioritizers() -> list[type[Prioritizer]]:
    """Return every rule in this folder."""
    return [kind for kind in find_subclasses(__name__.rpartition(".")[0], Prioritizer) if kind.columns]
