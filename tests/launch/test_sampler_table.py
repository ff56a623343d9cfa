"""The table in docs/samplers.md is what the code does."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from laser.algorithms import find_algorithms
from laser.networks.config import NetworkConfig
from laser.specs import ContinuousActions, DiscreteActions, EnvironmentSpec, VectorSpec
from launch.planning.replay_rules import find_sampler_problems
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig
from replay_server.samplers import find_samplers

PAGE = Path(__file__).parents[2] / "docs" / "samplers.md"
SAMPLERS = ("uniform", "episodes", "episodes_by_length", "delayed", "per", "rank", "ero", "ners")
ACTIONS = (DiscreteActions(2), ContinuousActions((-1.0,), (1.0,)))


def build(config):
    for actions in ACTIONS:
        try:
            return config.build(EnvironmentSpec("x", {"x": VectorSpec((2,))}, actions), NetworkConfig())
        except ValueError:
            continue
    raise AssertionError(config)


def row_of(name):
    """Return one algorithm's row: `runs`, or what it lacks, or `-` where nothing is replayed."""
    config = find_algorithms()[name]()
    if not config.num_drawn and config.max_policy_lag is None:
        config = dataclasses.replace(config, replay_fraction=0.5)
    algorithm = build(config)
    cells = []
    for sampler in SAMPLERS:
        run = TrainConfig(env="x", steps=1, algorithm=config, replay=ReplayConfig(sampler=sampler))
        problems = [problem.wrong for problem in find_sampler_problems(run, algorithm)]
        if not config.num_drawn:
            cells.append("-")
        elif not problems:
            cells.append("runs")
        elif "does not draw" in problems[0]:
            cells.append("refused: " + ("steps" if sampler == "delayed" else "unrolls"))
        else:
            cells.append("refused: no error")
    return f"| `{name}` | {config.view if config.num_drawn else '-'} | {' | '.join(cells)} |"


def test_the_table_names_every_sampler():
    assert {kind.name for kind in find_samplers()} == set(SAMPLERS)
    assert f"| agent | items | {' | '.join(f'`{sampler}`' for sampler in SAMPLERS)} |" in PAGE.read_text("utf-8")


@pytest.mark.parametrize("name", find_algorithms())
def test_the_page_says_what_the_code_does(name):
    assert row_of(name) in PAGE.read_text("utf-8")
