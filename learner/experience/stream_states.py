"""Recurrent states of episode streams: one per replayed sequence, from the newest forward pass of training."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from laser.batch import Batch
from laser.specs import ArraySpec


class StreamStates:
    """The initial recurrent state of each stream's next piece, on the learner's device. Used from one thread.

    Batches are requested ahead of time, so a state joins its sequence only at the update. Networks reset the state
    where an episode begins (`Batch.first`), so the state kept here does no harm then.

    Args:
        core_state: names and shapes of one stream's state.
        num_streams: replayed sequences of a batch.
        device: of the learner.
    """

    def __init__(self, core_state: Mapping[str, ArraySpec], num_streams: int, device: torch.device):
        self._states = {
            name: torch.zeros(num_streams, *array.shape, device=device, dtype=getattr(torch, array.dtype))
            for name, array in core_state.items()
        }

    def join(self, batch: Batch, streams: Tensor) -> Batch:
        """Return the batch with the states of its replayed sequences replaced.

        Args:
            batch: fresh sequences first, then one per stream.
            streams: int64 [N], the stream of each of the last N sequences.
        """
        num_fresh = len(batch.importance_weights) - len(streams)
        core_state = {
            name: torch.cat([value[:num_fresh], self._states[name][streams]])
            for name, value in batch.core_state.items()
        }
        return dataclasses.replace(batch, core_state=core_state)

    def keep(self, core_state: Mapping[str, Tensor], streams: Tensor) -> None:
        """Keep the states with which the next pieces begin; see `LossOutput.core_state`.

        Non-finite numbers come from a forward pass whose update was refused. They would persist for the rest of an
        episode, so they are replaced by 0.
        """
        for name, value in core_state.items():
            last = value[len(value) - len(streams) :].to(self._states[name].dtype)
            self._states[name][streams] = torch.nan_to_num(last, 0.0, 0.0, 0.0)

    def forget(self) -> None:
        """Reset the state of every stream to zeros."""
        for value in self._states.values():
            value.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies of the states by name, on the CPU."""
        return {name: value.cpu().clone() for name, value in self._states.items()}

    def fits(self, state: Mapping[str, Tensor]) -> bool:
        """Return whether `state` has these names and shapes."""
        own = {name: value.shape for name, value in self._states.items()}
        return own == {name: value.shape for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore states from `state_dict`."""
        for name, value in self._states.items():
            value.copy_(state[name])
