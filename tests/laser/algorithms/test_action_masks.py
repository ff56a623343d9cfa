"""A masked problem is the problem with the allowed actions alone, and what is forbidden has no influence at all.

The oracle of the first kind has networks for the allowed actions only, with the same weights. The second kind forbids
other actions in every row, the bootstrap row included, and changes the networks' outputs for them.
"""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch
from every_loss import SMALL
from random_batches import make_batch, make_environment
from torch import nn

from laser.algorithms.acer import AcerConfig
from laser.algorithms.base import ActInput
from laser.algorithms.dqn import DqnConfig
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.ppo import PpoConfig
from laser.algorithms.rainbow import RainbowConfig
from laser.algorithms.reactor import ReactorConfig
from laser.algorithms.refer import ReferConfig
from laser.ops.action_masks import MASKED
from laser.specs import ACTION_MASK, DiscreteActions, MaskSpec, MultiDiscreteActions

ONE = DiscreteActions(5), DiscreteActions(3), ((0, 2, 3),)
TWO = MultiDiscreteActions((3, 4)), MultiDiscreteActions((2, 3)), ((0, 2), (1, 2, 3))
MANY = MultiDiscreteActions((9, 8, 7)), MultiDiscreteActions((2, 2, 2)), ((0, 5), (1, 7), (3, 4))
CONFIGS = {
    "impala": ImpalaConfig(),
    "impala, pulled": ImpalaConfig(replay_fraction=0.5, refer=ReferConfig(c=4.0, initial_beta=0.3)),
    "laser": LaserConfig(trust_region_threshold=1.0, entropy_on="all"),
    "laser, unclipped": LaserConfig(rho_clip=2.0, c_clip=1.0, trust_region_threshold=1.0),
    "laser, second moment": LaserConfig(rejection="second_moment", second_moment_threshold=0.5),
    "ppo": PpoConfig(entropy_cost=0.01),
    "acer": AcerConfig(entropy_cost=0.1, trust_region=0.1),
    "acer, entropy outside": AcerConfig(entropy_in_trust_region=False, entropy_cost=0.1, truncation=1.5),
    "reactor": ReactorConfig(),
    "reactor, sampled": ReactorConfig(estimator="importance_sampling", behaviour_policy="learned", clip=1.5),
    "reactor, greedy": ReactorConfig(exploration=0.0),
    "dqn": DqnConfig(epsilon_start=0.4),
    "dqn, dueling": DqnConfig(double=True, dueling=True, error_loss="squared"),
    "rainbow": RainbowConfig(noisy=False, head_size=8),
}
ACTOR_CRITICS = ("impala", "impala, pulled", "laser", "laser, unclipped", "ppo")
CASES = [(name, ONE) for name in CONFIGS] + [(name, TWO) for name in ACTOR_CRITICS]


def places_of(actions, allowed):
    """Return the places of the allowed actions among the logits of all choices."""
    counts = actions.num_actions if isinstance(actions, MultiDiscreteActions) else (actions.num_actions,)
    starts = [sum(counts[:choice]) for choice in range(len(counts))]
    return torch.tensor([start + each for start, own in zip(starts, allowed, strict=True) for each in own]), sum(counts)


def with_masks(actions):
    environment = make_environment(actions)
    counts = actions.num_actions if isinstance(actions, MultiDiscreteActions) else (actions.num_actions,)
    return dataclasses.replace(environment, observations={**environment.observations, ACTION_MASK: MaskSpec(counts)})


def rows_of(config):
    return 1 if config.view == "steps" else 6


def widened(batch, actions, allowed):
    """Return a batch of the reduced problem as one of the masked problem."""
    places, num = places_of(actions, allowed)
    mask = torch.zeros(*batch.first.shape, num, dtype=torch.bool)
    mask[..., places] = True
    logits = torch.full((*batch.shape, num), MASKED, dtype=batch.mu["logits"].dtype)
    logits[..., places] = batch.mu["logits"]

    def wide(taken):
        own = [torch.tensor(each) for each in allowed]
        if len(own) == 1:
            return own[0][taken]
        return torch.stack([each[taken[..., choice]] for choice, each in enumerate(own)], -1)

    return dataclasses.replace(
        batch,
        observations={**batch.observations, ACTION_MASK: mask},
        actions=wide(batch.actions),
        last_action=wide(batch.last_action),
        mu={"logits": logits},
    )


def narrow(value, reduced_shape, places, num):
    """Return the part of a weight, or of its gradient, that belongs to the allowed actions."""
    for axis, (size, reduced) in enumerate(zip(value.shape, reduced_shape, strict=True)):
        if size != reduced:
            each = size // num  # numbers per action
            index = (places[:, None] * each + torch.arange(each)).flatten()
            assert len(index) == reduced
            value = value.index_select(axis, index)
    return value


