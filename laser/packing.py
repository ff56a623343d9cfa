"""Tensors side by side in one byte buffer, copied as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Alignment of each tensor in a shared buffer, as the widest loads of kernels and copies need it.
_ALIGNMENT_BYTES = 256


class Packing:
    """The layout of tensors in one buffer.

    Args:
        tensors: dense tensors, of which only shapes, types and strides are used.
    """

    def __init__(self, tensors: Sequence[Tensor]):
        self._places = []
        self.num_bytes = 0
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            self._places.append((self.num_bytes, size, tensor.dtype, tensor.shape, tensor.stride()))
            self.num_bytes += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES

    def allocate(self, device: torch.device | str, *, pinned: bool = False) -> Tensor:
        """Return an uninitialised byte buffer for the tensors."""
        return torch.empty(self.num_bytes, dtype=torch.uint8, device=device, pin_memory=pinned)

    def views(self, buffer: Tensor) -> list[Tensor]:
        """Return the tensors as views of a buffer."""
        return [
            buffer[start : start + size].view(dtype).as_strided(shape, strides, _begin(buffer, start, dtype))
            for start, size, dtype, shape, strides in self._places
        ]


def _begin(buffer: Tensor, start: int, dtype: torch.dtype) -> int:
    """Return the offset of a tensor in its storage, in elements."""
    return (buffer.storage_offset() + start) // dtype.itemsize
