"""Updates compiled as one program, beside the same computed step by step."""

import dataclasses

import pytest
import torch
from every_loss import LOSSES, batch_for, make_algorithm
from random_batches import ACTIONS, make_batch

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from laser.specs import EnvironmentSpec, FramesSpec
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.updating.factory import make_updater


@pytest.mark.slow
# torch's own, while it compiles
@pytest.mark.parametrize("name", LOSSES)
def test_one_program_updates_as_step_by_step(name):
    algorithm = make_algorithm(*LOSSES[name])
    compare(algorithm, batch_for(algorithm), "compiled", rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", LOSSES)
def test_a_warm_up_compiles_all_that_training_needs(name, monkeypatch):
    """Later other threads run networks, and on a GPU seconds would pass."""
    num_compiled = []
    monkeypatch.setattr("torch._inductor.compile", lambda graph, *_, **__: num_compiled.append(1) or graph)
    algorithm = make_algorithm(*LOSSES[name])
    batch = batch_for(algorithm)
    step = make_step(algorithm, batch, "cpu", compile="on")
    step = step.warm_up(batch, {})
    beforehand = len(num_compiled)
    assert beforehand
    for _ in range(6):
        step(batch, 1e-3, {})
    assert len(num_compiled) == beforehand


# Groups that are not always due, draws, slow targets, and several passes.
@pytest.mark.slow
@pytest.mark.parametrize("name", ["td3", "sac", "ppo", "impala, ReF-ER"])
def test_so_does_what_a_gpu_would_replay_as_a_graph(name):
    algorithm = make_algorithm(*LOSSES[name])
    compare(algorithm, batch_for(algorithm), "graphed", rtol=1e-4, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "how"), [*((name, "graphed") for name in LOSSES), ("sac", "compiled"), ("ppo", "compiled")]
)
def test_so_it_is_on_a_gpu(name, how):
    algorithm = make_algorithm(*LOSSES[name])
    compare(algorithm, batch_for(algorithm), how, "cuda", rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_so_do_convolutions_over_stacks_of_frames():
    compare(*pictures(), "compiled", rtol=1e-3, atol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("how", ["compiled", "graphed"])
def test_so_do_they_on_a_gpu(how):
    compare(*pictures(), how, "cuda", rtol=1e-2, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("settings", [{"compile": "off"}, {"compile": "on"}])
def test_losses_in_bfloat16_are_near_those_in_float32(settings):
    algorithm, batch = pictures()
    losses = []
    for device, precision in (("cpu", "float32"), ("cuda", "float32"), ("cuda", "bfloat16")):
        step = make_step(algorithm, batch, device, precision=precision, **settings)
        step = step.warm_up(batch, {})
        moved = step.to_device(batch)
        losses.append(torch.stack([step(moved, 1e-5, {})[1].loss.cpu() for _ in range(5)]))
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(losses[2], losses[0], rtol=5e-2, atol=1e-2)
    assert not torch.equal(losses[2], losses[1])


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["sac", "rainbow"])
def test_noise_of_a_compiled_loss_follows_from_its_seed(name):
    algorithm = make_algorithm(*LOSSES[name])
    batch = batch_for(algorithm)
    ends = []
    for seed in (0, 0, 1):
        step = make_step(algorithm, batch, "cuda", seed=seed, compile="on")
        step = step.warm_up(batch, {})
        moved = step.to_device(batch)
        torch.cuda.manual_seed(len(ends))  # the GPU's own generator is anybody's
        for _ in range(5):
            step(moved, 1e-3, {})
        ends.append(step.state.parameters.vector.cpu())
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-4, atol=1e-6)
    assert (ends[0] - ends[2]).abs().max() > 10 * (ends[0] - ends[1]).abs().max()


def pictures():
    """Return an algorithm over stacks of frames, and a batch for it."""
    frames = {"observation": FramesSpec((36, 36), 4, "zeros")}
    environment = EnvironmentSpec("frames", frames, ACTIONS["discrete"], action_repeat=4)
    algorithm = LaserConfig().build(environment, NetworkConfig())
    batch = make_batch(ACTIONS["discrete"], num_rows=5)
    num_rows, num_columns = batch.first.shape
    generator = torch.Generator().manual_seed(3)
    seen = torch.randint(0, 256, (num_columns, 3 + num_rows, 36, 36), dtype=torch.uint8, generator=generator)
    return algorithm, dataclasses.replace(batch, observations={"observation": seen})


def make_step(algorithm, batch, device, seed=0, **settings):
    spec = UnrollSpec(batch.shape[0], algorithm.environment, algorithm.behaviour, dict(algorithm.core_state))
    config = LearnerConfig(**{"precision": "float32", **settings})
    return make_updater(algorithm, algorithm.seeded_networks(0), spec, config, torch.device(device), seed)


HOW = {"compiled": {"compile": "on", "cuda_graphs": "off"}, "graphed": {"compile": "on", "cuda_graphs": "on"}}


def compare(algorithm, batch, how, device="cpu", **tolerances):
    """Some updates, of which one is refused, compiled and not; all that they say and change is the same."""
    spoilt = "importance_weights" if algorithm.config.view == "steps" else "rewards"
    refused = dataclasses.replace(batch, **{spoilt: getattr(batch, spoilt) * torch.nan})
    steps, said = [], []
    for settings in ({"compile": "off"}, HOW[how]):
        step = make_step(algorithm, batch, device, **settings)
        step = step.warm_up(batch, {})
        steps.append(step)
        batches = [step.to_device(each) for each in (batch, refused, batch, batch)]
        for metrics, output in step.in_turn(batches, [1e-3, 1e-3, 5e-4, 1e-3], {}):
            said.append((output.loss, metrics, output.column_writes, output.final_writes, output.per_step))
        applied = [metrics["updates_applied"].item() for _, metrics, *_ in said[-4:]]
        assert applied == [1.0, 0.0, 1.0, 1.0]
    one, other = steps
    torch.testing.assert_close(said[:4], said[4:], equal_nan=True, **tolerances)
    # A gradient that cancels, as that of a bias which a mean takes away, is rounding, and the optimizer scales it up.
    second = one.state.optimizer.state_dict()["second"]
    counts = second > 1e-12 * second.max()
    assert counts.float().mean() > 0.5

    def same(ours, theirs):
        torch.testing.assert_close(ours.trainable[counts], theirs.trainable[counts], **tolerances)
        torch.testing.assert_close(ours.buffers, theirs.buffers, **tolerances)

    same(one.state.parameters, other.state.parameters)
    for name, target in one.state.targets.items():
        same(target.parameters, other.state.targets[name].parameters)
    torch.testing.assert_close(one.state.optimizer.state_dict(), other.state.optimizer.state_dict(), **tolerances)
    fresh = make_step(algorithm, batch, device, compile="off")
    assert (one.state.parameters.vector != fresh.state.parameters.vector).float().mean() > 0.5
