"""What a config means on this machine: how many threads, and whether a GPU is left idle or cores are busy."""

import pytest

from laser.environments import describe_environment
from launch.computing import learner_threads, note_busy_cores, note_idle_gpu
from launch.presets import change, load_preset


@pytest.mark.parametrize(
    ("preset", "changes", "population", "expected"),
    [
        ("td3", {}, 1, 2),
        ("td3", {}, 2, 2),
        ("td3", {"runtime": "local"}, 1, 2),
        ("td3", {"runtime": "local"}, 2, 1),
        ("td3", {"network.hidden_sizes": (64, 64)}, 1, 1),
        ("halfcheetah", {"network.hidden_sizes": (256,)}, 1, 1),
        ("pong", {}, 1, 4),
        ("pong", {}, 3, 1),
        ("pong", {"runtime": "lockstep"}, 1, 1),
        ("cartpole", {"runtime": "lockstep", "learner.torch_threads": 3}, 1, 3),
    ],
)
def test_learners_share_the_cores_with_their_actors(monkeypatch, preset, changes, population, expected):
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    config = change(load_preset(preset), changes)
    assert learner_threads(config, describe_environment(config.env, config.environment), population) == expected


@pytest.mark.parametrize(
    ("preset", "changes", "is_idle"),
    [
        ("sac", {}, True),
        ("sac", {"runtime": "local"}, False),
        ("sac", {"device": "cpu"}, False),
        ("cartpole", {}, False),
        ("pong", {"runtime": "lockstep"}, True),
    ],
)
def test_a_gpu_that_lockstep_leaves_idle_is_told_of(monkeypatch, preset, changes, is_idle):
    config = change(load_preset(preset), changes)
    environment = describe_environment(config.env, config.environment)
    assert note_idle_gpu(config, environment) == ""
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert ("--runtime local" in note_idle_gpu(config, environment)) == is_idle


@pytest.mark.parametrize(
    ("changes", "percent", "is_told"),
    [
        ({}, 50.0, True),
        ({}, 20.0, False),
        ({"learner.torch_threads": 2}, 100.0, False),
        ({"network.hidden_sizes": (64, 64)}, 100.0, False),
        ({"runtime": "ray"}, 100.0, False),
    ],
)
def test_cores_that_are_busy_are_told_of_where_the_learner_wants_them(monkeypatch, changes, percent, is_told):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("psutil.cpu_percent", lambda interval: percent)
    config = change(load_preset("td3"), {"device": "cpu", **changes})
    environment = describe_environment(config.env, config.environment)
    said = note_busy_cores(config, environment)
    assert ("--learner.torch-threads 1" in said) == is_told
    assert ("1.0 of 2 cores" in said) == is_told
