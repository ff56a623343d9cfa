import json
import pickle

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from laser.environments.arrays import FrameStack, UnsupportedSpaceError
from laser.environments.base import EnvironmentFailedError
from laser.environments.pictures import PictureRule
from laser.environments.spaces import action_writer, observation_reader
from laser.specs import (
    CategorySpec,
    ContinuousActions,
    EnvironmentSpec,
    FramesSpec,
    MultiDiscreteActions,
    VectorSpec,
    environment_spec_from_json,
)

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
        (pixels(7, 7, 3), None, FramesSpec((7, 7, 3))),
        (pixels(4, 7, 3), None, VectorSpec((4, 7, 3))),
        (pixels(8, 8), None, FramesSpec((8, 8))),
        (pixels(2, 7, 9), None, FramesSpec((7, 9, 2))),
        (spaces.Box(0, 1, (10, 10, 6), bool), None, FramesSpec((10, 10, 6), high=1)),
        (spaces.Box(0, 1, (4, 10, 9), bool), None, FramesSpec((10, 9, 4), high=1)),
        (spaces.Box(0.0, 1.0, (10, 10, 6)), None, VectorSpec((10, 10, 6), layout="channels_last")),
        (spaces.Box(0, 9, (6, 10, 10), np.int32), None, VectorSpec((6, 10, 10), layout="channels_first")),
        (spaces.Box(0.0, 1.0, (10, 10)), None, VectorSpec((10, 10))),
        (spaces.Box(0.0, 1.0, (4, 10, 4)), None, VectorSpec((4, 10, 4))),
        (spaces.Box(0, 1, (7, 7, 3), np.uint8), None, FramesSpec((7, 7, 3), high=1)),
        (spaces.Discrete(6, start=2), None, CategorySpec(6)),
        (spaces.MultiDiscrete([4, 4, 4]), None, CategorySpec(4, (3,))),
        (spaces.MultiDiscrete([[4], [4]], start=[[2], [2]]), None, CategorySpec(4, (2, 1))),
        (spaces.MultiDiscrete([4, 2]), None, CategorySpec(6, (2,), counts=(4, 2))),
        (
            spaces.MultiDiscrete([[4, 2], [3, 3]], start=[[1, 0], [0, -5]]),
            None,
            CategorySpec(12, (2, 2), 0, (4, 2, 3, 3)),
        ),
        (spaces.MultiBinary(5), None, VectorSpec((5,))),
        (spaces.MultiBinary([2, 3]), None, VectorSpec((2, 3))),
        (spaces.MultiBinary([4, 9]), None, VectorSpec((4, 9))),
        (spaces.MultiBinary([8, 8]), None, FramesSpec((8, 8), high=1)),
        (spaces.MultiBinary([10, 10, 4]), None, FramesSpec((10, 10, 4), high=1)),
        (spaces.MultiBinary([4, 8, 8]), None, FramesSpec((8, 8, 4), high=1)),
        (spaces.MultiBinary([2, 8, 8, 4]), None, FramesSpec((8, 8, 8), high=1)),
        (spaces.Discrete(1024), None, CategorySpec(1024)),
        (spaces.Discrete(5000, start=-3), None, CategorySpec(5000, (1,))),
        (pixels(84, 84), None, FramesSpec((84, 84))),
        (pixels(210, 160, 3), None, FramesSpec((210, 160, 3))),
        (pixels(84, 84, 1), None, FramesSpec((84, 84, 1))),
        (pixels(3, 64, 48), None, FramesSpec((64, 48, 3))),
        (pixels(4, 84, 84), STACK, FramesSpec((84, 84), 4, "repeat")),
        (pixels(4, 96, 72, 3), STACK, FramesSpec((96, 72, 3), 4, "repeat")),
        (pixels(4, 96, 72, 3), None, FramesSpec((96, 72, 12))),
        (pixels(4, 3, 96, 72), STACK, FramesSpec((96, 72, 12))),
        (spaces.Box(0, 1, (4, 3, 7, 9), bool), None, FramesSpec((7, 9, 12), high=1)),
        (spaces.Box(0.0, 1.0, (4, 7, 9, 3)), STACK, VectorSpec((4, 7, 9, 3), layout="channels_last")),
        (pixels(5, 4, 96, 72, 3), FrameStack(5, "zeros"), VectorSpec((5, 4, 96, 72, 3))),
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


