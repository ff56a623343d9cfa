"""What is written as a data set is read back the same, and whatever is wrong with a data set is one line."""

import shutil
import warnings
from contextlib import nullcontext

import h5py
import minari
import numpy as np
import pytest
from gymnasium import spaces

from laser.environments.pictures import PictureRule
from laser.environments.spaces import action_writer
from laser.logs.episodes import LogError, LoggedEpisode
from laser.logs.minari_log import MinariLog, env_of, write_minari
from laser.specs import (
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    FramesSpec,
    MaskSpec,
    MultiDiscreteActions,
    VectorSpec,
)

VECTOR = {"observation": VectorSpec((3,))}
NAME = "minari:tests/some-v0"


@pytest.fixture(autouse=True)
def data_sets(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))
    return tmp_path / "data"


def observation(spec, num, rng):
    match spec:
        case FramesSpec():
            return rng.integers(0, spec.high + 1, (num, spec.stack, *spec.frame_shape)).astype(np.uint8)
        case CategorySpec():
            return rng.integers(0, spec.num_values, (num, *spec.shape)).astype(np.int32)
        case MaskSpec():
            return rng.random((num, *spec.shape)) < 0.7
    return rng.normal(size=(num, *spec.shape)).astype(np.float32)


def action(spec, num, rng):
    match spec:
        case DiscreteActions():
            return rng.integers(0, spec.num_actions, num)
        case MultiDiscreteActions():
            return np.stack([rng.integers(0, each, num) for each in spec.num_actions], axis=1)
    return rng.normal(size=(num, len(spec.low))).astype(np.float32)


def episodes_of(environment, lengths, seed=0, **more):
    rng = np.random.default_rng(seed)
    return [
        LoggedEpisode(
            {name: observation(spec, length + 1, rng) for name, spec in environment.observations.items()},
            action(environment.actions, length, rng),
            rng.normal(size=length).astype(np.float32),
            terminated=bool(length % 2),
            mu={"logits": rng.normal(size=(length, 4)).astype(np.float32)},
            versions=np.arange(length) + 7,
            member=length,
        )
        for length in lengths
    ]


def assert_same(one, other):
    assert one.observations.keys() == other.observations.keys()
    for name, value in one.observations.items():
        np.testing.assert_array_equal(value, other.observations[name])
        assert value.dtype == other.observations[name].dtype
    for name in ("actions", "rewards", "versions"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    np.testing.assert_array_equal(one.mu["logits"], other.mu["logits"])
    assert (one.terminated, one.member) == (other.terminated, other.member)


@pytest.mark.parametrize(
    ("observations", "actions"),
    [
        (VECTOR, DiscreteActions(4)),
        (VECTOR, DiscreteActions(4, start=2)),
        (VECTOR, MultiDiscreteActions((2, 3))),
        (VECTOR, ContinuousActions((-2.0, 0.0), (2.0, 5.0))),
        ({"observation": FramesSpec((10, 10, 4), high=1)}, DiscreteActions(4)),
        ({"observation": FramesSpec((36, 36), stack=4)}, DiscreteActions(4)),
        ({"observation": FramesSpec((40, 40, 3))}, DiscreteActions(4)),
        ({"observation": FramesSpec((20, 30, 10), channels_first=True)}, DiscreteActions(4)),
        ({"observation": FramesSpec((20, 30, 6), joined=2)}, DiscreteActions(4)),
        ({"observation": FramesSpec((20, 30, 6), joined=2, channels_first=True)}, DiscreteActions(4)),
        ({"observation": VectorSpec((12, 10, 4), layout="channels_last")}, DiscreteActions(4)),
        ({"observation": VectorSpec((2, 12, 10, 4), layout="channels_last")}, DiscreteActions(4)),
        ({"far": VectorSpec((2,)), "kind": CategorySpec(5)}, DiscreteActions(4)),
        ({"far": VectorSpec((2,)), "action_mask": MaskSpec((4,))}, DiscreteActions(4)),
    ],
)
def test_what_is_written_is_read(observations, actions):
    environment = EnvironmentSpec("probe", observations, actions)
    episodes = episodes_of(environment, [1, 5, 2, 8])
    assert write_minari(NAME, environment, iter(episodes), "laser") == 4
    log = MinariLog(NAME, environment, pictures=PictureRule(10))
    assert len(log) == 4
    for number, episode in enumerate(episodes):
        assert_same(log.episode(number), episode)


def test_others_see_the_environments_own_actions_and_ends():
    environment = EnvironmentSpec("Pendulum-v1", VECTOR, ContinuousActions((-2.0,), (2.0,)))
    (episode,) = episodes_of(environment, [5])
    write_minari(NAME, environment, [episode], "laser")
    (seen,) = minari.load_dataset("tests/some-v0").iterate_episodes()
    np.testing.assert_allclose(seen.actions, 2 * np.clip(episode.actions, -1, 1), rtol=1e-6)
    assert seen.terminations.tolist() == [False] * 4 + [True]
    assert not seen.truncations.any()
    assert env_of(NAME) == "Pendulum-v1"


def foreign(actions, space, **changes):
    """Write a data set of one episode of three steps as another program would, without anything of LASER's."""
    values = {
        "observations": np.zeros((4, 3), np.float32),
        "actions": actions,
        "rewards": [1.0, 2.0, 3.0],
        "terminations": [False, False, True],
        "truncations": [False] * 3,
        **changes,
    }
    box = spaces.Box(-np.inf, np.inf, (3,), np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        minari.create_dataset_from_buffers(
            "tests/some-v0",
            [minari.data_collector.EpisodeBuffer(**values)],
            observation_space=box,
            action_space=space,
        )
    return EnvironmentSpec("probe", VECTOR, action_writer(space).spec)


def test_actions_of_others_are_read_on_the_scale_of_policies():
    space = spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 10.0], np.float32))
    environment = foreign(np.array([[-2.0, 0.0], [0.0, 5.0], [1.0, 10.0]], np.float32), space)
    episode = MinariLog(NAME, environment).episode(0)
    np.testing.assert_allclose(episode.actions, [[-1, -1], [0, 0], [0.5, 1]], atol=1e-6)
    assert (episode.mu, episode.versions) == ({}, None)
    assert episode.terminated


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ({"terminations": [False] * 3}, "episode 0 has no end in its last step"),
        ({"terminations": [False, True, True]}, "episode 0 has an end in step 1 of 3, before its last one"),
        ({"rewards": [1.0, np.nan, 0.0]}, "rewards that are not finite"),
        ({"observations": np.full((4, 3), np.inf, np.float32)}, "episode 0: observation is not finite"),
    ],
)
def test_a_damaged_episode_is_named(changes, wrong):
    environment = foreign(np.zeros(3, np.int64), spaces.Discrete(4), **changes)
    with pytest.raises(LogError, match=wrong):
        MinariLog(NAME, environment).episode(0)


