import dataclasses
import json

from launch.presets import load_preset
from launch.records.preset_changes import changes_from_preset
from launch.records.run_directory import open_run


def test_what_differs_is_named_as_on_the_command_line(tmp_path):
    config = load_preset("cartpole", {"seed": 7, "algorithm.learning-rate": 0.25, "run_dir": str(tmp_path / "run")})
    changes = changes_from_preset(config)
    assert set(changes) == {"seed", "algorithm.learning-rate"}
    assert changes["algorithm.learning-rate"]["run"] == "0.25"
    assert changes["algorithm.learning-rate"]["preset"] != "0.25"
    with open_run(config, ["test"]) as run:
        assert json.loads(run.config_path.read_text())["changes"] == changes


def test_another_algorithm_and_no_preset():
    config = load_preset("cartpole")
    other = dataclasses.replace(config, algorithm=load_preset("ppo").algorithm)
    changes = changes_from_preset(other)
    assert changes["algorithm.trust-region-threshold"]["run"] == ""
    assert changes["algorithm.num-epochs"]["preset"] == ""
    assert changes_from_preset(config) == {}
    assert changes_from_preset(dataclasses.replace(config, preset="", seed=5)) == {}