@pytest.mark.parametrize("shape", [(2, 7, 9, 3), (2, 3, 7, 9)])
def test_the_channels_of_several_pictures_stand_behind_each_other(shape):
    given = np.random.default_rng(0).integers(256, size=(5, *shape), dtype=np.uint8)
    reader = observation_reader(pixels(*shape))
    (stored,) = reader.read_batch(given, 5).values()
    for picture in range(2):
        for colour in range(3):
            one = given[:, picture, colour] if shape[1] == 3 else given[:, picture, ..., colour]
            np.testing.assert_array_equal(stored[:, 0, ..., 3 * picture + colour], one)
    (spec,) = reader.specs.values()
    assert spec.given_shape == shape
    np.testing.assert_array_equal(spec.as_given(stored), given)
    saved = EnvironmentSpec("X-v0", reader.specs, action_writer(spaces.Discrete(2)).spec).to_json()
    (again,) = environment_spec_from_json(json.loads(json.dumps(saved))).observations.values()
    assert again.given_shape == shape


def test_categories_count_from_zero():
    read = observation_reader(spaces.Discrete(6, start=2)).read_items([2, np.int64(7)])["observation"]
    np.testing.assert_array_equal(read, [0, 5])
    with pytest.raises(EnvironmentFailedError, match=r"observation must be in \[2, 7\]"):
        observation_reader(spaces.Discrete(6, start=2)).read_items([8])


def test_choices_of_different_sizes_have_parts_of_one_range():
    reader = observation_reader(spaces.MultiDiscrete([[4, 2]], start=[[1, -1]]))
    read = reader.read_items([[[1, -1]], [[4, 0]]])["observation"]
    np.testing.assert_array_equal(read, [[[0, 4]], [[3, 5]]])
    for wrong in ([[0, 0]], [[5, 0]], [[1, 1]]):
        with pytest.raises(EnvironmentFailedError, match=r"observation must be in \[\[1, -1\], \[4, 0\]\]"):
            reader.read_items([wrong])


def test_a_text_is_one_hot_over_its_alphabet():
    reader = observation_reader(spaces.Text(3, min_length=0, charset="cab"))
    assert reader.specs == {"observation": VectorSpec((3, 3), "abc")}
    read = reader.read_batch(("ba", ""), 2)["observation"]
    np.testing.assert_array_equal(read, [[[0, 1, 0], [1, 0, 0], [0, 0, 0]], np.zeros((3, 3))])
    np.testing.assert_array_equal(reader.read_items(["ba", ""])["observation"], read)
    for wrong, words in (
        ("abca", "at most 3 letters, got 'abca'"),
        ("ad", "letters among 'abc'"),
        (3, "must be a text"),
    ):
        with pytest.raises(EnvironmentFailedError, match=words):
            reader.check(wrong)


NESTED = spaces.Dict(
    {
        "robot": spaces.Dict(
            {
                "arms": spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(3)]),
                "name": spaces.Text(4, charset="ab"),
            }
        ),
        "flags": spaces.MultiBinary(2),
    }
)


def test_arrays_of_nested_observations_are_named_by_their_path():
    reader = observation_reader(NESTED)
    assert reader.specs == {
        "flags": VectorSpec((2,)),
        "robot/arms/0": VectorSpec((2,)),
        "robot/arms/1": CategorySpec(3),
        "robot/name": VectorSpec((4, 2), "ab"),
    }
    NESTED.seed(3)
    items = [NESTED.sample() for _ in range(4)]
    read = reader.read_items(items)
    for index, item in enumerate(items):
        np.testing.assert_array_equal(read["flags"][index], item["flags"])
        np.testing.assert_array_equal(read["robot/arms/0"][index], item["robot"]["arms"][0])
        assert read["robot/arms/1"][index] == item["robot"]["arms"][1]
        assert read["robot/name"][index].sum() == len(item["robot"]["name"])
    batched = gymnasium.vector.utils.concatenate(NESTED, items, gymnasium.vector.utils.create_empty_array(NESTED, 4))
    for name, value in reader.read_batch(batched, 4).items():
        np.testing.assert_array_equal(value, read[name])
    with pytest.raises(EnvironmentFailedError, match=r"must have keys \['flags', .*, got \['flags', 'robot/arms/0'\]"):
        reader.check({"flags": [0, 1], "robot": {"arms": (np.zeros(2),)}})


def test_arrays_of_a_tuple_are_numbered():
    reader = observation_reader(spaces.Tuple([spaces.Discrete(2), spaces.Box(-1, 1, (3,))]))
    read = reader.read_items([(1, np.full(3, 0.5))])
    np.testing.assert_array_equal(read["0"], [1])
    np.testing.assert_array_equal(read["1"], [[0.5] * 3])
    with pytest.raises(EnvironmentFailedError, match=r"must have keys \['0', '1'\], got ndarray"):
        reader.check(np.zeros(2))