def twins(config, actions, reduced, allowed):
    """Return algorithm, networks and target networks of the masked problem and of the reduced one."""
    places, num = places_of(actions, allowed)
    full, small = config.build(with_masks(actions), SMALL), config.build(make_environment(reduced), SMALL)
    pairs = []
    for seed in range(2):
        wide, thin = full.seeded_networks(seed).double(), small.seeded_networks(seed).double()
        with torch.no_grad():
            for value in wide.parameters():
                value += 0.3 * torch.randn(value.shape, generator=torch.Generator().manual_seed(seed))
        weights = thin.state_dict()
        thin.load_state_dict(
            {name: narrow(value, weights[name].shape, places, num) for name, value in wide.state_dict().items()}
        )
        pairs.append((wide, thin))
    (networks, other), (target, other_target) = pairs
    return (full, networks, dict.fromkeys(full.targets, target)), (
        small,
        other,
        dict.fromkeys(small.targets, other_target),
    )


def evaluate(algorithm, networks, targets, batch):
    batch = algorithm.prepare(networks, batch)
    networks.zero_grad()
    output = algorithm.loss(networks, targets, batch, {}, torch.Generator().manual_seed(0))
    output.loss.backward()
    return output


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_masked_problem_is_the_problem_with_the_allowed_actions(name, case):
    config, (actions, reduced, allowed) = CONFIGS[name], case
    places, num = places_of(actions, allowed)
    wide, thin = twins(config, actions, reduced, allowed)
    batch = make_batch(reduced, num_rows=rows_of(config), num_columns=16, dtype=torch.float64)
    if config.view == "steps":
        batch = dataclasses.replace(batch, valid=torch.ones_like(batch.valid))
    expected = evaluate(*thin, batch)
    found = evaluate(*wide, widened(batch, actions, allowed))
    torch.testing.assert_close(found.loss, expected.loss)
    for metric, value in expected.metrics.items():
        torch.testing.assert_close(found.metrics[metric], value, msg=lambda text, metric=metric: f"{metric}: {text}")
    for metric, value in expected.per_step.items():
        torch.testing.assert_close(found.per_step[metric], value)
    gradients = {key: value.grad for key, value in wide[1].named_parameters()}
    num_moved = 0
    for key, value in thin[1].named_parameters():
        if value.grad is None:
            continue
        own = gradients[key]
        torch.testing.assert_close(narrow(own, value.shape, places, num), value.grad)
        torch.testing.assert_close(own.abs().sum(), value.grad.abs().sum())  # nothing moves what is forbidden
        num_moved += bool(value.grad.any())
    assert num_moved > 3


