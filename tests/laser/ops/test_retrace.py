import numpy as np
import pytest
import torch
from literal_targets import literal_retrace

from laser.ops.retrace import retrace_targets

# Three steps, two actions: q, pi, mu per state; actions 1, 0, 1.
Q = np.array([[1, 2], [0.5, -0.5], [3, 1]])
PI = np.array([[0.6, 0.4], [0.3, 0.7], [0.5, 0.5]])
MU = np.array([[0.5, 0.5], [0.8, 0.2], [0.25, 0.75]])
ACTIONS, REWARDS, LAST_VALUE = np.array([1, 0, 1]), np.array([1, -1, 0.5]), 2.0


def small_example(lambda_=1.0, last_discount=0.9):
    rows = np.arange(3)
    values = (PI * Q).sum(-1)
    rhos = PI[rows, ACTIONS] / MU[rows, ACTIONS]
    columns = (Q[rows, ACTIONS], np.append(values[1:], LAST_VALUE), np.log(rhos), REWARDS, [0.9, 0.9, last_discount])
    targets = retrace_targets(*(torch.tensor(np.asarray(x, float)).unsqueeze(-1) for x in columns), lambda_=lambda_)
    return targets.squeeze(-1).tolist()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [1.1845, 1.58, 2.3]),
        ({"lambda_": 0.9}, [1.124357, 1.502, 2.3]),
        ({"lambda_": 0.0}, [0.82, 0.8, 2.3]),
        ({"last_discount": 0.0}, [0.82, 0.5, 0.5]),
    ],
    ids=["plain", "lambda", "one_step", "terminal"],
)
def test_known_numbers(options, expected):
    assert small_example(**options) == pytest.approx(expected, abs=1e-6)


def random_inputs(shape=(10, 5)):
    generator = np.random.default_rng(3)
    discounts = 0.95 * (generator.random(shape) > 0.15)
    q_taken, next_values, log_rhos, rewards = generator.normal(size=(4, *shape))
    return q_taken, next_values, log_rhos, rewards, discounts, generator.random(shape) > 0.2


@pytest.mark.parametrize("lambda_", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_it_is_the_papers_double_sum(lambda_, masked, dtype, tolerance):
    q_taken, next_values, log_rhos, rewards, discounts, valid = random_inputs()
    tensors = (torch.tensor(x, dtype=dtype) for x in (q_taken, next_values, log_rhos, rewards, discounts))
    got = retrace_targets(*tensors, lambda_=lambda_, valid=torch.tensor(valid) if masked else None)
    expected = literal_retrace(
        q_taken, next_values, np.exp(log_rhos), rewards, discounts, lambda_, valid if masked else None
    )
    np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=10 * tolerance)


def test_the_data_can_tell_v_traces_index():
    q_taken, next_values, log_rhos, rewards, discounts, _ = random_inputs()
    right = literal_retrace(q_taken, next_values, np.exp(log_rhos), rewards, discounts)
    shifted = literal_retrace(q_taken, next_values, np.exp(np.roll(log_rhos, 1, 0)), rewards, discounts)
    assert not np.allclose(right, shifted, atol=1e-3)


def test_exact_action_values_are_a_fixed_point():
    """Two states in a ring, on-policy, rewards equal to q - discount * v: the targets are q itself."""
    generator = np.random.default_rng(5)
    q_taken, next_values = generator.normal(size=(2, 8, 3))
    rewards = q_taken - 0.9 * next_values
    columns = (torch.tensor(x) for x in (q_taken, next_values, np.zeros((8, 3)), rewards, np.full((8, 3), 0.9)))
    np.testing.assert_allclose(retrace_targets(*columns).numpy(), q_taken, atol=1e-12)


def test_invalid_rows_may_hold_anything_and_no_gradient_flows():
    q_taken = torch.ones(3, 1, requires_grad=True)
    nonsense = torch.tensor([[0.0], [float("nan")], [0.0]])
    ones, valid = torch.ones(3, 1), torch.tensor([[True], [False], [True]])
    targets = retrace_targets(q_taken, ones, nonsense, ones, ones, valid=valid)
    assert targets.squeeze(-1).tolist() == [2.0, 1.0, 2.0]
    assert not targets.requires_grad
