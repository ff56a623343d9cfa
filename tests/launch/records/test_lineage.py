import json

import pytest

from launch.errors import NothingToResumeError
from launch.records.lineage import Decision, Lineage, schedules
from launch.records.settings_schedule import SettingsChange

RATE = "algorithm.learning-rate"


def decision(env_steps, member, copied, rate):
    return Decision(env_steps, env_steps // 10, member, copied, {0: 1.0, 1: 2.0}, {RATE: rate})


def test_a_winners_schedule_is_its_ancestors():
    decisions = [
        decision(100, 0, None, 2.0),
        decision(105, 1, None, 20.0),
        decision(200, 0, 1, 25.0),  # from here on 0 is what 1 was
        decision(210, 1, None, 30.0),
        decision(300, 0, None, 25.0),  # nothing changed
        decision(400, 1, 0, 50.0),
    ]
    traced = schedules({0: {RATE: 1.0}, 1: {RATE: 10.0}}, decisions)
    steps = {
        member: [(change.env_steps, change.settings[RATE]) for change in changes] for member, changes in traced.items()
    }
    assert steps[0] == [(0, 10.0), (105, 20.0), (200, 25.0)]
    assert steps[1] == [(0, 10.0), (105, 20.0), (200, 25.0), (400, 50.0)]


def test_a_model_that_was_further_ends_where_it_was_copied():
    traced = schedules({0: {RATE: 1.0}, 1: {RATE: 2.0}}, [decision(110, 1, None, 3.0), decision(100, 0, 1, 4.0)])
    assert traced[0] == [
        SettingsChange(0, {RATE: 2.0}),
        SettingsChange(100, {RATE: 3.0}),
        SettingsChange(100, {RATE: 4.0}),
    ]


def test_it_is_read_back_and_cut_where_a_resumed_population_begins(tmp_path):
    path = tmp_path / "lineage.jsonl"
    lineage = Lineage(path)
    for item in (decision(100, 0, None, 2.0), decision(100, 1, 0, 3.0), decision(200, 0, 1, 4.0)):
        lineage.add(item)
    again = Lineage(path)
    assert again.decisions == lineage.decisions
    again.forget_after({0: 150, 1: 150})
    assert again.decisions == Lineage(path).decisions == lineage.decisions[:2]
    assert [json.loads(line)["member"] for line in path.read_text().splitlines()] == [0, 1]
    with path.open("a") as file:
        file.write('{"env_steps": 300, "epis')  # killed while it wrote
    half = Lineage(path)
    assert half.decisions == again.decisions
    half.add(decision(400, 0, None, 5.0))
    assert [item.env_steps for item in Lineage(path).decisions] == [100, 100, 400]
    path.write_text("{}\n")
    with pytest.raises(NothingToResumeError, match="lineage"):
        Lineage(path)
