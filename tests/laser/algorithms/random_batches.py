"""Random batches for loss tests: all sources, invalid rows, terminals and truncations."""

from __future__ import annotations

import torch

from laser.batch import Batch
from laser.ops.distributions import distribution_for
from laser.specs import (
    ActionSpec,
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    MultiDiscreteActions,
    VectorSpec,
)

NUM_INPUTS = 4
ACTIONS: dict[str, ActionSpec] = {
    "discrete": DiscreteActions(3),
    "multi_discrete": MultiDiscreteActions((2, 3)),
    "many_multi_discrete": MultiDiscreteActions((9, 8, 7)),
    "continuous": ContinuousActions((-1.0, -1.0), (1.0, 1.0)),
}


def make_environment(actions: ActionSpec) -> EnvironmentSpec:
    return EnvironmentSpec("probe", {"observation": VectorSpec((NUM_INPUTS,))}, actions)


def make_batch(actions: ActionSpec, *, num_rows=16, num_columns=8, seed=0, mu_scale=1.0, dtype=torch.float32) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    distribution = distribution_for(actions)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    def chance(probability):
        return torch.rand(num_rows, num_columns, generator=generator) < probability

    mu = {name: mu_scale * normal(num_rows, num_columns, size) for name, size in distribution.sizes.items()}
    if "std" in mu:
        mu["std"] = mu["std"].abs() + 0.5
    taken = distribution.sample(mu, generator)
    terminated, valid = chance(0.1), ~chance(0.1)
    return Batch(
        observations={"observation": normal(num_rows + 1, num_columns, NUM_INPUTS)},
        first=torch.cat([torch.zeros(1, num_columns, dtype=torch.bool), ~valid]),
        actions=taken,
        rewards=2.0 * normal(num_rows, num_columns),
        discounts=0.9 * (~terminated).to(dtype),
        valid=valid,
        mu=mu,
        last_action=torch.zeros_like(taken[0]),
        last_reward=torch.zeros(num_columns, dtype=dtype),
        source=(torch.arange(num_columns) % 3).to(torch.int8).repeat(num_rows, 1),
        task=torch.zeros(num_rows, num_columns, dtype=torch.int64),
        policy_lag=torch.zeros(num_rows, num_columns, dtype=dtype),
        importance_weights=torch.ones(num_columns, dtype=dtype),
    )
