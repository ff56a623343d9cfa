import pytest
import torch

from laser.ops.stochastic_dueling import stochastic_dueling

# A bandit with three actions.
PI = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
A = torch.tensor([1.0, -1.0, 0.5], dtype=torch.float64)
VALUE = torch.tensor(0.7, dtype=torch.float64)


def draw(num, n):
    generator = torch.Generator().manual_seed(0)
    return torch.multinomial(PI, num * n, replacement=True, generator=generator).view(n, num)


@pytest.mark.parametrize("n", [1, 5])
def test_its_expectation_under_the_policy_is_the_state_value(n):
    num = 40_000
    actions, samples = draw(num, 1)[0], draw(num, n).flip(1)
    q = stochastic_dueling(VALUE.expand(num), A[actions], A[samples])
    assert q.mean().item() == pytest.approx(0.7, abs=5 * (q.var() / num).sqrt().item())
    uncentred = VALUE + A[actions]
    assert abs(uncentred.mean() - 0.7) > 5 * (uncentred.var() / num).sqrt()


def test_the_variance_of_centring_falls_with_the_samples():
    num = 100_000
    for n in (1, 4):
        q = stochastic_dueling(VALUE.expand(num), A[0].expand(num), A[draw(num, n)])
        assert q.var().item() == pytest.approx(0.76 / n, rel=0.03)


def test_gradients_reach_every_term():
    value, taken, sampled = (torch.ones(shape, requires_grad=True) for shape in ((), (2,), (4,)))
    stochastic_dueling(value, taken, sampled.unsqueeze(-1)).sum().backward()
    assert value.grad.item() == 2.0
    assert taken.grad.tolist() == [1.0, 1.0]
    assert sampled.grad.tolist() == [-0.5] * 4
