import numpy as np
import pytest
from gymnasium import spaces

from laser.environments.base import EnvironmentFailedError
from laser.environments.spaces import FrameStack, UnsupportedSpaceError, action_writer, observation_reader
from laser.specs import CategorySpec, ContinuousActions, FramesSpec, MultiDiscreteActions, VectorSpec

STACK = FrameStack(4, "repeat")


def pixels(*shape):
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("space", "stack", "spec"),
    [
        (spaces.Box(-1, 1, (3,)), None, VectorSpec((3,))),
        (spaces.Box(-1, 1, (), np.float64), None, VectorSpec(())),
        (spaces.Box(-1, 1, (4, 2), np.float16), None, VectorSpec((4, 2))),
        (spaces.Box(0, 9, (3,), np.int32), None, VectorSpec((3,))),
        (spaces.Box(0, 1, (3,), bool), None, VectorSpec((3,))),
        (pixels(128), None, VectorSpec((128,))),
        (pixels(7, 7, 3), None, VectorSpec((7, 7, 3))),
        (spaces.Discrete(6, start=2), None, CategorySpec(6)),
        (spaces.MultiDiscrete([4, 4, 4]), None, CategorySpec(4, (3,))),
        (spaces.MultiDiscrete([[4], [4]], start=[[2], [2]]), None, CategorySpec(4, (2, 1))),
        (pixels(84, 84), None, FramesSpec((84, 84))),
        (pixels(210, 160, 3), None, FramesSpec((210, 160, 3))),
        (pixels(84, 84, 1), None, FramesSpec((84, 84, 1))),
        (pixels(3, 64, 48), None, FramesSpec((64, 48, 3))),
        (pixels(4, 84, 84), STACK, FramesSpec((84, 84), 4, "repeat")),
        (pixels(4, 96, 72, 3), STACK, FramesSpec((96, 72, 3), 4, "repeat")),
    ],
)
def test_what_an_observation_space_becomes(space, stack, spec):
    reader = observation_reader(space, stack)
    assert reader.specs == {"observation": spec}
    batch = np.stack([space.sample() for _ in range(5)])
    read = reader.read_batch(batch, 5)["observation"]
    one_by_one = reader.read_items(list(batch))["observation"]
    np.testing.assert_array_equal(read, one_by_one)
    assert read.flags.c_contiguous
    assert read.flags.writeable
    assert not np.shares_memory(read, batch)
    assert read.dtype == one_by_one.dtype


def test_channels_first_pictures_are_turned():
    picture = np.arange(3 * 64 * 48, dtype=np.uint8).reshape(3, 64, 48)
    read = observation_reader(pixels(3, 64, 48)).read_items([picture])["observation"]
    np.testing.assert_array_equal(read[0, 0], np.moveaxis(picture, 0, -1))


def test_categories_count_from_zero():
    read = observation_reader(spaces.Discrete(6, start=2)).read_items([2, np.int64(7)])["observation"]
    np.testing.assert_array_equal(read, [0, 5])
    with pytest.raises(EnvironmentFailedError, match=r"observation must be in \[2, 7\]"):
        observation_reader(spaces.Discrete(6, start=2)).read_items([8])


def test_observations_must_have_the_keys_of_their_space_and_may_have_more():
    reader = observation_reader(spaces.Dict({name: spaces.Box(-1, 1, (2,)) for name in "ab"}))
    value = np.zeros(2, np.float32)
    assert reader.read_items([{"a": value, "b": value, "x": value}]).keys() == {"a", "b"}
    for keys in ("a", "ax"):
        with pytest.raises(EnvironmentFailedError, match=r"must have keys \['a', 'b'\], got \['a'") as caught:
            reader.read_items([dict.fromkeys(keys, value)])
        assert caught.value.reason == "wrong_shape"


