import dataclasses

import pytest

from launch.presets import load_preset
from launch.records.run_directory import open_run
from launch.records.run_names import run_name, slug


@pytest.mark.parametrize(
    "env", ["../../etc/passwd", "/etc/x", "..", "a\0b", "<img src=x>", "ALE/Pong-v5", "x" * 500, "\n"]
)
def test_no_name_leaves_the_directory(tmp_path, config, env):
    hostile = dataclasses.replace(config, env=env, preset="../p" if env == ".." else "p")
    name = run_name(hostile, now=0)
    assert "/" not in slug(env)
    assert "/" not in slug(name)
    assert len(slug(name)) <= 60
    with open_run(dataclasses.replace(hostile, preset=slug(hostile.preset)), [], tmp_path) as run:
        assert run.path.resolve().parent == tmp_path.resolve()


def test_names_tell_runs_apart():
    plain = load_preset("cartpole")
    assert run_name(plain, now=0).startswith("cartpole-seed0-")
    one = load_preset("cartpole", {"algorithm.learning_rate": 0.0025, "steps": 1000, "seed": 3})
    assert run_name(one, now=0).startswith("cartpole-learning-rate-0.0025-seed3-")
    many = {"unroll_length": 7, "num_envs": 3, "num_actors": 2, "algorithm.discount": 0.5}
    assert "-and-2-more-seed0-" in run_name(load_preset("cartpole", many), now=0)
    named = dataclasses.replace(one, name="My baseline/../x")
    assert run_name(named, now=0).startswith("my-baseline-x-seed3-")