@pytest.mark.parametrize(
    ("space", "actions", "wrong"),
    [
        (spaces.Discrete(4), np.array([0, 4, 1]), "episode 0 has actions outside of its own space"),
        (spaces.Discrete(4, start=2), np.array([1, 2, 5]), "episode 0 has actions outside of its own space"),
        (spaces.MultiDiscrete([2, 3]), np.array([[0, 0], [1, 2], [2, 0]]), "actions outside of its own space"),
        (spaces.Box(-1.0, 1.0, (1,)), np.array([[0.0], [np.nan], [1.0]], np.float32), "actions that are not finite"),
        (spaces.Discrete(4), np.array([0, 1]), "episode 0 has 2 numbers as actions, not 3"),
        (
            spaces.Box(-1.0, 1.0, (1,)),
            np.zeros((3, 2), np.float32),
            "episode 0 has 3 x 2 numbers as actions, not 3 x 1",
        ),
    ],
)
def test_actions_that_are_none_are_named(data_sets, space, actions, wrong):
    right = np.zeros((3, *space.shape), space.dtype) + getattr(space, "start", 0)
    environment = foreign(right, space)
    (file,) = data_sets.rglob("*.hdf5")
    with h5py.File(file, "r+") as opened:
        del opened["episode_0"]["actions"]
        opened["episode_0"]["actions"] = actions
    with pytest.raises(LogError, match=wrong):
        MinariLog(NAME, environment).episode(0)


def test_a_behaviour_that_is_no_number_is_named_and_one_of_masked_actions_is_read():
    environment = EnvironmentSpec("probe", VECTOR, DiscreteActions(4))
    for name, value, fails in (("minari:tests/masked-v0", -np.inf, False), (NAME, np.nan, True)):
        (episode,) = episodes_of(environment, [3])
        episode.mu["logits"][1, 2] = value
        write_minari(name, environment, [episode], "laser")
        with pytest.raises(LogError, match="its behaviour's logits are not all numbers") if fails else nullcontext():
            MinariLog(name, environment).episode(0)


