"""The algorithms reach the known values and actions of tasks in which only one thing can go wrong."""

from __future__ import annotations

import pytest
import torch
from probe_tasks import DISCOUNT, PROBES, train

from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.batch import FOREIGN_REPLAY, ONLINE, Batch
from laser.networks.config import NetworkConfig
from laser.specs import DiscreteActions, EnvironmentSpec, VectorSpec

SETTINGS = {"learning_rate": 2e-2, "entropy_cost": 0.003, "discount": DISCOUNT, "reduction": "mean_per_column"}


@pytest.mark.parametrize("probe", PROBES.values(), ids=PROBES)
@pytest.mark.parametrize(
    ("config", "num_replayed"),
    [(ImpalaConfig(**SETTINGS), 0), (LaserConfig(**SETTINGS), 3)],
    ids=["impala", "laser"],
)
def test_known_values_and_actions(config, num_replayed, probe):
    _, networks = train(config, probe, num_updates=100 if not probe.best else 150, num_replayed=num_replayed)
    states = torch.tensor([list(map(float, state)) for state in probe.values]).unsqueeze(0)
    with torch.no_grad():
        output = networks({"observation": states}, None, None, torch.zeros(states.shape[:2]), {})
    # An actor that explores keeps some of the reward from the value: the continuous one about its variance.
    tolerance = 0.2 if probe.best else 0.1
    assert output.values[0].tolist() == pytest.approx(list(probe.values.values()), abs=tolerance)
    for index, state in enumerate(probe.values):
        if state not in probe.best:
            continue
        if "mean" in output.policy:
            assert output.policy["mean"][0, index].item() == pytest.approx(probe.best[state], abs=0.15)
        else:
            assert output.policy["logits"][0, index].softmax(-1)[int(probe.best[state])] > 0.9


# The off-policy probe: two states in a row, reward 1 for action 1 in the last. The policy stays (.5, .5).
# The behaviour policy is (.9, .1) in both. Exact proportions instead of samples: 10 x 10 columns of each kind.
V_PI, V_MU, V_IMPLIED = 0.5, 0.1, 1 / 6  # pi~ = (5/6, 1/6), KL(pi || pi~) = .2939


def columns(probability, source):
    num_ones = round(10 * probability)
    choices = torch.tensor([1] * num_ones + [0] * (10 - num_ones))
    actions = torch.cartesian_prod(choices, choices).T.contiguous()
    num_columns = actions.shape[1]
    logits = torch.tensor([1 - probability, probability]).log().expand(2, num_columns, 2)
    return actions, logits, torch.full((num_columns,), source, dtype=torch.int8)


def make_batch(*, fresh, foreign, mu_is_pi=False):
    parts = [columns(0.5, ONLINE)] * fresh + [columns(0.1, FOREIGN_REPLAY)] * foreign
    actions, logits = (torch.cat([part[i] for part in parts], 1) for i in (0, 1))
    source = torch.cat([part[2] for part in parts])
    num_columns = len(source)
    rewards = torch.stack([torch.zeros(num_columns), actions[1].float()])
    position = torch.tensor([[0.0], [1.0], [2.0]]).expand(3, num_columns)
    return Batch(
        observations={"observation": torch.nn.functional.one_hot(position.long(), 3).float()},
        first=position == 0,
        actions=actions,
        rewards=rewards,
        discounts=torch.tensor([[DISCOUNT], [0.0]]).expand(2, num_columns),
        valid=torch.ones(2, num_columns, dtype=torch.bool),
        mu={"logits": torch.zeros_like(logits) if mu_is_pi else logits},
        last_action=actions[0],
        last_reward=rewards[0],
        source=source.repeat(2, 1),
        task=torch.zeros(2, num_columns, dtype=torch.int64),
        policy_lag=torch.zeros(2, num_columns),
        importance_weights=torch.ones(num_columns),
    )


def learned_values(config, batch):
    """Values of both states once a linear critic has converged; the policy is held at (.5, .5)."""
    environment = EnvironmentSpec("off-policy", {"observation": VectorSpec((3,))}, DiscreteActions(2))
    algorithm = config.build(environment, NetworkConfig(hidden_sizes=()))
    networks = algorithm.make_networks().double()
    torch.nn.init.zeros_(networks.policy_head.linear.weight)
    torch.nn.init.zeros_(networks.value_head.linear.weight)
    optimizer = torch.optim.SGD(networks.value_head.parameters(), lr=0.5)
    batch.observations = {name: value.double() for name, value in batch.observations.items()}
    for _ in range(200):
        optimizer.zero_grad()
        algorithm.loss(networks, {}, batch, {}, None).loss.backward()
        optimizer.step()
    with torch.no_grad():
        return networks(batch.observations, None, None, batch.first, {}).values[:2, 0].tolist()


LASER = {"trust_region_threshold": 0.1, "entropy_cost": 0.0, "reduction": "mean_per_column"}
OFF = {**LASER, "trust_region_threshold": float("inf")}


@pytest.mark.parametrize(
    ("options", "batch", "last_value"),
    [
        (OFF, {"fresh": 1, "foreign": 0}, V_PI),
        (OFF, {"fresh": 0, "foreign": 1}, V_IMPLIED),
        (OFF | {"rho_clip": 10.0}, {"fresh": 0, "foreign": 1}, V_PI),
        (LASER, {"fresh": 1, "foreign": 1}, V_PI),
        (LASER, {"fresh": 0, "foreign": 1}, 0.0),  # everything rejected: as it started
        (LASER | {"trust_region_threshold": 0.3}, {"fresh": 0, "foreign": 1}, V_IMPLIED),
        # Mixed and accepted: (.5 - V) + (.1 - .6 V) = 0.
        (OFF, {"fresh": 1, "foreign": 1}, 0.375),
    ],
    ids=["fresh", "clipped", "unclipped", "trust_region", "all_rejected", "wide_trust_region", "mixed"],
)
def test_off_policy_values(options, batch, last_value):
    values = learned_values(LaserConfig(**options), make_batch(**batch))
    assert values[1] == pytest.approx(last_value, abs=1e-3)


def test_without_correction_the_value_is_the_behaviours():
    """The probe can tell: had mu been recorded as pi, the answer would be V^mu, and V^pi in no mixture."""
    values = learned_values(LaserConfig(**OFF), make_batch(fresh=0, foreign=1, mu_is_pi=True))
    assert values == pytest.approx([DISCOUNT * V_MU, V_MU], abs=1e-3)
    mixed = learned_values(LaserConfig(**OFF), make_batch(fresh=1, foreign=1, mu_is_pi=True))
    assert mixed[1] == pytest.approx(0.3, abs=1e-3)


@pytest.mark.parametrize(("rho_clip", "last_value"), [(1.0, V_IMPLIED), (10.0, V_PI)])
def test_the_correction_reaches_the_earlier_state(rho_clip, last_value):
    values = learned_values(LaserConfig(**OFF, rho_clip=rho_clip), make_batch(fresh=0, foreign=1))
    assert values == pytest.approx([DISCOUNT * last_value, last_value], abs=1e-3)
