import dataclasses

import pytest

from laser.algorithms.laser import LaserConfig
from laser.specs import DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec
from launch.planning import memory
from launch.planning.member_plan import plan_member
from launch.planning.memory import MemoryEstimate, available_memory, estimate_memory, find_memory_problems
from launch.settings.train_config import TrainConfig
from launch.words import size

GB = 2**30


PIXELS, VECTOR = FramesSpec((84, 84), 4), VectorSpec((4,))


def estimate_one(config, observation, num_weights=1_000_000, num_shards=1):
    environment = EnvironmentSpec("CartPole-v1", {"observation": observation}, DiscreteActions(6))
    return estimate_memory([plan_member(config, environment)], [num_weights], GB, num_shards)


@pytest.fixture
def config():
    return TrainConfig(env="CartPole-v1", device="cpu", steps=1, algorithm=LaserConfig(batch_size=32), num_envs=32)


def test_pixels_need_more_than_vectors_and_every_size_counts(config):
    base = estimate_one(config, PIXELS)
    assert base.replay == GB
    assert base.total == base.replay + base.actors + base.learner
    assert estimate_one(config, VECTOR).total < base.total
    assert estimate_one(config, PIXELS, 100_000_000).learner > base.learner + 2e9
    more_actors = dataclasses.replace(config, num_actors=4)
    assert estimate_one(more_actors, PIXELS).actors == 4 * base.actors
    processes = dataclasses.replace(config, runtime="ray")
    assert estimate_one(processes, PIXELS).actors > base.actors + 300e6
    # Every shard has a process there.
    one, three = (estimate_one(processes, PIXELS, num_shards=number) for number in (1, 3))
    assert three.shard_processes == 3 * one.shard_processes > 0 == base.shard_processes
    assert three.total - one.total == 2 * one.shard_processes
    # A checkpoint keeps what is stored, and not the processes.
    assert one.replay == three.replay == GB
    # An evaluator, the parameter store, Ray itself, and copies of the learner in the main process.
    evaluated = dataclasses.replace(processes, evaluation=dataclasses.replace(processes.evaluation, interval=1000))
    assert estimate_one(evaluated, PIXELS).others >= one.others + 300e6
    assert one.others > 500e6 > base.others == 0
    weights = [estimate_one(processes, PIXELS, number).others for number in (0, 10_000_000, 10_000_000_000)]
    assert weights[1] - weights[0] == 2 * 4 * 4 * 10_000_000
    assert weights[2] - weights[0] == 2 * GB
    assert one.total == one.replay + one.shard_processes + one.actors + one.learner + one.others
    assert "other processes" in str(one)
    assert "other processes" not in str(base)
    larger = dataclasses.replace(config, algorithm=LaserConfig(batch_size=64))
    assert estimate_one(larger, PIXELS).learner > base.learner


@pytest.mark.parametrize(
    ("estimate", "key"),
    [
        (MemoryEstimate(10 * GB, GB, GB), "replay.capacity-steps"),
        (MemoryEstimate(GB, 10 * GB, GB), "num-actors"),
        (MemoryEstimate(GB, GB, 10 * GB), "algorithm.batch-size"),
    ],
)
def test_what_cannot_fit_is_refused_with_the_largest_part(estimate, key):
    (problem,) = find_memory_problems(estimate, 8 * GB)
    assert problem.key == key
    assert "the run needs 12.0 GB (replay" in problem.wrong
    assert "only 7.2 GB" in problem.wrong
    assert problem.remedy.startswith("lower it")
    assert list(find_memory_problems(estimate, 14 * GB)) == []


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({}, (None, 0)),
        ({"memory.max": "max\n", "memory.current": "5\n"}, (None, 0)),
        ({"memory.max": "1000\n", "memory.current": "400\n"}, (1000, 400)),
        ({"memory/memory.limit_in_bytes": "1000", "memory/memory.usage_in_bytes": "400"}, (1000, 400)),
        ({"memory/memory.limit_in_bytes": str(2**63 - 4096), "memory/memory.usage_in_bytes": "400"}, (None, 0)),
    ],
)
def test_containers_limits_are_read(tmp_path, files, expected):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory._control_group(tmp_path) == expected


def test_the_container_limit_counts(monkeypatch):
    assert available_memory() > 0
    monkeypatch.setattr(memory, "_control_group", lambda: (1000, 400))
    assert available_memory() == 600
    monkeypatch.setattr(memory, "_control_group", lambda: (1000, 1400))
    assert available_memory() == 0


def test_sizes_are_said_as_a_person_would():
    assert [size(850 * 2**20), size(int(1.25 * GB)), size(0)] == ["850 MB", "1.2 GB", "0 MB"]
