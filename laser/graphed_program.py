"""Compiled functions replayed as one CUDA graph: a call costs the host one kernel launch, not hundreds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Generator, Tensor

from laser.compiled_program import CompiledProgram, Draw
from laser.gpu import RECORDING
from laser.packing import Packing
from laser.tensor_trees import flatten, unflatten

R = TypeVar("R")

# So many calls complete the one-time work of the allocator and the libraries, which must not be recorded.
_WARM_UP_CALLS = 3


class GraphedProgram(CompiledProgram[R]):
    """A `CompiledProgram` that is recorded once for each shape of arguments, and replayed after that.

    A graph reads and writes the same memory at every replay. Arguments are therefore copied into the graph's buffers,
    and results are copied out, so that later calls do not change them. Random numbers are drawn from the generator
    before each replay, as without a graph. The call that compiles also records, and leaves `held` unchanged. If
    recording fails, the code runs without a graph, after a warning. On a CPU nothing is recorded and a replay calls the
    code, so that the rest can be tested there.

    Args:
        function: see `CompiledProgram`.
        held: see `CompiledProgram`.
        generator: see `CompiledProgram`.
        device: see `CompiledProgram`.
    """

    def __init__(self, function: Callable[..., R], held: Any, generator: Generator, device: torch.device):
        super().__init__(function, held, generator, device)
        self._draws_from = generator
        self._recordings: dict[Any, _Recording] = {}
        # Graphs keep nothing in their memory between two replays, so all can share one pool.
        self._pool = torch.cuda.graph_pool_handle() if device.type == "cuda" else None

    def in_a_row(self, calls: Sequence[Sequence[Any]]) -> list[R]:
        """See `CompiledProgram.in_a_row`."""
        results = []
        for arguments in calls:
            tensors: list[Tensor] = []
            structure = flatten(arguments, tensors)
            recording = self._recordings.get(structure) or self._record(structure, tensors)
            results.append(cast(R, unflatten(recording.structure, iter(recording.replay(tensors, self._draws_from)))))
        return results

    def compile(self, *arguments: Any) -> None:
        """Compile and record for arguments like these unless that is done; change neither `held` nor the generator."""
        tensors: list[Tensor] = []
        structure = flatten(arguments, tensors)
        if structure not in self._recordings:
            self._record(structure, tensors)

    def _record(self, structure: Any, tensors: Sequence[Tensor]) -> _Recording:
        compiled = self._compiled.get(structure) or self._compile(structure, list(tensors))
        kept, state = [each.clone() for each in self._held], self._draws_from.get_state()
        inputs = _Inputs(tensors)
        inputs.load(tensors)
        draws = [(draw, draw(self._draws_from)) for draw in compiled.draws]
        arguments = [*self._held, *inputs.tensors, *(drawn for _, drawn in draws)]
        try:
            packing = Packing(compiled.run(*arguments))
            buffer = packing.allocate(self.device)
            places = packing.views(buffer)

            def run() -> None:
                for place, output in zip(places, compiled.run(*arguments), strict=True):
                    place.copy_(output)

            replay = self._recorded(run)
        finally:
            with torch.no_grad():
                for each, before in zip(self._held, kept, strict=True):
                    each.copy_(before)
            self._draws_from.set_state(state)
        recording = _Recording(compiled.structure, inputs, draws, replay, packing, buffer)
        self._recordings[structure] = recording
        return recording

    def _recorded(self, run: Callable[[], None]) -> Callable[[], None]:
        """Return a function that replays the code as a graph, or the code itself where it cannot be recorded."""
        if self.device.type != "cuda":
            run()
            return run
        stream, computing = torch.cuda.Stream(self.device), torch.cuda.current_stream(self.device)
        stream.wait_stream(computing)
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP_CALLS):
                run()
        computing.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            # Other threads may use the GPU meanwhile.
            with (
                RECORDING,
                torch.cuda.graph(graph, pool=self._pool, stream=stream, capture_error_mode="thread_local"),
            ):
                run()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError as error:
            if isinstance(error, torch.AcceleratorError) and "captur" not in str(error):
                raise  # a failure of the GPU, not of the recording
            why = " ".join(str(error).split())[:200]
            warnings.warn(
                f"compiled code cannot be recorded as a CUDA graph and runs without, slower: {why}",
                RuntimeWarning,
                stacklevel=2,
            )
            return run
        return graph.replay


class _Recording:
    """One graph, its inputs, and the memory of its outputs."""

    def __init__(
        self,
        structure: Any,
        inputs: _Inputs,
        draws: Sequence[tuple[Draw, Tensor]],
        run: Callable[[], None],
        packing: Packing,
        buffer: Tensor,
    ):
        self.structure = structure
        self._inputs = inputs
        self._draws = draws
        self._run = run
        self._packing = packing
        self._buffer = buffer

    def replay(self, tensors: Sequence[Tensor], generator: Generator) -> list[Tensor]:
        """Run with these arguments and new random numbers; return the results in memory of their own."""
        self._inputs.load(tensors)
        for draw, place in self._draws:
            draw.into(place, generator)
        self._run()
        return self._packing.views(self._buffer.clone())


class _Inputs:
    """The memory of a graph's arguments; arguments that share one buffer share one here, too."""

    def __init__(self, tensors: Sequence[Tensor]):
        self._buffer: Tensor | None = None
        self._shared: list[int] = []
        if tensors:
            storage = max(tensors, key=_num_bytes).untyped_storage()
            shared = [index for index, tensor in enumerate(tensors) if _begins(tensor) == storage.data_ptr()]
            if 2 * sum(_num_bytes(tensors[index]) for index in shared) > storage.nbytes():  # else it is a part of more
                self._shared = shared
                self._buffer = torch.empty(storage.nbytes(), dtype=torch.uint8, device=tensors[shared[0]].device)
        self._offsets = [tensors[index].storage_offset() for index in self._shared]
        self.tensors = [
            _view(self._buffer, tensor)
            if self._buffer is not None and index in self._shared
            else torch.empty_like(tensor)
            for index, tensor in enumerate(tensors)
        ]

    def load(self, tensors: Sequence[Tensor]) -> None:
        """Copy arguments into this memory."""
        copied: Sequence[int] = ()
        if self._buffer is not None and self._lie_alike(tensors):
            storage = tensors[self._shared[0]].untyped_storage()
            self._buffer.copy_(torch.empty(0, dtype=torch.uint8, device=self._buffer.device).set_(storage))
            copied = self._shared
        for index, (place, tensor) in enumerate(zip(self.tensors, tensors, strict=True)):
            if index not in copied:
                place.copy_(tensor)

    def _lie_alike(self, tensors: Sequence[Tensor]) -> bool:
        assert self._buffer is not None
        storage = tensors[self._shared[0]].untyped_storage()
        return storage.nbytes() == len(self._buffer) and all(
            _begins(tensors[index]) == storage.data_ptr() and tensors[index].storage_offset() == offset
            for index, offset in zip(self._shared, self._offsets, strict=True)
        )


def _view(buffer: Tensor, like: Tensor) -> Tensor:
    """Return a view of a buffer at the tensor's place in its own storage."""
    empty = torch.empty(0, dtype=like.dtype, device=buffer.device)
    return empty.set_(buffer.untyped_storage(), like.storage_offset(), like.shape, like.stride())


def _begins(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _num_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
