"""Eager updates: computed operator by operator, without compilation."""

from __future__ import annotations

import torch
from torch import Tensor

from laser.algorithms.base import Schedule
from laser.batch import Batch
from laser.tensor_trees import map_tensors
from learner.updating.batch_loss import Loss
from learner.updating.optimizer import update_metrics
from learner.updating.train_state import TrainState
from learner.updating.updater import Updated, Updater, write_state


class EagerUpdater(Updater):
    """Computes each update operator by operator.

    Args:
        state: the training state that updates change.
        loss: of the state's networks.
        precision: of the networks, for the log.
    """

    def __init__(self, state: TrainState, loss: Loss, precision: str):
        super().__init__(state)
        self._loss = loss
        self._precision = precision

    @property
    def description(self) -> str:
        """See `Updater`."""
        return f"{self.state.device}, {self._precision}, eager"

    def update(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """See `Updater`."""
        state = self.state
        state.num_updates += 1
        inputs = state.inputs_of(state.num_updates, inputs)
        output = self._loss(state.networks, state.target_modules, batch, inputs, state.generator)
        gradient = state.parameters.gradient_of(output.loss)
        output = map_tensors(output, Tensor.detach)
        with torch.no_grad():
            write_state(state.tensors, output)
        norm, applied = state.optimizer.step(gradient, output.loss, learning_rate, state.num_updates)
        for target in state.targets.values():
            target.follow(state.parameters, state.num_updates)
        return {**output.metrics, **update_metrics(norm, applied)}, output

    @torch.no_grad()
    def next_core_state(self, batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        """See `Updater`."""
        state = self.state
        return self._loss(state.networks, state.target_modules, batch, inputs, state.generator).core_state

    def uncompiled(self) -> EagerUpdater:
        """Return this updater."""
        return self
