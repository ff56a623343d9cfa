"""Runs that mix a log with fresh experience at a given share: it is what is learned from, and it follows the run."""

import dataclasses
import json
import subprocess
import sys

import numpy as np
import pytest
import torch

import laser
from laser.config import ConfigError
from launch.__main__ import main
from launch.logs.draw import draw_replay
from launch.logs.export import export_replay
from launch.logs.options import DrawOptions, ReplayOptions
from launch.records.metrics_db import read_names, read_series
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig, SweepOptions
from learner.checkpoint import load_newest_checkpoint

LOG = "minari:tests/made-v0"


@pytest.fixture(scope="module", autouse=True)
def data(tmp_path_factory):
    """A data set of CartPole by an agent of LASER."""
    path = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(path))
        values = {"quiet": True, "run_dir": path / "run", "checkpoint_replay": True, "steps": 1500}
        laser.train(laser.load_preset("cartpole", {**values, "replay.min_steps": 128}))
        export_replay(path / "run", LOG, ReplayOptions())
        yield path


def config_of(path, preset="cartpole", **changes):
    values = {"init_replay": LOG, "quiet": True, "run_dir": path, "steps": 600, "replay.capacity_steps": 50_000}
    return laser.load_preset(preset, {**values, **changes})


def shares(path):
    """Return the last share that came from the log, and the one that was asked for."""
    metrics = path / "metrics.db"
    return tuple(read_series(metrics, f"replay/{name}")[-1][1] for name in ("log_share", "log_share_set"))


CASES = {
    "unrolls": ("cartpole", {}),
    "shards": ("cartpole", {"replay.num_shards": 3, "num_actors": 3, "num_envs": 4}),
    "sequences": ("cartpole", {"replay.sequence_starts": "step"}),
    "steps": ("dqn_cartpole", {"algorithm.batch_size": 64, "learner.batches_per_draw": 3}),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_learned_from_has_the_share_of_the_log_that_is_set(tmp_path, case):
    preset, changes = CASES[case]
    laser.train(config_of(tmp_path, preset, **changes, **{"replay.log_share": 0.25, "replay.log_share_final": 0.25}))
    came, was_set = shares(tmp_path)
    assert was_set == 0.25
    assert 0.1 < came < 0.45  # the own experience of the first rounds is not there yet, and unrolls differ in length
    assert "of what is replayed, 25% is of the log" in (tmp_path / "log.txt").read_text()


def test_the_share_moves_with_the_env_steps(tmp_path):
    changes = {"replay.log_share": 1.0, "replay.log_share_final": 0.0, "schedule": "lockstep"}
    laser.train(config_of(tmp_path, **changes))
    came = [value for _, value in read_series(tmp_path / "metrics.db", "replay/log_share")]
    was_set = [value for _, value in read_series(tmp_path / "metrics.db", "replay/log_share_set")]
    assert was_set == sorted(was_set, reverse=True)
    assert was_set[-1] < 0.3
    assert came[-1] < 0.9
    assert "100% is of the log, 0% at the end" in (tmp_path / "log.txt").read_text()


@pytest.mark.ray
@pytest.mark.long
def test_the_share_holds_in_processes_too(tmp_path):
    words = (
        "--replay.log-share 0.25 --runtime ray --replay.num-shards 2 --num-actors 2 --num-envs 4 --steps 3000 --json"
    )
    # A process of its own: this one may be connected to the Ray of other tests.
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--init-replay", LOG, *words.split()]
    done = subprocess.run(
        [*command, "--steps", "3000", "--replay.capacity-steps", "50000", "--run-dir", tmp_path],
        capture_output=True,
        text=True,
        timeout=170.0,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)["ledger"]["imbalance"].values()) == {0}
    came, was_set = shares(tmp_path)
    assert was_set == 0.25
    assert 0.1 < came < 0.45


@pytest.mark.parametrize("num_shards", [1, 2])
def test_a_resumed_run_equals_one_that_was_never_interrupted(tmp_path, num_shards):
    def run(path, steps, **changes):
        values = {"schedule": "lockstep", "num_envs": 3, "num_actors": 2, "checkpoint_replay": True, "steps": steps}
        # The share of 12 replayed unrolls is no whole number of them: what was rounded is owed across the resumption.
        values |= {"replay.log_share": 0.3, "replay.num_shards": num_shards, "algorithm.batch_size": 16}
        values |= {"algorithm.replay_fraction": 0.75}
        laser.train(config_of(path, **values, **changes))
        checkpoint, _ = load_newest_checkpoint(path / "checkpoints")
        return checkpoint

    whole = run(tmp_path / "whole", 1024)
    run(tmp_path / "parts", 600)
    parts = run(tmp_path / "parts", 1024, resume=True)
    owed = [each.state["tree"]["numbers"]["owed_of_log"] for each in (whole, parts)]
    assert owed[0] == owed[1] != 0.0
    for group, part in whole.tensors.items():
        for name, value in part.items():
            torch.testing.assert_close(value, parts.tensors[group][name], rtol=0, atol=0, msg=name)


