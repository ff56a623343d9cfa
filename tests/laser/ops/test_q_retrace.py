import numpy as np
import pytest
import torch

from laser.ops.q_retrace import q_retrace_targets
from laser.ops.vtrace import vtrace_targets

# Five stored steps; the last is the end of the episode. REWARDS[t] follows step t.
REWARDS = [1.0, 0.0, -1.0, 2.0]
VALUES, ADVANTAGES, RHOS = [0.5, 1.0, -0.5, 0.25, 0.75], [0.1, -0.2, 0.3, 0.0], [1.0, 0.5, 2.0, 0.9]


def column(values):
    return torch.tensor(values, dtype=torch.float64).unsqueeze(-1)


def small_example(values=VALUES, advantages=ADVANTAGES, rhos=RHOS, discounts=(0.9,) * 4):
    targets = q_retrace_targets(*map(column, (values, advantages, rhos, REWARDS, discounts)))
    return targets.squeeze(-1).tolist()


def test_known_numbers():
    assert small_example() == pytest.approx([1.900146, 0.800325, 1.18925, 2.675], abs=1e-6)
    terminal = small_example(discounts=(0.9, 0.9, 0.9, 0.0))
    assert terminal == pytest.approx([1.678713, 0.30825, 0.6425, 2.0], abs=1e-6)
    refreshed = small_example([0.5, 1.0, 0.0, 0.25, 0.75], [0.1, -0.2, -0.1, 0.0], [1.0, 0.5, 0.4, 0.9])
    assert refreshed == pytest.approx([1.748859, 0.46413, 1.18925, 2.675], abs=1e-6)


def literal(values, advantages, rhos, rewards, discounts, valid, lambda_):
    """Equation 2 as it is written, one step at a time."""
    num_rows, num_columns = rewards.shape
    targets = values[:-1] + advantages
    for b in range(num_columns):
        for t in reversed(range(num_rows)):
            if not valid[t, b]:
                continue
            targets[t, b] = rewards[t, b] + discounts[t, b] * values[t + 1, b]
            if t + 1 < num_rows and valid[t + 1, b]:
                surprise = targets[t + 1, b] - advantages[t + 1, b] - values[t + 1, b]
                targets[t, b] += discounts[t, b] * lambda_ * min(1.0, rhos[t + 1, b]) * surprise
    return targets


def random_inputs(shape=(12, 6)):
    generator = np.random.default_rng(1)
    values = generator.normal(size=(shape[0] + 1, shape[1]))
    advantages, rewards = generator.normal(size=(2, *shape))
    rhos = np.exp(generator.normal(size=shape))
    return values, advantages, rhos, rewards, 0.95 * (generator.random(shape) > 0.1), generator.random(shape) > 0.15


@pytest.mark.parametrize("lambda_", [0.0, 0.8, 1.0])
def test_it_is_the_papers_recursion(lambda_):
    values, advantages, rhos, rewards, discounts, valid = random_inputs()
    got = q_retrace_targets(
        *map(torch.tensor, (values, advantages, rhos, rewards, discounts)), lambda_=lambda_, valid=torch.tensor(valid)
    )
    expected = literal(values, advantages, rhos, rewards, discounts, valid, lambda_)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_the_data_can_tell_a_ratio_of_the_wrong_step():
    values, advantages, rhos, rewards, discounts, valid = random_inputs()
    right = literal(values, advantages, rhos, rewards, discounts, valid, 1.0)
    wrong = literal(values, advantages, np.roll(rhos, 1, 0), rewards, discounts, valid, 1.0)
    assert not np.allclose(right, wrong, atol=1e-3)


def test_without_advantages_it_is_the_reward_and_v_traces_next_target():
    values, _, rhos, rewards, discounts, _ = map(torch.tensor, random_inputs())
    targets = q_retrace_targets(values, torch.zeros_like(rewards), rhos, rewards, discounts)
    vs = vtrace_targets(rhos.log(), rewards, discounts, values[:-1], values[-1]).vs
    next_vs = torch.cat([vs[1:], values[-1:]])
    np.testing.assert_allclose(targets.numpy(), (rewards + discounts * next_vs).numpy(), atol=1e-12)
