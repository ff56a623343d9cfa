"""Statistics of wrappers: their union over environments, and their way back into environments of every kind."""

from __future__ import annotations

from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import PendulumEnv
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

from laser.environments import EnvironmentConfig, EnvironmentFailedError, make_environment
from laser.environments.own import id_of
from laser.environments.statistics import (
    Moments,
    give_statistics,
    merge,
    read_statistics,
    read_wrappers,
    statistics_from_json,
    statistics_to_json,
    write_wrappers,
)
from laser.environments.suite import split_seed
from laser.environments.vector import GymnasiumVector

WRAPPERS = "gymnasium.wrappers:NormalizeObservation,gymnasium.wrappers:NormalizeReward"


def played(num_envs=3, num_steps=40, seed=0, vectorization="sync", env="Pendulum-v1", wrappers=WRAPPERS):
    environment = make_environment(env, num_envs, EnvironmentConfig(wrappers=wrappers, vectorization=vectorization))
    environment.reset(seed)
    rng = np.random.default_rng(seed)
    for _ in range(num_steps):
        shape = environment.spec.actions.array.shape
        environment.send(rng.uniform(-1, 1, (num_envs, *shape)).astype(np.float32))
        environment.recv()
    return environment


def same(one, other, counts=True):
    assert [each.name for each in one] == [each.name for each in other]
    for mine, theirs in zip(one, other, strict=True):
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-5)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=1e-5)
        assert not counts or (mine.count, mine.num) == (pytest.approx(theirs.count), theirs.num)
    return True


def test_the_union_is_the_mean_and_variance_of_all_that_was_seen():
    rng = np.random.default_rng(0)
    seen = [rng.normal(place, 1 + place, (size, 4)) for place, size in enumerate((5, 50, 500))]
    parts = [{0: [Moments("A.rms", each.mean(0), each.var(0), len(each))]} for each in seen]
    (union,) = merge([*parts[:2], {}, parts[2]])[0]
    everything = np.concatenate(seen)
    np.testing.assert_allclose(union.mean, everything.mean(0), rtol=1e-12)
    np.testing.assert_allclose(union.var, everything.var(0), rtol=1e-12)
    assert (union.count, union.num) == (555, 3)


def test_every_environment_of_a_vector_has_its_own_and_their_union_is_read():
    environment = played()
    own = [read_wrappers(each) for each in environment._environments]
    assert [each.name for each in own[0]] == ["NormalizeReward.return_rms", "NormalizeObservation.obs_rms"]
    assert not np.allclose(own[0][1].mean, own[1][1].mean)
    found = read_statistics(environment)
    assert same(found[0], merge([{0: each} for each in own])[0])
    assert found[0][1].count == pytest.approx(3 * 41 + 1, abs=1e-2), "a reset and 40 steps each, and a look for masks"


class Spoiled(PendulumEnv):
    """Returns NaN once, in the environment that is seeded first: as an observation or as a reward."""

    def __init__(self, nan):
        super().__init__()
        self.nan, self.num_steps = nan, 0

    def step(self, action):
        observation, reward, *rest = super().step(action)
        self.num_steps += 1
        if self.num_steps == 3 and self.np_random_seed == split_seed(0, 1)[0]:
            return (observation * np.nan, reward, *rest) if self.nan == "observation" else (observation, np.nan, *rest)
        return observation, reward, *rest


def spoiled(num_envs, nan, vectorization="sync"):
    config = EnvironmentConfig(wrappers=WRAPPERS, vectorization=vectorization)
    environment = make_environment(id_of(partial(Spoiled, nan)), num_envs, config)
    environment.reset(0)
    with pytest.raises(EnvironmentFailedError, match="not finite") as caught:
        [step(environment) for _ in range(3)]
    return environment, caught.value.others


def step(environment):
    environment.send(np.zeros((environment.num_envs, *environment.spec.actions.array.shape), np.float32))
    return environment.recv()


def is_finite(statistics):
    return [np.isfinite([each.mean.sum(), each.var.sum()]).all() for each in statistics[0]] == [True, True]


@pytest.mark.parametrize("nan", ["observation", "reward"])
def test_an_environment_whose_statistics_a_nan_spoiled_begins_with_those_of_the_others(nan):
    environment, others = spoiled(3, nan)
    union = read_statistics(environment)
    assert is_finite(union)
    assert union[0][1].num == 2, "the failed one is left out"
    others.complete(seed=1)
    first, last = (read_wrappers(environment._environments[place])[1] for place in (0, 2))
    assert first.count == pytest.approx(union[0][1].count / 2 + 1)
    assert np.abs(first.mean - last.mean).max() < 2.0
    for _ in range(5):
        step(environment)
    assert is_finite(read_statistics(environment))
    assert read_statistics(environment)[0][1].num == 3


