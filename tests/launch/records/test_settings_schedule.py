import dataclasses
import json

import pytest

from laser.config import ConfigError
from launch.presets import load_preset
from launch.records.settings_schedule import (
    SettingsChange,
    SettingsSchedule,
    find_schedule_problems,
    read_changes,
    write_changes,
)

CHANGES = [
    SettingsChange(0, {"algorithm.learning-rate": 1e-3}),
    SettingsChange(100, {"algorithm.learning-rate": 2e-3, "algorithm.entropy-cost": 0.1}),
    SettingsChange(300, {"algorithm.entropy-cost": 0.2}),
]


def test_each_change_is_handed_out_once_and_the_later_one_counts():
    schedule = SettingsSchedule(CHANGES)
    assert schedule.due(50) == {"learning_rate": 1e-3}
    assert schedule.due(99) == {}
    assert schedule.due(500) == {"learning_rate": 2e-3, "entropy_cost": 0.2}
    assert schedule.due(900) == {}
    assert SettingsSchedule.read(None).due(10**9) == {}


def test_a_file_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "schedule.json"
    write_changes(path, CHANGES)
    assert read_changes(path) == CHANGES
    config = dataclasses.replace(load_preset("cartpole"), settings_schedule=path)
    assert find_schedule_problems(config) == []
    assert find_schedule_problems(load_preset("cartpole")) == []


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[", "not JSON"),
        ("3", "entry 0"),
        ('[{"env_steps": 0}]', "entry 0"),
        ('[{"env_steps": 0, "settings": {"a": "x"}}]', "entry 0"),
        ('[{"env_steps": 9, "settings": {}}, {"env_steps": 5, "settings": {}}]', "before the entry above it"),
        (None, "cannot be read"),
    ],
)
def test_bad_files(tmp_path, content, says):
    path = tmp_path / "schedule.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match=says):
        read_changes(path)


def test_settings_that_cannot_change_and_values_out_of_range_are_named_all_at_once(tmp_path):
    path = tmp_path / "schedule.json"
    settings = {"algorithm.rho-clip": 1.0, "replay.min-steps": 5, "algorithm.learning-rate": -1.0}
    path.write_text(json.dumps([{"env_steps": 0, "settings": settings}]))
    problems = find_schedule_problems(dataclasses.replace(load_preset("cartpole"), settings_schedule=path))
    assert [problem.key for problem in problems] == ["settings-schedule"] * 3
    assert "algorithm.rho-clip cannot change" in problems[0].wrong
    assert "must be above 0" in problems[2].wrong
