"""What tests of whole runs share: a run's weights, and one run made twice, whole and with a break."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from launch.train import train
from learner.checkpoint import load_newest_checkpoint


def weights(run_dir: Path) -> dict[str, torch.Tensor]:
    """Return every tensor of the newest checkpoint, by group and name."""
    checkpoint, warnings = load_newest_checkpoint(run_dir / "checkpoints")
    assert not warnings
    return {f"{group}/{name}": value for group, part in checkpoint.tensors.items() for name, value in part.items()}


def assert_same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    """Assert that two runs' tensors are the same bit by bit."""
    assert set(one) == set(other)
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0, msg=name)


def train_whole_and_in_parts(
    config: Callable[..., Any], directory: Path, steps: int, steps_before_break: int
) -> tuple[Any, dict[str, torch.Tensor]]:
    """Train twice into `directory`, once with a break, and assert that all tensors are the same bit by bit.

    Args:
        config: returns the config from a run directory and changes to it.
        directory: gets the runs `whole` and `parts`.
        steps: env steps of both.
        steps_before_break: env steps after which the second one is resumed.

    Returns:
        result and tensors of the run without a break.
    """
    keep = {"checkpoint-replay": True}
    whole = train(config(directory / "whole", steps=steps, **keep))
    train(config(directory / "parts", steps=steps_before_break, **keep))
    train(config(directory / "parts", steps=steps, **keep, resume=True))
    one = weights(directory / "whole")
    assert_same(one, weights(directory / "parts"))
    return whole, one
