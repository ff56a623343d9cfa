"""The choice of an updater by config and device."""

from __future__ import annotations

import torch
from torch import nn

from laser.algorithms.base import Algorithm
from laser.compilation import can_compile, has_bfloat16
from laser.specs import has_pictures
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.updating.batch_loss import BatchLoss
from learner.updating.compiled import CompiledUpdater
from learner.updating.eager import EagerUpdater
from learner.updating.graphed import GraphedUpdater
from learner.updating.several_passes import SeveralPasses
from learner.updating.train_state import TrainState
from learner.updating.updater import Updater


def make_updater(
    algorithm: Algorithm, networks: nn.Module, spec: UnrollSpec, config: LearnerConfig, device: torch.device, seed: int
) -> Updater:
    """Return the updater that the config and the device call for.

    Args:
        algorithm: defines the loss.
        networks: trained in place; moved to `device`.
        spec: layout of the unrolls a batch was made of.
        config: compile, CUDA graphs, precision.
        device: of networks and updates.
        seed: of the loss's random numbers.
    """
    on_gpu = device.type == "cuda"
    wants_bfloat16 = config.precision == "bfloat16" or (config.precision == "auto" and bool(spec.frames))
    precision = "bfloat16" if wants_bfloat16 and has_bfloat16(device) else "float32"
    gains = on_gpu or has_pictures(spec.environment.observations)
    compiles = config.compile == "on" or (config.compile == "auto" and gains and can_compile(device))
    graphed = config.cuda_graphs == "on" or (config.cuda_graphs == "auto" and on_gpu)
    kind: type[EagerUpdater | CompiledUpdater] = EagerUpdater
    if compiles:
        kind = GraphedUpdater if graphed else CompiledUpdater
    state = TrainState(algorithm, networks, device, seed)
    loss = BatchLoss(algorithm, spec, device, precision)
    if algorithm.config.passes == (1, 1):
        return kind(state, loss.of_collated, precision)
    return SeveralPasses(kind(state, loss.of_prepared, precision), loss.prepare, *algorithm.config.passes)
