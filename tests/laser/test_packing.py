"""Tensors in one buffer, each as it was."""

import torch
from some_tensors import some_tensors

from laser.packing import Packing


def test_tensors_of_all_kinds_share_a_buffer_without_overlap():
    tensors = some_tensors()
    packing = Packing(tensors)
    buffer = packing.allocate("cpu")
    places = packing.views(buffer)
    for place, tensor in zip(places, tensors, strict=True):
        assert (place.shape, place.dtype, place.stride()) == (tensor.shape, tensor.dtype, tensor.stride())
        assert place.data_ptr() % 64 == buffer.data_ptr() % 64
        place.copy_(tensor)
    torch.testing.assert_close(places, tensors, rtol=0, atol=0)
    assert packing.num_bytes == buffer.numel() < 8 * 256
    # Of a buffer that begins amid another.
    part = torch.empty(packing.num_bytes + 512, dtype=torch.uint8)[512:].copy_(buffer)
    torch.testing.assert_close(packing.views(part), tensors, rtol=0, atol=0)
