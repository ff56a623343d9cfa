"""Algorithms of single steps, through whole runs, find both actions of a task that is only learned by bootstrapping."""

from __future__ import annotations

import pytest
from delayed_probe import ENV_ID

import laser

SMALL = {
    "env": ENV_ID,
    "steps": 2_000,
    "quiet": True,
    "network.hidden-sizes": (32, 32),
    "algorithm.batch-size": 64,
    "algorithm.discount": 0.9,
    "replay.samples-per-insert": 64.0,
    "replay.min-steps": 256,
}
PRESETS = {
    "racer_pendulum": {},
    "v_racer_pendulum": {},
    "ddpg_pendulum": {},
    "naf_pendulum": {"algorithm.learning-rate": 4e-3},
    "sac_pendulum": {"algorithm.learning-rate": 3e-3},
    "td3_pendulum": {"algorithm.learning-rate": 3e-3, "algorithm.exploration-std": 0.4},
}


def greedy_return(preset, path, **changes):
    laser.train(laser.load_preset(preset, {**SMALL, **PRESETS[preset], "run-dir": path, **changes}))
    return laser.evaluate(path, episodes=20, greedy=True, quiet=True).mean_return


@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=[] if name == "racer_pendulum" else pytest.mark.slow) for name in PRESETS]
)
def test_both_actions_are_found(preset, tmp_path):
    assert greedy_return(preset, tmp_path / "run") > 0.8  # of at most 1


@pytest.mark.slow
def test_without_bootstrapping_the_first_is_not(tmp_path):
    """The probe can tell: who does not look ahead earns what the second action alone brings."""
    assert greedy_return("racer_pendulum", tmp_path / "run", **{"algorithm.discount": 0.0}) < 0.78
