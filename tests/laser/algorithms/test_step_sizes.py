"""Step sizes over a run against their formulas, and their settings."""

import math

import pytest

from laser.algorithms.dqn import DqnConfig
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.ppo import PpoConfig
from laser.algorithms.step_sizes import read_points, step_size_factor
from laser.config import find_problems
from laser.networks.config import NetworkConfig


@pytest.mark.parametrize(
    ("shape", "progress", "options", "factor"),
    [
        ("constant", 0.7, {}, 1.0),
        ("linear", 0.0, {}, 1.0),
        ("linear", 0.25, {}, 0.75),
        ("linear", 1.0, {}, 0.0),
        ("linear", 1.5, {}, 0.0),
        ("linear", 0.5, {"final": 0.2}, 0.6),
        ("linear", 1.0, {"final": 0.2}, 0.2),
        ("cosine", 0.0, {}, 1.0),
        ("cosine", 0.25, {}, 0.5 + 0.25 * math.sqrt(2.0)),
        ("cosine", 0.5, {"final": 0.1}, 0.55),
        ("cosine", 1.0, {"final": 0.1}, 0.1),
        ("constant", 0.0, {"warmup": 0.2}, 0.01),
        ("constant", 0.05, {"warmup": 0.2}, 0.25),
        ("constant", 0.2, {"warmup": 0.2}, 1.0),
        ("linear", 0.2, {"warmup": 0.2}, 1.0),
        ("linear", 0.6, {"warmup": 0.2}, 0.5),
        ("linear", 1.0, {"warmup": 0.2}, 0.0),
        ("piecewise", 0.49, {"points": ((0.5, 0.3), (0.8, 0.1))}, 1.0),
        ("piecewise", 0.5, {"points": ((0.5, 0.3), (0.8, 0.1))}, 0.3),
        ("piecewise", 0.79, {"points": ((0.5, 0.3), (0.8, 0.1))}, 0.3),
        ("piecewise", 0.8, {"points": ((0.5, 0.3), (0.8, 0.1))}, 0.1),
    ],
)
def test_known_numbers(shape, progress, options, factor):
    assert step_size_factor(shape, progress, **options) == pytest.approx(factor, abs=1e-12)


def test_points_are_read_in_order():
    assert read_points("0.5:0.3, 0.8:0.1") == ((0.5, 0.3), (0.8, 0.1))


@pytest.mark.parametrize(
    "text", ["", "0.5", "0.5:", "0.8:0.1,0.5:0.3", "0.5:1,0.5:2", "1:0.5", "-0.1:1", "0.5:-1", "0:inf"]
)
def test_points_that_say_nothing_are_refused(text):
    with pytest.raises(ValueError, match=r"^must be shares of the run with factors, in order, such as 0.5:0.3"):
        read_points(text)


def test_a_piecewise_step_size_without_points_is_a_mistake():
    config = ImpalaConfig(learning_rate_schedule="piecewise")
    (problem,) = find_problems(config, "algorithm.")
    assert str(problem).startswith("algorithm.learning-rate-points: must be shares of the run")
    assert not list(find_problems(ImpalaConfig(learning_rate_schedule="piecewise", learning_rate_points="0.5:0.1")))


def test_settings_of_other_shapes_have_no_effect():
    for kind in (ImpalaConfig, DqnConfig, PpoConfig):
        config = kind(learning_rate_final=0.1, learning_rate_points="0.5:0.1")
        assert unused(config) == ["algorithm.learning-rate-final", "algorithm.learning-rate-points"]
        assert unused(kind(learning_rate_schedule="cosine", learning_rate_final=0.1)) == []
        assert unused(kind(learning_rate_schedule="piecewise", learning_rate_points="0.5:0.1")) == []


def unused(config):
    keys = [problem.key for problem in config.warnings(NetworkConfig(separate_critic=True), "fifo")]
    return [key for key in keys if key.startswith("algorithm.learning-rate")]
