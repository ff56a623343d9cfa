"""A module's parameters and buffers as views of one flat vector.

With one vector, work on "all weights" is one operation: publishing and loading are one copy, gradient clipping is one
norm, the optimiser is a few vector operations, a target network moves by one `lerp`, and copying weights between the
members of a population is one memcpy. For small networks this removes most of a learner step's overhead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from laser.gpu import HostCopy, ToHost, to_device

R = TypeVar("R")


class PublishedCopy:
    """A copy of published parameters that may still be in progress.

    Args:
        copy: the copy of the vector.
    """

    def __init__(self, copy: HostCopy):
        self._copy = copy

    def result(self) -> np.ndarray:
        """Wait until the copy is complete, and return it: read-only float32."""
        (vector,) = self._copy.result()
        vector.flags.writeable = False
        return vector


class FlatParameters:
    """Moves a module's float parameters and buffers into one vector and keeps them there as views.

    Parameters come first, then buffers, each in the module's own order. 4-D weights are laid out channels-last, the
    layout that convolutions need; the order of the numbers in the vector follows that layout.

    Args:
        module: changed in place; must not be moved to another device or dtype afterwards.
        published: prefixes of names; `to_numpy` and `load_numpy` copy only tensors whose names begin with one of them.
            "": all tensors.
    """

    def __init__(self, module: nn.Module, published: Sequence[str] = ("",)):
        parameters = list(module.parameters())
        buffers = [buffer for buffer in module.buffers() if buffer.dtype == torch.float32]
        wrong = [str(item.dtype) for item in parameters if item.dtype != torch.float32]
        if wrong:
            raise ValueError(f"networks must keep their parameters in float32, got {wrong[0]}")
        self.num_trainable = sum(item.numel() for item in parameters)
        size = self.num_trainable + sum(item.numel() for item in buffers)
        device = parameters[0].device if parameters else torch.device("cpu")
        self.vector = torch.empty(size, device=device)
        start = 0
        with torch.no_grad():
            for item in [*parameters, *buffers]:
                view = _view(self.vector[start : start + item.numel()], item.shape)
                view.copy_(item)
                item.data = view
                start += item.numel()
        self._parameters = parameters
        self._names = [name for name, _ in module.named_parameters()]
        self._buffer_names = [name for name, buffer in module.named_buffers() if buffer.dtype == torch.float32]
        self._shapes = [item.shape for item in [*parameters, *buffers]]
        places = _places(zip([*self._names, *self._buffer_names], self._shapes, strict=True), tuple(published))
        self._published = [self.vector[place] for place in places]
        self._to_host: ToHost | None = None

    @property
    def trainable(self) -> Tensor:
        """The parameters: the trained part of the vector (a view)."""
        return self.vector[: self.num_trainable]

    @property
    def buffers(self) -> Tensor:
        """The buffers: the rest of the vector (a view)."""
        return self.vector[self.num_trainable :]

    @property
    def is_copied_later(self) -> bool:
        """Whether `start_copy` returns before the copy is complete."""
        return self.vector.device.type != "cpu"

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Yield names and parameters in the order of the vector."""
        return zip(self._names, self._parameters, strict=True)

    def gradient_of(self, loss: Tensor, parameters: Sequence[Tensor] | None = None) -> Tensor:
        """Return the gradient of a scalar as one vector like `trainable`; 0 for parameters without influence on it.

        Args:
            loss: the scalar.
            parameters: the tensors that replaced the module's own in the computation, in the order of the vector;
                None: the module's own.
        """
        gradients = torch.autograd.grad(loss, parameters or self._parameters, materialize_grads=True)
        return torch.cat([_flat(item) for item in gradients])

    def views(self, pieces: Sequence[Tensor]) -> dict[str, Tensor]:
        """Return parameters, then buffers, by name as views of another vector of the same layout.

        Args:
            pieces: the other vector, cut between parameters or buffers.
        """
        remaining, start, views = list(pieces), 0, {}
        for name, shape in zip([*self._names, *self._buffer_names], self._shapes, strict=True):
            while start == len(remaining[0]):
                remaining.pop(0)
                start = 0
            views[name] = _view(remaining[0][start : start + shape.numel()], shape)
            start += shape.numel()
        return views

    def to_numpy(self) -> np.ndarray:
        """Return a read-only float32 copy of the published part of the vector."""
        return self.start_copy().result()

    def start_copy(self) -> PublishedCopy:
        """Start the copy that `to_numpy` returns, of the vector as it is now, without waiting; used from one thread."""
        if not self.is_copied_later:
            return PublishedCopy(HostCopy([np.concatenate([part.numpy() for part in self._published])]))
        if self._to_host is None:
            self._to_host = ToHost(self.vector.device)
        return PublishedCopy(self._to_host.start([torch.cat(self._published)]))

    def load_numpy(self, vector: np.ndarray) -> None:
        """Load a vector from `to_numpy`.

        Raises:
            ValueError: the vector has another length, so it belongs to other networks.
        """
        sizes = [len(part) for part in self._published]
        if vector.shape != (sum(sizes),):
            raise ValueError(f"parameters must have {sum(sizes)} numbers for these networks, got {vector.size}")
        start = 0
        for part, size in zip(self._published, sizes, strict=True):
            values = vector[start : start + size]
            start += size
            if part.device.type == "cpu":
                np.copyto(part.numpy(), values)
            else:  # a copy, because torch refuses to wrap read-only memory without a warning
                part.copy_(to_device(torch.from_numpy(np.array(values, np.float32)), part.device))


def call_with(tensors: Mapping[str, Tensor], module: nn.Module, function: Callable[..., R], *arguments: Any) -> R:
    """Return `function(module, *arguments)`, called with the module's tensors replaced by `tensors`, by name."""
    renamed = {f"module.{name}": value for name, value in tensors.items()}
    return cast(R, functional_call(_Caller(module), renamed, (function, *arguments)))


class _Caller(nn.Module):
    """A module that calls a function with another module: `functional_call` calls only modules."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function(self.module, *arguments)


def _places(items: Iterable[tuple[str, torch.Size]], prefixes: tuple[str, ...]) -> list[slice]:
    """Return the slices of a flat vector for items whose names begin with one of the prefixes; adjacent slices merge.

    Raises:
        ValueError: no name begins with one of the prefixes.
    """
    places: list[slice] = []
    start = 0
    for name, shape in items:
        stop = start + shape.numel()
        if name.startswith(prefixes):
            before = places.pop() if places and places[-1].stop == start else slice(start, start)
            places.append(slice(before.start, stop))
        start = stop
    if not places and "" not in prefixes:
        raise ValueError(f"networks must have parameters whose names begin with one of {list(prefixes)}")
    return places or [slice(0, 0)]


def _view(flat: Tensor, shape: torch.Size) -> Tensor:
    if len(shape) == 4:
        out_channels, in_channels, height, width = shape
        return flat.view(out_channels, height, width, in_channels).permute(0, 3, 1, 2)
    return flat.view(shape)


def _flat(item: Tensor) -> Tensor:
    """Return the numbers of a tensor in the order of `_view`."""
    return (item.permute(0, 2, 3, 1) if item.ndim == 4 else item).reshape(-1)
