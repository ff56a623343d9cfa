"""A loaded policy takes one observation or a batch, deterministic or sampled, with its state kept or by hand."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from actors.policy import Policy
from laser.algorithms.impala import ImpalaConfig
from laser.environments.masked import mask_spec
from laser.environments.spaces import action_writer, observation_reader
from laser.networks.config import NetworkConfig
from laser.specs import EnvironmentSpec
from launch.evaluation.loaded_policy import LoadedPolicy


def make(observations, actions=spaces.Discrete(5), core="none", greedy=False):  # noqa: B008 - spaces do not change
    spec = EnvironmentSpec("X-v0", observation_reader(observations).specs, action_writer(actions).spec)
    algorithm = ImpalaConfig().build(spec, NetworkConfig(core=core, core_size=8))
    return LoadedPolicy(Policy(algorithm, spec, seed=0, greedy=greedy), spec)


def samples(space, number, seed=0):
    space.seed(seed)
    return [space.sample() for _ in range(number)]


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (3,)),
        spaces.Box(-1, 1, ()),
        spaces.Discrete(4, start=2),
        spaces.Discrete(3000),
        spaces.MultiDiscrete([3, 3]),
        spaces.Text(3),
        spaces.Box(0, 255, (24, 20), np.uint8),
        spaces.Box(0, 255, (3, 24, 20), np.uint8),
        spaces.Box(0, 255, (4, 24, 20, 3), np.uint8),
        spaces.Box(0, 255, (4, 3, 24, 20), np.uint8),
        spaces.Box(-1, 1, (4, 24, 20, 3)),
    ],
)
@pytest.mark.parametrize("number", [1, 3])
def test_a_batch_gives_the_actions_of_its_observations(space, number):
    policy, items = make(space), samples(space, number)
    wanted = [policy.act(item, greedy=True) for item in items]
    batch = tuple(items) if isinstance(space, spaces.Text) else np.stack(items)
    if space.dtype == np.uint8 and number == 1 and len(space.shape) < 4:
        batch = batch[:, None]  # a batch of one frame names its stack of one
    acted = policy.act(batch, greedy=True)
    assert acted.tolist() == wanted
    assert acted.shape == (number,)


def test_actions_of_a_batch_are_in_the_environments_bounds():
    actions = spaces.Box(np.array([0, 5], np.float32), np.array([1, 9], np.float32))
    acted = make(spaces.Box(-1, 1, (3,)), actions).act(np.zeros((100, 3)))
    assert acted.shape == (100, 2)
    assert all(action in actions for action in acted)


def test_actions_are_sampled_or_the_most_likely_as_asked():
    space = spaces.Box(-1, 1, (3,))
    rows = np.zeros((200, 3), np.float32)
    sampled, greedy = make(space), make(space, greedy=True)
    assert len(set(sampled.act(rows).tolist())) > 1
    assert len(set(sampled.act(rows, greedy=True).tolist())) == 1
    assert len(set(sampled.act(rows).tolist())) > 1
    assert len(set(greedy.act(rows).tolist())) == 1
    assert len(set(greedy.act(rows, greedy=False).tolist())) > 1


def values_of(state):
    return {name: value.copy() for name, value in state.state_dict().items()}


def test_the_state_by_hand_is_the_one_that_is_kept():
    space = spaces.Box(-1, 1, (3,))
    kept, by_hand = make(space, core="lstm", greedy=True), make(space, core="lstm", greedy=True)
    state, other = by_hand.initial_state(2), by_hand.initial_state(2)
    for rows in np.random.default_rng(0).normal(size=(5, 2, 3)):
        by_hand.act(rows[::-1], state=other)  # another pair of episodes, in between
        assert kept.act(rows).tolist() == by_hand.act(rows, state=state).tolist()
    for name, value in values_of(kept._state).items():
        np.testing.assert_array_equal(value, values_of(state)[name])
    assert any((values_of(state)[name] != values_of(other)[name]).any() for name in values_of(state))


def test_an_episode_may_begin_in_one_environment_only():
    policy, rows = make(spaces.Box(-1, 1, (3,)), core="lstm"), np.ones((3, 3))
    policy.act(rows, reward=[1, 2, 3])
    before = values_of(policy._state)
    policy.reset(np.array([False, True, False]))
    after, fresh = values_of(policy._state), values_of(policy.initial_state(3))
    for name in before:
        np.testing.assert_array_equal(after[name][[0, 2]], before[name][[0, 2]])
        np.testing.assert_array_equal(after[name][1], fresh[name][1])
    with pytest.raises(ValueError, match=r"where must have shape \(3,\), got \(2,\)"):
        policy.reset(np.array([True, False]))


@pytest.mark.parametrize("where", [[False, True, True], [0, 1, 1], np.array([0, 1, 1], np.uint8)])
def test_zeros_and_ones_say_where_an_episode_begins(where):
    policy = make(spaces.Box(-1, 1, (3,)), core="lstm")
    policy.act(np.ones((3, 3)))
    policy.reset(where)
    assert policy._state.first.tolist() == [False, True, True]


@pytest.mark.parametrize("where", [[0, 1, 2], [0, -1, 1], [0.0, 1.0, 0.5], [None, True, False], ["a", "b", "c"]])
def test_only_zeros_and_ones_say_where_an_episode_begins(where):
    policy = make(spaces.Box(-1, 1, (3,)), core="lstm")
    policy.act(np.ones((3, 3)))
    with pytest.raises(ValueError, match="where must hold True or False of each environment, got"):
        policy.reset(np.array(where))
    assert not policy._state.first.any()


@pytest.mark.parametrize(
    ("reward", "words"),
    [
        (None, "reward must be a number, or 3 numbers for 3 observations, got None"),
        ("1", "reward must be a number, or 3 numbers for 3 observations, got '1'"),
        ([1.0, 2.0], "reward must be a number, or 3 numbers for 3 observations"),
        ([1.0, None, 2.0], "reward must be a number, or 3 numbers for 3 observations"),
        (math.nan, "reward is not finite: nan of environment 0"),
        ([0.0, 1.0, math.inf], "reward is not finite: inf of environment 2"),
        (1e30, "reward is beyond"),
    ],
)
def test_rewards_must_be_finite_numbers(reward, words):
    policy = make(spaces.Box(-1, 1, (3,)), core="lstm")
    with pytest.raises(ValueError, match=words):
        policy.act(np.ones((3, 3)), reward=reward)
    assert policy.act(np.ones((3, 3)), reward=[1, 2, 3]).shape == (3,)
    assert policy._state.last_reward.tolist() == [1.0, 2.0, 3.0]


def test_a_memory_is_not_mixed_up_between_numbers_of_environments():
    policy = make(spaces.Box(-1, 1, (3,)), core="lstm")
    policy.act(np.zeros(3))
    with pytest.raises(ValueError, match=r"remembers 1 environments, got 4 observations; reset\(\) it first"):
        policy.act(np.zeros((4, 3)))
    policy.reset()
    assert policy.act(np.zeros((4, 3))).shape == (4,)
    with pytest.raises(ValueError, match="state is of 2 environments, and there are 4 observations"):
        policy.act(np.zeros((4, 3)), state=policy.initial_state(2))


@pytest.mark.parametrize(
    ("observation", "words"),
    [
        (np.zeros(4), r"observation must have shape \(3,\), or \(N, ...\) of it for a batch, got \(4,\)"),
        (np.zeros((0, 3)), "got \\(0, 3\\)"),
        (np.full(3, np.nan), "observation is not finite"),
        ({"x": np.zeros(3)}, r"must have keys \['observation'\], got \['x'\]"),
    ],
)
def test_observations_that_do_not_fit_are_refused(observation, words):
    with pytest.raises(ValueError, match=words):
        make(spaces.Box(-1, 1, (3,))).act(observation)


PICTURES = spaces.Box(0, 255, (24, 20), np.uint8)
BYTES = np.full((1, 24, 20), 200)


@pytest.mark.parametrize(
    ("space", "observation", "words"),
    [
        (PICTURES, BYTES / 255.0, "observation must have uint8, got float64"),
        (PICTURES, np.full((1, 24, 20), np.nan, np.float32), "observation must have uint8, got float32"),
        (PICTURES, BYTES * 2, "observation must have uint8, got int64"),
        (spaces.Dict({"pic": PICTURES}), {"pic": np.stack([BYTES / 255.0] * 2)}, "pic must have uint8, got float64"),
        (PICTURES, BYTES > 0, "observation must have uint8, got bool"),
        (spaces.MultiBinary((24, 20)), np.full((24, 20), 2, np.int8), "observation must have uint8, got int8"),
        (spaces.MultiBinary(3), np.array([2, 0, 5]), "observation must hold 0s and 1s, got 2"),
        (spaces.MultiBinary(3), np.array([0.5, 0, 1]), "observation must hold 0s and 1s, got 0.5"),
        (spaces.Box(0, 9, (3,), np.int32), np.full(3, 0.5), "observation must have an integer dtype, as its space"),
        (spaces.Discrete(4), 1.5, "observation must have an integer dtype, got float64"),
        (spaces.MultiDiscrete([3, 4]), np.array([0.9, 2.9]), "observation must have an integer dtype, got float64"),
        (spaces.Box(-1, 1, (3,)), ["1", "2", "3"], "observation must have a real dtype, got <U1"),
    ],
)
def test_observations_of_another_scale_are_refused_as_in_training(space, observation, words):
    with pytest.raises(ValueError, match=words):
        make(space).act(observation)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int8, np.int64])
@pytest.mark.parametrize("space", [spaces.Box(0, 1, (24, 20), bool), spaces.MultiBinary((24, 20))])
def test_pictures_of_bits_may_have_any_dtype(space, dtype):
    policy = make(space, greedy=True)
    picture = np.random.default_rng(0).random((24, 20)) < 0.5
    assert policy.act(picture.astype(dtype)) == policy.act(picture.astype(np.uint8))


@pytest.mark.parametrize("space", [spaces.MultiBinary(3), spaces.Box(0, 9, (3,), np.int32), spaces.Box(-1, 1, (3,))])
def test_numbers_may_come_as_lists(space):
    policy = make(space, greedy=True)
    assert policy.act([1, 0, 1]) == policy.act(np.array([1, 0, 1]))
    assert policy.act([[1, 0, 1]] * 2).shape == (2,)


def test_all_arrays_of_a_batch_have_as_many_rows():
    policy = make(spaces.Dict({"a": spaces.Box(-1, 1, (2,)), "b": spaces.Discrete(3)}))
    assert policy.act({"a": np.zeros((2, 2)), "b": np.array([0, 2])}).shape == (2,)
    with pytest.raises(ValueError, match=r"as many rows, got \[0, 2\]"):
        policy.act({"a": np.zeros((2, 2)), "b": 1})


def make_masked(space, actions):
    """Return a policy whose agent was trained with masks."""
    masks = mask_spec(actions)
    parts = space.spaces if isinstance(space, spaces.Dict) else {"observation": space}
    seen = {name: part for name, part in parts.items() if name != "action_mask"}
    with_mask = spaces.Dict({**seen, "action_mask": spaces.MultiBinary(masks.shape[0])})
    spec = EnvironmentSpec("X-v0", observation_reader(with_mask, masks=masks).specs, action_writer(actions).spec)
    algorithm = ImpalaConfig().build(spec, NetworkConfig())
    return LoadedPolicy(Policy(algorithm, spec, seed=0), spec)


def test_a_mask_is_given_beside_the_observation_or_in_it():
    space = spaces.Box(-1, 1, (3,), np.float32)
    policy, row = make_masked(space, spaces.Discrete(4, start=3)), np.zeros(3, np.float32)
    assert {policy.act(row, action_mask=np.array([0, 1, 0, 1], np.int8)) for _ in range(50)} == {4, 6}
    masks = np.eye(4, dtype=bool)[[2, 0, 3]]
    assert policy.act(np.zeros((3, 3)), action_mask=masks).tolist() == [5, 3, 6]
    nested = make_masked(spaces.Dict({"seen": space, "action_mask": spaces.MultiBinary(4)}), spaces.Discrete(4))
    assert nested.act({"seen": row, "action_mask": np.array([0, 0, 1, 0])}) == 2
    assert nested.act({"seen": row}, action_mask=[0, 0, 0, 1]) == 3


def test_masks_of_several_choices_stand_side_by_side_or_in_a_tuple():
    policy = make_masked(spaces.Box(-1, 1, (3,)), spaces.MultiDiscrete([2, 3]))
    assert policy.act(np.zeros(3), action_mask=[0, 1, 1, 0, 0]).tolist() == [1, 0]
    assert policy.act(np.zeros(3), action_mask=([1, 0], [0, 0, 1])).tolist() == [0, 2]
    both = (np.array([[1, 0], [0, 1]]), np.array([[0, 0, 1], [0, 1, 0]]))
    assert policy.act(np.zeros((2, 3)), action_mask=both).tolist() == [[0, 2], [1, 1]]


def test_mistakes_with_masks_are_named():
    policy = make_masked(spaces.Box(-1, 1, (3,)), spaces.Discrete(4))
    with pytest.raises(ValueError, match=r"was trained with action masks; give action_mask=info\['action_mask'\]"):
        policy.act(np.zeros(3))
    with pytest.raises(ValueError, match=r"action_mask must have shape \(4,\), got \(3,\)"):
        policy.act(np.zeros(3), action_mask=[1, 1, 1])
    with pytest.raises(ValueError, match="action_mask allows no action"):
        policy.act(np.zeros((2, 3)), action_mask=np.array([[1, 1, 1, 1], [0, 0, 0, 0]]))
    with pytest.raises(ValueError, match="was trained without action masks; leave action_mask out"):
        make(spaces.Box(-1, 1, (3,))).act(np.zeros(3), action_mask=[1] * 5)
