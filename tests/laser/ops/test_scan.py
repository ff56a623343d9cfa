import numpy as np
import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from laser.ops.scan import reverse_linear_scan, scan_by_doubling, scan_row_by_row


def literal_scan(deltas, coefficients):
    sums = np.zeros_like(deltas)
    for t in range(len(deltas)):
        for k in range(t, len(deltas)):
            sums[t] += np.prod(coefficients[t:k], axis=0) * deltas[k]
    return sums


@pytest.fixture(params=[1, 2, 3, 7, 8, 20])
def inputs(request):
    generator = np.random.default_rng(request.param)
    shape = (request.param, 5)
    # Zeros are cuts; coefficients above 1 do occur, with ratios clipped above 1.
    return generator.normal(size=shape), generator.uniform(0, 1.3, size=shape) * (generator.random(shape) > 0.2)


@pytest.mark.parametrize("scan", [reverse_linear_scan, scan_row_by_row, scan_by_doubling])
def test_it_is_the_double_sum(scan, inputs):
    deltas, coefficients = inputs
    got = scan(torch.tensor(deltas), torch.tensor(coefficients))
    np.testing.assert_allclose(got.numpy(), literal_scan(deltas, coefficients), rtol=1e-12, atol=1e-12)


def test_the_data_can_tell_a_forward_scan_and_a_shifted_coefficient():
    generator = np.random.default_rng(0)
    deltas, coefficients = generator.normal(size=(7, 5)), generator.uniform(size=(7, 5))
    right = literal_scan(deltas, coefficients)
    assert not np.allclose(literal_scan(deltas[::-1], coefficients[::-1])[::-1], right)
    assert not np.allclose(literal_scan(deltas, np.roll(coefficients, -1, 0)), right)


def test_float32_and_trailing_axes():
    deltas, coefficients = torch.randn(20, 4, 3), torch.rand(20, 4, 3)
    expected = literal_scan(deltas.double().numpy(), coefficients.double().numpy())
    got = reverse_linear_scan(deltas, coefficients)
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-5, atol=1e-5)


def test_by_doubling_too_no_product_of_huge_ratios_makes_something_of_nothing():
    coefficients = torch.tensor([[1e30], [1e30], [0.0], [1e30], [1e30], [1e30]])
    deltas = torch.tensor([[1.0], [2.0], [3.0], [0.0], [0.0], [0.0]])
    torch.testing.assert_close(scan_by_doubling(deltas, coefficients), scan_row_by_row(deltas, coefficients))


def test_inputs_keep_their_values_and_no_gradient_flows():
    deltas, coefficients = torch.randn(6, 2, requires_grad=True), torch.rand(6, 2, requires_grad=True)
    before = deltas.detach().clone(), coefficients.detach().clone()
    assert not reverse_linear_scan(deltas, coefficients).requires_grad
    assert torch.equal(deltas, before[0])
    assert torch.equal(coefficients, before[1])


def test_compiled_programs_do_not_unroll_it():
    deltas = torch.ones(100, 3)
    graph = make_fx(reverse_linear_scan, tracing_mode="fake")(deltas, deltas)
    assert len(graph.graph.nodes) < 100
