import json

from launch.dashboard.sweeps import Decision, read_decisions, read_schedule
from launch.records.lineage import Decision as Written
from launch.records.lineage import Lineage, ancestry


def test_what_a_population_writes_is_read_and_a_half_written_line_is_left_out(tmp_path) -> None:
    path = tmp_path / "lineage.jsonl"
    Lineage(path).add(Written(100, 20, 1, 0, {0: 5.0, 1: 2.0}, {"algorithm.learning-rate": 0.1}))
    with path.open("a") as file:
        file.write('{"env_steps": 200, "mem')
    assert read_decisions(path) == [Decision(100, 1, 0, {0: 5.0, 1: 2.0}, {"algorithm.learning-rate": 0.1})]
    assert read_decisions(tmp_path / "missing") == []


def test_ancestors_are_traced_back_through_every_copy() -> None:
    decisions = [Decision(100, 1, 0), Decision(150, 2, None), Decision(200, 2, 1), Decision(300, 1, 0)]
    assert ancestry(2, decisions, 400) == [(200, 400, 2), (100, 200, 1), (0, 100, 0)]
    assert ancestry(0, decisions, 400) == [(0, 400, 0)]


def test_schedules_are_read_whatever_they_hold(tmp_path) -> None:
    path = tmp_path / "schedule.json"
    assert read_schedule(path) == []
    path.write_text(json.dumps([{"env_steps": 0, "settings": {"a": 1}}, {"env_steps": 9, "settings": {"a": 2}}]))
    assert read_schedule(path) == [(0, {"a": 1.0}), (9, {"a": 2.0})]
    for text in ("{", '{"a": 1}', "[3]", '[{"env_steps": 0, "settings": {"a": []}}]'):
        path.write_text(text)
        assert read_schedule(path) == []
