"""Machine code of traced functions, by torch's compiler. Only what compiles imports this: it takes as long as torch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch
import torch._inductor
from torch import Tensor
from torch._inductor.cpu_vec_isa import VecISA
from torch._inductor.custom_graph_pass import CustomGraphPass
from torch.fx import Graph, GraphModule


class _BiasApart(CustomGraphPass):
    """A pass that separates a layer's bias from the product, to fuse it with the operations that follow.

    The compiler would add the bias inside the product, which takes longer than the product alone: in bfloat16, 256x256
    and two threads, 136 us instead of 104.
    """

    def __call__(self, graph: Graph) -> None:
        """See `CustomGraphPass`."""
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.addmm.default):
            if node.kwargs:  # the product or the bias is scaled by a number
                continue
            bias, *factors = node.args
            with graph.inserting_before(node):
                product = graph.call_function(torch.ops.aten.mm.default, tuple(factors))
                total = graph.call_function(torch.ops.aten.add.Tensor, (product, bias))
            product.meta, total.meta = dict(node.meta), dict(node.meta)
            node.replace_all_uses_with(total)
            graph.erase_node(node)

    def uuid(self) -> str:
        """Return the name of this pass, a key in the cache of compiled code."""
        return "laser: bias apart"


_OPTIONS: dict[str, dict[str, Any]] = {
    # `cpp_wrapper`: the compiled code is all C++ and runs without the interpreter's lock.
    "cpu": {"cpp_wrapper": True, "post_grad_custom_post_pass": _BiasApart()},
    # `laser.graphed_program` records the graphs: those that torch records belong to the thread that imported it first.
    "cuda": {"triton.cudagraphs": False},
}
# Before a process compiles for the CPU, torch checks each set of vector instructions with a small library, which it
# loads in a Python of its own. Before 2.13 that Python imports torch, which takes 1.3 s and more, six to ten times, and
# under a lock that all processes of the machine share: 12 processes on 16 cores had not compiled after 75 s.
_LOAD_WITH_TORCH = "import torch\nfrom ctypes import cdll\n"
_LOAD_ALONE = f"""
from ctypes import RTLD_GLOBAL, CDLL, cdll
CDLL({str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so")!r}, RTLD_GLOBAL)
"""


def quicken_checks(check: type[VecISA]) -> None:
    """Let torch's checks of vector instructions load its library for the CPU without the rest of torch, and once only.

    From 2.13 on the Pythons load that library alone. Six of them still take 0.9 s, in each process that compiles.
    """
    own: Any = check
    program = getattr(own, "_avx_py_load", "")
    if _LOAD_WITH_TORCH in program:
        own._avx_py_load = program.replace(_LOAD_WITH_TORCH, _LOAD_ALONE)
    if hasattr(own, "_probe_load"):
        own._probe_load = _remembering(own._probe_load)


def _remembering(loads: Callable[[VecISA, str], bool]) -> Callable[[VecISA, str], bool]:
    """Return a check whether a library can be loaded that leaves a mark beside each one that could.

    The library's name depends on its code, the compiler and the instructions, and torch checks only instructions that
    this processor says it has.
    """

    def loads_now_or_before(isa: VecISA, library: str) -> bool:
        mark = Path(f"{library}.loaded")
        if mark.exists():
            return True
        can_load = loads(isa, library)
        if can_load:
            with suppress(OSError):  # then the next process checks again
                mark.touch()
        return can_load

    return loads_now_or_before


quicken_checks(VecISA)


def compile_graph(graph: GraphModule, inputs: Sequence[Tensor], device: torch.device) -> Callable[..., Any]:
    """Return the machine code of a traced function.

    Args:
        graph: the function, of tensors, without draws.
        inputs: tensors with the shapes, strides and types of its arguments.
        device: the device of all of them.

    Source:
        `torch._inductor.compile`.
    """
    # These warnings address torch's developers, or advise TensorFloat32, which must stay off.
    warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\._inductor\.")
    run: Callable[..., Any] = torch._inductor.compile(graph, list(inputs), options=_OPTIONS[device.type])
    return run