def test_numbers_beyond_float32_are_not_finite():
    reader = observation_reader(spaces.Box(-np.inf, np.inf, (2,), np.float64))
    with pytest.raises(EnvironmentFailedError, match=r"does not fit float32: 1e\+300 at index \[1\] of environment 0"):
        reader.read_items([np.array([0, 1e300])])


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple"),
        (spaces.Dict({"a": spaces.Dict({"b": spaces.Discrete(2)})}), "a has the space Dict"),
        (spaces.Dict({}), "empty"),
        (spaces.MultiDiscrete([2, 3]), "MultiDiscrete"),
        (spaces.Text(5), "Text"),
        (spaces.Box(0, 1, (0,)), "holds no numbers"),
    ],
)
def test_unsupported_observations_are_named(space, words):
    with pytest.raises(UnsupportedSpaceError, match=words):
        observation_reader(space)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (spaces.Box(-np.inf, np.inf, (3,)), r"got \[-inf, inf\] in dimension 0"),
        (spaces.Box(np.zeros(2, np.float32), np.array([1, 3e38], np.float32)), "in dimension 1"),
        (spaces.Box(-1e10, 1e10, (2,)), "in dimension 0"),
        (spaces.Box(0, 5, (2,), np.int64), "supported are Discrete, MultiDiscrete"),
        (spaces.Box(0, 1, (0,)), "supported are Discrete, MultiDiscrete"),
        (spaces.MultiBinary(3), "MultiBinary"),
        (spaces.Tuple([spaces.Discrete(2)]), "Tuple"),
        (spaces.Dict({"a": spaces.Discrete(2)}), "Dict"),
    ],
)
def test_unsupported_actions_are_named(space, words):
    with pytest.raises(UnsupportedSpaceError, match=words):
        action_writer(space)


def test_actions_are_clipped_and_mapped_to_the_bounds():
    writer = action_writer(spaces.Box(np.array([-2, 0], np.float32), np.array([2, 0.1], np.float32)))
    assert isinstance(writer.spec, ContinuousActions)
    actions = writer.write(np.array([[0, 0], [1, 1], [-1, -1], [7, -7]], np.float32))
    np.testing.assert_array_equal(actions, np.array([[0, 0.05], [2, 0.1], [-2, 0], [2, 0]], np.float32))
    assert actions.dtype == np.float32


def test_actions_keep_the_shape_of_their_space():
    space = spaces.Box(-3, 3, (2, 2), np.float64)
    actions = action_writer(space).write(np.full((5, 4), 0.5, np.float32))
    assert actions.shape == (5, 2, 2)
    assert space.contains(actions[0])
    scalar = action_writer(spaces.Box(-3, 3, (), np.float32))
    assert scalar.write(np.zeros((5, 1), np.float32)).shape == (5,)


def test_choices_are_shifted_to_where_they_start():
    np.testing.assert_array_equal(action_writer(spaces.Discrete(3, start=-1)).write(np.array([0, 1, 2])), [-1, 0, 1])
    writer = action_writer(spaces.MultiDiscrete([3, 2], start=[-1, 4]))
    assert writer.spec == MultiDiscreteActions((3, 2))
    np.testing.assert_array_equal(writer.write(np.array([[0, 0], [2, 1]])), [[-1, 4], [1, 5]])


def test_integers_that_float32_cannot_hold_are_refused():
    reader = observation_reader(spaces.Box(0, 2**62, (2,), np.int64))
    fine = reader.read_items([np.array([2**40, 7])])["observation"]
    np.testing.assert_array_equal(fine, [[2.0**40, 7.0]])
    with pytest.raises(EnvironmentFailedError, match="holds the integer 1099511627777, which float32 cannot hold"):
        reader.read_items([np.array([2**40 + 1, 7])])
    with pytest.raises(EnvironmentFailedError, match="holds the integer 1099511627777"):
        reader.read_batch(np.array([[2**40 + 1, 7]]), 1)


def test_reals_in_a_space_of_integers_are_refused():
    reader = observation_reader(spaces.Box(0, 255, (2,), np.uint8))
    reader.read_items([np.array([1, 255], np.int64)])
    with pytest.raises(EnvironmentFailedError, match="must have an integer dtype, as its space says, got float32"):
        reader.read_items([np.array([0.5, 1.0], np.float32)])
