"""What the trackers of a run are told: ids, groups, config; and one real run with wandb, offline."""

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from launch.presets import load_preset
from launch.recording.event_file import EventFile
from launch.recording.wandb_tracker import WandbTracker
from launch.records.run_directory import open_run
from launch.supervision import tracking
from launch.supervision.tracking import open_trackers, settings_of, texts_of, wandb_settings


def test_a_run_tells_its_name_and_config_and_a_member_its_group(tmp_path, monkeypatch):
    monkeypatch.delenv("WANDB_PROJECT", raising=False)
    sweep = tmp_path / "my <sweep>"
    config = load_preset("cartpole", {"run_dir": str(tmp_path / "alone"), "seed": 7})
    with open_run(config, ["laser", "train"]) as run:
        alone = wandb_settings(run, config)
    config = load_preset("cartpole", {"run_dir": str(sweep / "members" / "3")})
    with open_run(config, ["laser", "sweep"], facts={"member": {"index": 3, "overrides": {}}}) as run:
        member = wandb_settings(run, config)
    assert (alone["project"], alone["name"]) == ("laser", "alone")
    assert "group" not in alone
    assert alone["config"]["seed"] == 7
    assert alone["config"]["command"] == "laser train"
    assert (member["group"], member["name"]) == ("my <sweep>", "my <sweep>/3")
    json.dumps(member)


def test_tags_of_the_run_reach_the_tracker(tmp_path):
    config = load_preset("cartpole", {"run_dir": str(tmp_path / "run"), "tag": " baseline, long,baseline,"})
    with open_run(config, ["laser", "train"]) as run:
        assert wandb_settings(run, config)["tags"][-2:] == ["baseline", "long"]


def test_tensorboard_gets_finite_numbers_and_the_changed_settings(tmp_path):
    config = load_preset("cartpole", {"run_dir": str(tmp_path / "run"), "stop_at_return": "inf", "seed": "4"})
    settings = settings_of(config)
    assert settings["seed"] == 4
    assert settings["stop-at-return"] == "inf"
    assert settings["quiet"] == "false"
    with open_run(config, ["laser", "train", "my cart"]) as run:
        texts = texts_of(run)
    assert "laser train 'my cart'" in texts["command"]
    assert "| seed | 0 | 4 |" in texts["changed settings"]


def test_all_trackers_are_closed_at_the_same_time(tmp_path, monkeypatch):
    process = (sys.executable, "-S", "-c", "import time; time.sleep(100)")
    made = []

    def hanging(directory, first, log):
        made.append(WandbTracker(directory, first, log, patience_s=1.0, process=process))
        return made[-1]

    monkeypatch.setattr(tracking, "WandbTracker", hanging)
    lines = []
    with ExitStack() as stack:
        configs = [load_preset("cartpole", {"run_dir": str(tmp_path / str(n)), "track": "wandb"}) for n in range(3)]
        runs = [stack.enter_context(open_run(config, ["x"])) for config in configs]
        trackers = open_trackers(stack, runs, configs)
        assert [[type(item) for item in each] for each in trackers] == [[EventFile, WandbTracker]] * 3
    lines = [run.log_path.read_text() for run in runs]
    assert all("was ended" in line for line in lines)
    ends = [line.splitlines()[-1][:19] for line in lines]
    assert len(set(ends)) <= 2  # of three seconds, had they waited for one another


@pytest.mark.slow
def test_a_real_run_offline_and_its_resumption_have_one_id(tmp_path):
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--run-dir", str(tmp_path / "run"), "--quiet"]
    command += ["--track", "wandb", "--num-envs", "4", "--capture-video", "--evaluation.episodes", "1"]
    environment = {**os.environ, "WANDB_MODE": "offline", "PYTHONPATH": str(Path.cwd())}
    for extra in (["--steps", "300"], ["--steps", "600", "--resume"]):
        subprocess.run([*command, *extra], env=environment, check=True, timeout=300)
    run = tmp_path / "run"
    identity = (run / "wandb_id.txt").read_text().strip()
    kept = list((run / "wandb").glob(f"offline-run-*-{identity}"))
    assert len(kept) == 2
    assert all(next(path.glob("*.wandb")).stat().st_size > 1000 for path in kept)
    assert (run / "log.txt").read_text().count("wandb finished") == 2
    assert list(kept[0].rglob("*.mp4"))
