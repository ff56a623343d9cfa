import dataclasses
import itertools
import json
import sys
import threading
import time
import zlib

import numpy as np
import pytest

from launch.dashboard.live import LiveError, LiveStoppedError, LiveView
from launch.dashboard.player import play, png, thoughts
from launch.presets import load_preset
from launch.train import train

ECHO = """
import sys, json
for number, _ in enumerate(sys.stdin):
    print(json.dumps({"step": number, "dir": sys.argv[1]}), flush=True)
"""


def live_view(script: str = ECHO, **options: float) -> LiveView:
    return LiveView(command=(sys.executable, "-c", script), **options)


def test_it_steps_on_request_one_run_at_a_time(tmp_path) -> None:
    live = live_view()
    try:
        with pytest.raises(LiveError):
            live.step("a")
        live.start("a", tmp_path)
        assert [live.step("a")["step"] for _ in range(3)] == [0, 1, 2]
        live.start("b", tmp_path)
        assert live.playing == "b"
        with pytest.raises(LiveError, match="any more"):
            live.step("a")
        assert live.step("b") == {"step": 0, "dir": str(tmp_path)}
    finally:
        live.close()
    assert live.playing == ""


@pytest.mark.parametrize("options", [{"idle_s": 0.5}, {"idle_s": 60.0, "limit_s": 0.5}])
def test_it_ends_when_nobody_asks_and_when_its_time_is_up(tmp_path, monkeypatch, options) -> None:
    real = time.sleep
    monkeypatch.setattr("launch.dashboard.live.time.sleep", lambda seconds: real(min(seconds, 0.05)))
    live = live_view(**options)
    live.start("a", tmp_path)
    process = live._process
    assert process is not None
    deadline = time.monotonic() + 10.0
    while live.playing and time.monotonic() < deadline:
        real(0.02)
    assert live.playing == ""
    process.wait(10.0)  # it is let go of before it is ended


def test_who_stops_it_does_not_wait_for_its_answer(tmp_path) -> None:
    live = live_view("import time; time.sleep(30)\n")
    live.start("a", tmp_path)
    failed: list[LiveError] = []

    def ask() -> None:
        try:
            live.step("a")
        except LiveError as error:
            failed.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    deadline = time.monotonic() + 10.0
    while not live._is_asked and time.monotonic() < deadline:
        time.sleep(0.01)
    begun = time.monotonic()
    live.stop()
    asking.join(10.0)
    assert time.monotonic() - begun < 10.0  # of 30
    assert len(failed) == 1
    assert live.playing == ""


def test_a_step_that_is_asked_for_after_a_stop_is_told_so(tmp_path) -> None:
    live = live_view()
    try:
        live.start("a", tmp_path)
        live.step("a")
        live.stop()
        live.stop()  # from another page
        with pytest.raises(LiveStoppedError):
            live.step("a")
        with pytest.raises(LiveError, match="does not play"):
            live.step("b")
        live.start("a", tmp_path)
        assert live.step("a")["step"] == 0
        live.start("b", tmp_path)
        with pytest.raises(LiveError, match="does not play"):
            live.step("a")
    finally:
        live.close()


def test_a_slow_start_is_not_taken_for_nobody_asking(tmp_path) -> None:
    live = live_view("import time; time.sleep(0.6)\n" + ECHO, idle_s=0.3)
    live.start("a", tmp_path)
    try:
        assert live.step("a")["step"] == 0
        time.sleep(0.1)
        assert live.step("a")["step"] == 1
    finally:
        live.close()


def test_what_goes_wrong_in_the_player_is_said(tmp_path) -> None:
    live = live_view('import sys\nfor _ in sys.stdin: print(\'{"error": "ValueError: no such thing"}\', flush=True)')
    live.start("a", tmp_path)
    with pytest.raises(LiveError, match="no such thing"):
        live.step("a")
    assert live.playing == ""


def test_a_picture_becomes_a_png() -> None:
    picture = np.random.default_rng(0).integers(0, 256, (3, 5, 3), dtype=np.uint8)
    data = png(picture)
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    begin = data.index(b"IDAT") + 4
    rows = np.frombuffer(zlib.decompress(data[begin : data.index(b"IEND") - 8]), np.uint8).reshape(3, 16)
    assert (rows[:, 0] == 0).all()
    np.testing.assert_array_equal(rows[:, 1:].reshape(3, 5, 3), picture)


def test_thoughts_of_discrete_and_continuous_policies() -> None:
    found = thoughts({"logits": np.log([[0.25, 0.75]])}, np.array([1]))
    np.testing.assert_allclose(found["probabilities"], [[0.25, 0.75]])
    assert found["action"] == [1]
    logits = np.log([[0.25, 0.75, 0.5, 0.1, 0.4]])
    found = thoughts({"logits": logits}, np.array([[1, 0]]), (2, 3))
    assert found["action"] == [1, 0]
    for got, wanted in zip(found["probabilities"], [[0.25, 0.75], [0.5, 0.1, 0.4]], strict=True):
        np.testing.assert_allclose(got, wanted)
    found = thoughts({"mean": np.array([[0.5, -1.0]]), "std": np.array([[1.0, 2.0]])}, np.array([[0.25, 0.0]]))
    assert found == {"action": [0.25, 0.0], "mean": [0.5, -1.0], "std": [1.0, 2.0]}
    clipped = {"unclipped_mean": np.array([[0.5]]), "unclipped_std": np.array([[1.0]])}
    assert thoughts(clipped, np.array([[0.25]])) == {"action": [0.25], "mean": [0.5], "std": [1.0]}
    squashed = {"pre_tanh_mean": np.array([[0.5]]), "pre_tanh_std": np.array([[1.0]])}
    assert thoughts(squashed, np.array([[0.25]])) == {"action": [0.25], "mean": [pytest.approx(np.tanh(0.5))]}


def test_a_trained_agent_plays_whole_episodes(tmp_path) -> None:
    config = load_preset("cartpole")
    train(dataclasses.replace(config, steps=400, runtime="lockstep", run_dir=tmp_path / "run", quiet=True))
    frames = play(tmp_path / "run")
    seen = [next(frames) for _ in range(60)]
    json.dumps(seen)
    assert max(frame["episode"] for frame in seen) > 1
    for before, after in itertools.pairwise(seen):
        same = before["episode"] == after["episode"]
        assert after["step"] == (before["step"] + 1 if same else 0)
        assert before["ended"] is not same
        assert after["return"] == (before["return"] if same else 0.0) + after["reward"]
    assert all(abs(sum(frame["probabilities"][0]) - 1) < 1e-6 for frame in seen)
    assert all(frame["png"] for frame in seen)
