"""Ways in which an update runs."""

import warnings

import pytest

from launch.bench.gpu_steps.modes import MODES, as_asked, settings_of
from learner.config import LearnerConfig


def test_each_mode_is_other_settings_of_the_learner():
    configs = [LearnerConfig(**settings_of(mode)) for mode in MODES]
    assert [(config.compile, config.cuda_graphs) for config in configs] == [("off", "off"), ("on", "off"), ("on", "on")]


@pytest.mark.parametrize(
    "warning",
    [
        "the loss cannot be compiled and runs uncompiled: no compiler",
        "compiled code cannot be recorded as a CUDA graph and runs without, slower: busy",
    ],
)
def test_falling_back_is_an_error(warning):
    with pytest.raises(RuntimeError, match="cannot be"), as_asked():
        warnings.warn(warning, RuntimeWarning, stacklevel=1)


def test_other_warnings_are_not():
    with pytest.warns(RuntimeWarning, match="slow"), as_asked():
        warnings.warn("slow", RuntimeWarning, stacklevel=1)
