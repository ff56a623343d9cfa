"""NERS' network and its rule: equivariance, context, features, what is written and what is learned."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, make_environment
from replayed_steps import CPU, NUM_ITEMS, sample_of, steps_batch

from laser.ops.replay_policy import ners_objective, ners_objective_of_code
from laser.ports import PortError
from laser.prioritization.base import Replayed
from laser.prioritization.ners import Q_TARGET, SCORE, TD_ERROR, Ners, ScoreNetwork, joined, steps_of
from laser.prioritization.step_features import Steps
from laser.specs import CategorySpec, EnvironmentSpec, FramesSpec, VectorSpec
from replay_server.config import ReplayConfig
from replay_server.samplers.ners import NersConfig

ENVIRONMENT = make_environment(ACTIONS["continuous"])


def random_steps(environment, num_steps=10, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    observations = {}
    for name, spec in environment.observations.items():
        if isinstance(spec, FramesSpec):
            shape = (2, num_steps, spec.channels, *spec.frame_shape[:2])
            observations[name] = torch.randint(0, 256, shape, generator=generator, dtype=torch.uint8)
        elif isinstance(spec, CategorySpec):
            observations[name] = torch.randint(0, spec.num_values, (2, num_steps), generator=generator)
        else:
            observations[name] = normal(2, num_steps, *spec.shape)
    actions = environment.actions
    if hasattr(actions, "low"):
        taken = normal(num_steps, len(actions.low))
    elif isinstance(actions.num_actions, tuple):
        taken = torch.stack([torch.randint(0, n, (num_steps,), generator=generator) for n in actions.num_actions], -1)
    else:
        taken = torch.randint(0, actions.num_actions, (num_steps,), generator=generator)
    return Steps(observations, taken, *(normal(num_steps) for _ in range(4)))


def chosen(steps, index):
    fields = {field.name: getattr(steps, field.name) for field in dataclasses.fields(steps)}
    observations = {name: value[:, index] for name, value in fields.pop("observations").items()}
    return Steps(observations, **{name: value[index] for name, value in fields.items()})


def network(environment=ENVIRONMENT, features="all", global_context=True):
    torch.manual_seed(0)
    return ScoreNetwork(environment, features, global_context).double()


@pytest.mark.parametrize("features", ["all", "few"])
@pytest.mark.parametrize("global_context", [True, False])
def test_a_permutation_of_the_steps_permutes_the_scores(features, global_context):
    score, steps = network(features=features, global_context=global_context), random_steps(ENVIRONMENT)
    order = torch.randperm(10, generator=torch.Generator().manual_seed(3))
    torch.testing.assert_close(score(chosen(steps, order)), score(steps)[order], rtol=0, atol=1e-6)


@pytest.mark.parametrize("global_context", [True, False])
def test_the_others_matter_through_the_global_context_alone(global_context):
    score, steps = network(global_context=global_context), random_steps(ENVIRONMENT)
    alone, among = score(chosen(steps, slice(4))), score(steps)[:4]
    assert torch.allclose(alone, among, rtol=0, atol=1e-6) != global_context


def test_few_features_are_reward_time_and_error():
    score, steps = network(features="few"), random_steps(ENVIRONMENT)
    other = random_steps(ENVIRONMENT, seed=1)
    same = dataclasses.replace(other, rewards=steps.rewards, times=steps.times, td_errors=steps.td_errors)
    assert torch.equal(score(steps), score(same))
    for name in ("rewards", "times", "td_errors"):
        assert not torch.allclose(score(steps), score(dataclasses.replace(steps, **{name: getattr(other, name)})))


@pytest.mark.parametrize("name", ["observations", "actions", "rewards", "times", "td_errors", "q_targets"])
def test_every_feature_counts(name):
    score, steps = network(), random_steps(ENVIRONMENT)
    other = dataclasses.replace(steps, **{name: getattr(random_steps(ENVIRONMENT, seed=1), name)})
    assert not torch.allclose(score(steps), score(other), rtol=0, atol=1e-6)


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
def test_images_and_categories_are_seen_before_and_after(actions):
    observations = {"image": FramesSpec((30, 30), 2), "word": CategorySpec(5), "x": VectorSpec((2,))}
    environment = EnvironmentSpec("seen", observations, actions)
    score, steps = network(environment), random_steps(environment, 4)
    before = score(steps)
    assert before.shape == (4,)
    assert ((before > 0) & (before < 1)).all()
    for row in (0, 1):
        for name in observations:
            changed = {key: value.clone() for key, value in steps.observations.items()}
            changed[name][row] = random_steps(environment, 4, seed=2).observations[name][row]
            assert not torch.allclose(score(dataclasses.replace(steps, observations=changed)), before, atol=1e-9), name


def test_the_papers_convolutions_see_large_frames_and_others_small_ones():
    sizes = {}
    for pixels in (84, 10):
        environment = EnvironmentSpec("seen", {"image": FramesSpec((pixels, pixels), 4)}, ACTIONS["discrete"])
        score = ScoreNetwork(environment, "all", True)
        sizes[pixels] = [tuple(p.shape[:1]) + tuple(p.shape[2:]) for p in score.parameters() if p.ndim == 4]
        assert score.features.num_features == 2 * 32 + 3 + 4
    assert sizes[84] == [(32, 5, 5), (64, 5, 5)]
    assert sizes[10] == [(16, 3, 3)]


def test_its_layers_are_the_papers():
    shapes = [tuple(p.shape) for name, p in network().named_parameters() if name.endswith("weight")]
    width = 2 * 4 + 2 + 4
    context = [(256, width), (512, 256), (256, 512), (128, 256)]
    assert shapes == [*context, *context, (256, 256), (128, 256), (64, 128), (1, 64)]


class Reader:
    """Gives what it is told to, and remembers what was asked."""

    def __init__(self, replayed, stored=None):
        self.replayed, self.asked, self.looked_at = replayed, [], []
        self.stored = replayed if stored is None else stored

    def read(self, keys):
        self.asked.append(keys)
        return self.replayed

    def draw_uniformly(self, num_items):
        self.looked_at.append(num_items)
        return self.stored


def rule(**settings):
    return Ners(ReplayConfig(sampler="ners", ners=NersConfig(**settings)), ENVIRONMENT, CPU, seed=1)


def replayed(num_items=NUM_ITEMS, seed=0):
    return Replayed(sample_of(num_items, seed), steps_batch(ACTIONS["continuous"], Ners.columns, num_items, seed))


def test_what_is_never_drawn_counts_as_one_and_the_rest_is_squashed():
    assert {spec.name: spec.initial for spec in Ners.columns} == {SCORE: 1.0, TD_ERROR: 1.0, Q_TARGET: 1.0}
    steps = steps_of(replayed())
    assert (steps.td_errors == 1.0).all()
    assert (steps.q_targets == 1.0).all()
    td_errors, q = torch.full((1, NUM_ITEMS), -0.3), torch.full((1, NUM_ITEMS), 0.8)
    written = rule().values(replayed(), {"td_error": td_errors, "q": q})
    torch.testing.assert_close(written[TD_ERROR], torch.full((1, NUM_ITEMS), np.tanh(-0.3), dtype=torch.float32))
    torch.testing.assert_close(written[Q_TARGET], torch.full((1, NUM_ITEMS), np.tanh(0.5), dtype=torch.float32))


def test_scores_are_the_networks_to_the_precision_of_the_machine():
    ners, items = rule(), replayed()
    with torch.no_grad():
        exact = ners.network(steps_of(items))
    torch.testing.assert_close(ners.prepare([items])[0][SCORE][0], exact, rtol=0, atol=2e-2)


def test_batches_that_are_scored_together_are_scored_as_each_by_itself():
    ners, batches = rule(), [replayed(seed=seed) for seed in range(3)]
    steps = joined([steps_of(items) for items in batches])
    with torch.no_grad():
        alone = [ners.network(steps_of(items)) for items in batches]
        torch.testing.assert_close(ners.network(steps, 3), torch.cat(alone))
        assert (ners.network(steps) - torch.cat(alone)).abs().max() > 1e-3, "all batches have one context"
    prepared = [said[SCORE][0] for said in ners.prepare(batches)]
    torch.testing.assert_close(prepared, alone, rtol=0, atol=2e-2)
    assert all((other - alone[0]).abs().max() > 2e-2 for other in prepared[1:]), "any order would do"


def test_the_first_return_only_begins_and_the_next_teaches():
    ners, items = rule(), replayed()
    reader = Reader(items)
    before = {name: value.clone() for name, value in ners.network.state_dict().items()}
    numbers = {"td_error": torch.zeros(1, NUM_ITEMS), "q": torch.zeros(1, NUM_ITEMS)}
    ners.values(items, numbers)
    assert ners.hear(5.0, reader) is None
    assert not reader.asked
    assert len(ners.drawn) == 0, "what was drawn before did not bring about the change"
    ners.values(items, numbers)
    assert ners.hear(7.0, reader) is None  # nothing is rewritten: drawn steps are, as they are drawn
    (keys,) = reader.asked
    assert sorted(keys["page"].tolist()) == list(range(NUM_ITEMS))
    assert len(ners.drawn) == 0
    assert ners.metrics() == {
        "sampler/replay_reward": 2.0,
        "sampler/score_mean": pytest.approx(ners.metrics()["sampler/score_mean"]),
        "sampler/score_std": pytest.approx(ners.metrics()["sampler/score_std"]),
        "sampler/steps_learned_from": NUM_ITEMS,
        "sampler/updates": 1.0,
        "sampler/updates_refused": 0.0,
    }
    assert any(not torch.equal(value, before[name]) for name, value in ners.network.state_dict().items())
    ners.hear(7.0, reader)
    assert len(reader.asked) == 1, "nothing was drawn since"


def objective_of(ners, items, stored, normalizer, replay_reward):
    if normalizer == "none":
        return ners_objective_of_code(ners.network(steps_of(items)), replay_reward)
    if normalizer == "batch":
        scores = ners.network(steps_of(items))
        return ners_objective(scores, replay_reward, 0.5, scores)
    scores = ners.network(joined([steps_of(items), steps_of(stored)]))
    return ners_objective(scores[:NUM_ITEMS], replay_reward, 0.5, scores[NUM_ITEMS:])


@pytest.mark.parametrize("normalizer", ["replay", "batch", "none"])
@pytest.mark.parametrize("replay_reward", [2.0, -2.0])
def test_an_update_climbs_its_objective(normalizer, replay_reward):
    ners, items, stored = rule(normalizer=normalizer, learning_rate=1e-3), replayed(), replayed(30, seed=1)
    reader = Reader(items, stored)

    def objective():
        with torch.no_grad():
            return float(objective_of(ners, items, stored, normalizer, replay_reward))

    before, scored = objective(), ners.prepare([items])[0][SCORE]
    for _ in range(5):
        ners.drawn.add(items.sample.keys, ners.rng)
        ners.learn(replay_reward, reader)
    assert objective() > before
    assert not torch.equal(ners.prepare([items])[0][SCORE], scored), "scores come from the network as it was"
    assert reader.looked_at == ([128] * 5 if normalizer == "replay" else [])


@pytest.mark.parametrize("normalizer", ["replay", "batch", "none"])
def test_steps_that_made_the_agent_better_are_told_from_the_rest(normalizer):
    """What was drawn has a reward of 1, what else is stored -1; only over the whole replay that shows."""
    ners, items, stored = rule(normalizer=normalizer, learning_rate=1e-3), replayed(), replayed(seed=1)
    items.batch.rewards.fill_(1.0)
    stored.batch.rewards.fill_(-1.0)

    def advantage():
        with torch.no_grad():
            drawn, others = ners.network(joined([steps_of(items), steps_of(stored)])).chunk(2)
            return float(drawn.log().mean() - others.log().mean())

    before = advantage()
    for _ in range(20):
        ners.drawn.add(items.sample.keys, ners.rng)
        ners.learn(1.0, Reader(items, stored))
    assert (advantage() > before + 0.2) == (normalizer == "replay")


def test_a_return_that_is_not_finite_teaches_nothing_and_the_next_begins():
    ners, items = rule(), replayed()
    for value in (1.0, float("inf"), 2.0):
        ners.drawn.add(items.sample.keys, ners.rng)
        ners.hear(value, Reader(items))
    assert ners.num_updates == 0
    ners.hear(3.0, Reader(items))
    assert ners.num_updates == 0, "what was drawn before the last return did not bring about the change"
    ners.drawn.add(items.sample.keys, ners.rng)
    ners.hear(4.0, Reader(items))
    assert ners.num_updates == 1


def test_another_agents_return_is_not_the_merit_of_what_this_one_drew():
    ners, items = rule(), replayed()
    reader = Reader(items)
    numbers = {"td_error": torch.zeros(1, NUM_ITEMS), "q": torch.zeros(1, NUM_ITEMS)}
    ners.hear(5.0, reader)
    ners.values(items, numbers)
    ners.forget_agent()
    ners.values(items, numbers)
    ners.hear(500.0, reader)
    assert not reader.asked
    ners.values(items, numbers)
    ners.hear(501.0, reader)
    assert ners.metrics()["sampler/replay_reward"] == 1.0
    assert ners.num_updates == 1


def test_what_was_drawn_before_a_look_that_failed_is_not_kept_for_the_next():
    ners, items = rule(), replayed()
    ners.hear(5.0, Reader(items))
    ners.drawn.add(items.sample.keys, ners.rng)

    class Gone:
        def read(self, keys):
            raise PortError("gone")

    with pytest.raises(PortError):
        ners.hear(6.0, Gone())
    assert len(ners.drawn) == 0


def test_what_is_drawn_while_an_evaluation_runs_counts_for_the_next():
    ners, items = rule(batch_size=64), replayed()
    reader = Reader(items)
    pages = [np.arange(start, start + 3) for start in (10, 20, 30, 40)]

    def draw(number):
        keys = items.sample.keys[:3].copy()
        keys["page"] = pages[number]
        ners.drawn.add(keys, ners.rng)

    def asked():
        return sorted(reader.asked.pop()["page"].tolist())

    draw(0)  # before anything was measured
    ners.mark_evaluation()
    draw(1)
    ners.hear(5.0, reader)
    assert not reader.asked
    ners.mark_evaluation()  # its return never comes
    draw(2)
    ners.mark_evaluation()
    draw(3)
    ners.hear(6.0, reader)
    assert asked() == [*pages[1], *pages[2]]
    ners.mark_evaluation()
    ners.hear(8.0, reader)
    assert asked() == [*pages[3]]
    assert not reader.asked


def test_draws_on_both_sides_of_a_mark_are_saved():
    one, items = rule(batch_size=64), replayed()
    reader = Reader(items)
    one.hear(5.0, reader)
    one.drawn.add(items.sample.keys[:2], one.rng)
    one.mark_evaluation()
    one.drawn.add(items.sample.keys[2:5], one.rng)
    other = Ners(one.config, ENVIRONMENT, CPU, seed=9)
    other.load_state_dict(one.state_dict())
    other.mark_evaluation()  # the one under way was lost
    other.hear(6.0, reader)
    assert sorted(reader.asked[0]["page"].tolist()) == sorted(items.sample.keys["page"][:5].tolist())


def test_a_score_of_0_does_not_end_learning_and_what_cannot_be_learned_is_counted():
    ners, items = rule(), replayed()
    with torch.no_grad():
        ners.network.output.bias.fill_(-1e4)  # the sigmoid's last digits are gone
    ners.drawn.add(items.sample.keys, ners.rng)
    ners.learn(2.0, Reader(items))
    assert (ners.num_updates, ners.num_refused) == (1, 0)
    ners.climb(torch.tensor(float("nan")))
    assert ners.metrics()["sampler/updates_refused"] == 1.0


def test_the_gradient_is_the_sum_over_the_index_set():
    """One step of plain ascent, with the scores' derivative from the other test's formula."""
    ners, items = rule(), replayed(6)
    scores = ners.network(steps_of(items))
    ners_objective(scores, 2.0, 0.5, scores).backward()
    taken = [p.grad.clone() for p in ners.network.parameters()]
    ners.network.zero_grad()
    scores = ners.network(steps_of(items))
    values = scores.detach().double()
    slopes = 2.0 * (0.5 / values - 6 * 0.5 * values**-0.5 / (values**0.5).sum())
    scores.backward(slopes.float())
    for one, p in zip(taken, ners.network.parameters(), strict=True):
        torch.testing.assert_close(one, p.grad, rtol=1e-4, atol=1e-6)


def test_what_was_saved_goes_on_alike():
    one, items = rule(batch_size=8), replayed()
    for value in (1.0, 2.0):
        one.drawn.add(items.sample.keys, one.rng)
        one.hear(value, Reader(items))
    one.drawn.add(items.sample.keys[:5], one.rng)
    other = Ners(one.config, ENVIRONMENT, CPU, seed=9)
    other.load_state_dict(one.state_dict())
    readers = [Reader(items), Reader(items)]
    for ners, reader in zip((one, other), readers, strict=True):
        ners.values(replayed(seed=3), {"td_error": torch.ones(1, NUM_ITEMS), "q": torch.ones(1, NUM_ITEMS)})
        ners.hear(4.0, reader)
    np.testing.assert_array_equal(readers[0].asked[0], readers[1].asked[0])
    assert len(readers[0].asked[0]) == 8
    assert torch.equal(one.prepare([items])[0][SCORE], other.prepare([items])[0][SCORE])
    for name, value in one.network.state_dict().items():
        assert torch.equal(value, other.network.state_dict()[name]), name


def test_another_networks_state_is_refused():
    with pytest.raises(ValueError, match="sampler has another network"):
        rule(global_context=False).load_state_dict(rule().state_dict())


def test_the_authors_code_bounds_features_twice():
    items = replayed()
    plain, twice = steps_of(items), steps_of(items, bounded_twice=True)
    numbers = torch.from_numpy(items.sample.unrolls.headers["step_in_episode"].astype(np.float32))
    torch.testing.assert_close(twice.times, numbers.tanh().to(twice.times.dtype))
    torch.testing.assert_close(twice.td_errors, plain.td_errors.tanh())
    torch.testing.assert_close(twice.q_targets, plain.q_targets.tanh())
    torch.testing.assert_close(twice.rewards, plain.rewards)


def test_the_rule_scores_features_as_its_setting_says():
    items = replayed()
    for bounded_twice in (False, True):
        ners = rule(bounded_twice=bounded_twice)
        scores = ners.prepare([items])[0][SCORE][0]
        expected, other = (ners._scorer(steps_of(items, each)) for each in (bounded_twice, not bounded_twice))
        assert torch.equal(scores, expected)
        assert not torch.equal(scores, other)
