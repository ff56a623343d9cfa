import dataclasses
import json
from pathlib import Path

import pytest

from launch.errors import NothingToResumeError
from launch.records import run_record
from launch.records.run_directory import open_run
from launch.records.run_record import newest_run, read_record


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "config.json is missing"),
        ("{", "cannot be read"),
        ("[]", "not a run's record"),
        ('{"schema_version": 99, "config": {}}', "newer LASER"),
        ('{"schema_version": "1", "config": {}}', "schema_version must be a whole number"),
        ('{"config": {}}', "config.json.config.env must be a text, got None"),
        ('{"config": {"env": "CartPole-v1"}}', "is missing"),
    ],
)
def test_nothing_to_resume(tmp_path, config, content, says):
    path = tmp_path / "run"
    path.mkdir()
    if content is not None:
        (path / "config.json").write_text(content)
    resume = dataclasses.replace(config, run_dir=path, resume=True)
    with pytest.raises(NothingToResumeError, match=says), open_run(resume, []):
        pass


SWEEP = {"grid": {}, "options": {}, "pbt": {}}


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"changes": ["steps"]}, "changes must be an object, got ['steps']"),
        ({"changes": {"steps": "5"}}, "changes.steps must be an object, got '5'"),
        ({"changes": {"steps": {"run": "5"}}}, "changes.steps.preset must be a text, got None"),
        ({"history": 3}, "history must be a list, got 3"),
        ({"history": ["abc"]}, "history[0] must be an object, got 'abc'"),
        ({"history": [{"time": "now"}]}, "history[0].command must be a text, got None"),
        ({"versions": 3}, "versions must be an object, got 3"),
        ({"command": 3}, "command must be a text, got 3"),
        ({"created": 3}, "created must be a text, got 3"),
        ({"commit": 3}, "commit must be null, got 3"),
        ({"sweep": 3}, "sweep must be an object, got 3"),
        ({"sweep": {}}, "sweep.grid must be an object, got None"),
        ({"sweep": SWEEP | {"options": 3}}, "sweep.options must be an object, got 3"),
        ({"sweep": SWEEP | {"grid": {"seed": "0,1"}}}, "sweep.grid.seed must be a list, got '0,1'"),
        ({"sweep": SWEEP | {"space": [1]}}, "sweep.space must be an object, got [1]"),
        ({"member": 3}, "member must be an object, got 3"),
        ({"member": {"index": 0}}, "member.overrides must be an object, got None"),
        ({"member": {"index": 0, "overrides": 3}}, "member.overrides must be an object, got 3"),
        ({"member": {"index": "0", "overrides": {}}}, "member.index must be a whole number, got '0'"),
        ({"config": {"preset": "cartpole"}}, "config.env must be a text, got None"),
    ],
)
def test_a_record_of_another_form_is_named(make_run, facts, says):
    run = make_run("run", facts=facts)
    with pytest.raises(NothingToResumeError) as error:
        read_record(run)
    assert f"{run}/config.json cannot be read: config.json.{says}; choose another run" in str(error.value)


def test_a_path_that_cannot_be_looked_at_holds_no_run():
    with pytest.raises(NothingToResumeError, match=r"cannot be read: .*File name too long"):
        read_record(Path("a" * 300))


def test_the_newest_run_of_a_preset_is_found(tmp_path, config):
    with pytest.raises(NothingToResumeError, match="no run of preset cartpole on CartPole-v1"):
        newest_run("cartpole", "CartPole-v1", tmp_path)
    for name, created, env in (("a", "2026-02", "CartPole-v1"), ("b", "2026-01", "CartPole-v1"), ("c", "2026-03", "X")):
        with open_run(dataclasses.replace(config, run_dir=tmp_path / name, env=env), []):
            pass
        record = json.loads((tmp_path / name / "config.json").read_text())
        (tmp_path / name / "config.json").write_text(json.dumps(record | {"created": created}))
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "config.json").write_text("{")
    assert newest_run("cartpole", "CartPole-v1", tmp_path).name == "a"
    assert newest_run("cartpole", None, tmp_path).name == "c"
    with open_run(dataclasses.replace(config, resume=True), [], tmp_path) as run:
        assert run.path.name == "a"


def test_outside_a_checkout_there_is_no_commit(monkeypatch):
    monkeypatch.setattr(run_record, "__file__", "/launch.py")
    assert run_record.commit_of_sources() is None


def test_a_member_of_a_sweep_that_is_resumed_by_itself_stays_one(tmp_path, config):
    path = tmp_path / "1"
    member = {"index": 1, "overrides": {"algorithm.learning-rate": "1e-3"}}
    with open_run(dataclasses.replace(config, run_dir=path), [], facts={"member": member}):
        pass
    with open_run(dataclasses.replace(config, run_dir=path, resume=True), []):
        pass
    assert read_record(path)["member"] == member
