"""Whole runs, small: repeatable in lockstep, equal after resumption, balanced ledgers, and clean ends."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from saved_runs import assert_same, weights

from laser.config import ConfigError
from laser.environments.base import EnvironmentFailedError
from laser.networks.config import NetworkConfig
from launch.errors import LaunchError, NothingToResumeError
from launch.evaluation.evaluate import evaluate, load_policy
from launch.presets import load_preset
from launch.records.metrics_db import read_names, read_series
from launch.settings.train_config import EvaluationConfig, TrainConfig
from launch.train import train
from learner.checkpoint import list_checkpoints, load_newest_checkpoint
from learner.config import LearnerConfig


def small(path: Path, **changes: object) -> TrainConfig:
    config = load_preset("cartpole")
    values = {"steps": 1024, "quiet": True, "run_dir": path, "runtime": "lockstep", "num_envs": 4, **changes}
    replay = dataclasses.replace(config.replay, capacity_steps=2000, min_steps=128)
    return dataclasses.replace(config, replay=replay, **values)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"steps": "600"}, "steps: must be a whole number, got '600'"),
        ({"num_envs": 4.0}, "num-envs: must be a whole number, got 4.0"),
        ({"env": None}, "env: must be text, got None"),
        ({"run_dir": 3}, "run-dir: must be a path or none, got 3"),
        ({"run_dir": ""}, "run-dir: must be a path or none, got ''"),
        ({"network": NetworkConfig(hidden_sizes=[32, 32])}, "network.hidden-sizes: must be a tuple, got [32, 32]"),
    ],
)
def test_a_setting_of_another_type_is_one_line(tmp_path, changes, line):
    with pytest.raises(ConfigError) as caught:
        train(small(tmp_path / "run", **changes))
    assert str(caught.value) == line
    assert not (tmp_path / "run").exists()


def test_numbers_of_numpy_and_a_directory_as_text_are_settings(tmp_path):
    changes = {"steps": np.int64(200), "num_envs": np.int32(2), "seed": np.int64(3), "stop_at_return": np.float32(1e9)}
    network = NetworkConfig(hidden_sizes=(np.int64(16), 16))
    config = small(str(tmp_path / "run"), **changes, network=network)
    assert config.run_dir == tmp_path / "run"
    train(config)
    saved = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (saved["steps"], saved["num_envs"], saved["seed"], saved["stop_at_return"]) == (200, 2, 3, 1e9)
    assert saved["network"]["hidden_sizes"] == [16, 16]


@pytest.mark.parametrize("compiled", ["off", pytest.param("on", marks=pytest.mark.slow)])
def test_lockstep_repeats_bit_by_bit(tmp_path, compiled):
    learner = LearnerConfig(compile=compiled)
    first = train(small(tmp_path / "a", learner=learner))
    second = train(small(tmp_path / "b", learner=learner))
    assert_same(weights(tmp_path / "a"), weights(tmp_path / "b"))
    assert first.learner_steps == second.learner_steps > 5
    assert first.mean_return == second.mean_return
    for name in ("charts/mean_return", "buckets/mean_return"):
        curves = [read_series(tmp_path / run / "metrics.db", name) for run in "ab"]
        assert curves[0] == curves[1], f"{name} depends on the clock"
        assert len(curves[0]) > 10


def test_the_buckets_of_the_curve_are_as_wide_as_asked_for(tmp_path):
    train(small(tmp_path / "run", bucket_frames=128))
    ends = [value for _, value in read_series(tmp_path / "run" / "metrics.db", "buckets/ends_at")]
    assert ends == [128.0 * number for number in range(int(ends[0]) // 128, 9)]
    for name in ("buckets/return_p20", "buckets/return_p80"):
        assert read_series(tmp_path / "run" / "metrics.db", name)


def test_another_seed_gives_another_run(tmp_path):
    train(small(tmp_path / "a"))
    train(small(tmp_path / "b", seed=1))
    with pytest.raises(AssertionError):
        assert_same(weights(tmp_path / "a"), weights(tmp_path / "b"))


def test_a_lockstep_run_ends_with_the_round_that_reaches_its_steps(tmp_path):
    config = small(tmp_path / "run", steps=1000, num_actors=2)
    a_round = config.num_actors * config.num_envs * config.unroll_length
    assert 1000 <= train(config).env_steps < 1000 + a_round


def test_resumed_lockstep_equals_one_that_was_never_interrupted(tmp_path):
    train(small(tmp_path / "whole", steps=2048, checkpoint_replay=True))
    train(small(tmp_path / "parts", steps=1024, checkpoint_replay=True))
    result = train(small(tmp_path / "parts", steps=2048, checkpoint_replay=True, resume=True))
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    assert "starts empty" not in (tmp_path / "parts" / "log.txt").read_text()
    assert result.env_steps >= 2048


def test_without_the_replay_a_resumed_run_goes_on_with_its_weights_and_says_so(tmp_path, capsys):
    train(small(tmp_path / "run"))
    before = weights(tmp_path / "run")
    capsys.readouterr()
    result = train(small(tmp_path / "run", steps=1536, resume=True, quiet=False))
    assert result.env_steps >= 1536
    empty = "the replay starts empty, since it was not saved; --checkpoint-replay saves it"
    said = capsys.readouterr().err.splitlines()
    assert said.count(empty) == 1
    assert said.count("observation is 4 numbers (mlp)") == 1
    assert (tmp_path / "run" / "log.txt").read_text().count(empty) == 1
    with pytest.raises(AssertionError):
        assert_same(before, weights(tmp_path / "run"))


def test_a_resumed_learner_is_counted_once(tmp_path):
    values = {"runtime": "local", "num_actors": 2}
    for steps in (512, 1024):
        result = train(small(tmp_path / "run", steps=steps, resume=steps > 512, **values))
        checkpoint, _ = load_newest_checkpoint(tmp_path / "run" / "checkpoints")
        numbers = checkpoint.state["tree"]["numbers"]
        assert result.learner_steps == numbers["num_steps"] > 0
        totals = checkpoint.state["recorder"]["totals"]
        assert totals["unrolls_learned/online"] == numbers["counters"]["unrolls_learned/online"]


@pytest.mark.parametrize(("changes", "key"), [({"capacity_steps": 5000}, "replay"), ({"sampler": "delayed"}, "replay")])
def test_a_resume_that_fails_leaves_the_run_as_it_was(tmp_path, changes, key):
    values = {"checkpoint_replay": True, "num_actors": 2}
    config = small(tmp_path / "run", steps=512, **values)
    train(config)
    record = (tmp_path / "run" / "config.json").read_bytes()
    other = small(tmp_path / "run", steps=1024, resume=True, **values)
    with pytest.raises(NothingToResumeError) as caught:
        train(dataclasses.replace(other, replay=dataclasses.replace(other.replay, **changes)))
    assert str(caught.value).startswith(f"{key}: ")
    assert (tmp_path / "run" / "config.json").read_bytes() == record
    assert train(other).env_steps >= 1024


def test_threads_make_their_steps_and_leave_everything_behind(tmp_path):
    others = set(threading.enumerate())
    config = small(tmp_path / "run", runtime="local", num_actors=2, steps=4096)
    config = dataclasses.replace(
        config,
        replay=dataclasses.replace(config.replay, num_shards=2),
        evaluation=EvaluationConfig(interval=1500, episodes=2, num_envs=2),
    )
    result = train(config)
    assert result.finished == "steps"
    assert result.env_steps >= 4096
    # Every learner step takes the same number of fresh unrolls of 16 rows; a few may still wait when the run ends.
    wanted = 4096 / 16 / config.algorithm.num_online
    assert 0.7 * wanted <= result.learner_steps <= 1.5 * wanted
    run = tmp_path / "run"
    names = {item.name.partition(".tfevents")[0] for item in run.iterdir()}
    assert names >= {"config.json", "metrics.db", "events.out", "checkpoints", "log.txt"}
    record = json.loads((run / "config.json").read_text())
    assert record["config"]["algorithm"]["batch_size"] == config.algorithm.batch_size
    names = set(read_names(run / "metrics.db"))
    assert {"pg_loss", "accept_fraction_online", "charts/mean_return", "evaluation/mean_return"} <= names
    left = set(threading.enumerate()) - others
    assert not [thread.name for thread in left if thread.name.startswith(("actor", "learner"))]


def test_eval_and_a_loaded_policy_play(tmp_path):
    train(small(tmp_path / "run"))
    result = evaluate(tmp_path / "run", 4, num_envs=2, quiet=True)
    assert len(result.returns) == 4
    assert result.mean_return == pytest.approx(sum(result.returns) / 4)
    import gymnasium

    policy = load_policy(tmp_path / "run", greedy=True)
    environment = gymnasium.make("CartPole-v1")
    observation, _ = environment.reset(seed=0)
    for _ in range(5):
        action = policy.act(observation)
        assert environment.action_space.contains(action)
        observation, *_ = environment.step(action)
    with pytest.raises(ValueError, match="shape"):
        policy.act(observation[:2])


def test_solved_runs_stop_early(tmp_path):
    result = train(small(tmp_path / "run", steps=50_000, stop_at_return=5.0))
    assert result.finished == "solved"
    assert result.env_steps < 10_000


def test_resume_refuses_another_environment_and_nothing(tmp_path):
    train(small(tmp_path / "run", steps=256))
    with pytest.raises(NothingToResumeError, match="env"):
        train(small(tmp_path / "run", resume=True, env="Acrobot-v1"))
    with pytest.raises(NothingToResumeError):
        train(small(tmp_path / "nowhere", resume=True))


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    config = small(tmp_path / "run", steps=512)
    config = dataclasses.replace(config, learner=dataclasses.replace(config.learner, checkpoint_interval_s=1e-3))
    train(config)
    newest = list_checkpoints(tmp_path / "run" / "checkpoints")[0]
    victim = newest / "networks.safetensors"
    data = bytearray(victim.read_bytes())
    data[-5] ^= 1
    victim.write_bytes(data)
    train(dataclasses.replace(config, resume=True, steps=700))
    assert newest.name in (tmp_path / "run" / "log.txt").read_text()


def test_a_failing_environment_ends_the_run_with_its_own_words(tmp_path):
    (tmp_path / "bad_environment.py").write_text(
        "import gymnasium\n"
        "from gymnasium.envs.classic_control import CartPoleEnv\n"
        "class Bad(CartPoleEnv):\n"
        "    def step(self, action):\n"
        "        raise RuntimeError('the pole is missing')\n"
        "gymnasium.register('Bad-v0', Bad)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        with pytest.raises(LaunchError, match="the pole is missing"):
            train(small(tmp_path / "run", env="bad_environment:Bad-v0", runtime="local"))
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.parametrize(
    ("number", "code", "command"),
    [
        (signal.SIGINT, 130, ["train"]),
        (signal.SIGTERM, 143, ["train"]),
        (signal.SIGHUP, 129, ["train"]),
        (signal.SIGINT, 130, ["sweep", "--seeds", "2"]),
        (signal.SIGINT, 130, ["train", "--evaluation.interval", "100", "--evaluation.episodes", "100_000"]),
    ],
)
def test_a_signal_saves_and_ends_with_its_code(tmp_path, number, code, command):
    run = tmp_path / "run"
    arguments = [*command, "cartpole", "--steps", "10_000_000", "--stop-at-return", "inf", "--run-dir", str(run)]
    log = (run / "members" / "1" if "sweep" in command else run) / "log.txt"
    process = subprocess.Popen(
        [sys.executable, "-m", "launch", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    deadline = time.monotonic() + 60
    while "running" not in log.read_text() if log.exists() else True:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1.0)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == code, errors
    assert "Traceback" not in errors
    assert list_checkpoints(log.parent / "checkpoints")


@pytest.mark.slow
def test_a_terminal_that_closes_ends_no_process_of_the_run_before_its_checkpoint(tmp_path):
    run = tmp_path / "run"
    arguments = ["train", "cartpole", "--steps", "10_000_000", "--stop-at-return", "inf", "--run-dir", str(run)]
    process = subprocess.Popen(
        [sys.executable, "-m", "launch", *arguments, "--environment.vectorization", "async"],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while "running" not in ((run / "log.txt").read_text() if (run / "log.txt").exists() else ""):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    time.sleep(1.0)
    os.killpg(process.pid, signal.SIGHUP)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 129, errors
    assert "Traceback" not in errors
    assert "stopped: by SIGHUP" in errors
    assert list_checkpoints(run / "checkpoints")


HANGING = """
import time
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Hanging(CartPoleEnv):
    def __init__(self, at_reset=False, render_mode=None):
        super().__init__(render_mode=render_mode)
        self.at_reset = at_reset

    def reset(self, **arguments):
        if self.at_reset:
            time.sleep(5.0)
        return super().reset(**arguments)

    def step(self, action):
        self.num_steps = getattr(self, "num_steps", 0) + 1
        if self.num_steps > 40:
            time.sleep(5.0)
        return super().step(action)

