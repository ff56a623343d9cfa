"""What a learner will take of a GPU: against what autograd keeps of real tensors, and against sums by hand."""

import dataclasses

import pytest
import torch

from laser.specs import VectorSpec
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from learner import gpu_memory
from learner.experience.collate import example_batch
from learner.gpu_memory import _LiveBytes, learner_bytes
from learner.updating.factory import make_updater

RESIDUAL = {"network.torso": "impala_resnet", "algorithm.batch_size": 160, "unroll_length": 20}
GB = 2**30


def parts(preset, changes):
    config = load_preset(preset, changes)
    member = plan_member(config)
    return config, member.algorithm, member.own_unrolls


def estimate(preset, changes, *, compiled=True, bfloat16=True):
    config, algorithm, spec = parts(preset, changes)
    return learner_bytes(algorithm, spec, config.learner, compiled=compiled, bfloat16=bfloat16)


def test_the_residual_net_at_four_times_its_width_wants_what_it_is_known_to_want():
    assert 12 * GB < estimate("pong", {**RESIDUAL, "network.width": 4}) < 15 * GB
    assert 3 * GB < estimate("pong", RESIDUAL) < 5 * GB
    assert estimate("pong", {**RESIDUAL, "network.torso": "atari_cnn"}) < GB
    assert estimate("cartpole", {}, bfloat16=False) < GB / 100


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("pong", {"algorithm.batch_size": 8}),
        ("pong", {"algorithm.batch_size": 4, "network.torso": "impala_resnet"}),
        ("dqn_mini", {"runtime": "local"}),
    ],
)
def test_the_peak_lies_above_what_autograd_keeps_of_real_tensors_and_below_twice_that(preset, changes, monkeypatch):
    """The oracle is an update of real tensors on the CPU, asked through autograd's own hooks."""
    peaks = []
    of_an_update = gpu_memory._update_bytes
    monkeypatch.setattr(
        gpu_memory, "_update_bytes", lambda *arguments: peaks.append(of_an_update(*arguments)) or peaks[-1]
    )
    estimate(preset, changes, compiled=False, bfloat16=False)
    config, algorithm, spec = parts(preset, changes)
    spec = dataclasses.replace(spec, unroll_length=config.algorithm.rows_per_item(spec.unroll_length))
    settings = dataclasses.replace(config.learner, compile="off", precision="float32")
    step = make_updater(algorithm, algorithm.seeded_networks(0), spec, settings, torch.device("cpu"), 0)
    columns = [column.name for column in algorithm.columns]
    batch = example_batch(spec, config.algorithm.batch_size, columns, config.algorithm.view)
    held = {step.state.parameters.vector.untyped_storage()._cdata}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in held:
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        step(batch, 0.0, {})
    saved = sum(storage.nbytes() for storage in kept.values())
    ((peak, weights),) = peaks
    assert weights == sum(item.nbytes for item in (*step.state.networks.parameters(), *step.state.networks.buffers()))
    assert saved < peak < 2 * saved + 4 * weights + 2**20


@pytest.mark.parametrize("preset", ["sac", "td3", "reactor_mini", "racer", "naf", "acer_pendulum", "ppo", "rainbow"])
def test_every_kind_of_loss_is_counted(preset):
    assert estimate(preset, {}, bfloat16=False) > 0


def test_more_rows_wider_numbers_and_uncompiled_updates_take_more(monkeypatch):
    monkeypatch.setattr(gpu_memory, "_CONVOLUTION_BYTES", 0)
    small = estimate("pong", {"network.torso": "impala_resnet"})
    assert estimate("pong", {"network.torso": "impala_resnet", "unroll_length": 40}) > 1.8 * small
    assert estimate("pong", {"network.torso": "impala_resnet", "algorithm.batch_size": 64}) > 1.8 * small
    assert estimate("pong", {"network.torso": "impala_resnet"}, bfloat16=False) > 1.7 * small
    assert estimate("pong", {"network.torso": "impala_resnet"}, compiled=False) > 1.2 * small
    assert estimate("pong", {"network.torso": "impala_resnet", "learner.num_prefetch": 8}) > small


def test_room_for_convolutions_is_added_for_frames_alone(monkeypatch):
    before = estimate("pong", {}), estimate("sac", {}, bfloat16=False)
    monkeypatch.setattr(gpu_memory, "_CONVOLUTION_BYTES", 0)
    after = estimate("pong", {}), estimate("sac", {}, bfloat16=False)
    assert (before[0] - after[0], before[1] - after[1]) == (384 * 2**20, 0)


def test_pictures_that_hold_no_bytes_need_that_room_too(monkeypatch):
    _, algorithm, spec = parts("cartpole", {})
    picture = {"observation": VectorSpec((10, 10, 4), layout="channels_last")}
    environment = dataclasses.replace(spec.environment, observations=picture)
    config, spec = load_preset("cartpole"), dataclasses.replace(spec, environment=environment)
    algorithm = config.algorithm.build(environment, config.network)

    def needed():
        return learner_bytes(algorithm, spec, config.learner, compiled=True, bfloat16=False)

    before = needed()
    monkeypatch.setattr(gpu_memory, "_CONVOLUTION_BYTES", 0)
    assert before - needed() == 384 * 2**20


def test_live_bytes_are_those_of_tensors_that_are_not_forgotten():
    with _LiveBytes(8) as live:
        one = torch.zeros(1000)
        two = one + 1  # 8000 bytes with it
        view = two.view(10, 100)  # no bytes of its own
        del one
        three = torch.zeros(250, dtype=torch.int64)  # 2000, in place of the first 4000
    assert live.peak == 8000
    assert live._live == 6000
    with _LiveBytes(1) as live:
        places = torch.zeros(250, dtype=torch.int64)
    assert live.peak == 250
    assert view.shape == (10, 100)
    assert three.shape == places.shape


def test_a_network_that_looks_at_its_numbers_is_not_counted(monkeypatch):
    config, algorithm, spec = parts("cartpole", {})
    loss = algorithm.loss

    def looking(networks, targets, batch, schedule, generator):
        assert batch.rewards.sum().item() == 0.0
        return loss(networks, targets, batch, schedule, generator)

    monkeypatch.setattr(algorithm, "loss", looking)
    assert learner_bytes(algorithm, spec, config.learner, compiled=True, bfloat16=False) is None
