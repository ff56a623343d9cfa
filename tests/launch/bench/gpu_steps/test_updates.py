"""Updates measured alone."""

import io
import json

import pytest
import torch

from laser.environments import describe_environment
from launch.bench.gpu_steps import updates
from launch.bench.gpu_steps.context import Context
from launch.bench.learner import make_update
from launch.presets import load_preset


@pytest.mark.parametrize("preset", ["sac", "td3"])
def test_the_shapes_that_need_no_mujoco_are_the_presets(preset):
    config = load_preset(preset)
    assert describe_environment(config.env, config.environment) == updates._HOPPER
    assert config.network.hidden_sizes == (256, 256)
    assert config.algorithm.batch_size == 256


def test_an_update_says_its_speed_its_share_of_the_peak_and_its_host_time():
    output = io.StringIO()
    context = Context(output, "cpu", True, 60.0, known={"ceilings: bf16 matrix peak": 0.5})
    updates.sac(context)
    said = {entry["name"]: entry for entry in map(json.loads, output.getvalue().splitlines())}
    flops = make_update(load_preset("sac"), updates._HOPPER).count_flops(torch.device("cpu"))
    updates_per_second = said["eager, updates"]["value"]
    assert said["eager, updates"]["details"]["flops"] == flops > 256 * 256 * 256
    assert said["eager, update"]["value"] == pytest.approx(1e3 / updates_per_second)
    share = said["eager, share of the measured bf16 peak"]
    assert share["value"] == pytest.approx(100 * flops * updates_per_second / 0.5e12)
    assert share["stand_in"]
    assert said["eager, host time"]["value"] > 0
    assert "LeanRL 725" in said["eager, updates"]["beside"]


def test_without_a_measured_peak_there_is_no_share_of_it():
    output = io.StringIO()
    updates.td3(Context(output, "cpu", True, 60.0))
    names = [json.loads(line)["name"] for line in output.getvalue().splitlines()]
    assert "eager, updates" in names
    assert not any("share" in name for name in names)


def test_pictures_are_noise():
    batch = make_update(load_preset("pong")).batch
    noisy = updates._with_random_frames(batch)
    assert noisy.observations["observation"].shape == batch.observations["observation"].shape
    assert noisy.observations["observation"].float().std() > 50
