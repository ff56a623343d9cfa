"""GPU memory of a plan: said beforehand, added up over members, and refused where it is not free."""

import dataclasses

import pytest

from laser.config import ConfigError
from launch.planning import gpu_memory
from launch.planning.gpu_memory import GpuEstimate
from launch.planning.plan import make_plan
from launch.presets import load_preset
from launch.words import size

GB = 2**30
RESIDUAL = {
    "network.torso": "impala_resnet",
    "network.width": 4,
    "algorithm.batch_size": 160,
    "unroll_length": 20,
    "num_envs": 2,
    "replay.capacity_steps": 40_000,
}


@pytest.fixture
def gpu(monkeypatch):
    """A machine with two GPUs; what is returned says how much of them is free."""
    free = {"cuda:0": 79 * GB, "cuda:1": 79 * GB}
    monkeypatch.setattr("launch.planning.computing.num_gpus", lambda: 2)
    monkeypatch.setattr("launch.planning.computing.find_lost_gpu", lambda: None)
    monkeypatch.setattr("launch.gpus.num_gpus", lambda: 2)
    monkeypatch.setattr("launch.gpus.find_old_gpu", lambda index, key: None)
    monkeypatch.setattr("launch.planning.memory.available_memory", lambda: 100 * GB)
    monkeypatch.setattr("launch.planning.plan.available_memory", lambda: 100 * GB)
    monkeypatch.setattr(gpu_memory, "has_bfloat16", lambda device: True)
    monkeypatch.setattr(gpu_memory, "free_bytes", free.__getitem__)
    return free


def members(*changes, preset="pong"):
    return [load_preset(preset, {"seed": number, **values}) for number, values in enumerate(changes)]


def test_it_is_said_beside_the_machines_memory(gpu, tmp_path):
    plan = make_plan(members(RESIDUAL))
    (needed,) = plan.gpus.of_each.values()
    assert 12 * GB < needed < 15 * GB
    assert plan.needs_in(tmp_path) == f"about {plan.memory}, and about {needed / GB:.1f} GB on the GPU"
    assert plan.where == " on cuda"
    # The activations are there, and not here.
    on_the_cpu = dataclasses.replace(members(RESIDUAL)[0], device="cpu")
    assert make_plan([on_the_cpu]).memory.learner > 2 * plan.memory.learner


def test_on_the_cpu_nothing_is_said_of_a_gpu(gpu, tmp_path):
    for changes in ({"device": "cpu"}, {"runtime": "lockstep"}):
        plan = make_plan(members(changes))
        assert plan.where == " on the CPU"
        assert "GPU" not in plan.needs_in(tmp_path)


def test_members_on_one_gpu_add_up_and_share_its_context(gpu):
    one, two = (make_plan(members(*[{}] * number)).gpus.of_each["cuda:0"] for number in (1, 2))
    assert two - one == one - gpu_memory.CONTEXT_BYTES
    configs = [dataclasses.replace(config, device=f"cuda:{index}") for index, config in enumerate(members({}, {}))]
    plan = make_plan(configs)
    assert plan.gpus.of_each == {"cuda:0": one, "cuda:1": one}
    assert str(plan.gpus) == f", and about {size(one)} on cuda:0, and about {size(one)} on cuda:1"
    assert plan.where == " on cuda:0 and cuda:1"


@pytest.mark.parametrize(
    ("changes", "key", "remedy"),
    [
        ([RESIDUAL], "algorithm.batch-size", "lower it, unroll-length or network.width"),
        ([RESIDUAL, RESIDUAL], "grid", "use fewer members"),
    ],
)
def test_more_than_is_free_is_refused_before_the_start(gpu, changes, key, remedy):
    gpu["cuda:0"] = 11 * GB
    with pytest.raises(ConfigError) as caught:
        make_plan(members(*changes))
    (problem,) = caught.value.problems
    assert problem.key == key
    assert problem.wrong.startswith("about ")
    assert problem.wrong.endswith("GB are needed on the GPU (cuda:0), where 11.5 GB are free")
    assert problem.remedy.startswith(remedy)
    gpu["cuda:0"] = 30 * GB
    make_plan(members(*changes))


def test_what_cannot_be_estimated_is_neither_refused_nor_left_unsaid(gpu, monkeypatch):
    gpu["cuda:0"] = 0
    monkeypatch.setattr(gpu_memory, "learner_bytes", lambda *arguments, **options: None)
    plan = make_plan(members({}))
    assert str(plan.gpus) == ", and an amount on the GPU that cannot be estimated for this network"


def test_on_ray_a_learner_has_a_gpu_of_its_own_as_far_as_is_known(gpu, monkeypatch):
    monkeypatch.setattr(gpu_memory, "free_bytes", None)  # looking would take memory in the wrong process
    plan = make_plan(members({"runtime": "ray"}, {"runtime": "ray"}))
    assert plan.where == ""
    assert plan.needs.device == "auto"
    alone = make_plan(members({"runtime": "ray"}))
    assert str(plan.gpus) == str(alone.gpus) == f", and about {size(alone.gpus.of_each['cuda:0'])} on the GPU"
    small = make_plan(members({"runtime": "ray"}, preset="cartpole"))
    assert small.needs.device == "cpu"
    assert small.gpus == GpuEstimate()
