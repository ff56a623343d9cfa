"""The prioritizer, a rule beside the learner that writes the columns that a sampler reads."""

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
    """Items of a replay, as received and as the loss sees them.

    Args:
        sample: N items.
        batch: the same items on the learner's device, behind fresh sequences if there are any.
    """

    sample: Sample
    batch: Batch


class ReplayReader(Protocol):
    """A reader of stored steps that bypasses the sampler and the rate limiter."""

    def read(self, keys: np.ndarray) -> Replayed | None:
        """Return the stored steps with these keys, leaving out those that are gone; None if all are."""

    def draw_uniformly(self, num_items: int) -> Replayed:
        """Return steps drawn uniformly from all that are stored."""


@dataclass(frozen=True)
class Lesson:
    """Column writes that follow an update of a rule's own network.

    Args:
        keys: KEY_DTYPE [N].
        values: new column values of these rows, [1, N] by name.
        redraw: samplers that draw from a random subset choose a new subset.
    """

    keys: np.ndarray
    values: dict[str, Tensor]
    redraw: bool = False


class Prioritizer(ABC):
    """Computes column values from what a loss returns about replayed items.

    A subclass declares its inputs (`needs`) and its columns; each rule has one file in this folder. A sampler uses the
    rule that it names, else the rule here that declares the column it reads (`find_rule`). `self.settings` are the
    settings of the sampler. Used from the learner's thread, except for `prepare`.

    Args:
        config: settings of the sampler.
        environment: spec of the stored items.
        device: device of the learner.
        seed: seed of initial weights and random choices.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of names in `LossOutput.per_step`; the loss must give one name of each group."""
    columns: ClassVar[tuple[ColumnSpec, ...]] = ()
    corrects: ClassVar[bool] = True
    """Whether losses correct for uneven draws."""

    def __init__(self, config: SamplingConfig, environment: EnvironmentSpec, device: torch.device, seed: int):
        self.config = config
        self.settings: Any = config.own_settings

    @property
    def relative_weights(self) -> bool:
        """Whether corrections are divided by the largest one in a batch."""
        return True

    def prepare(self, replayed: Sequence[Replayed]) -> list[dict[str, Tensor]]:
        """Return column values that do not depend on the loss, ahead of it; may be called from another thread.

        Args:
            replayed: batches of one size that were drawn together.

        Returns:
            column values of each batch, in the form of `values`.
        """
        return [{} for _ in replayed]

    def forget_keys(self) -> None:  # noqa: B027 - most rules keep no keys
        """Forget which steps were drawn, since their replay no longer exists."""

    def forget_agent(self) -> None:  # noqa: B027 - most rules do not use returns
        """Forget the agent's returns, since another agent replaced it, for reasons other than the draws."""

    @abstractmethod
    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return new column values of a batch after its update.

        Args:
            replayed: the items, with the batch's fresh sequences.
            per_step: see `LossOutput.per_step`; without gradients.

        Returns:
            values by column name, [T, B] or [1, B], finite.
        """

    def mark_evaluation(self) -> None:  # noqa: B027 - most rules do not use returns
        """Mark the start of an evaluation of the current agent: later draws do not affect its return."""

    def hear(self, mean_return: float, reader: ReplayReader) -> Lesson | None:
        """Learn from the agent's mean return, at the last mark or, without a mark, now.

        Args:
            mean_return: the mean return.
            reader: reader of stored steps.

        Returns:
            columns to write; None if there are none.
        """
        return None

    def metrics(self) -> dict[str, float]:
        """Return the metrics to record, by name."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this rule: "tensors" by name, and "numbers", JSON values and arrays."""
        return {"tensors": {}, "numbers": {}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:  # noqa: B027 - rules that do not learn keep nothing
        """Restore a state from `state_dict`.

        Raises:
            ValueError: the state belongs to other settings.
        """


def find_rule(place: str, column: str) -> type[Prioritizer] | None:
    """Return the rule of a sampler, or None if it has none.

    Args:
        place: path of the rule, "module:Name", that the sampler names; "": it names none.
        column: the column that the sampler reads; "": none.

    Raises:
        ValueError: the sampler names a rule that does not exist.
    """
    if place:
        return find_class(place, Prioritizer, "name a subclass of laser.prioritization.base.Prioritizer")
    return prioritizer_for(column) if column else None


def prioritizer_for(column: str) -> type[Prioritizer] | None:
    """Return the rule that writes a column, or None if no rule does.

    Raises:
        ValueError: two rules declare the column.
    """
    found = [kind for kind in find_prioritizers() if column in {spec.name for spec in kind.columns}]
    if len(found) > 1:
        raise ValueError(f"a column must belong to one rule, but {found[0]} and {found[1]} both declare {column!r}")
    return found[0] if found else None


def missing_numbers(kind: type[Prioritizer], per_step: tuple[str, ...]) -> list[str]:
    """Return the names that a rule needs and a loss does not return, e.g. ["td_error or priority"]."""
    return [" or ".join(group) for group in kind.needs if not set(group) & set(per_step)]


def find_prioritizers() -> list[type[Prioritizer]]:
    """Return every rule in this folder."""
    return [kind for kind in find_subclasses(__name__.rpartition(".")[0], Prioritizer) if kind.columns]
