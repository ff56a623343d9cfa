"""Compiled updates: loss, gradient, optimiser and target networks as one piece of code."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn

from laser.algorithms.base import LossOutput, Schedule
from laser.algorithms.metrics import StackedMetrics, stack
from laser.batch import Batch
from laser.compiled_program import CompiledProgram
from laser.flat_parameters import call_with
from learner.updating.batch_loss import Loss
from learner.updating.eager import EagerUpdater
from learner.updating.optimizer import update_metrics
from learner.updating.train_state import TrainState
from learner.updating.updater import Updated, Updater, write_state


@dataclass(frozen=True)
class _Results:
    """Results of the compiled update.

    Args:
        output: of the loss, without its metrics.
        names: of the metrics.
        metrics: float32 [names], of the loss and of the update.
        shared: scalars of the optimiser, returned only to make the code faster; see `FlatOptimizer.traced_step`.
    """

    output: LossOutput
    names: Sequence[str]
    metrics: Tensor
    shared: Sequence[Tensor]


class CompiledUpdater(Updater):
    """Computes each update like `EagerUpdater`, as compiled code; numbers may differ in their last bits.

    Averaged target networks move inside the compiled code. Target networks that are copied now and then are not part
    of it: `TargetNetwork.follow` copies them.

    Args:
        state: the training state that updates change.
        loss: of the state's networks.
        precision: of the networks, for the log.
    """

    is_compiled = True
    program: type[CompiledProgram[Any]] = CompiledProgram
    """The class that holds the compiled code and calls it."""

    def __init__(self, state: TrainState, loss: Loss, precision: str):
        super().__init__(state)
        self._loss = loss
        self._precision = precision
        self._modules = nn.ModuleDict({"networks": state.networks, "targets": nn.ModuleDict(state.target_modules)})
        self._averaged = {name: target for name, target in state.targets.items() if target.is_averaged}
        self._copied = [target for target in state.targets.values() if not target.is_averaged]
        self._update, self._core_state = self._programs()

    @property
    def description(self) -> str:
        """See `Updater`."""
        return f"{self.state.device}, {self._precision}, compiled"

    def scalar(self, value: float) -> Tensor:
        """See `Updater`."""
        return torch.full((), value, dtype=torch.float32, device=self.state.device)

    def in_turn(self, batches: Sequence[Batch], learning_rates: Sequence[float], inputs: Schedule) -> Iterator[Updated]:
        """See `Updater`; without copied target networks, all updates are applied at the first `next`.

        Then nothing has to happen between two updates, and `CompiledProgram.in_a_row` is faster than single calls.
        """
        if self._copied:
            yield from super().in_turn(batches, learning_rates, inputs)
            return
        updated = self._in_a_row(batches, learning_rates, inputs)
        self._run_ahead.handed_over()
        yield from updated

    def update(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """See `Updater`."""
        (updated,) = self._in_a_row([batch], [learning_rate], inputs)
        for target in self._copied:
            target.follow(self.state.parameters, self.state.num_updates)
        return updated

    def next_core_state(self, batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        """See `Updater`."""
        return self._core_state(batch, inputs)

    def compile(self, batch: Batch, inputs: Schedule) -> None:
        """See `Updater`."""
        for number in range(1, 1 + self.state.cycle):
            self._update.compile(*self._arguments(batch, 0.0, inputs, number))

    def compile_core_state(self, batch: Batch, inputs: Schedule) -> None:
        """See `Updater`."""
        self._core_state.compile(batch, inputs)

    def uncompiled(self) -> EagerUpdater:
        """See `Updater`."""
        return EagerUpdater(self.state, self._loss, self._precision)

    def close(self) -> None:
        """See `Updater`."""
        super().close()
        self._update, self._core_state = self._programs()  # frees the old ones' code and memory

    def _programs(self) -> tuple[CompiledProgram[_Results], CompiledProgram[dict[str, Tensor]]]:
        state, stretches = self.state, self.state.optimizer.stretches
        held = {
            "stretches": stretches,
            "num_steps": state.optimizer.num_steps,
            "buffers": state.parameters.buffers,
            # Cut into stretches: compiled code writes the whole of a tensor of which it changes a part.
            "targets": {
                name: [
                    *(stretch.part_of(target.parameters.trainable) for stretch in stretches),
                    target.parameters.buffers,
                ]
                for name, target in state.targets.items()
            },
        }
        shared = held, state.generator, state.device
        return self.program(self._updated, *shared), self.program(self._next_core_state, *shared)

    def _in_a_row(self, batches: Sequence[Batch], learning_rates: Sequence[float], inputs: Schedule) -> list[Updated]:
        first = self.state.num_updates + 1
        calls = [
            self._arguments(batch, learning_rate, inputs, first + place)
            for place, (batch, learning_rate) in enumerate(zip(batches, learning_rates, strict=True))
        ]
        self.state.num_updates += len(batches)
        return [(StackedMetrics(each.names, each.metrics), each.output) for each in self._update.in_a_row(calls)]

    def _arguments(self, batch: Batch, learning_rate: float, inputs: Schedule, number: int) -> tuple[Any, ...]:
        """Return the arguments of `_updated` after `held` for update `number`; the first update is 1."""
        optimizer = self.state.optimizer
        periods = sorted({*optimizer.num_steps, *(target.period for target in self._averaged.values())})
        due = tuple(period for period in periods if number % period == 0)
        return batch, self.state.inputs_of(number, inputs), optimizer.numbers(learning_rate), due

    def _updated(
        self, held: Mapping[str, Any], batch: Batch, inputs: Schedule, numbers: Tensor, due: Sequence[int]
    ) -> _Results:
        """Apply one update to the tensors of `held`. This function is traced and compiled.

        Args:
            held: tensors that the update changes in place; see `_programs`.
            batch: on the device.
            inputs: of the update.
            numbers: see `FlatOptimizer.numbers`.
            due: the periods that divide the update's number.
        """
        state, stretches = self.state, held["stretches"]
        views = self._views(held)
        leaves = {name: views[name].detach().requires_grad_() for name, _ in state.parameters.named_parameters()}
        output = self._loss_of(held, views | leaves, batch, inputs)
        gradient = state.parameters.gradient_of(output.loss, list(leaves.values()))
        with torch.no_grad():
            write_state(views, output)
            norm, applied, shared = state.optimizer.traced_step(
                stretches, held["num_steps"], gradient, output.loss.detach(), numbers, due
            )
            for name, target in self._averaged.items():
                if target.period in due:
                    *parts, buffers = held["targets"][name]
                    for part, stretch in zip(parts, stretches, strict=True):
                        part.lerp_(stretch.weights, target.rate)
                    buffers.copy_(held["buffers"])
        metrics = stack({**output.metrics, **update_metrics(norm, applied)})
        return _Results(dataclasses.replace(output, metrics={}), tuple(metrics), metrics.vector, shared)

    @torch.no_grad()
    def _next_core_state(self, held: Mapping[str, Any], batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        return self._loss_of(held, self._views(held), batch, inputs).core_state

    def _views(self, held: Mapping[str, Any]) -> dict[str, Tensor]:
        pieces = [*(stretch.weights for stretch in held["stretches"]), held["buffers"]]
        return self.state.parameters.views(pieces)

    def _loss_of(
        self, held: Mapping[str, Any], tensors: Mapping[str, Tensor], batch: Batch, inputs: Schedule
    ) -> LossOutput:
        """Return the loss with these parameters and buffers, and with the target networks' from `held`."""
        tensors = {f"networks.{name}": value for name, value in tensors.items()}
        for name, target in self.state.targets.items():
            copies = target.parameters.views(held["targets"][name])
            tensors |= {f"targets.{name}.{key}": value for key, value in copies.items()}

        def loss(modules: nn.ModuleDict) -> LossOutput:
            targets = dict(cast(nn.ModuleDict, modules["targets"]).items())
            # Tracing cannot follow a generator: `CompiledProgram` makes the draws use the state's generator.
            return self._loss(modules["networks"], targets, batch, inputs, None)

        return call_with(tensors, self._modules, loss)
