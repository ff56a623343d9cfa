"""Recurrent states of replayed columns: one per episode stream, computed by the newest training forward."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from laser.batch import Batch
from laser.specs import ArraySpec


class StreamStates:
    """The state with which the next piece of each stream begins. Lives on the learner's device; used from one thread.

    Batches are asked for ahead of time, so a state joins its column only when the batch is trained on. A stream that
    begins an episode resets its state itself (`Batch.first`), so whatever is kept here for it does no harm.

    Args:
        core_state: names and shapes of one stream's state.
        num_streams: replayed columns of a batch.
        device: of the learner.
    """

    def __init__(self, core_state: Mapping[str, ArraySpec], num_streams: int, device: torch.device):
        self._states = {
            name: torch.zeros(num_streams, *array.shape, device=device, dtype=getattr(torch, array.dtype))
            for name, array in core_state.items()
        }

    def join(self, batch: Batch, streams: Tensor) -> Batch:
        """Return the batch with the states of its last columns replaced.

        Args:
            batch: fresh columns first, then one per stream.
            streams: int64 [N], which stream each of the last N columns is.
        """
        num_fresh = len(batch.importance_weights) - len(streams)
        core_state = {
            name: torch.cat([value[:num_fresh], self._states[name][streams]])
            for name, value in batch.core_state.items()
        }
        return dataclasses.replace(batch, core_state=core_state)

    def keep(self, core_state: Mapping[str, Tensor], streams: Tensor) -> None:
        """Remember the states with which the next pieces begin; see `LossOutput.core_state`.

        Numbers that are not finite, from a forward whose update was refused, would stay for the rest of an episode:
        they are replaced by 0.
        """
        for name, value in core_state.items():
            last = value[len(value) - len(streams) :].to(self._states[name].dtype)
            self._states[name][streams] = torch.nan_to_num(last, 0.0, 0.0, 0.0)

    def forget(self) -> None:
        """Let what comes next of every stream begin with a state of zeros."""
        for value in self._states.values():
            value.zero_()

    def state_dict(self) -> dict[str, Tensor]:
        """Return copies."""
        return {name: value.cpu().clone() for name, value in self._states.items()}

    def fits(self, state: Mapping[str, Tensor]) -> bool:
        """Return whether `state` has these names and shapes."""
        own = {name: value.shape for name, value in self._states.items()}
        return own == {name: value.shape for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state_dict` gave."""
        for name, value in self._states.items():
            value.copy_(state[name])