def test_other_spaces_missing_and_half_written_data_sets_are_refused(data_sets):
    environment = EnvironmentSpec("probe", VECTOR, DiscreteActions(4))
    with pytest.raises(LogError, match=r"there is no data set tests/some-v0 on this machine; .* here are: none"):
        MinariLog(NAME, environment)
    write_minari(NAME, environment, episodes_of(environment, [3]), "laser")
    with pytest.raises(LogError, match=r"has other actions than probe: one of 4, not one of 5$"):
        MinariLog(NAME, EnvironmentSpec("probe", VECTOR, DiscreteActions(5)))
    for names, wrong in (
        ({"observation": VectorSpec((2,))}, "observation is 3 numbers, not 2 numbers"),
        ({"observation": FramesSpec((8, 8, 2), stack=4)}, "3 numbers, not pictures of 8x8x2, 4 in a stack"),
        (
            {"other": CategorySpec(5, (2,))},
            "other is missing, not 2 times one of 5, observation is 3 numbers, not missing",
        ),
        ({**VECTOR, "mask": MaskSpec((4,))}, "mask is missing, not a mask of 4 actions"),
    ):
        with pytest.raises(LogError, match=f"has other observations than probe: .*{wrong}$"):
            MinariLog(NAME, EnvironmentSpec("probe", names, DiscreteActions(4)))
    (file,) = data_sets.rglob("*.hdf5")
    with h5py.File(file, "r+") as opened:
        del opened["episode_0"]["rewards"]
    with pytest.raises(LogError, match="tests/some-v0, episode 0 cannot be read: "):
        MinariLog(NAME, environment).episode(0)
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(LogError, match=r"tests/some-v0, episode 0 cannot be read: |tests/some-v0 cannot be read: "):
        MinariLog(NAME, environment).episode(0)


def test_a_format_that_nobody_knows_is_named(data_sets):
    environment = EnvironmentSpec("probe", VECTOR, DiscreteActions(4))
    write_minari(NAME, environment, episodes_of(environment, [3]), "laser")
    (metadata,) = data_sets.rglob("some-v0/data/metadata.json")
    metadata.write_text(metadata.read_text().replace('"hdf5"', '"stone"'))
    with pytest.raises(LogError, match="cannot be read: 'stone' is missing in its metadata, or is no format"):
        MinariLog(NAME, environment)


def test_other_data_sets_that_are_damaged_are_not_warned_about(data_sets):
    environment = EnvironmentSpec("probe", VECTOR, DiscreteActions(4))
    write_minari(NAME, environment, episodes_of(environment, [3]), "laser")
    (folder,) = data_sets.rglob("some-v0")
    shutil.copytree(folder, folder.with_name("copied-v0"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(LogError, match="here are: tests/some-v0"):
            MinariLog("minari:tests/none-v0", environment)


def test_names_that_are_taken_or_malformed_are_refused_and_nothing_is_half_written(data_sets):
    environment = EnvironmentSpec("probe", VECTOR, DiscreteActions(4))
    for name in ("some", "a/some-v0", "/some-v0", "tests/-v0"):
        with pytest.raises(LogError, match=f"'{name}' is no name for a data set; write NAMESPACE/NAME-v0"):
            write_minari(f"minari:{name}", environment, episodes_of(environment, [3]), "laser")
    assert not data_sets.exists()
    with pytest.raises(LogError, match="no whole episode"):
        write_minari(NAME, environment, [], "laser")

    def interrupted():
        yield from episodes_of(environment, [1] * 250)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_minari(NAME, environment, interrupted(), "laser")
    assert list(data_sets.rglob("*.hdf5")) == []
    write_minari(NAME, environment, episodes_of(environment, [3]), "laser")
    assert set(minari.list_local_datasets()) == {NAME.removeprefix("minari:")}
    with pytest.raises(LogError, match="there is a data set tests/some-v0 already"):
        write_minari(NAME, environment, episodes_of(environment, [3]), "laser")


def test_a_data_set_whose_export_was_killed_is_nowhere_and_is_written_the_next_time(data_sets):
    environment = EnvironmentSpec("probe", VECTOR, DiscreteActions(4))

    def killed_after_many():
        yield from episodes_of(environment, [1] * 250)
        assert list(data_sets.rglob("*.hdf5")), "nothing was written yet, so nothing is tested"
        shutil.copytree(data_sets, data_sets.with_name("as_it_was"))  # SIGKILL leaves it like this
        yield from episodes_of(environment, [1])

    write_minari(NAME, environment, killed_after_many(), "laser")
    shutil.rmtree(data_sets)
    data_sets.with_name("as_it_was").rename(data_sets)
    assert not minari.list_local_datasets()
    write_minari(NAME, environment, episodes_of(environment, [3]), "laser")
    assert len(MinariLog(NAME, environment)) == 1
    assert not list(data_sets.glob(".*"))
