"""A loss and its gradient compiled as one program, beside the same computed step by step."""

import dataclasses

import pytest
import torch
from random_batches import ACTIONS, make_batch, make_environment
from replayed_steps import steps_batch

from laser.algorithms.acer import AcerConfig
from laser.algorithms.acer_continuous import AcerContinuousConfig
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.racer import RacerConfig
from laser.algorithms.reactor import ReactorConfig
from laser.algorithms.sac import SacConfig
from laser.algorithms.td3 import Td3Config
from laser.networks.config import NetworkConfig
from laser.specs import EnvironmentSpec, FramesSpec
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.train_step import TrainStep

SMALL = NetworkConfig(hidden_sizes=(8, 8))
COMPILED = {
    "impala": (ImpalaConfig(), "discrete"),
    "laser, Gaussian": (LaserConfig(), "continuous"),
    "acer": (AcerConfig(), "discrete"),
    "acer, Gaussian": (AcerContinuousConfig(), "continuous"),
    "reactor": (ReactorConfig(), "discrete"),
    "racer": (RacerConfig(), "continuous"),
    "td3": (Td3Config(), "continuous"),
    "sac": (SacConfig(), "continuous"),
}


@pytest.mark.slow
# torch's own, while it compiles
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated.*:DeprecationWarning")
@pytest.mark.parametrize("name", COMPILED)
@torch._inductor.config.patch(fallback_random=True)  # draws what uncompiled code draws
def test_one_program_gives_the_loss_and_the_gradient_of_step_by_step(name):
    config, actions = COMPILED[name]
    algorithm = config.build(make_environment(ACTIONS[actions]), SMALL)
    if config.view == "steps":
        batch = steps_batch(ACTIONS[actions], algorithm.columns)
    else:
        batch = make_batch(ACTIONS[actions], num_rows=5)
    torch.testing.assert_close(*uncompiled_and_compiled(algorithm, batch), rtol=1e-4, atol=1e-5)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*script_method.*:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*should not be instantiated.*:DeprecationWarning")
def test_so_do_convolutions_over_stacks_of_frames():
    frames = {"observation": FramesSpec((36, 36), 4, "zeros")}
    environment = EnvironmentSpec("frames", frames, ACTIONS["discrete"], action_repeat=4)
    algorithm = LaserConfig().build(environment, NetworkConfig())
    batch = make_batch(ACTIONS["discrete"], num_rows=5)
    num_rows, num_columns = batch.first.shape
    generator = torch.Generator().manual_seed(3)
    pictures = torch.randint(0, 256, (num_columns, 3 + num_rows, 36, 36), dtype=torch.uint8, generator=generator)
    batch = dataclasses.replace(batch, observations={"observation": pictures})
    torch.testing.assert_close(*uncompiled_and_compiled(algorithm, batch), rtol=1e-3, atol=1e-4)


def uncompiled_and_compiled(algorithm, batch):
    """Returns twice a loss and its gradient."""
    spec = UnrollSpec(batch.shape[0], algorithm.environment, algorithm.behaviour, dict(algorithm.core_state))
    found = []
    for compiled in ("off", "on"):
        torch._dynamo.reset()
        config = LearnerConfig(compile=compiled, precision="float32")
        step = TrainStep(algorithm, algorithm.seeded_networks(0), spec, config, torch.device("cpu"), 0)
        step._compiled = True  # draw from torch's global generator, as compiled code must
        if compiled == "off":  # as each call of the compiled one does
            torch.manual_seed(int(torch.randint(2**62, (), generator=step.generator)))
        output, gradient = step._gradient(batch, step._with_due({}, 2))
        assert output.loss.grad_fn is None
        assert gradient.count_nonzero() > 0.5 * len(gradient)
        found.append((output.loss, gradient))
    torch._dynamo.reset()
    return found
