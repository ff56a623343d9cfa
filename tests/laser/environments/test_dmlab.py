import pathlib
import sys

import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment, make_environment
from laser.environments.dmlab import ACTIONS, DmLab, LevelCache, find_level, hash_words
from laser.environments.named_sets import DMLAB30, DMLAB_LEVELS
from laser.environments.processes import ProcessEnvironments
from laser.environments.sync import SyncEnvironments
from laser.scoring import scores
from laser.specs import CategorySpec, DiscreteActions, FramesSpec

STAND_IN = pathlib.Path(__file__).parents[2] / "probes" / "stand_ins"


@pytest.fixture
def engine(monkeypatch):
    """The stand-in module, imported anew."""
    monkeypatch.delitem(sys.modules, "deepmind_lab", raising=False)
    monkeypatch.syspath_prepend(STAND_IN)
    import deepmind_lab

    return deepmind_lab


def test_the_thirty_levels_are_those_of_the_reference_scores():
    assert set(DMLAB_LEVELS) == set(scores.DMLAB30)
    assert len(DMLAB30) == 30


@pytest.mark.parametrize(
    ("id", "test_levels", "path", "held_out"),
    [
        ("dmlab/rooms_watermaze", False, "rooms_watermaze", False),
        ("dmlab/rooms_watermaze", True, "rooms_watermaze", True),
        ("dmlab/rooms_collect_good_objects", False, "rooms_collect_good_objects_train", False),
        ("dmlab/rooms_collect_good_objects", True, "rooms_collect_good_objects_test", True),
        ("dmlab/rooms_exploit_deferred_effects_test", False, "rooms_exploit_deferred_effects_test", True),
        ("dmlab/rooms_exploit_deferred_effects_train", False, "rooms_exploit_deferred_effects_train", False),
    ],
)
def test_levels_by_id(id, test_levels, path, held_out):
    assert find_level(id, test_levels) == (f"contributed/dmlab30/{path}", held_out)


@pytest.mark.parametrize("id", ["dmlab/rooms_watermase", "dmlab/rooms_watermaze_test"])
def test_unknown_levels_name_the_nearest(id):
    with pytest.raises(ConfigError, match="did you mean dmlab/rooms_watermaze"):
        describe_environment(id, EnvironmentConfig())


def test_where_the_engine_is_missing_the_error_says_how_to_build_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)
    with pytest.raises(
        ConfigError, match=r"needs deepmind_lab.*; on Linux .*: pip install dmlab-gym && dmlab-gym"
    ) as e:
        describe_environment("dmlab/rooms_watermaze", EnvironmentConfig())
    assert "\n" not in str(e.value)


@pytest.mark.parametrize(("action_set", "size"), [("impala", 9), ("r2d2", 15)])
def test_the_spec(engine, action_set, size):
    spec = describe_environment("dmlab/rooms_watermaze", EnvironmentConfig(action_set=action_set))
    assert spec.observations == {"frame": FramesSpec((72, 96, 3)), "instruction": CategorySpec(1001, (16,))}
    assert spec.actions == DiscreteActions(size)
    assert spec.action_repeat == 4
    assert len(set(ACTIONS[action_set])) == size
    assert not engine.started, "describing must not start the engine"


@pytest.mark.parametrize(("vectorization", "kind"), [("auto", ProcessEnvironments), ("sync", SyncEnvironments)])
def test_levels_run_in_processes_unless_told_otherwise(engine, vectorization, kind):
    environment = make_environment("dmlab/rooms_watermaze", 2, EnvironmentConfig(vectorization=vectorization))
    assert type(environment) is kind
    first = environment.reset(3)
    assert first["frame"].shape == (2, 1, 72, 96, 3)
    environment.send(np.array([0, 1]))
    (part,) = environment.recv()
    np.testing.assert_array_equal(part.rewards, [4, -4])  # forward and back, four frames each
    environment.close()


def test_an_episode_ends_with_its_last_observation_and_the_next_has_another_seed(engine):
    environment = DmLab("contributed/dmlab30/rooms_watermaze", False, EnvironmentConfig())
    observation, _ = environment.reset(seed=5)
    seeds = {int(observation["frame"].max(axis=(1, 2))[0])}
    num_steps = 0
    terminated = False
    while not terminated:
        before = observation
        observation, reward, terminated, truncated, _ = environment.step(0)
        num_steps += 1
        assert not truncated
        assert reward <= 4
    assert 10 <= num_steps <= 18
    np.testing.assert_array_equal(observation["frame"], before["frame"])
    observation, _ = environment.reset()
    seeds.add(int(observation["frame"].max(axis=(1, 2))[0]))
    assert len(seeds) == 2
    again, _ = environment.reset(seed=5)
    assert int(again["frame"].max(axis=(1, 2))[0]) in seeds
    environment.close()
    environment.close()


def test_the_engine_is_told_what_the_flags_say(engine, tmp_path):
    config = EnvironmentConfig(renderer="hardware", level_data=tmp_path, level_cache=tmp_path / "cache")
    DmLab("contributed/dmlab30/rooms_watermaze", False, config).reset(seed=0)
    DmLab("contributed/dmlab30/rooms_watermaze", True, EnvironmentConfig()).reset(seed=0)
    (level, settings, renderer), (_, held_out, _) = engine.started
    assert level == "contributed/dmlab30/rooms_watermaze"
    assert (settings["width"], settings["height"], renderer) == ("96", "72", "hardware")
    assert settings["datasetPath"] == str(tmp_path)
    assert "allowHoldOutLevels" not in settings
    assert (held_out["allowHoldOutLevels"], held_out["mixerSeed"]) == ("true", str(0x600D5EED))


def test_levels_are_compiled_once(engine, tmp_path):
    config = EnvironmentConfig(level_cache=tmp_path / "cache")
    environment = DmLab("contributed/dmlab30/rooms_watermaze", False, config)
    environment.reset(seed=0)
    for _ in range(20):
        environment.reset()
    assert len(list((tmp_path / "cache").iterdir())) == 3  # the stand-in draws from three maps


def test_the_cache_keeps_what_it_was_given_first(tmp_path):
    cache = LevelCache(tmp_path / "cache")
    source, place = tmp_path / "a", tmp_path / "b"
    assert not cache.fetch("a key / with .. odd letters", str(place))
    source.write_text("map")
    cache.write("a key / with .. odd letters", str(source))
    source.write_text("another")
    cache.write("a key / with .. odd letters", str(source))
    assert cache.fetch("a key / with .. odd letters", str(place))
    assert place.read_text() == "map"
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_instructions_become_buckets_of_words(engine):
    environment = DmLab("contributed/dmlab30/language_execute_random_task", False, EnvironmentConfig())
    words = environment.reset(seed=0)[0]["instruction"]
    np.testing.assert_array_equal(words, hash_words("pick up the red hat"))
    assert ((words > 0) == (np.arange(16) < 5)).all()
    assert len(set(words[:5])) == 5
    assert not hash_words("").any()
    # The same in every process and for ever: experience and weights depend on it.
    assert hash_words("pick up the red hat")[:5].tolist() == [924, 841, 79, 456, 538]
    assert hash_words(b"Red")[0] == hash_words("red")[0]
    many = hash_words(" ".join(map(str, range(5000))))
    assert many.shape == (16,)
    buckets = np.array([hash_words(str(word))[0] for word in range(5000)])
    assert (buckets.min(), buckets.max()) == (1, 1000)
