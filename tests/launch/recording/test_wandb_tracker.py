"""Weights & Biases may be slow, dead or not there: a run never notices."""

import json
import sys
import time

import pytest

from launch.errors import OutputError
from launch.recording import wandb_process
from launch.recording.wandb_tracker import WandbTracker, wandb_id

COPY = "import sys; open('got.jsonl', 'w').writelines(sys.stdin)"


@pytest.fixture
def track(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    lines = []

    def make(code, patience_s=5.0):
        process = (sys.executable, "-S", "-c", code)
        return WandbTracker(tmp_path, {"name": "x"}, lines.append, patience_s, process), lines

    return make


def test_rows_and_videos_arrive_in_order_with_their_global_step(track, tmp_path):
    tracker, lines = track(COPY)
    tracker.write(5, {"charts/SPS": 2.0})
    tracker.video(6, tmp_path / "a.mp4")
    tracker.close()
    first, row, video = [json.loads(line) for line in (tmp_path / "got.jsonl").read_text().splitlines()]
    assert first == {"id": wandb_id(tmp_path), "dir": str(tmp_path), "name": "x"}
    assert row == {"values": {"charts/SPS": 2.0, "global_step": 5}}
    assert video == {"video": str(tmp_path / "a.mp4"), "global_step": 6}
    assert lines == ["wandb finished"]
    assert tracker.num_dropped == 0


def test_one_that_cannot_be_started_is_one_line(tmp_path):
    with pytest.raises(OutputError, match=r"wandb: its process cannot be started: .*missing.*No such file"):
        WandbTracker(tmp_path / "missing", {}, print)
    with pytest.raises(OutputError, match="wandb: its process cannot be started: no-such-program: No such file"):
        WandbTracker(tmp_path, {}, print, process=("no-such-program",))


def test_one_that_hangs_costs_rows_and_not_time(track):
    tracker, lines = track("import time; time.sleep(100)", patience_s=0.3)
    began = time.monotonic()
    for step in range(5000):
        tracker.write(step, {f"name/{index}": 1.0 for index in range(20)})
    assert time.monotonic() - began < 2.0
    assert tracker.num_dropped > 3000
    tracker.close()
    assert time.monotonic() - began < 4.0
    assert "did not finish within 0.3 s" in lines[0]
    assert f"{tracker.num_dropped} rows were dropped" in lines[0]


def test_one_that_dies_is_said_and_counted(track, tmp_path):
    tracker, lines = track("raise SystemExit('no such project')")
    tracker._process.wait(5)
    for step in range(10):
        tracker.write(step, {"x": 1.0})
    tracker.close()
    assert "ended with an error: no such project" in lines[0]
    assert tracker.num_dropped >= 10


def test_the_id_is_kept(tmp_path):
    assert wandb_id(tmp_path) == wandb_id(tmp_path)


def test_offline_without_a_key_or_a_network(monkeypatch, tmp_path):
    for name in ("WANDB_MODE", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    assert wandb_process.mode() == "offline"
    monkeypatch.setenv("WANDB_API_KEY", "x" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:1")  # nobody listens
    assert wandb_process.mode() == "offline"
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert wandb_process.mode() == "disabled"
