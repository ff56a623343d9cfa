"""Tensors side by side in one buffer of bytes, so that they move as one."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

# Where a tensor in a shared buffer may begin: what the widest loads of kernels and copies want.
_ALIGNMENT_BYTES = 256


class Packing:
    """The places of tensors in one buffer, so that they move as one.

    Args:
        tensors: dense ones; their shapes, types and strides count.
    """

    def __init__(self, tensors: Sequence[Tensor]):
        self._places = []
        self.num_bytes = 0
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            self._places.append((self.num_bytes, size, tensor.dtype, tensor.shape, tensor.stride()))
            self.num_bytes += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES

    def allocate(self, device: torch.device | str, *, pinned: bool = False) -> Tensor:
        """Return a buffer of bytes for them, with what was there before in it."""
        return torch.empty(self.num_bytes, dtype=torch.uint8, device=device, pin_memory=pinned)

    def views(self, buffer: Tensor) -> list[Tensor]:
        """Return the tensors' places in a buffer."""
        return [
            buffer[start : start + size].view(dtype).as_strided(shape, strides, _begin(buffer, start, dtype))
            for start, size, dtype, shape, strides in self._places
        ]


def _begin(buffer: Tensor, start: int, dtype: torch.dtype) -> int:
    """Return where a place begins in its storage, in elements."""
    return (buffer.storage_offset() + start) // dtype.itemsize