def test_specs_survive_their_json_form():
    space = spaces.Tuple([NESTED, spaces.MultiDiscrete([4, 2], start=[3, 7]), spaces.Discrete(5000)])
    spec = EnvironmentSpec("X-v0", observation_reader(space).specs, action_writer(spaces.Discrete(2)).spec)
    again = environment_spec_from_json(json.loads(json.dumps(spec.to_json())))
    assert again.observations == spec.observations
    assert again.observations["1"].starts == (3, 7)


@pytest.mark.parametrize(
    ("space", "holds"),
    [
        (spaces.MultiBinary(3), "bits"),
        (spaces.Box(0, 1, (3,), bool), "bits"),
        (spaces.Box(0, 9, (3,), np.int32), "integers"),
        (spaces.Box(0, 9, (3,)), "numbers"),
    ],
)
def test_a_saved_spec_says_what_its_numbers_may_be(space, holds):
    spec = EnvironmentSpec("X-v0", observation_reader(space).specs, action_writer(spaces.Discrete(2)).spec)
    again = environment_spec_from_json(json.loads(json.dumps(spec.to_json())))
    assert again.observations["observation"].holds == holds
    assert again.observations["observation"] == VectorSpec((3,))  # as older runs have it


def test_records_of_earlier_versions_have_neither_alphabet_nor_counts():
    spec = EnvironmentSpec(
        "X-v0", {"a": VectorSpec((2,)), "b": CategorySpec(3)}, action_writer(spaces.Discrete(2)).spec
    )
    saved = spec.to_json()
    del (
        saved["observations"]["a"]["alphabet"],
        saved["observations"]["b"]["counts"],
        saved["observations"]["b"]["starts"],
    )
    assert environment_spec_from_json(saved) == spec


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
        (spaces.Sequence(spaces.Discrete(2)), "observation has the space Sequence.*, which is no array; supported are"),
        (spaces.Graph(spaces.Box(0, 1, (2,)), None), "Graph"),
        (spaces.OneOf([spaces.Discrete(2)]), "OneOf"),
        (spaces.Dict({"a": spaces.Tuple([spaces.Sequence(spaces.Discrete(2))])}), "a/0 has the space Sequence"),
        (spaces.Dict({}), "observation has the space Dict.*, which is empty; leave it out"),
        (spaces.Dict({"a": spaces.Tuple([])}), "a has the space Tuple.*, which is empty"),
        (spaces.Dict({"a/b": spaces.Tuple([spaces.Discrete(2)])}), "the key 'a/b' .* holds a slash"),
        (
            spaces.Dict({"a/b": spaces.Discrete(2), "a": spaces.Dict({"b": spaces.Discrete(2)})}),
            "two arrays of the observation are called a/b",
        ),
        (spaces.Discrete(10**9), "has 1,000,000,000 values, and at most 10,000,000 can be embedded"),
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


def test_pictures_smaller_than_asked_for_are_vectors():
    rule = PictureRule(20)
    assert observation_reader(pixels(19, 84), pictures=rule).specs == {"observation": VectorSpec((19, 84))}
    assert observation_reader(pixels(20, 84), pictures=rule).specs == {"observation": FramesSpec((20, 84))}


@pytest.mark.parametrize(
    ("shape", "layout"),
    [
        ((10, 10, 32), "channels_last"),
        ((32, 10, 10), "channels_first"),
        ((8, 10, 10), "channels_first"),
        ((10, 10, 8), "channels_last"),
        ((10, 10, 10), "channels_last"),
        ((6, 20, 30), "channels_first"),
        ((20, 30, 6), "channels_last"),
        ((20, 30, 50), "channels_first"),
        ((8, 8, 111), "channels_last"),
        ((10, 10, 70), "channels_last"),
        ((111, 8, 8), "channels_first"),
        ((100, 200, 200), "channels_first"),
        ((4, 4, 111), ""),
        ((70, 70, 70), ""),
        ((70, 80, 90), ""),
        ((4, 4, 10), ""),
        ((5, 5), "channels_last"),
        ((5, 4), ""),
        ((2, 5, 5, 3), "channels_last"),
        ((4, 3, 84, 84), "channels_first"),
        ((17, 8, 8, 3), ""),
        ((84, 84, 3, 4), ""),
        ((2, 2, 5, 5, 3), ""),
        ((5,), ""),
    ],
)
def test_the_channels_of_a_picture_are_found(shape, layout):
    assert PictureRule().layout(shape, "uint8") == layout
    assert PictureRule().layout(shape, "float32") == ("" if len(shape) == 2 else layout)