gymnasium.register("Hanging-v0", Hanging)
gymnasium.register("HangingReset-v0", Hanging, kwargs={"at_reset": True})
"""


@pytest.mark.parametrize("name", ["Hanging", "HangingReset"])
def test_lockstep_notices_an_environment_that_hangs(tmp_path, monkeypatch, name):
    (tmp_path / "hanging_environment.py").write_text(HANGING)
    monkeypatch.syspath_prepend(str(tmp_path))
    config = small(tmp_path / "run", env=f"hanging_environment:{name}-v0", num_envs=1)
    config = dataclasses.replace(config, environment=dataclasses.replace(config.environment, deadline_s=0.5))
    started = time.monotonic()
    with pytest.raises(LaunchError, match=r"did not return from a step or a reset for 0.5 s.*environment.deadline-s"):
        train(config)
    assert time.monotonic() - started < 30.0


LATE = """
import time

import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Late(CartPoleEnv):
    failed = False

    def __init__(self, **arguments):
        if Late.failed:
            time.sleep(5.0)
        super().__init__(**arguments)

    def step(self, action):
        Late.failed = True
        raise RuntimeError("step failed")

gymnasium.register("Late{runtime}-v0", Late)
"""


@pytest.mark.parametrize("runtime", ["lockstep", "local"])
def test_an_environment_that_hangs_while_it_is_rebuilt_is_noticed(tmp_path, monkeypatch, runtime):
    (tmp_path / f"late_{runtime}.py").write_text(LATE.replace("{runtime}", runtime))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr("laser.environments.config._CONSTRUCTION_DEADLINE_S", 0.5)
    config = small(tmp_path / "run", env=f"late_{runtime}:Late{runtime}-v0", num_envs=1, runtime=runtime)
    config = dataclasses.replace(
        config, environment=dataclasses.replace(config.environment, deadline_s=0.5, max_restarts=1)
    )
    started = time.monotonic()
    with pytest.raises(LaunchError, match=r"did not return from being constructed for 0.5 s.*environment.deadline-s"):
        train(config)
    assert time.monotonic() - started < 30.0


FICKLE = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Fickle(CartPoleEnv):
    num_resets = 0

    def reset(self, **arguments):
        Fickle.num_resets += 1
        if Fickle.num_resets in (1, 3):  # of the plan, and of the first actor
            raise RuntimeError("not awake yet")
        return super().reset(**arguments)

gymnasium.register("Fickle-v0", Fickle)
"""


