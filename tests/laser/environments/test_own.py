"""Environments by class, function and wrapper, with arguments."""

import functools

import numpy as np
import pytest
from own_worlds import World, make_world

from laser.config import ConfigError, find_problems
from laser.environments import EnvironmentConfig, describe_environment, make_environment
from laser.environments.own import id_of, is_only_here
from laser.environments.wrappers import NamedWrapper, parse_wrappers
from laser.specs import FramesSpec, VectorSpec


def size_of(id, **settings):
    return describe_environment(id, EnvironmentConfig(**settings)).observations["observation"].shape[0]


@pytest.mark.parametrize(
    ("id", "size"), [("own_worlds:World", 4), ("own_worlds:make_world", 3), ("own_worlds:Registered", 6)]
)
def test_a_class_a_function_and_a_registered_id_of_a_module(id, size):
    assert size_of(id) == size
    assert size_of(id, kwargs={"size": 9}) == 9


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_arguments_and_wrappers_reach_every_environment(vectorization):
    config = EnvironmentConfig(
        kwargs={"size": 2, "length": 1},
        wrappers="own_worlds:Longer,own_worlds:Longer(number=2,value=-1)",
        vectorization=vectorization,
    )
    environment = make_environment("own_worlds:World", 3, config)
    try:
        first = environment.reset(1)["observation"]
        np.testing.assert_array_equal(first, [[0, 0, 0.5, -1, -1]] * 3)
        environment.send(np.array([0, 1, 0]))
        (part,) = environment.recv()
        assert part.truncated.all()
        np.testing.assert_array_equal(part.rewards, [0, 1, 0])
    finally:
        environment.close()


def test_wrappers_also_go_around_an_environment_that_has_a_vector_form():
    config = EnvironmentConfig(wrappers="own_worlds:Longer", kwargs={"sutton_barto_reward": True})
    environment = make_environment("CartPole-v1", 2, config)
    environment.reset(1)
    environment.send(np.array([0, 1]))
    (part,) = environment.recv()
    environment.close()
    assert environment.spec.observations["observation"] == VectorSpec((5,))
    np.testing.assert_array_equal(part.rewards, [0, 0])


def test_nearly_every_space_reads_the_same_in_turn_and_in_processes():
    seen = []
    for vectorization in ("sync", "async"):
        environment = make_environment("own_worlds:Everything", 2, EnvironmentConfig(vectorization=vectorization))
        parts = [environment.reset(3)]
        for _ in range(7):
            environment.send(np.array([0, 1]))
            parts.append(environment.recv()[0].observations)
        environment.close()
        seen.append(parts)
    for one, other in zip(*seen, strict=True):
        assert one.keys() == other.keys() == environment.spec.observations.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def test_arguments_reach_a_vector_form():
    environment = make_environment("CartPole-v1", 2, EnvironmentConfig(kwargs={"sutton_barto_reward": True}))
    environment.reset(1)
    environment.send(np.array([0, 1]))
    assert environment.recv()[0].rewards.tolist() == [0, 0]
    environment.close()


def test_a_class_is_drawn_in_the_mode_that_it_takes():
    environment = make_environment("own_worlds:Drawn", 1, EnvironmentConfig())
    environment.reset(1)
    assert (environment.render() == 7).all()
    environment.close()
    assert make_environment("own_worlds:World", 1, EnvironmentConfig()).render() is None


def test_wrapped_atari_games_keep_the_protocol_and_say_what_it_costs():
    config = EnvironmentConfig(wrappers="gymnasium.wrappers:ClipReward(-0.5, 0.5)", frame_stack=3, frame_skip=2)
    with pytest.warns(UserWarning, match=r"ALE/Pong-v5: wrappers need single games, so .* is not used") as said:
        described = describe_environment("ALE/Pong-v5", config)
    assert len(said) == 1
    environment = make_environment("ALE/Pong-v5", 2, config)
    assert environment.spec == described
    assert environment.spec.observations["observation"] == FramesSpec((84, 84), 3)
    assert environment.spec.action_repeat == 2
    first = environment.reset(3)["observation"]
    assert first.shape == (2, 3, 84, 84)
    assert first[:, -1].any()
    assert not first[:, 0].any()
    rewards = []
    for _ in range(300):
        environment.send(np.zeros(2, np.int64))
        rewards += environment.recv()[0].rewards.tolist()
    assert min(rewards) == -0.5
    assert environment.render().shape == (84, 84, 3)
    environment.close()


