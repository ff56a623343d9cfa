"""One update: stacked frames, loss, gradient and optimiser, compiled whole or step by step."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor, nn

from laser.algorithms.base import Algorithm, LossOutput, Schedule, Targets
from laser.algorithms.metrics import StackedMetrics, stack
from laser.batch import WITHOUT_TIME, Batch
from laser.compilation import can_compile, has_bfloat16
from laser.compiled_program import CompilationError
from laser.flat_parameters import FlatParameters
from laser.gpu import RunAhead, ToDevice, finish, to_device
from laser.ops.frame_stacks import stack_frames
from laser.specs import FramesSpec
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.optimizer import FlatOptimizer, update_metrics
from learner.target_network import TargetNetwork
from learner.update_program import Loss, UpdateInput, UpdateProgram

Record = TypeVar("Record", Batch, LossOutput)


class TrainStep:
    """Updates networks from batches. Used from one thread; on a GPU its work belongs to that thread's stream.

    Args:
        algorithm: the loss.
        networks: trained in place; moved to `device`.
        spec: layout of the unrolls a batch was made of.
        config: compile, precision, channels-last.
        device: where to compute.
        seed: of the loss's random numbers.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        networks: nn.Module,
        spec: UnrollSpec,
        config: LearnerConfig,
        device: torch.device,
        seed: int,
    ):
        self.device = device
        self.networks = networks.to(device).train()
        self.parameters = FlatParameters(self.networks, algorithm.acts_with)
        self._state = self.networks.state_dict()  # views of the same memory
        has_frames = bool(spec.frames)
        self._compiled = config.compile == "on" or (
            config.compile == "auto" and (has_frames or device.type == "cuda") and can_compile(device)
        )
        settings = algorithm.config
        self.optimizer = FlatOptimizer(
            self.parameters,
            settings.optimizer,
            settings.optimizer_epsilon,
            settings.max_gradient_norm,
            algorithm.parameter_groups,
        )
        self.targets = {name: TargetNetwork(self.networks, target) for name, target in algorithm.targets.items()}
        self._target_modules = {name: target.networks for name, target in self.targets.items()}
        self.generator = torch.Generator(device=device).manual_seed(seed)
        self.num_updates = 0
        self._periods = {group.prefix: group.period for group in algorithm.parameter_groups if group.period > 1}
        self._algorithm = algorithm
        self._passes_over = algorithm.config.passes != (1, 1)  # batches several times, or in parts
        self._spec = spec
        wants_bfloat16 = config.precision == "bfloat16" or (config.precision == "auto" and has_frames)
        self._autocast = wants_bfloat16 and has_bfloat16(device)
        self._graphed = config.cuda_graphs == "on" or (config.cuda_graphs == "auto" and device.type == "cuda")
        # One of whole batches, and one of the parts that several passes cut them into.
        self._losses: list[Loss] = [self._stacked_loss, self._plain_loss]
        self._programs = [self._program(loss) for loss in self._losses] if self._compiled else []
        self.to_device = ToDevice(device, torch.cuda.current_stream(device) if device.type == "cuda" else None)
        self._run_ahead = RunAhead(device)

    @property
    def description(self) -> str:
        """How it computes, for the log."""
        parts = [str(self.device), "bfloat16" if self._autocast else "float32"]
        parts.append("compiled" if self._compiled else "eager")
        if self._compiled and self._graphed:
            parts.append("one CUDA graph an update" if self.device.type == "cuda" else "as a CUDA graph would be")
        return ", ".join(parts)

    def close(self) -> None:
        """Wait for the updates that a GPU was asked for, and let go of its graphs: not when the process ends."""
        finish(self.device)
        self._programs = []

    def scalar(self, value: float) -> float | Tensor:
        """Return a number for the loss's schedule, so that other values of it do not compile the loss anew."""
        return torch.full((), value, dtype=torch.float32, device=self.device) if self._compiled else value

    @property
    def is_compiled(self) -> bool:
        """Whether the loss is compiled."""
        return self._compiled

    def warm_up(self, batch: Batch, schedule: Schedule, *, core_state: bool = False) -> None:
        """Compile forward and backward for batches of this shape; changes nothing that is trained.

        Args:
            batch: an example.
            schedule: see `__call__`.
            core_state: `next_core_state` will be called, too.
        """
        try:
            self._warm_up(self.to_device(batch), schedule)
            if core_state and self._programs:
                which, whole = self._whole(self.to_device(batch))
                self._programs[which].compile_core_state(whole, schedule)
        except CompilationError as error:
            warnings.warn(f"the loss cannot be compiled and runs uncompiled: {error}", RuntimeWarning, stacklevel=2)
            self._programs, self._compiled = [], False

    def _warm_up(self, batch: Batch, schedule: Schedule) -> None:
        periods = [*self._periods.values(), *(target.period for target in self.targets.values() if target.is_slow)]
        for which, part in self._parts_of(batch) if self._programs else ():
            for number in range(1, 1 + math.lcm(*periods)):
                self._programs[which].compile(part, self._with_due(schedule, number), number)

    def _parts_of(self, batch: Batch) -> Iterator[tuple[int, Batch]]:
        """Yield batches of all sizes that one update may have, each with the index of its program."""
        num_epochs, num_minibatches = self._algorithm.config.passes
        if (num_epochs, num_minibatches) == (1, 1):
            yield 0, batch
            return
        prepared = self._prepared(batch)
        parts = torch.arange(prepared.shape[1], device=self.device).tensor_split(num_minibatches)
        for part in {len(part): part for part in parts}.values():
            yield 1, take_columns(prepared, part)

    def _prepared(self, batch: Batch) -> Batch:
        with torch.no_grad(), torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._autocast):
            return self._algorithm.prepare(self.networks, stacked(batch, self._spec, self._algorithm.config.view))

    def __call__(
        self, batch: Batch, learning_rate: float, schedule: Schedule
    ) -> tuple[Mapping[str, Tensor], LossOutput]:
        """Apply one update.

        Args:
            batch: on this device, as `learner.collate` made it.
            learning_rate: step size of this update.
            schedule: numbers that change over training, e.g. {"progress": 0.3}.

        Returns:
            metrics (scalar tensors, on the device) and what else the loss said.
        """
        ((metrics, output),) = self.in_turn([batch], [learning_rate], schedule)
        return metrics, output

    def in_turn(
        self, batches: Sequence[Batch], learning_rates: Sequence[float], schedule: Schedule
    ) -> Iterator[tuple[Mapping[str, Tensor], LossOutput]]:
        """Apply an update for each batch, and yield what `__call__` returns of it.

        Each update waits until it is asked for, but on a CPU those that are compiled whole: they have no use for what
        their caller does in between, and are faster without (`CompiledProgram.in_a_row`).
        """
        if self._programs and not self._passes_over and all(target.is_slow for target in self.targets.values()):
            done = self._run(0, batches, learning_rates, schedule)
            self._run_ahead.handed_over()
            yield from done
            return
        for batch, learning_rate in zip(batches, learning_rates, strict=True):
            if self._passes_over:
                each = self._passes(batch, learning_rate, schedule)
            else:
                each = self._pass(0, batch, learning_rate, schedule)
            self._run_ahead.handed_over()
            yield each

    def _run(
        self, which: int, batches: Sequence[Batch], learning_rates: Sequence[float], schedule: Schedule
    ) -> list[tuple[StackedMetrics, LossOutput]]:
        first = self.num_updates + 1
        self.num_updates += len(batches)
        updates = [
            UpdateInput(batch, self._with_due(schedule, number), learning_rate, number)
            for number, (batch, learning_rate) in enumerate(zip(batches, learning_rates, strict=True), first)
        ]
        return self._programs[which](updates)

    def _pass(
        self, which: int, batch: Batch, learning_rate: float, schedule: Schedule
    ) -> tuple[Mapping[str, Tensor], LossOutput]:
        metrics: Mapping[str, Tensor]
        if self._programs:
            ((metrics, output),) = self._run(which, [batch], [learning_rate], schedule)
        else:
            self.num_updates += 1
            output, gradient = self._differentiated(which, batch, self._with_due(schedule, self.num_updates))
            self._write_state(output)
            norm, applied = self.optimizer.step(gradient, output.loss, learning_rate, self.num_updates)
            metrics = {**output.metrics, **update_metrics(norm, applied)}
        for target in self.targets.values():
            if not (self._programs and target.is_slow):  # the program has moved it
                target.follow(self.parameters, self.num_updates)
        return metrics, output

    def _passes(
        self, batch: Batch, learning_rate: float, schedule: Schedule
    ) -> tuple[Mapping[str, Tensor], LossOutput]:
        num_epochs, num_minibatches = self._algorithm.config.passes
        batch = self._prepared(batch)
        num_columns = batch.shape[1]
        sums: dict[tuple[str, ...], Tensor] = {}  # by the metrics that a pass had
        for _ in range(num_epochs):
            order = torch.randperm(num_columns, generator=self.generator, device=self.device)
            for columns in order.tensor_split(num_minibatches):
                metrics, output = self._pass(1, take_columns(batch, columns), learning_rate, schedule)
                stacked, names = stack(metrics).vector / (num_epochs * num_minibatches), tuple(metrics)
                sums[names] = sums[names] + stacked if names in sums else stacked
        if len(sums) == 1:
            ((names, total),) = sums.items()
            return StackedMetrics(names, total), output
        means: dict[str, Tensor] = {}
        for names, total in sums.items():
            for name, value in zip(names, total.unbind(), strict=True):
                means[name] = means[name] + value if name in means else value
        return means, output

    @torch.no_grad()
    def observe(self, statistics: Mapping[str, Any], num_updates: int) -> None:
        """Let the algorithm set its buffers from sums over the replay; see `Algorithm.observe`."""
        updates = self._algorithm.observe(self.networks, statistics, num_updates)
        for name, value in updates.items():
            self._state[name].copy_(to_device(value, self.device))
        if updates:
            for target in self.targets.values():
                target.parameters.buffers.copy_(self.parameters.buffers)

    @torch.no_grad()
    def next_core_state(self, batch: Batch, schedule: Schedule) -> dict[str, Tensor]:
        """Return `LossOutput.core_state` anew, of the parameters as they are now; costs one more forward."""
        which, batch = self._whole(batch)
        if self._programs:
            return self._programs[which].core_state(batch, schedule)
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._autocast):
            return self._losses[which](self.networks, self._target_modules, batch, schedule).core_state

    def _whole(self, batch: Batch) -> tuple[int, Batch]:
        """Return a batch as its program takes it where it is not cut into parts, and the program's index."""
        return (1, self._prepared(batch)) if self._passes_over else (0, batch)

    @torch.no_grad()
    def _write_state(self, output: LossOutput) -> None:
        if not output.state_updates:
            return
        fine, own = torch.isfinite(output.loss), self._state
        for name, value in output.state_updates.items():
            own[name].copy_(torch.where(fine, value, own[name]))

    def _with_due(self, schedule: Schedule, number: int) -> Schedule:
        """Return the schedule with what `laser.algorithms.base.is_due` reads."""
        if not self._periods:
            return schedule
        return {**schedule, "due": {prefix: number % period == 0 for prefix, period in self._periods.items()}}

    def _program(self, loss: Loss) -> UpdateProgram:
        return UpdateProgram(
            loss,
            self.networks,
            self.targets,
            self.parameters,
            self.optimizer,
            self.generator,
            self.device,
            autocast=self._autocast,
            graphed=self._graphed,
        )

    def _differentiated(self, which: int, batch: Batch, schedule: Schedule) -> tuple[LossOutput, Tensor]:
        """Return what a loss says, without its graph, and its gradient."""
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._autocast):
            output = self._losses[which](self.networks, self._target_modules, batch, schedule)
        return map_tensors(output, Tensor.detach), self.parameters.gradient_of(output.loss)

    def _stacked_loss(self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule) -> LossOutput:
        return self._plain_loss(networks, targets, stacked(batch, self._spec, self._algorithm.config.view), schedule)

    def _plain_loss(self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule) -> LossOutput:
        # Tracing cannot follow a generator: `CompiledProgram` makes these draws come from ours.
        generator = None if self._compiled else self.generator
        return self._algorithm.loss(networks, targets, batch, schedule, generator)


