"""Runs whose replay begins with a log: every step of it is stored as it was logged, and the run's own go beside it."""

import json

import numpy as np
import pytest

import laser
from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment
from laser.logs.minari_log import MinariLog
from launch.__main__ import main
from launch.logs.export import export_replay
from launch.logs.options import ReplayOptions
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig, SweepOptions

LOG, BACK = "minari:tests/made-v0", "minari:tests/back-v0"


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    """Data sets of CartPole and of Catch, a game of pictures, by agents of LASER."""
    path = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(path))
        for preset, changes, name in (
            ("cartpole", {"steps": 1500}, LOG),
            ("mini", {"steps": 400, "env": "mini/Catch-v0"}, "minari:tests/catch-v0"),
        ):
            run = path / preset
            values = {"quiet": True, "run_dir": run, "checkpoint_replay": True, "replay.min_steps": 128}
            laser.train(laser.load_preset(preset, {**values, **changes}))
            export_replay(run, name, ReplayOptions())
        yield path


def config_of(preset, path, **changes):
    values = {"init_replay": LOG, "quiet": True, "run_dir": path, "steps": 600, "checkpoint_replay": True}
    return laser.load_preset(preset, {**values, **changes})


def contents(env, name):
    """Return the bytes of each episode of a log: observations, actions, rewards, its end, mu."""
    log = MinariLog(name, describe_environment(env, EnvironmentConfig()))
    episodes = map(log.episode, range(len(log)))
    return sorted(
        b"".join(
            np.ascontiguousarray(array).tobytes()
            for array in (*each.observations.values(), each.actions, each.rewards, each.terminated, *each.mu.values())
        )
        for each in episodes
    )


@pytest.mark.parametrize(
    ("preset", "changes", "log"),
    [
        ("cartpole", {}, LOG),
        ("cartpole", {"replay.num_shards": 3, "num_actors": 3}, LOG),
        ("cartpole", {"unroll_length": 1}, LOG),
        ("mini", {"env": "mini/Catch-v0"}, "minari:tests/catch-v0"),
    ],
)
def test_every_step_of_the_log_is_in_the_replay(tmp_path, monkeypatch, data, preset, changes, log):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "data"))  # exports go elsewhere
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "tests").symlink_to(data / "tests")
    changes = {"replay.capacity_steps": 50_000, "init_replay": log, **changes}
    config = config_of(preset, tmp_path / "run", **changes)
    result = laser.train(config)
    assert result.env_steps < 600 + 3 * 8 * 20  # its own steps only
    back = f"minari:back/{tmp_path.name.replace('_', '-').lower()}-v0"
    export_replay(tmp_path / "run", back, ReplayOptions())
    logged, stored = contents(config.env, log), contents(config.env, back)
    assert len(logged) > 3
    assert [stored.count(episode) >= logged.count(episode) for episode in logged] == [True] * len(logged)
    ledger = result.ledger
    assert set(ledger["imbalance"].values()) == {0}
    assert ledger["stages"]["made"] == ledger["stages"]["received"]
    assert ledger["stages"]["online/inserted"] * config.unroll_length <= result.env_steps * 2


def test_the_log_is_learned_from_at_once_and_said(tmp_path, capsys):
    words = ["train", "--init-replay", LOG, "--steps", "300", "--json", "--run-dir", str(tmp_path / "run")]
    words += ["--algorithm.replay-fraction", "0.75"]
    assert main(words) == 0
    printed = capsys.readouterr()
    assert f"steps of {LOG}" in printed.err
    assert "the replay begins with" in (tmp_path / "run" / "log.txt").read_text()
    result = json.loads(printed.out.splitlines()[-1])
    assert result["env_steps"] < 500
    assert result["ledger"]["stages"]["sampled"] > 0  # the preset's warm-up alone is longer
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (config["env"], config["preset"]) == ("CartPole-v1", "cartpole")


def test_a_resumed_run_does_not_read_the_log_again_unless_its_replay_was_not_saved(tmp_path):
    first = laser.train(config_of("cartpole", tmp_path / "run"))
    again = laser.train(config_of("cartpole", tmp_path / "run", steps=900, resume=True))
    made = [result.ledger["stages"]["made"] for result in (first, again)]
    assert made[1] - made[0] < made[0] - 600 // 20
    third = laser.train(config_of("cartpole", tmp_path / "other", checkpoint_replay=False))
    fourth = laser.train(config_of("cartpole", tmp_path / "other", steps=900, resume=True, checkpoint_replay=False))
    made = [result.ledger["stages"]["made"] for result in (third, fourth)]
    assert made[1] - made[0] >= made[0] - 600 // 20 - 1
    for result in (again, fourth):
        assert result.ledger["stages"]["made"] == result.ledger["stages"]["received"]
        assert set(result.ledger["imbalance"].values()) == {0}
        assert result.ledger["reasons"]["duplicates"] == 0


def test_what_does_not_fit_is_forgotten_from_the_first_on(tmp_path, capsys):
    laser.train(config_of("cartpole", tmp_path / "run", quiet=False, **{"replay.capacity_steps": 512}))
    assert f"steps of {LOG}, of which it holds the last 512" in capsys.readouterr().err


def test_members_that_share_a_replay_read_the_log_once(tmp_path):
    base = config_of("cartpole", tmp_path / "sweep", steps=400, **{"replay.capacity_steps": 50_000})
    results = sweep(SweepConfig(base, {}, SweepOptions(seeds=2))).members
    logs = [(tmp_path / "sweep" / "members" / str(number) / "log.txt").read_text() for number in range(2)]
    assert ["the replay begins with" in log for log in logs] == [True, False]
    assert [set(each.result.ledger["imbalance"].values()) for each in results] == [{0}, {0}]


@pytest.mark.parametrize(
    ("preset", "changes", "wrong"),
    [
        ("cartpole", {"init_replay": "carts"}, "init-replay: must be minari:NAMESPACE/NAME-vN, got 'carts'"),
        ("cartpole", {"init_replay": "minari:tests/none-v0"}, "init-replay: there is no data set tests/none-v0"),
        ("cartpole", {"env": "Acrobot-v1"}, "it was recorded in CartPole-v1: --env CartPole-v1"),
        ("cartpole", {"offline": LOG}, "init-replay: has no effect with offline"),
        ("impala_cartpole", {}, "init-replay: impala draws nothing from a replay"),
        (
            "cartpole",
            {"num_actors": 50, "num_envs": 1, "replay.num_shards": 50, "replay.capacity_steps": 50_000},
            "replay.num-shards: .* episodes cannot be shared out over 50 shards",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(tmp_path, preset, changes, wrong):
    with pytest.raises(ConfigError, match=wrong):
        laser.train(config_of(preset, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()
