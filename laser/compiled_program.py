"""Compiled code that is called directly: for small networks torch.compile's own lookup takes as long as they do.

torch.compile looks before every call whether all that it assumed of the objects a function touches still holds: 0.2 to
0.4 ms, on every core the same. A program here depends on its arguments alone, so shapes and types are all there is to
look at.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import torch
import torch._inductor
from torch import Generator, Tensor
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch._ops import OpOverload
from torch.fx import Graph, GraphModule
from torch.fx.experimental.proxy_tensor import make_fx

from laser.gpu import CPU, RECORDING
from laser.tensor_trees import flatten, unflatten

R = TypeVar("R")


class _BiasApart(CustomGraphPass):
    """Adds a layer's bias with what comes after the product, in one pass over its result.

    Adding it is part of the product by the compiler's choice, which takes longer than the product alone: in bfloat16,
    256x256 and two threads, 136 us beside 104.
    """

    def __call__(self, graph: Graph) -> None:
        """See `CustomGraphPass`."""
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.addmm.default):
            if node.kwargs:  # a product or a bias times a number
                continue
            bias, *factors = node.args
            with graph.inserting_before(node):
                product = graph.call_function(torch.ops.aten.mm.default, tuple(factors))
                total = graph.call_function(torch.ops.aten.add.Tensor, (product, bias))
            product.meta, total.meta = dict(node.meta), dict(node.meta)
            node.replace_all_uses_with(total)
            graph.erase_node(node)

    def uuid(self) -> str:
        """Name what it does, for the cache of compiled code."""
        return "laser: bias apart"


_OPTIONS: dict[str, dict[str, Any]] = {
    # `cpp_wrapper`: the program is all C++ and runs without the interpreter's lock.
    "cpu": {"cpp_wrapper": True, "post_grad_custom_post_pass": _BiasApart()},
    # `laser.graphed_program` makes the graphs: torch's own belong to the thread that imported them first.
    "cuda": {"triton.cudagraphs": False},
}
_ALIGNMENT_BYTES = 16  # of the widest loads


class CompilationError(RuntimeError):
    """A function cannot be compiled; says why in one line."""


@dataclasses.dataclass(frozen=True)
class Draw:
    """Random numbers that a function draws, whatever its arguments: made before each call and handed in.

    Args:
        fill: the distribution's method of `Tensor`, which fills one in place.
        example: of their shape and type.
        parameters: of the distribution.
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
    """A function as compiled code, made at the first call with arguments of new shapes. Used from one thread.

    Args:
        function: of trees: mappings, lists, tuples and dataclasses of tensors, and constants that can be hashed.
            It must depend on nothing else that changes: what it reads elsewhere is compiled in as it is. It may change
            tensors in place, and return a tree; what it returns of `held` itself changes with later calls. A constant
            that changes compiles it anew. Of tensors whose elements do not lie side by side it gets copies.
        held: the first argument of every call, a tree whose tensors stay the same, without gaps between elements; none
            may overlap another that is changed in place.
        generator: what all that the function draws comes from, in the order of an uncompiled call that is given it.
            None: torch's global one, which is anybody's.
        device: where the function computes and all tensors are.

    Raises:
        CompilationError: by the call that compiles; often the function looks at a tensor's numbers to choose a branch,
            or draws random numbers of a kind that is not known here.

    Source:
        `torch.fx.experimental.proxy_tensor.make_fx` for tracing, `torch._inductor.compile` for the code.
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
        """Run, with `held` before the arguments."""
        return self.in_a_row([arguments])[0]

    def in_a_row(self, calls: Sequence[Sequence[Any]]) -> list[R]:
        """Run once for each of these arguments, with nothing in between.

        A program leaves little else in the caches, so that what is done in Python before and after takes several times
        as long as if it is done for all calls together; and threads that share out its operators fall asleep meanwhile.
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
        """Compile for such arguments, if that is not done yet, and run nothing."""
        tensors: list[Tensor] = []
        structure = flatten(arguments, tensors)
        if structure not in self._compiled:
            self._compile(structure, tensors)

    def _compile(self, structure: Any, tensors: list[Tensor]) -> _Compiled:
        found: list[Any] = []

        def flat(*values: Tensor) -> list[Tensor]:
            leaves = iter(values)
            held, arguments = unflatten(self._held_structure, leaves), unflatten(structure, leaves)
            outputs: list[Tensor] = []
            found.append(flatten(self._function(held, *arguments), outputs))
            return [output.detach() for output in outputs]

        # Copies: what lies in one vector does not overlap, and looks as if it did.
        examples: list[Any] = [_example(tensor) for tensor in (*self._held, *tensors)]
        try:
            graph = make_fx(flat, tracing_mode="fake", _allow_non_fake_inputs=True)(*examples)
            draws = _take_draws_out(graph)
            # Advice to its makers, and to allow TensorFloat32, which is to stay off.
            warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\._inductor\.")
            inputs = [*examples, *(draw.example for draw in draws)]
            run = torch._inductor.compile(graph, inputs, options=_OPTIONS[self.device.type])
            if self.device.type == "cuda":
                with RECORDING:  # kernels are chosen, by timing, when they first run
                    run(*inputs)
        except (torch.OutOfMemoryError, torch.AcceleratorError):  # the GPU's own failures, not the function's
            raise
        except Exception as error:  # whatever the function, torch or a compiler say
            why = " ".join(str(error).split())[:200]
            raise CompilationError(f"{type(error).__name__}: {why}") from error
        compiled = self._compiled[structure] = _Compiled(run, found[-1], draws)
        return compiled


def _example(tensor: Tensor) -> Tensor:
    """Return a copy that begins as far from an aligned address as the tensor does: code for a GPU relies on it."""
    shift = tensor.storage_offset() % (_ALIGNMENT_BYTES // tensor.element_size())
    memory = tensor.new_empty(shift + tensor.numel())
    return memory.as_strided(tensor.shape, tensor.stride(), shift).copy_(tensor.detach())


_ATEN = torch.ops.aten
_FILLS: dict[Any, Callable[..., Tensor]] = {  # what makes random numbers, and what fills a tensor with the same ones
    _ATEN.randn.default: Tensor.normal_,
    _ATEN.randn.generator: Tensor.normal_,
    _ATEN.randn_like.default: Tensor.normal_,
    _ATEN.rand.default: Tensor.uniform_,
    _ATEN.rand.generator: Tensor.uniform_,
    _ATEN.rand_like.default: Tensor.uniform_,
}


def _take_draws_out(graph: GraphModule) -> list[Draw]:
    """Turn what a traced function draws into arguments after its others, in the order of drawing; return the draws.

    Compiled code can draw from torch's global generator only, which other threads use at the same time.
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
        # After the last argument, or before everything.
        with graph.graph.inserting_after(*last) if last else graph.graph.inserting_before():
            last = [graph.graph.placeholder(f"drawn_{len(draws)}")]
        last[0].meta = dict(node.meta)
        for old in replaced:
            old.replace_all_uses_with(last[0])
            graph.graph.erase_node(old)
        draws.append(Draw(fill, torch.empty(value.shape, dtype=value.dtype, device=value.device), parameters))
    graph.recompile()
    return draws
