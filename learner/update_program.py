"""An update as one compiled program: loss, gradient, optimiser and slow copies, with nothing looked up in between."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, cast

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.base import LossOutput, Schedule, Targets
from laser.algorithms.metrics import StackedMetrics, stack
from laser.batch import Batch
from laser.compiled_program import CompiledProgram
from laser.flat_parameters import FlatParameters, call_with
from laser.graphed_program import GraphedProgram
from learner.optimizer import FlatOptimizer, Stretch, update_metrics
from learner.target_network import TargetNetwork

Loss = Callable[[nn.Module, Targets, Batch, Schedule], LossOutput]


@dataclass(frozen=True)
class _Update:
    """What an update returns.

    Args:
        output: what the loss said, without its metrics.
        names: of the metrics.
        metrics: float32 [names], those of the loss and of the update.
        shared: scalars of the optimiser's, returned for the program's sake; see `FlatOptimizer.traced_step`.
    """

    output: LossOutput
    names: Sequence[str]
    metrics: Tensor
    shared: Sequence[Tensor]


class UpdateInput(NamedTuple):
    """What one update is made from.

    Args:
        batch: on the learner's device.
        schedule: numbers that change over training.
        learning_rate: step size.
        number: of the update; the first is 1.
    """

    batch: Batch
    schedule: Schedule
    learning_rate: float
    number: int


class UpdateProgram:
    """Updates networks like `TrainStep` does step by step; its numbers may differ in their last bits.

    Args:
        loss: of networks, slow copies, a batch and a schedule; draws as if from torch's global generator.
        networks: trained in place.
        targets: slow copies by name.
        parameters: of the networks.
        optimizer: of these parameters.
        generator: what the loss draws comes from.
        device: where all of these are.
        autocast: compute matrix products in bfloat16.
        graphed: replay each update as one CUDA graph; see `GraphedProgram`.
    """

    def __init__(
        self,
        loss: Loss,
        networks: nn.Module,
        targets: Mapping[str, TargetNetwork],
        parameters: FlatParameters,
        optimizer: FlatOptimizer,
        generator: Generator,
        device: torch.device,
        *,
        autocast: bool,
        graphed: bool,
    ):
        self._loss = loss
        copies = nn.ModuleDict({name: target.networks for name, target in targets.items()})
        self._modules = nn.ModuleDict({"networks": networks, "targets": copies})
        self._targets = targets
        self._parameters = parameters
        self._optimizer = optimizer
        self._device = device
        self._autocast = autocast
        held = {
            "stretches": optimizer.stretches,
            "num_steps": optimizer.num_steps,
            "buffers": parameters.buffers,
            # In the stretches that move together: compiled code writes the whole of what it writes a part of.
            "targets": {
                name: [
                    *(stretch.part_of(target.parameters.trainable) for stretch in optimizer.stretches),
                    target.parameters.buffers,
                ]
                for name, target in targets.items()
            },
        }
        # Those that are copied now and then are left to `TargetNetwork`.
        self._slow = {name: target for name, target in targets.items() if target.is_slow}
        program = GraphedProgram if graphed else CompiledProgram
        self._update: CompiledProgram[_Update] = program(self._updated, held, generator, device)
        self._core_state: CompiledProgram[dict[str, Tensor]] = program(self._stepped, held, generator, device)

    def __call__(self, updates: Sequence[UpdateInput]) -> list[tuple[StackedMetrics, LossOutput]]:
        """Apply updates, one after the other with nothing in between.

        Returns:
            of each, metrics of the loss and of the update, and what else the loss said.
        """
        done = self._update.in_a_row(
            [
                (update.batch, update.schedule, self._optimizer.numbers(update.learning_rate), self._due(update.number))
                for update in updates
            ]
        )
        return [(StackedMetrics(each.names, each.metrics), each.output) for each in done]

    def compile(self, batch: Batch, schedule: Schedule, number: int) -> None:
        """Compile for such a batch and update; changes nothing that is trained."""
        self._update.compile(batch, schedule, self._optimizer.numbers(0.0), self._due(number))

    def compile_core_state(self, batch: Batch, schedule: Schedule) -> None:
        """Compile `core_state` for such a batch."""
        self._core_state.compile(batch, schedule)

    def core_state(self, batch: Batch, schedule: Schedule) -> dict[str, Tensor]:
        """Return `LossOutput.core_state` of the parameters as they are."""
        return self._core_state(batch, schedule)

    def _due(self, number: int) -> tuple[int, ...]:
        """Return the periods that divide a number."""
        periods = {*self._optimizer.num_steps, *(target.period for target in self._slow.values())}
        return tuple(period for period in sorted(periods) if number % period == 0)

    def _stepped(self, held: Mapping[str, Any], batch: Batch, schedule: Schedule) -> dict[str, Tensor]:
        with torch.no_grad():
            return self._said(held, self._views(held), batch, schedule).core_state

    def _views(self, held: Mapping[str, Any]) -> dict[str, Tensor]:
        pieces = [*(stretch.weights for stretch in held["stretches"]), held["buffers"]]
        return self._parameters.views(pieces)

    def _said(
        self, held: Mapping[str, Any], tensors: Mapping[str, Tensor], batch: Batch, schedule: Schedule
    ) -> LossOutput:
        """Return what the loss says of these parameters and buffers."""
        states = {f"networks.{name}": value for name, value in tensors.items()}
        for name, target in self._targets.items():
            copied = target.parameters.views(held["targets"][name])
            states |= {f"targets.{name}.{key}": value for key, value in copied.items()}
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=self._autocast):
            return call_with(states, self._modules, self._lost, batch, schedule)

    def _lost(self, modules: nn.ModuleDict, batch: Batch, schedule: Schedule) -> LossOutput:
        targets = dict(cast(nn.ModuleDict, modules["targets"]).items())
        return self._loss(modules["networks"], targets, batch, schedule)

    def _updated(
        self, held: Mapping[str, Any], batch: Batch, schedule: Schedule, numbers: Tensor, due: Sequence[int]
    ) -> _Update:
        stretches: list[Stretch] = held["stretches"]
        views = self._views(held)
        names = [name for name, _ in self._parameters.named_parameters()]
        leaves = {name: views[name].detach().requires_grad_() for name in names}
        output = self._said(held, views | leaves, batch, schedule)
        gradient = self._parameters.gradient_of(output.loss, list(leaves.values()))
        with torch.no_grad():
            loss = output.loss.detach()
            fine = torch.isfinite(loss)
            for name, value in output.state_updates.items():
                views[name].copy_(torch.where(fine, value.detach(), views[name]))
            norm, applied, shared = self._optimizer.traced_step(
                stretches, held["num_steps"], gradient, loss, numbers, due
            )
            for name, target in self._slow.items():
                if target.period in due:
                    *parts, buffers = held["targets"][name]
                    for part, stretch in zip(parts, stretches, strict=True):
                        part.lerp_(stretch.weights, target.rate)
                    buffers.copy_(held["buffers"])
        metrics = stack({**output.metrics, **update_metrics(norm, applied)})
        return _Update(dataclasses.replace(output, metrics={}), tuple(metrics), metrics.vector, shared)
