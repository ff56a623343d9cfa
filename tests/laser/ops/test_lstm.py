import numpy as np
import pytest
import torch
from literal_lstm import literal_lstm

from laser.ops.lstm import lstm_scan, plain_lstm_scan

NUM_ROWS, NUM_COLUMNS, SIZE = 6, 3, 4


def make(num_cells=2, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    first = torch.zeros(NUM_ROWS, NUM_COLUMNS, dtype=torch.bool)
    first[0, 0] = first[3, 1] = first[4, 1] = first[NUM_ROWS - 1, 2] = True
    return [
        normal(NUM_ROWS, num_cells, NUM_COLUMNS, 4 * SIZE),
        0.5 * normal(num_cells, SIZE, 4 * SIZE),
        first,
        normal(NUM_COLUMNS, SIZE),
        normal(NUM_COLUMNS, SIZE),
    ]


@pytest.mark.parametrize("num_cells", [1, 2])
def test_it_is_the_literal_recurrence(num_cells):
    inputs = make(num_cells)
    expected = literal_lstm(*(x.numpy() for x in inputs))
    for got, wanted in zip(lstm_scan(*inputs), expected, strict=True):
        np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("reset", ["after", "never"])
def test_the_data_can_tell_a_wrong_reset(reset):
    inputs = make()
    wrong, _ = literal_lstm(*(x.numpy() for x in inputs), reset=reset)
    assert np.abs(lstm_scan(*inputs)[0].numpy() - wrong).max() > 1e-2


def test_torchs_own_lstm_agrees():
    projected, weights, _, hidden, cell = make(1)
    reference = torch.nn.LSTM(4 * SIZE, SIZE, bias=False, dtype=torch.float64)
    # torch's gates are input, forget, update, output.
    order = torch.cat([torch.arange(2 * SIZE), torch.arange(3 * SIZE, 4 * SIZE), torch.arange(2 * SIZE, 3 * SIZE)])
    with torch.no_grad():
        reference.weight_ih_l0.copy_(torch.eye(4 * SIZE)[order])
        reference.weight_hh_l0.copy_(weights[0].T[order])
    expected, (_, last_cell) = reference(projected[:, 0], (hidden[None], cell[None]))
    never = torch.zeros(NUM_ROWS, NUM_COLUMNS, dtype=torch.bool)
    hiddens, cells = lstm_scan(projected, weights, never, hidden, cell)
    torch.testing.assert_close(hiddens[:, 0], expected)
    torch.testing.assert_close(cells[-1, 0], last_cell[0])


@pytest.mark.parametrize("num_cells", [1, 2])
def test_gradients_are_those_of_finite_differences(num_cells):
    projected, weights, first, hidden, cell = make(num_cells)
    leaves = [x.requires_grad_() for x in (projected, weights, hidden, cell)]
    assert torch.autograd.gradcheck(lambda p, w, h, c: lstm_scan(p, w, first, h, c), leaves)


def test_no_gradient_crosses_an_episodes_beginning():
    projected, weights, first, hidden, cell = make()
    projected.requires_grad_(), hidden.requires_grad_()
    lstm_scan(projected, weights, first, hidden, cell)[0][4:, :, 1].sum().backward()
    assert not projected.grad[:4, :, 1].any()
    # The forget gate of the first cell has nothing to forget.
    assert projected.grad[5:, :, 1].all()
    assert not hidden.grad.any()


def test_it_is_a_well_formed_operation_for_the_compiler():
    inputs = make(dtype=torch.float32)
    inputs[0].requires_grad_(), inputs[1].requires_grad_()
    torch.library.opcheck(torch.ops.laser.lstm_scan.default, inputs)


def test_autocast_does_not_reach_the_recurrence():
    inputs = make(dtype=torch.float32)
    expected, _ = lstm_scan(*inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        got, _ = lstm_scan(*inputs)
    assert torch.equal(got, expected)


def test_the_operations_of_an_exported_program_give_the_same_states():
    generator = torch.Generator().manual_seed(3)
    projected, weights, hidden, cell = (
        torch.randn(shape, generator=generator, dtype=torch.float64)
        for shape in ((5, 2, 4, 12), (2, 3, 12), (4, 3), (4, 3))
    )
    first = torch.rand(5, 4, generator=generator) < 0.3
    assert first.any()
    for found, right in zip(
        plain_lstm_scan(projected, weights, first, hidden, cell),
        lstm_scan(projected, weights, first, hidden, cell),
        strict=True,
    ):
        torch.testing.assert_close(found, right)
