import dataclasses
import math
from typing import ClassVar

import pytest

from laser.algorithms import find_algorithms
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.refer import ReferConfig
from laser.config import field_infos, find_problems
from laser.networks.config import NetworkConfig
from laser.specs import ContinuousActions, DiscreteActions, EnvironmentSpec, VectorSpec


def test_algorithms_are_found_by_name():
    found = find_algorithms()
    assert found["impala"] is ImpalaConfig
    assert found["laser"] is LaserConfig
    assert list(found) == sorted(found)


@pytest.mark.parametrize("name", find_algorithms())
def test_defaults_are_without_problems_and_every_field_has_help(name):
    config = find_algorithms()[name]
    assert not list(find_problems(config()))
    assert all(info.help for info in field_infos(config).values())


@pytest.mark.parametrize("name", find_algorithms())
def test_far_steps_are_counted_exactly_where_a_column_has_a_bound(name):
    for config in variants(find_algorithms()[name]()):
        algorithm = build(config)
        assert config.counts_far_policy == any(column.far_bound > 0.0 for column in algorithm.columns)


def variants(config):
    """Return a config, and the same with ReF-ER the other way where it has that."""
    if not hasattr(config, "refer"):
        return [config]
    other = dataclasses.replace(config.refer, enabled=not config.refer.enabled)
    return [config, dataclasses.replace(config, refer=other)]


def build(config):
    for actions in (DiscreteActions(3), ContinuousActions((-1.0, -1.0), (1.0, 1.0))):
        try:
            return config.build(EnvironmentSpec("x", {"x": VectorSpec((2,))}, actions), NetworkConfig())
        except ValueError:
            continue
    raise AssertionError(config)


def test_a_second_class_with_the_same_name_is_refused(monkeypatch):
    @dataclasses.dataclass(frozen=True)
    class Imitation(ImpalaConfig):
        name: ClassVar[str] = "laser"

    assert find_algorithms()["laser"] is LaserConfig  # outside the package it does not count
    monkeypatch.setattr(Imitation, "__module__", "laser.algorithms.imitation")
    with pytest.raises(ValueError, match="algorithm names must be unique"):
        find_algorithms()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"c_clip": 2.0}, "c-clip: must be at most rho-clip (1), got 2; lower it"),
        (
            {"refer": ReferConfig(), "replay_fraction": 0.0},
            "refer.enabled: has nothing to remember or forget: nothing is replayed, and the policy would stay at its "
            "start; raise replay-fraction, or use false",
        ),
        ({"entropy_cost": -0.1}, "entropy-cost: must be at least 0, got -0.1"),
        ({"trust_region_threshold": float("nan")}, "trust-region-threshold: must be a finite number, got nan"),
        ({"num_kl_samples": 8}, "num-kl-samples: must be at least 64, got 8"),
        ({"reduction": "mean"}, "reduction: must be one of sum, mean_per_column, got 'mean'"),
    ],
)
def test_mistakes_are_one_line_each(changes, message):
    assert [str(problem) for problem in find_problems(LaserConfig(**changes))] == [message]


def test_infinite_clips_are_allowed_and_those_of_zero_are_not():
    names = ("rho_clip", "c_clip", "pg_rho_clip")
    assert list(find_problems(ImpalaConfig(**dict.fromkeys(names, math.inf)))) == []
    assert [problem.key for problem in find_problems(ImpalaConfig(**dict.fromkeys(names, 0.0)))] == [
        "rho-clip",
        "c-clip",
        "pg-rho-clip",
    ]


def test_an_infinite_threshold_is_allowed():
    assert not list(find_problems(LaserConfig(trust_region_threshold=float("inf"))))


@pytest.mark.parametrize(("fraction", "num_replayed"), [(0.0, 0), (0.3, 3), (0.34, 3), (0.36, 4), (1.0, 10)])
def test_a_batch_is_fresh_and_replayed_unrolls_together(fraction, num_replayed):
    config = ImpalaConfig(batch_size=10, replay_fraction=fraction)
    assert (config.num_online, config.num_replayed) == (10 - num_replayed, num_replayed)
    assert config.num_drawn == num_replayed


def test_items_are_unrolls_of_the_runs_length_or_single_steps():
    lengths = {name: config().rows_per_item(20) for name, config in find_algorithms().items()}
    assert {name for name, length in lengths.items() if length == 1} == {
        name for name, config in find_algorithms().items() if config.view == "steps"
    }
    assert (lengths["impala"], lengths["td3"]) == (20, 1)
    assert set(lengths.values()) == {1, 20}
