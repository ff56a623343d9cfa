"""Copies between host and device: the right numbers, as they were when they were asked for, in memory of their own."""

import dataclasses

import pytest
import torch
from some_tensors import some_tensors

from laser.gpu import RunAhead, ToDevice, ToHost, on_stream, own_stream, side_stream, to_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@dataclasses.dataclass
class Tree:
    numbers: torch.Tensor
    by_name: dict
    nothing: None = None


@pytest.mark.parametrize("device", DEVICES)
def test_a_copy_to_the_host_is_of_the_moment_it_was_begun(device):
    device = torch.device(device)
    tensors = [tensor.to(device) for tensor in some_tensors()]
    expected = [tensor.cpu().clone() for tensor in tensors]
    to_host = ToHost(device)
    copy = to_host.start(tensors)
    for tensor in tensors:
        tensor.zero_()
    second = to_host.start(tensors)
    for array, tensor in zip(copy.result(), expected, strict=True):
        torch.testing.assert_close(torch.from_numpy(array), tensor, rtol=0, atol=0)
    assert all(not array.any() for array in second.result())
    assert copy.result()[0].any(), "later copies lie elsewhere"


@pytest.mark.parametrize("device", DEVICES)
def test_trees_arrive_on_the_device_whole(device):
    device = torch.device(device)
    move = ToDevice(device, torch.cuda.current_stream() if device.type == "cuda" else None)
    for sign in (1, -1):  # another tree of the same layout
        tensors = some_tensors()
        tree = Tree(sign * tensors[0], {"pictures": tensors[2], "first": tensors[1]})
        with move.beside():
            moved, streams = move((tree, torch.arange(3)))
        assert (moved.nothing, moved.numbers.device.type, streams.tolist()) == (None, device.type, [0, 1, 2])
        torch.testing.assert_close(moved.numbers.cpu(), tree.numbers, rtol=0, atol=0)
        for name, value in tree.by_name.items():
            torch.testing.assert_close(moved.by_name[name].cpu(), value, rtol=0, atol=0)
            assert moved.by_name[name].stride() == value.stride()


@pytest.mark.gpu
def test_a_batch_comes_as_one_copy():
    move = ToDevice(torch.device("cuda"))
    moved = move({str(number): tensor for number, tensor in enumerate(some_tensors())})
    assert len({tensor.untyped_storage().data_ptr() for tensor in moved.values()}) == 1


def test_without_a_gpu_there_are_no_streams_and_nothing_runs_ahead():
    cpu = torch.device("cpu")
    assert side_stream(cpu) is None
    own_stream(cpu)
    with on_stream(None):
        value = torch.ones(2)
    assert to_device(value, cpu) is value
    run_ahead = RunAhead(cpu, most=0)
    run_ahead.handed_over()


@pytest.mark.gpu
def test_no_more_than_so_many_updates_are_handed_to_the_gpu_ahead():
    device = torch.device("cuda")
    run_ahead = RunAhead(device, most=2)
    events = []
    for _ in range(6):
        torch.cuda._sleep(20_000_000)
        events.append(torch.cuda.Event())
        events[-1].record()
        run_ahead.handed_over()
        assert sum(not event.query() for event in events) <= 2