@pytest.mark.parametrize(("num_envs", "vectorization"), [(1, "sync"), (2, "async")])
def test_statistics_that_are_not_finite_are_not_read(num_envs, vectorization):
    environment, others = spoiled(num_envs, "observation", vectorization)
    assert others is None
    read = read_statistics(environment)
    assert read == {} if num_envs == 1 else is_finite(read)
    environment.close()


def test_a_vectors_own_that_are_not_finite_are_not_read():
    environment = make_environment("Pendulum-v1", 2, EnvironmentConfig(wrappers=WRAPPERS))
    own = gymnasium.wrappers.vector.NormalizeObservation(gymnasium.make_vec("Pendulum-v1", 2))
    vector = GymnasiumVector(environment.spec, own, None, None)
    assert [each.name for each in read_statistics(vector)[0]] == ["NormalizeObservation.obs_rms"]
    own.obs_rms.update(np.full((2, 3), np.nan))
    assert read_statistics(vector) == {}


def test_statistics_that_are_not_finite_are_neither_merged_nor_given():
    healthy, ill = read_statistics(played()), read_statistics(played(seed=1))
    ill[0][1].mean[0] = np.nan
    assert same(merge([ill, healthy])[0], healthy[0])
    assert merge([ill]) == {}
    other = played(seed=2)
    before = read_statistics(other)
    assert not give_statistics(other, ill)
    assert same(read_statistics(other)[0], before[0])


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_what_is_given_back_is_what_was_read(vectorization):
    statistics = read_statistics(played())
    statistics = statistics_from_json(statistics_to_json(statistics))
    other = make_environment("Pendulum-v1", 3, EnvironmentConfig(wrappers=WRAPPERS, vectorization=vectorization))
    try:
        assert give_statistics(other, statistics)
        assert same(read_statistics(other)[0], statistics[0]), "also the count, which the environments share"
        other.reset(0)
        assert read_statistics(other)[0][1].count == pytest.approx(statistics[0][1].count + 3), "they go on"
        assert give_statistics(other, statistics, frozen=True)
        other.reset(0)
        assert same(read_statistics(other)[0], statistics[0]), "frozen ones stay"
    finally:
        other.close()


def test_a_vector_with_wrappers_of_its_own_has_one():
    def vector():
        return gymnasium.wrappers.vector.NormalizeObservation(gymnasium.make_vec("Pendulum-v1", 4))

    first, second = vector(), vector()
    first.reset(seed=0)
    (moments,) = read_wrappers(first)
    assert moments.count == pytest.approx(4, abs=1e-3)
    assert write_wrappers(second, [moments], frozen=False)
    assert same(read_wrappers(second), [moments])


def test_each_task_has_its_own():
    names = [id_of(partial(gymnasium.make, "Pendulum-v1", g=gravity)) for gravity in (5.0, 10.0)]
    environment, other = (played(4, seed=seed, env=",".join(names)) for seed in (0, 1))
    statistics = read_statistics(environment)
    assert sorted(statistics) == [0, 1]
    assert not np.allclose(statistics[0][1].mean, statistics[1][1].mean)
    assert give_statistics(other, statistics)
    for task in (0, 1):
        assert same(read_statistics(other)[task], statistics[task])


def test_other_wrappers_or_shapes_do_not_fit_and_nothing_is_changed():
    statistics = read_statistics(played())
    for wrapped in (gymnasium.make("Pendulum-v1"), NormalizeReward(gymnasium.make("Pendulum-v1"))):
        before = read_wrappers(wrapped)
        assert not write_wrappers(wrapped, statistics[0], frozen=True)
        assert same(read_wrappers(wrapped), before)
    other = NormalizeReward(NormalizeObservation(gymnasium.make("CartPole-v1")))
    assert not write_wrappers(other, statistics[0], frozen=True), "another size of the observation"


@pytest.mark.parametrize("env", ["CartPole-v1", "mini/Catch-v0"])
def test_environments_without_such_wrappers_have_none(env):
    environment = make_environment(env, 2, EnvironmentConfig())
    assert read_statistics(environment) == {}
    assert give_statistics(environment, {})
    environment.close()