@pytest.mark.parametrize(("name", "case"), CASES)
@pytest.mark.parametrize("greedy", [False, True])
def test_acting_is_acting_with_the_allowed_actions(name, case, greedy):
    config, (actions, reduced, allowed) = CONFIGS[name], case
    places, _ = places_of(actions, allowed)
    (full, networks, _), (small, other, _) = twins(config, actions, reduced, allowed)
    batch = make_batch(reduced, num_rows=1, num_columns=300, dtype=torch.float64)
    masked = widened(batch, actions, allowed)

    def act(algorithm, networks, batch):
        seen = {key: value[0] for key, value in batch.observations.items()}
        inputs = ActInput(seen, batch.last_action, batch.last_reward, batch.first[0])
        return algorithm.act(networks, inputs, torch.Generator().manual_seed(1), greedy=greedy)

    found, expected = act(full, networks, masked), act(small, other, batch)
    logits = found.mu["logits"]
    assert torch.isfinite(logits).all()
    forbidden = ~masked.observations[ACTION_MASK][0]
    assert (logits[forbidden] == MASKED).all()
    counts = reduced.num_actions if isinstance(reduced, MultiDiscreteActions) else (reduced.num_actions,)
    for own, right in zip(logits[:, places].split(counts, -1), expected.mu["logits"].split(counts, -1), strict=True):
        torch.testing.assert_close(own.log_softmax(-1), right.log_softmax(-1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.values, expected.values, rtol=1e-5, atol=1e-6)
    taken = found.actions if found.actions.ndim == 2 else found.actions[:, None]
    for choice, own in enumerate(allowed):
        assert torch.isin(taken[:, choice], torch.tensor(own)).all()
        assert set(taken[:, choice].tolist()) == set(own) or greedy
    if greedy:
        torch.testing.assert_close(
            found.actions,
            widened(dataclasses.replace(batch, actions=expected.actions[None]), actions, allowed).actions[0],
        )


class Disturbed(nn.Module):
    """A module whose output for forbidden actions is something else."""

    def __init__(self, module, masks, size):
        super().__init__()
        self.module = module
        self._masks, self._size = masks, size

    def forward(self, *inputs):
        found = self.module(*inputs)
        logits = found["logits"] if isinstance(found, dict) else found
        mask = next(mask for mask in self._masks if mask[..., 0].numel() == logits.numel() // logits.shape[-1])
        if mask.ndim == 2:  # of single steps: first the state, then the next one
            self._masks = [other for other in self._masks if other is not mask]
        wide = mask.flatten(0, -2).repeat_interleave(logits.shape[-1] // mask.shape[-1], -1)
        changed = torch.where(wide, logits, logits + self._size * (1.0 + torch.arange(logits.shape[-1])))
        return {"logits": changed} if isinstance(found, dict) else changed


def disturb(networks, masks, size):
    """Change what networks compute for forbidden actions."""
    for name, module in list(networks.named_modules()):
        if name.endswith(("policy_head", "logits")) or name in ("heads.critic.advantage", "head.advantage.0"):
            parent, _, own = name.rpartition(".")
            setattr(networks.get_submodule(parent), own, Disturbed(module, masks, size))
    return networks


@pytest.mark.parametrize(("name", "case"), [*CASES, ("laser", MANY)])
def test_what_is_forbidden_has_no_influence(name, case):
    config, (actions, _, _) = CONFIGS[name], case
    if name == "rainbow":
        config = dataclasses.replace(config, head_size=0)
    algorithm = config.build(with_masks(actions), SMALL)
    generator = torch.Generator().manual_seed(3)
    batch = make_batch(actions, num_rows=rows_of(config), num_columns=16, seed=5)
    counts = actions.num_actions if isinstance(actions, MultiDiscreteActions) else (actions.num_actions,)
    masks = [torch.rand(*batch.first.shape, num, generator=generator) < 0.5 for num in counts]
    taken = batch.actions if batch.actions.ndim == 3 else batch.actions.unsqueeze(-1)
    for choice, mask in enumerate(masks):
        mask[:-1].scatter_(-1, taken[..., choice : choice + 1], True)
        mask[-1, :, choice] = True
    mask = torch.cat(masks, -1)
    assert (mask[:-1] != mask[1:]).any()
    logits = torch.where(mask[:-1], batch.mu["logits"], MASKED)
    batch = dataclasses.replace(
        batch,
        observations={**batch.observations, ACTION_MASK: mask},
        mu={"logits": logits},
        valid=torch.ones_like(batch.valid),
    )
    targets = dict.fromkeys(algorithm.targets, algorithm.seeded_networks(1))
    expected = evaluate(algorithm, algorithm.seeded_networks(0), targets, batch)
    # The rows that networks see: all, those without the bootstrap row (ppo), or all but the first (Reactor's target).
    of_networks, of_targets = [mask, mask[:-1]], [mask, mask[1:]]
    if config.view == "steps":
        of_networks, of_targets = [mask[0], mask[1]], [mask[1]]
    for size in (3.0, -1e4):
        networks = disturb(algorithm.seeded_networks(0), of_networks, size)
        changed = {key: disturb(algorithm.seeded_networks(1), of_targets, size) for key in targets}
        found = evaluate(algorithm, networks, changed, batch)
        assert math.isfinite(found.loss.item())
        torch.testing.assert_close(found.loss, expected.loss)
        for metric, value in expected.metrics.items():
            torch.testing.assert_close(
                found.metrics[metric], value, msg=lambda text, metric=metric: f"{metric}: {text}"
            )


@pytest.mark.parametrize("name", CONFIGS)
def test_padding_that_allows_nothing_stays_finite(name):
    config = CONFIGS[name]
    algorithm = config.build(with_masks(ONE[0]), SMALL)
    batch = make_batch(ONE[0], num_rows=rows_of(config), num_columns=4)
    mask = torch.zeros(*batch.first.shape, 5, dtype=torch.bool)
    batch = dataclasses.replace(batch, observations={**batch.observations, ACTION_MASK: mask})
    networks = algorithm.seeded_networks(0)
    targets = dict.fromkeys(algorithm.targets, algorithm.seeded_networks(1))
    output = evaluate(algorithm, networks, targets, batch)
    assert math.isfinite(output.loss.item())
    assert all(torch.isfinite(value.grad).all() for value in networks.parameters() if value.grad is not None)
