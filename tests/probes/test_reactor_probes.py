"""Reactor reaches the known values and actions of a task whose rewards are delayed."""

import math

import pytest
import torch
from probe_tasks import PROBES, train

from laser.algorithms.reactor import ReactorConfig

SETTINGS = {"learning_rate": 2e-2, "target_period": 5, "entropy_cost": 0.03, "exploration": 0.02}
ARMS = {
    "one": {},
    "unbiased": {"clip": math.inf},
    "truncated": {"estimator": "importance_sampling", "clip": 5.0},
    "learned": {"behaviour_policy": "learned"},
}


@pytest.mark.parametrize("arm", ARMS.values(), ids=ARMS)
def test_known_values_and_actions(arm):
    probe = PROBES["both_delayed"]
    _, networks = train(ReactorConfig(**SETTINGS, **arm), probe, num_updates=100, num_replayed=1)
    states = torch.tensor([list(map(float, state)) for state in probe.values]).unsqueeze(0)
    with torch.no_grad():
        output = networks({"observation": states}, None, None, torch.zeros(states.shape[:2]), {})
    # What is explored keeps some of the reward.
    assert output.values[0].tolist() == pytest.approx(list(probe.values.values()), abs=0.2)
    for index, state in enumerate(probe.values):
        assert output.policy["logits"][0, index].exp()[int(probe.best[state])] > 0.9