@pytest.mark.parametrize(
    ("id", "settings", "line"),
    [
        ("own_worlds:Nowhere", {}, "env: module 'own_worlds' has no class or function 'Nowhere' and registers"),
        ("own_worlds:make_nothing", {}, "env: own_worlds:make_nothing cannot be built: TypeError"),
        ("own_worlds:World", {"kwargs": {"sise": 9}}, "env: .* unexpected keyword argument 'sise'.*; mend its"),
        (
            "own_worlds:World",
            {"wrappers": "own_worlds:Shorter"},
            "environment.wrappers: .*:Shorter is no wrapper",
        ),
        ("own_worlds:World", {"wrappers": "own_worlds:name_of"}, "environment.wrappers: .* must return an environment"),
        (
            "own_worlds:World",
            {"wrappers": "own_worlds:Longer(x=1)"},
            "environment.wrappers: .*:Longer cannot be",
        ),
        (
            "own_worlds:World",
            {"wrappers": "nowhere_at_all:X"},
            "environment.wrappers: module 'nowhere_at_all'",
        ),
        ("mini/catch", {"wrappers": "own_worlds:Longer"}, "environment.wrappers: .* cannot be wrapped; leave it out"),
    ],
)
def test_mistakes_are_one_line(id, settings, line):
    with pytest.raises(ConfigError, match=f"^{line}") as caught:
        describe_environment(id, EnvironmentConfig(**settings))
    assert "\n" not in str(caught.value)


def test_wrappers_are_read_with_json_values_and_python_literals():
    text = "a.b:C, d:E(1, true, None, name='x,y', more={\"k\": [1, null]}, pair=(1, 2)),f:G()"
    assert parse_wrappers(text) == [
        NamedWrapper("a.b:C", (), {}),
        NamedWrapper("d:E", (1, True, None), {"name": "x,y", "more": {"k": [1, None]}, "pair": (1, 2)}),
        NamedWrapper("f:G", (), {}),
    ]
    assert parse_wrappers("") == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Longer", "must be module:Wrapper or .*, got 'Longer'; for example"),
        ("a:B(1", "must be module:Wrapper or "),
        ("a:B(1 2)", "must be arguments with commas between them"),
        ("a:B(mode=human)", "got human for a:B; put text in quotes"),
    ],
)
def test_texts_that_name_no_wrapper(text, words):
    problems = list(find_problems(EnvironmentConfig(wrappers=text), "environment."))
    assert [problem.key for problem in problems] == ["environment.wrappers"]
    with pytest.raises(ValueError, match=words):
        parse_wrappers(text)


def test_arguments_must_be_values_that_a_record_can_hold():
    (problem,) = find_problems(EnvironmentConfig(kwargs={"size": 3, "f": len}), "environment.")
    assert str(problem).startswith("environment.kwargs.f: must be a number, text, true, a list or a table, got <built")


def test_classes_and_functions_have_ids_and_what_cannot_be_imported_is_kept():
    assert (id_of(World), id_of(make_world)) == ("own_worlds:World", "own_worlds:make_world")
    makers = [lambda size=2: World(size), lambda size=7: World(size), functools.partial(World, size=8)]
    ids = [id_of(make) for make in makers]
    assert len(set(ids)) == 3
    assert all(map(is_only_here, ids))
    assert [id_of(make) for make in makers] == ids
    assert [size_of(id) for id in ids] == [2, 7, 8]
    assert size_of(ids[0], kwargs={"size": 5}) == 5
    with pytest.raises(ConfigError, match="env: nowhere:<lambda>#77 belongs to the process that made it"):
        size_of("nowhere:<lambda>#77")
