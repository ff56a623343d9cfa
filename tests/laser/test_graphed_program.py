"""A program that is replayed, beside the same one called."""

import pytest
import torch

from laser.compiled_program import CompiledProgram
from laser.graphed_program import GraphedProgram

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.fixture(autouse=True)
def uncompiled(request, monkeypatch):
    """Let the traced function run as it was traced, which takes no seconds to compile, where there is no GPU."""
    if request.node.get_closest_marker("gpu") is None:
        monkeypatch.setattr("torch._inductor.compile", lambda graph, inputs, options: graph)


def pair(function, held, device):
    """Return a program with a graph and one without, each with its own copies of what is held."""
    device = torch.device(device)
    made = []
    for kind in (GraphedProgram, CompiledProgram):
        copies = [value.detach().clone().to(device) for value in held]
        made.append((kind(function, copies, torch.Generator(device).manual_seed(3), device), copies))
    return made


def moved(held, batch, times):
    (total,) = held
    total.add_(batch["x"].sum(0) * times + torch.randn(3, device=total.device))
    return {"total": total * 1.0, "rows": batch["x"] + batch["y"].float(), "nothing": None}


def batch_in_one_buffer(number, device):
    buffer = torch.zeros(64, device=device)
    x, y = buffer[:12].view(4, 3), buffer[16:28].view(4, 3)
    x.copy_(torch.arange(12.0).view(4, 3) + number)
    y.fill_(number)
    return {"x": x, "y": y}


def batch_in_pieces(number, device):
    return {name: value.clone() for name, value in batch_in_one_buffer(number, device).items()}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("first", [batch_in_one_buffer, batch_in_pieces])
def test_replays_are_as_calls_wherever_arguments_lie(first, device):
    (graphed, held), (called, others) = pair(moved, [torch.zeros(3)], device)
    results = []
    for number, make in enumerate([first, batch_in_pieces, batch_in_one_buffer, batch_in_one_buffer, first]):
        times = 2 if number == 3 else 1  # another constant is another graph
        results.append((graphed(make(number, device), times), called(batch_in_pieces(number, device), times)))
    for got, expected in results:  # looked at last: no replay wrote over an earlier result
        torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(held, others, rtol=1e-6, atol=1e-6)
    assert held[0].any()


@pytest.mark.parametrize("device", DEVICES)
def test_recording_changes_neither_what_is_held_nor_the_random_numbers_to_come(device):
    (graphed, held), (called, others) = pair(moved, [torch.ones(3)], device)
    graphed.compile(batch_in_one_buffer(5, device), 1)
    assert held[0].tolist() == [1.0] * 3
    got, expected = graphed(batch_in_pieces(1, device), 1), called(batch_in_pieces(1, device), 1)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(held, others, rtol=1e-6, atol=1e-6)


def test_a_recording_that_fails_changes_nothing_either(monkeypatch):
    """A learner whose GPU runs out of memory while it warms up may be saved."""

    def failing(graph, inputs, options):
        def run(*arguments):
            graph(*arguments)
            raise torch.OutOfMemoryError("no memory")

        return run

    monkeypatch.setattr("torch._inductor.compile", failing)
    (graphed, held), _ = pair(moved, [torch.ones(3)], "cpu")
    with pytest.raises(torch.OutOfMemoryError):
        graphed.compile(batch_in_pieces(5, "cpu"), 1)
    assert held[0].tolist() == [1.0] * 3


@pytest.mark.parametrize("device", DEVICES)
def test_a_part_of_something_large_is_copied_alone(device):
    (graphed, _), (called, _) = pair(moved, [torch.zeros(3)], device)
    large = torch.zeros(10_000, device=device)
    batch = {"x": large[:12].view(4, 3), "y": torch.ones(4, 3, device=device)}
    graphed(batch, 1)
    (recording,) = graphed._recordings.values()
    assert all(tensor.untyped_storage().nbytes() < 1_000 for tensor in recording._inputs.tensors)
    called({name: value.clone() for name, value in batch.items()}, 1)
    large.fill_(3.0)
    got, expected = graphed(batch, 1), called({name: value.clone() for name, value in batch.items()}, 1)
    torch.testing.assert_close(got, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.gpu
def test_threads_record_and_replay_side_by_side():
    from concurrent.futures import ThreadPoolExecutor

    from laser.gpu import own_stream

    def train(number):
        own_stream(torch.device("cuda"))
        (graphed, held), (called, others) = pair(moved, [torch.full((3,), float(number))], "cuda")
        for step in range(50):
            graphed(batch_in_one_buffer(step, "cuda"), 1)
            called(batch_in_pieces(step, "cuda"), 1)
        return (held[0] - others[0]).abs().max().item()

    with ThreadPoolExecutor(4) as threads:
        assert max(threads.map(train, range(4))) < 1e-3


@pytest.mark.gpu
def test_what_cannot_be_recorded_runs_without_a_graph_and_warns(monkeypatch):
    def recorded(*arguments, **options):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr("torch.cuda.graph", recorded)
    (graphed, held), (called, others) = pair(moved, [torch.zeros(3)], "cuda")
    with pytest.warns(RuntimeWarning, match="cannot be recorded as a CUDA graph and runs without"):
        graphed.compile(batch_in_pieces(1, "cuda"), 1)
    torch.testing.assert_close(graphed(batch_in_pieces(1, "cuda"), 1), called(batch_in_pieces(1, "cuda"), 1))
    torch.testing.assert_close(held, others)
