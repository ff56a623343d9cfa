"""What a config means on this machine: which device, how many threads, and whether a GPU is idle or cores are busy."""

import dataclasses

import pytest

from laser.config import Problem
from laser.environments import describe_environment
from launch.planning.busy_cores import note_busy_cores
from launch.planning.computing import ChosenDevice, choose_device, learner_threads, placed_device
from launch.planning.member_plan import plan_member
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
    environment = describe_environment(config.env, config.environment)
    assert learner_threads(config, environment, "cpu", population) == expected
    beside_a_gpu = config.learner.torch_threads or 1
    assert learner_threads(config, environment, "cuda", population) == beside_a_gpu


def chosen(preset, changes, device=""):
    config = dataclasses.replace(change(load_preset(preset), changes), **{"device": device} if device else {})
    return choose_device(config, describe_environment(config.env, config.environment))


@pytest.fixture
def a_gpu(monkeypatch):
    monkeypatch.setattr("launch.planning.computing.num_gpus", lambda: 1)
    monkeypatch.setattr("launch.planning.computing.find_lost_gpu", lambda: None)


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize(
    ("preset", "changes", "device", "note"),
    [
        ("pong", {}, "cuda", ""),
        ("mini", {}, "cpu", "device: the CPU is faster for networks this small"),
        ("dqn_mini", {"runtime": "local"}, "cuda", ""),
        ("cartpole", {}, "cpu", "device: the CPU is faster for networks this small"),
        ("cartpole", {"network.hidden_sizes": (64, 512), "runtime": "local"}, "cuda", ""),
        ("sac", {}, "cpu", "device: lockstep computes on the CPU"),
        ("sac", {"runtime": "local"}, "cuda", ""),
        ("pong", {"runtime": "lockstep"}, "cpu", "device: lockstep computes on the CPU"),
        ("pong", {"runtime": "ray"}, "auto", ""),
        ("cartpole", {"runtime": "ray"}, "cpu", "device: the CPU is faster"),
    ],
)
def test_auto_takes_a_gpu_where_it_pays_and_says_why_it_leaves_one_idle(preset, changes, device, note):
    found = chosen(preset, changes)
    assert found.name == device
    assert found.note.startswith(note)
    assert bool(found.note) == bool(note)


@pytest.mark.usefixtures("a_gpu")
@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:1"])
def test_a_device_that_is_asked_for_is_taken(device):
    assert chosen("cartpole", {}, device) == chosen("pong", {}, device) == ChosenDevice(device)


def test_without_a_gpu_there_is_nothing_to_say(monkeypatch):
    monkeypatch.setattr("launch.planning.computing.num_gpus", lambda: 0)
    monkeypatch.setattr("launch.planning.computing.find_lost_gpu", lambda: None)
    for preset, changes in (("pong", {}), ("cartpole", {}), ("sac", {}), ("pong", {"runtime": "ray"})):
        assert chosen(preset, changes) == ChosenDevice("cpu")
    # Of a cluster's GPUs nothing is known here.
    cluster = {"runtime": "ray", "ray_address": "10.0.0.1:6379"}
    assert chosen("pong", cluster) == ChosenDevice("auto")
    assert chosen("cartpole", cluster) == ChosenDevice("cpu")


def test_a_gpu_that_cannot_be_used_is_told_of_where_it_would_pay(monkeypatch):
    old = Problem("device", "the NVIDIA driver is too old", "install a newer driver")
    monkeypatch.setattr("launch.planning.computing.num_gpus", lambda: 0)
    monkeypatch.setattr("launch.planning.computing.find_lost_gpu", lambda: old)
    note = "device: the learner uses the CPU, since the NVIDIA driver is too old; install a newer driver"
    assert chosen("pong", {}) == ChosenDevice("cpu", note)
    assert chosen("cartpole", {}) == ChosenDevice("cpu")


def test_a_process_that_ray_gave_a_gpu_computes_there(monkeypatch):
    for number, device in ((0, "cpu"), (1, "cuda")):
        monkeypatch.setattr("launch.planning.computing.num_gpus", lambda number=number: number)
        assert placed_device("auto") == device
        assert placed_device("cuda:1") == "cuda:1"


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
    member = plan_member(change(load_preset("td3"), {"device": "cpu", **changes}))
    assert note_busy_cores(dataclasses.replace(member, device=ChosenDevice("cuda"))) == ""
    said = note_busy_cores(member)
    assert ("--learner.torch-threads 1" in said) == is_told
    assert ("1.0 of 2 cores" in said) == is_told
