"""Copies between host and device: the right numbers, as they were when they were asked for, in memory of their own."""

import dataclasses

import pytest
import torch

from laser.gpu import HostCalls, Packing, RunAhead, ToDevice, ToHost, on_stream, own_stream, side_stream, to_device

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@dataclasses.dataclass
class Tree:
    numbers: torch.Tensor
    by_name: dict
    nothing: None = None


def some_tensors():
    generator = torch.Generator().manual_seed(0)
    pictures = torch.randint(0, 256, (2, 5, 7, 3), dtype=torch.uint8, generator=generator)
    return [
        torch.randn(3, 4, generator=generator),
        torch.tensor([True, False, True]),
        pictures.permute(0, 3, 1, 2),  # channels last
        torch.arange(7),
        torch.tensor(2.5),
        torch.empty(0, 3),
        torch.randn(2, 2, generator=generator).double(),
    ]


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


@pytest.mark.parametrize("device", DEVICES)
def test_calls_from_the_host_return_memory_of_the_callers_own(device):
    device = torch.device(device)
    calls = HostCalls(lambda tree, factor: Tree(tree.numbers * factor, {"sum": tree.by_name["x"].sum()}), device)
    trees = [Tree(torch.full((2, 3), float(n)), {"x": torch.arange(n + 1)}) for n in range(4)]
    results = [calls(tree, 10.0) for tree in trees]  # x has another shape each time
    again = calls(trees[1], 100.0)
    for n, result in enumerate(results):
        assert result.numbers.device.type == "cpu"
        assert result.numbers.tolist() == [[10.0 * n] * 3] * 2
        assert result.by_name["sum"] == n * (n + 1) // 2
    assert again.numbers[0, 0] == 100.0


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
