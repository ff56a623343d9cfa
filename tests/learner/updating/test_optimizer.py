import pytest
import torch
from torch import nn

from laser.algorithms.base import ParameterGroup
from laser.flat_parameters import FlatParameters
from laser.networks.parallel_mlp import ParallelMLP
from learner.updating.optimizer import FlatOptimizer


def make_module() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))


def loss_of(module: nn.Module, seed: int) -> torch.Tensor:
    inputs = torch.randn(16, 3, generator=torch.Generator().manual_seed(seed))
    return (module(inputs) - 1.0).square().sum()


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
@pytest.mark.parametrize("max_norm", [1.0, float("inf")])
def test_same_as_torchs_optimiser(kind, max_norm):
    mine, theirs = make_module(), make_module()
    parameters = FlatParameters(mine)
    optimizer = FlatOptimizer(parameters, kind, epsilon=0.01, max_gradient_norm=max_norm)
    if kind == "rmsprop":
        reference = torch.optim.RMSprop(theirs.parameters(), lr=0.01, alpha=0.99, eps=0.01)
    else:
        reference = torch.optim.Adam(theirs.parameters(), lr=0.01, eps=0.01)
    for step in range(20):
        loss = loss_of(mine, step)
        norm, applied = optimizer.step(parameters.gradient_of(loss), loss.detach(), 0.01)
        reference.zero_grad()
        loss_of(theirs, step).backward()
        expected_norm = nn.utils.clip_grad_norm_(theirs.parameters(), max_norm)
        reference.step()
        torch.testing.assert_close(norm, expected_norm, rtol=1e-4, atol=0)
        assert applied == 1.0
    for one, other in zip(mine.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
@pytest.mark.parametrize("poison", ["gradient_nan", "gradient_inf", "loss_nan"])
def test_a_step_that_is_not_finite_changes_nothing(kind, poison):
    module = make_module()
    parameters = FlatParameters(module)
    optimizer = FlatOptimizer(parameters, kind, epsilon=0.01, max_gradient_norm=1.0)

    def step(poisoned: bool) -> torch.Tensor:
        loss = loss_of(module, 0)
        gradient = parameters.gradient_of(loss)
        if poisoned and poison.startswith("gradient"):
            gradient[3] = float(poison.removeprefix("gradient_"))
        value = torch.tensor(float("nan")) if poisoned and poison == "loss_nan" else loss.detach()
        return optimizer.step(gradient, value, 0.1)[1]

    assert step(False) == 1.0
    before, moments = parameters.vector.clone(), optimizer.state_dict()
    assert step(True) == 0.0
    torch.testing.assert_close(parameters.vector, before, rtol=0, atol=0)
    for name, value in optimizer.state_dict().items():
        torch.testing.assert_close(value, moments[name], rtol=0, atol=0)
    assert step(False) == 1.0
    assert not torch.equal(parameters.vector, before)


def test_state_of_another_optimiser_is_refused():
    parameters = FlatParameters(make_module())
    adam = FlatOptimizer(parameters, "adam", 1e-8, 1.0)
    with pytest.raises(ValueError, match="optimiser state"):
        FlatOptimizer(parameters, "rmsprop", 1e-8, 1.0).load_state_dict(adam.state_dict())


@pytest.mark.parametrize("kind", ["rmsprop", "adam"])
def test_the_step_of_compiled_programs_is_the_same(kind):
    groups = (ParameterGroup("0.", rate=0.5, weight_decay=0.1), ParameterGroup("2.", period=2))
    vectors, said = [], []
    for traced in (False, True):
        module = make_module()
        parameters = FlatParameters(module)
        optimizer = FlatOptimizer(parameters, kind, 0.01, 1.0, groups)
        for number in range(1, 6):
            loss = loss_of(module, number)
            value = loss.detach() if number != 4 else torch.tensor(torch.nan)
            gradient = parameters.gradient_of(loss)
            if not traced:
                norm, applied = optimizer.step(gradient, value, 0.01, number)
            else:
                due = [period for period in optimizer.num_steps if number % period == 0]
                with torch.no_grad():
                    norm, applied, _ = optimizer.traced_step(
                        optimizer.stretches, optimizer.num_steps, gradient, value, optimizer.numbers(0.01), due
                    )
            said.append((norm, applied))
            assert applied == float(number != 4)
        vectors.append(torch.cat([parameters.vector, *(value.flatten() for value in optimizer.state_dict().values())]))
    torch.testing.assert_close(*vectors, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(said[:5], said[5:], rtol=1e-5, atol=1e-6)


def test_parameters_with_a_period_move_only_when_it_divides_the_number():
    module = make_module()
    parameters = FlatParameters(module)
    optimizer = FlatOptimizer(parameters, "adam", 1e-8, 1.0, (ParameterGroup("0.", period=3),))
    for number in range(1, 7):
        before = [item.detach().clone() for item in module.parameters()]
        loss = loss_of(module, number)
        optimizer.step(parameters.gradient_of(loss), loss.detach(), 0.01, number)
        moved = [not torch.equal(item, old) for item, old in zip(module.parameters(), before, strict=True)]
        assert moved == [number % 3 == 0] * 2 + [True] * 2
    state = optimizer.state_dict()
    assert (state["num_steps"], state["num_steps_every_3"]) == (6.0, 2.0)
    other = FlatOptimizer(FlatParameters(make_module()), "adam", 1e-8, 1.0, (ParameterGroup("0.", period=2),))
    with pytest.raises(ValueError, match="optimiser state"):
        other.load_state_dict(state)


def test_no_bias_decays_however_many_axes_it_has():
    module = ParallelMLP(2, 3, (4,), "relu")
    torch.nn.init.ones_(module.biases[0])
    parameters = FlatParameters(module)
    optimizer = FlatOptimizer(parameters, "rmsprop", 1e-8, 1.0, (ParameterGroup("", weight_decay=0.1),))
    before = {name: item.detach().clone() for name, item in module.named_parameters()}
    optimizer.step(torch.zeros_like(parameters.trainable), torch.zeros(()), 0.1)
    moved = {name for name, item in module.named_parameters() if not torch.equal(item, before[name])}
    assert moved == {"weights.0", "weights.1"}
