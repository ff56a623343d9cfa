"""Runs of the first releases: their checkpoints fit the networks that are built for them today.

The files hold what runs of the version of 2026-11-21 saved: the config, the environment's spec, the shapes of the
weights, and the size of the optimiser's second moments.
"""

import dataclasses
import json
from pathlib import Path

import pytest

from laser.specs import environment_spec_from_json
from launch.__main__ import main
from launch.settings.json_form import config_from_json
from launch.train import train

STAND_INS = Path(__file__).parents[2] / "probes" / "stand_ins"
KEPT = ("config", "environment")
"""Entries of a run's record that the files hold."""


@pytest.mark.parametrize("name", ["acer", "dmlab30"])
def test_its_weights_and_its_optimizer_fit(name):
    saved = json.loads((Path(__file__).parent / "old_runs" / f"{name}.json").read_text())
    config, environment = config_from_json(saved["config"]), environment_spec_from_json(saved["environment"])
    networks = config.algorithm.build(environment, config.network).seeded_networks(0)
    assert {key: list(value.shape) for key, value in networks.state_dict().items()} == saved["networks"]
    assert sum(weight.numel() for weight in networks.parameters() if weight.requires_grad) == saved["second"]


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(("name", "steps"), [("acer", 320), ("dmlab30", 300)])
def test_it_resumes(name, steps, tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(STAND_INS)  # for dmlab30
    saved = json.loads((Path(__file__).parent / "old_runs" / f"{name}.json").read_text())
    saved["config"]["learner"]["compile"] = "off"
    config = config_from_json(saved["config"])
    train(dataclasses.replace(config, steps=steps, run_dir=str(tmp_path / "run"), device="cpu"))
    record = tmp_path / "run" / "config.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), **{key: saved[key] for key in KEPT}}))
    words = ["--steps", str(2 * steps), "--device", "cpu", "--json"]
    assert main(["train", "--resume", "--run-dir", str(tmp_path / "run"), *words]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["env_steps"] >= 2 * steps
    assert "the replay starts empty, since it was not saved" in said.err, "it goes on from the checkpoint"