def test_a_rule_of_older_runs_counts_channels_before_equal_axes():
    rule = PictureRule(5, "auto")
    for dtype in ("uint8", "bool", "float32"):
        assert rule.layout((8, 8, 111), dtype) == "channels_first"
        assert rule.layout((111, 8, 8), dtype) == "channels_last"
        assert rule.layout((8, 10, 10), dtype) == "channels_first"
        assert rule.layout((70, 100, 100), dtype) == ""
        assert rule.layout((4, 84, 84, 3), dtype) == ""
    vector = VectorSpec((10, 10, 4), layout="channels_last")
    assert observation_reader(spaces.MultiBinary([10, 10, 4]), pictures=rule).specs == {"observation": vector}
    assert observation_reader(spaces.MultiBinary([8, 8]), pictures=rule).specs == {"observation": VectorSpec((8, 8))}


def test_the_rule_of_the_oldest_runs_is_kept():
    rule = PictureRule(5, "bytes")
    assert rule.layout((10, 10, 4), "float32") == ""
    assert rule.layout((8, 10, 10), "uint8") == "channels_last"
    assert rule.layout((10, 10, 32), "uint8") == "channels_first"
    assert rule.layout((10, 10, 32), "bool") == "channels_last"
    binary = spaces.Box(0, 1, (7, 7, 3), np.uint8)
    assert observation_reader(binary, pictures=rule).specs == {"observation": FramesSpec((7, 7, 3), high=255)}


def test_a_picture_of_bools_is_not_one_of_bytes():
    reader = observation_reader(spaces.Box(0, 1, (5, 6, 2), bool))
    assert reader.read_items([np.ones((5, 6, 2), bool)])["observation"].dtype == np.uint8
    with pytest.raises(EnvironmentFailedError, match="observation must have bool, got uint8"):
        reader.read_items([np.ones((5, 6, 2), np.uint8)])


def test_a_picture_of_bits_may_have_any_dtype_and_nothing_but_0_and_1():
    reader = observation_reader(spaces.MultiBinary([5, 6]))
    bits = np.eye(5, 6)
    for dtype in (np.int8, bool, np.uint8, np.int64, np.float32):
        (read,) = reader.read_items([bits.astype(dtype)]).values()
        assert read.dtype == np.uint8
        np.testing.assert_array_equal(read[0, 0], bits)
    for wrong in (2, -1, 0.5):
        with pytest.raises(EnvironmentFailedError, match=f"^observation must hold 0s and 1s, got {wrong}$"):
            reader.read_items([np.full((5, 6), wrong)])


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


@pytest.mark.parametrize("space", [spaces.MultiBinary(2), spaces.Box(0, 1, (2,), bool)])
@pytest.mark.parametrize("wrong", [2, 0.5, np.nan, -1])
def test_bits_are_0_or_1(space, wrong):
    reader = observation_reader(space)
    for fine in (np.array([0, 1], np.int8), np.array([False, True]), np.array([0.0, 1.0])):
        np.testing.assert_array_equal(reader.read_items([fine])["observation"], [[0.0, 1.0]])
    message = f"^observation must hold 0s and 1s, got {wrong}$"
    with pytest.raises(EnvironmentFailedError, match=message):
        reader.check(np.array([1, wrong]))
    with pytest.raises(EnvironmentFailedError, match=message):
        reader.read_batch(np.array([[1, 1], [wrong, 0]]), 2)


@pytest.mark.parametrize("other", [np.int64, np.uint8, bool])
@pytest.mark.parametrize("first", [np.float32, np.float64, np.float16])
def test_a_space_of_reals_gives_integers_or_bools_only_from_its_first_array_on(first, other):
    def reader():
        return pickle.loads(pickle.dumps(observation_reader(spaces.Box(0, 1, (2,), np.float32))))

    reals = reader()
    for dtype in (first, np.float32, np.float64):
        reals.read_items([np.ones(2, dtype)])
    with pytest.raises(EnvironmentFailedError, match="must have a float dtype, as its space says, got "):
        reals.read_items([np.ones(2, other)])
    whole = reader()
    for dtype in (other, first, other):
        whole.read_batch(np.ones((1, 2), dtype), 1)
    with pytest.raises(EnvironmentFailedError, match="must have a float dtype"):
        whole.check(np.ones(2, np.int32 if other is bool else bool))


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ("clip", [[-2.0, 5.0], [0.0, 10.0]]),
        ("none", [[-6.0, 5.0], [0.0, 15.0]]),
        ("tanh", [[2 * np.tanh(-3.0), 5.0], [0.0, 5 + 5 * np.tanh(2.0)]]),
    ],
)
def test_reals_beyond_the_bounds(bounds, expected):
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    writer = action_writer(space, bounds)
    samples = np.array([[-3.0, 0.0], [0.0, 2.0]], np.float32)
    np.testing.assert_allclose(writer.write(samples), expected, rtol=1e-6)
    within = samples if bounds != "clip" else np.clip(samples, -1, 1)
    np.testing.assert_allclose(writer.read(writer.write(samples)), within, atol=1e-4)
    assert np.isfinite(writer.read(space.high[None])).all()