def test_an_environment_that_fails_at_its_first_reset_is_rebuilt_and_counted(tmp_path, monkeypatch):
    (tmp_path / "fickle_environment.py").write_text(FICKLE)
    monkeypatch.syspath_prepend(str(tmp_path))
    train(small(tmp_path / "run", env="fickle_environment:Fickle-v0", num_envs=1))
    checkpoint, _ = load_newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert checkpoint.state["recorder"]["totals"]["restarts/raised"] == 1


@pytest.mark.parametrize("runtime", ["lockstep", "local"])
def test_an_evaluation_whose_environment_fails_does_not_end_the_run(tmp_path, monkeypatch, runtime):
    def fail(*arguments):
        raise EnvironmentFailedError("raised", "the wheel came off")

    monkeypatch.setattr("actors.evaluator.Evaluator._play", fail)
    result = train(small(tmp_path / "run", runtime=runtime, evaluation=EvaluationConfig(interval=256)))
    assert result.finished == "steps"
    checkpoint, _ = load_newest_checkpoint(tmp_path / "run" / "checkpoints")
    assert checkpoint.state["recorder"]["totals"]["evaluations_failed/raised"] >= 1


def test_networks_beyond_all_memory_are_refused_without_being_built(tmp_path):
    network = dataclasses.replace(load_preset("cartpole").network, hidden_sizes=(65_536, 65_536))
    with pytest.raises(ConfigError, match=r"network: the run needs .*, nearly all of it for weights"):
        train(small(tmp_path / "run", network=network))
    assert not (tmp_path / "run").exists()


def test_who_plays_with_an_older_checkpoint_is_told(tmp_path):
    train(small(tmp_path / "run"))
    train(small(tmp_path / "run", steps=1536, resume=True))
    newest, older = list_checkpoints(tmp_path / "run" / "checkpoints")[:2]
    (newest / "manifest.json").write_text("{")
    with pytest.warns(RuntimeWarning, match=f"{newest.name}.*; {older.name} is used"):
        load_policy(tmp_path / "run")