def learning_rate_at(progress: float, initial: float, schedule: str) -> float:
    """Return the step size after a fraction `progress` of training: constant, or linear to 0."""
    return initial * max(0.0, 1.0 - progress) if schedule == "linear" else initial


def stacked(batch: Batch, spec: UnrollSpec, view: Literal["unrolls", "steps"]) -> Batch:
    """Return a batch whose frames are stacks, as networks see them; those of single steps are already."""
    if view == "steps":
        return batch
    observations = dict(batch.observations)
    for name, item in spec.environment.observations.items():
        if isinstance(item, FramesSpec):
            observations[name] = stack_frames(observations[name], batch.first, item.stack, item.padding)
    return dataclasses.replace(batch, observations=observations)


def take_columns(batch: Batch, columns: Tensor) -> Batch:
    """Return some columns of a batch.

    Args:
        batch: with frames stacked.
        columns: int64 [n].
    """

    def take(name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: take(name, item) for key, item in value.items()}
        return value.index_select(0 if name in WITHOUT_TIME else 1, columns)

    return Batch(**{item.name: take(item.name, getattr(batch, item.name)) for item in dataclasses.fields(batch)})


def map_tensors(record: Record, function: Callable[[Tensor], Tensor]) -> Record:
    """Return a record with `function` applied to each of its tensors."""

    def apply(value: Any) -> Any:
        return {name: function(item) for name, item in value.items()} if isinstance(value, dict) else function(value)

    return type(record)(**{item.name: apply(getattr(record, item.name)) for item in dataclasses.fields(record)})
