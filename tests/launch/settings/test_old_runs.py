"""Runs of the first releases: their checkpoints fit the networks that are built for them today.

The files hold what runs of the version of 2026-11-21 saved: the config, the environment's spec, the shapes of the
weights, and the size of the optimiser's second moments. Both runs, resumed by hand on 2026-11-28, trained on.
"""

import json
from pathlib import Path

import pytest

from laser.specs import environment_spec_from_json
from launch.settings.json_form import config_from_json


@pytest.mark.parametrize("name", ["acer", "dmlab30"])
def test_its_weights_and_its_optimizer_fit(name):
    saved = json.loads((Path(__file__).parent / "old_runs" / f"{name}.json").read_text())
    config, environment = config_from_json(saved["config"]), environment_spec_from_json(saved["environment"])
    networks = config.algorithm.build(environment, config.network).seeded_networks(0)
    assert {key: list(value.shape) for key, value in networks.state_dict().items()} == saved["networks"]
    assert sum(weight.numel() for weight in networks.parameters() if weight.requires_grad) == saved["second"]
