"""Compiled functions that are called directly: torch.compile's own lookup takes as long as a small network.

Before every call, torch.compile checks all its assumptions about the objects that a function touches: 0.2 to 0.4 ms,
however many cores there are. A function compiled here depends on its arguments alone, so only their shapes and types
need a check.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Generator, Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from laser.gpu import CPU, RECORDING
from laser.tensor_trees import flatten, unflatten

R = TypeVar("R")


_COMPILING = threading.Lock()  # torch's tracer keeps state in global variables
_ALIGNMENT_BYTES = 16  # alignment that the widest loads need


class CompilationError(RuntimeError):
    """A function cannot be compiled; the message gives the reason in one line."""


@dataclasses.dataclass(frozen=True)
class Draw:
    """Random numbers that a compiled function takes as an argument: drawn before each call.

    Args:
        fill: the method of `Tensor` that fills a tensor in place from the distribution.
        example: a tensor with the shape and type of the numbers.
        parameters: parameters of the distribution.
    """

    fill: Callable[..., Tensor]
    example: Tensor
    parameters: tuple[Any, ...]

    def __call__(self, generator: Generator | None) -> Tensor:
        """Return new numbers."""
        return self.into(torch.empty_like(self.example), generator)

    def into(self, tensor: Tensor, generator: Generator | None) -> Tensor:
        """Fill a tensor like the example with new numbers, and return it."""
        return self.fill(tensor, *self.parameters, generator=generator)


@dataclasses.dataclass
class _Compiled:
    run: Callable[..., Any]
    structure: Any  # of what the function returns
    draws: list[Draw]


class CompiledProgram(Generic[R]):
    """A function that is compiled at the first call with arguments of new shapes. Used from one thread.

    Args:
        function: a function of trees: mappings, lists, tuples and dataclasses of tensors, and hashable constants. It
            must depend on nothing else that changes: values that it reads elsewhere become constants of the compiled
            code. It may change tensors in place, and return a tree. Tensors of `held` that it returns change with later
            calls. A new value of a constant compiles the function again. Tensors whose elements do not lie side by side
            are copied before the call.
        held: the first argument of every call, a tree of tensors that stay the same objects, without gaps between
            elements. None may overlap another one that is changed in place.
        generator: source of all random numbers, drawn in the same order as in an uncompiled call with this generator.
            None: torch's global generator, which other threads use too.
        device: the device of the function and of all tensors.

    Raises:
        CompilationError: raised by the call that compiles. Common causes: the function branches on a tensor's values,
            or draws random numbers of a kind that is not supported here.

    Source:
        `torch.fx.experimental.proxy_tensor.make_fx` for tracing, `laser.torch_compiler` for the code.
    """

    def __init__(
        self,
        function: Callable[..., R],
        held: Any = (),
        generator: Generator | None = None,
        device: torch.device = CPU,
    ):
        self.device = device
        self._function = function
        self._held: list[Tensor] = []
        self._held_structure = flatten(held, self._held)
        self._generator = generator
        self._compiled: dict[Any, _Compiled] = {}

    def __call__(self, *arguments: Any) -> R:
        """Call the function with `held` before the arguments."""
        return self.in_a_row([arguments])[0]

    def in_a_row(self, calls: Sequence[Sequence[Any]]) -> list[R]:
        """Call the function once for each of these argument lists, with no Python in between.

        Compiled code evicts most other data from the caches, so the Python work between two calls takes several times
        as long as when it is done for all calls together; and meanwhile the threads that share the operators fall
        asleep.
        """
        ready: list[tuple[_Compiled, list[Tensor]]] = []
        for arguments in calls:
            tensors: list[Tensor] = []
            structure = flatten(arguments, tensors)
            compiled = self._compiled.get(structure) or self._compile(structure, tensors)
            ready.append((compiled, tensors + [draw(self._generator) for draw in compiled.draws]))
        outputs = [compiled.run(*self._held, *tensors) for compiled, tensors in ready]
        return [
            cast(R, unflatten(compiled.structure, iter(output)))
            for (compiled, _), output in zip(ready, outputs, strict=True)
        ]

    def compile(self, *arguments: Any) -> None:
        """Compile for arguments like these unless that is done already; do not run the function."""
        tensors: list[Tensor] = []
        structure = flatten(arguments, tensors)
        if structure not in self._compiled:
            self._compile(structure, tensors)

    def _compile(self, structure: Any, tensors: list[Tensor]) -> _Compiled:
        with _COMPILING:
            compiled = self._compiled[structure] = self._trace_and_compile(structure, tensors)
        return compiled

    def _trace_and_compile(self, structure: Any, tensors: list[Tensor]) -> _Compiled:
        from laser.torch_compiler import compile_graph  # its import takes as long as that of torch: 2 s

        found: list[Any] = []

        def flat(*values: Tensor) -> list[Tensor]:
            leaves = iter(values)
            held, arguments = unflatten(self._held_structure, leaves), unflatten(structure, leaves)
            outputs: list[Tensor] = []
            found.append(flatten(self._function(held, *arguments), outputs))
            return [output.detach() for output in outputs]

        # Copies, since views of one vector do not overlap but look to the tracer as if they did.
        examples: list[Any] = [_example(tensor) for tensor in (*self._held, *tensors)]
        try:
            graph = make_fx(flat, tracing_mode="fake", _allow_non_fake_inputs=True)(*examples)
            draws = _take_draws_out(graph)
            inputs = [*examples, *(draw.example for draw in draws)]
            run = compile_graph(graph, inputs, self.device)
            if self.device.type == "cuda":
                with RECORDING:  # the first run chooses kernels by timing them
                    run(*inputs)
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # failures of the GPU, not of the function
            raise
        except Exception as error:  # the function, torch and the compiler may raise anything
            why = " ".join(str(error).split())[:200]
            raise CompilationError(f"{type(error).__name__}: {why}") from error
        return _Compiled(run, found[-1], draws)


def _example(tensor: Tensor) -> Tensor:
    """Return a copy with the tensor's offset from an aligned address: GPU code relies on this offset."""
    shift = tensor.storage_offset() % (_ALIGNMENT_BYTES // tensor.element_size())
    memory = tensor.new_empty(shift + tensor.numel())
    return memory.as_strided(tensor.shape, tensor.stride(), shift).copy_(tensor.detach())


_ATEN = torch.ops.aten
_FILLS: dict[Any, Callable[..., Tensor]] = {  # operators that draw, and methods that fill with the same numbers
    _ATEN.randn.default: Tensor.normal_,
    _ATEN.randn.generator: Tensor.normal_,
    _ATEN.randn_like.default: Tensor.normal_,
    _ATEN.rand.default: Tensor.uniform_,
    _ATEN.rand.generator: Tensor.uniform_,
    _ATEN.rand_like.default: Tensor.uniform_,
}


def _take_draws_out(graph: GraphModule) -> list[Draw]:
    """Replace each draw of a traced function by an argument after the others, in order; return the draws.

    Compiled code can draw only from torch's global generator, which other threads use at the same time.
    """
    draws: list[Draw] = []
    last = graph.graph.find_nodes(op="placeholder")[-1:]
    for node in list(graph.graph.nodes):
        target = node.target
        if not isinstance(target, OpOverload) or torch.Tag.nondeterministic_seeded not in target.tags:
            continue
        if target in _FILLS:
            fill, parameters, replaced = _FILLS[target], (), [node]
        elif target is _ATEN.exponential_.default and node.args[0].target is _ATEN.empty.memory_format:
            fill, parameters, replaced = Tensor.exponential_, node.args[1:], [node, node.args[0]]
        else:
            raise NotImplementedError(
                f"it draws with {target}; torch.randn, torch.rand and torch.empty(...).exponential_ can be compiled"
            )
        value = node.meta["val"]
        # After the last argument, or before all other nodes.
        with graph.graph.inserting_after(*last) if last else graph.graph.inserting_before():
            last = [graph.graph.placeholder(f"drawn_{len(draws)}")]
        last[0].meta = dict(node.meta)
        for old in replaced:
            old.replace_all_uses_with(last[0])
            graph.graph.erase_node(old)
        draws.append(Draw(fill, torch.empty(value.shape, dtype=value.dtype, device=value.device), parameters))
    graph.recompile()
    return draws
