"""ACER, discrete and continuous, reaches the known values and actions of tasks in which one thing can go wrong."""

import dataclasses
import math

import pytest
import torch
from probe_tasks import DISCOUNT, PROBES, train

from laser.algorithms.acer import AcerConfig
from laser.algorithms.acer_continuous import AcerContinuousConfig

SETTINGS = {"learning_rate": 2e-2, "discount": DISCOUNT, "replay_ratio": 0.0, "average_rate": 0.05}
DISCRETE = AcerConfig(**SETTINGS, entropy_cost=0.003)
CONTINUOUS = AcerContinuousConfig(**SETTINGS)
INITIAL_STD = 0.5


def learned(config, probe, num_updates, num_replayed):
    """State values and policy of a probe's states once trained; `num_replayed` old batches join each fresh one."""
    algorithm, networks = train(config, probe, num_updates=num_updates, num_replayed=num_replayed)
    states = torch.tensor([list(map(float, state)) for state in probe.values]).unsqueeze(0)
    with torch.no_grad():
        output = networks({"observation": states}, None, None, torch.zeros(states.shape[:2]), {})
        return algorithm.state_values(output.values, output.policy)[0].tolist(), output.policy


@pytest.mark.parametrize("num_replayed", [0, 3])
@pytest.mark.parametrize("name", [name for name in PROBES if name != "continuous"])
def test_known_values_and_actions(name, num_replayed):
    probe = PROBES[name]
    values, policy = learned(DISCRETE, probe, 100, num_replayed)
    assert values == pytest.approx(list(probe.values.values()), abs=0.1)
    for index, state in enumerate(probe.values):
        if state in probe.best:
            assert policy["logits"][0, index].softmax(-1)[int(probe.best[state])] > 0.9


@pytest.mark.parametrize("changes", [{"truncation": 1.0}, {"trust_region": math.inf}, {"trace_lambda": 0.0}])
def test_so_it_does_with_other_settings(changes):
    probe = PROBES["both_delayed"]
    values, policy = learned(dataclasses.replace(DISCRETE, **changes), probe, 100, 3)
    assert values == pytest.approx(list(probe.values.values()), abs=0.2)
    best = [int(action) for action in probe.best.values()]
    assert policy["logits"][0].argmax(-1).tolist() == best


@pytest.mark.parametrize("num_replayed", [0, 3])
@pytest.mark.parametrize("std", ["fixed", "learned"])
def test_a_mean_is_found_and_what_exploring_costs_is_known(std, num_replayed):
    probe = PROBES["continuous"]
    values, policy = learned(dataclasses.replace(CONTINUOUS, std=std), probe, 200, num_replayed)
    assert policy["mean"][0, :, 0].tolist() == pytest.approx(list(probe.best.values()), abs=0.1)
    # The reward falls with the square of the distance: the mean square of the noise is lost for good where it stays.
    lost = INITIAL_STD**2 if std == "fixed" else 0.0
    assert values == pytest.approx([value - lost for value in probe.values.values()], abs=0.07)