def test_a_run_that_continues_from_an_import_has_a_share_too_and_draws_show_it(tmp_path, capsys):
    run = tmp_path / "run"
    assert main(["replay", "import", LOG, "--run-dir", str(run), "--quiet"]) == 0
    words = ["train", "cartpole", "--resume", "--run-dir", str(run), "--checkpoint-replay", "--steps", "600"]
    assert main([*words, "--quiet", "--replay.log-share", "0.25"]) == 0
    came, was_set = shares(run)
    assert (was_set, 0.1 < came < 0.45) == (0.25, True)
    drawn = draw_replay(run, tmp_path / "draws.npz", DrawOptions(items=400))
    # Items of the same part are equally likely: 100 of the log, and the others.
    probabilities, counts = np.unique(np.load(tmp_path / "draws.npz")["probabilities"].round(12), return_counts=True)
    assert sorted(counts.tolist()) == [100, 300]
    assert drawn.num_stored == round((counts / 400 / probabilities).sum())


def test_a_resumed_replay_without_a_log_is_named(tmp_path):
    values = {"init_replay": "", "checkpoint_replay": True}
    laser.train(config_of(tmp_path, **values))
    laser.train(config_of(tmp_path, **values, steps=900, resume=True, **{"replay.log_share": 0.5}))
    assert "warning: the replay holds nothing of a log" in (tmp_path / "log.txt").read_text()


def test_a_run_without_a_share_says_only_what_came(tmp_path):
    laser.train(config_of(tmp_path / "one"))
    names = read_names(tmp_path / "one" / "metrics.db")
    assert ("replay/log_share" in names, "replay/log_share_set" in names) == (True, False)
    laser.train(config_of(tmp_path / "other", init_replay=""))
    assert not [name for name in read_names(tmp_path / "other" / "metrics.db") if "log_share" in name]


def test_members_that_share_a_replay_draw_from_its_log_by_the_same_share(tmp_path):
    base = config_of(tmp_path / "sweep", steps=400, **{"replay.log_share": 0.25})
    sweep(SweepConfig(base, {}, SweepOptions(seeds=2)))
    for number in range(2):
        came, was_set = shares(tmp_path / "sweep" / "members" / str(number))
        assert was_set == 0.25
        assert 0.05 < came < 0.5
    with pytest.raises(ConfigError, match=r"replay.log-share cannot differ: the members share one replay"):
        sweep(SweepConfig(base, {"replay.log-share": [0.1, 0.2]}, SweepOptions(seeds=2, share_replay=True)))


@pytest.mark.parametrize(
    ("preset", "changes", "wrong"),
    [
        ("cartpole", {"replay.log_share": 1.5}, r"replay.log-share: must be in \[0, 1\], got 1.5"),
        ("cartpole", {"replay.log_share_final": -0.5}, r"replay.log-share-final: must be in \[0, 1\], got -0.5"),
        ("cartpole", {"init_replay": ""}, "replay.log-share: is the share of draws from a log, but the replay begins"),
        (
            "cartpole",
            {"init_replay": "", "offline": LOG},
            "replay.log-share: is the share of draws from a log, but offline learns from its log alone",
        ),
        ("cartpole", {"replay.sampler": "per"}, "replay.log-share: per does not draw from a log apart from others"),
        (
            "cartpole",
            {"network.core": "lstm", "network.separate_critic": False},
            "replay.log-share: recurrent agents read episode streams, which are not drawn",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(tmp_path, preset, changes, wrong):
    changes = {"replay.log_share": 0.5, **changes}
    with pytest.raises(ConfigError, match=wrong):
        laser.train(config_of(tmp_path / "run", preset, **changes))
    assert not (tmp_path / "run").exists()


def test_a_replay_without_room_for_the_log_until_the_end_is_named(tmp_path):
    config = config_of(tmp_path, steps=60_000, **{"replay.log_share": 0.5})

    def keys(**changes):
        replay = dataclasses.replace(config.replay, **changes)
        warnings = dataclasses.replace(config, replay=replay).warnings()
        return [problem.key for problem in warnings if "push the log out" in str(problem)]

    assert keys() == keys(log_share=0.0, log_share_final=0.1) == ["replay.log-share"]
    assert keys(log_share_final=0.0) == keys(capacity_steps=60_000) == keys(log_share=None) == []
