"""A run's metrics as arrays."""

import numpy as np
import pytest

import laser
from laser.config import ConfigError
from launch.errors import OutputError
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick


@pytest.fixture
def run(tmp_path):
    with MetricsDb(tmp_path / "metrics.db") as metrics:
        for step, value in ((10, 1.0), (20, 3.0), (30, 2.0)):
            metrics.write(Tick(step / 100, 1e9 + step, step, 4 * step, step // 10), {"charts/mean_return": value})
    return tmp_path


@pytest.mark.parametrize(
    ("axis", "first"),
    [
        ("env_steps", [10, 20, 30]),
        ("frames", [40, 80, 120]),
        ("learner_steps", [1, 2, 3]),
        ("seconds", [0.1, 0.2, 0.3]),
    ],
)
def test_a_metric_is_two_arrays(run, axis, first):
    x, values = laser.read_metric(run, "charts/mean_return", axis=axis)
    np.testing.assert_allclose(x, first)
    np.testing.assert_array_equal(values, [1.0, 3.0, 2.0])


def test_its_names_are_listed_and_a_mistyped_one_is_suggested(run, tmp_path):
    assert laser.metric_names(run) == ["charts/mean_return"]
    with pytest.raises(ConfigError, match="has recorded no 'charts/mean_retrn'; did you mean charts/mean_return"):
        laser.read_metric(run, "charts/mean_retrn")
    with pytest.raises(ConfigError, match=r"laser\.metric_names\(run_dir\) lists them"):
        laser.read_metric(run, "xyz")
    with pytest.raises(OutputError):
        laser.metric_names(tmp_path / "none")
