"""What a run says of its first updates, and the settings that it warns of."""

from __future__ import annotations

import dataclasses
import json
from types import SimpleNamespace

import pytest

from launch.presets import change, load_preset
from launch.records.metrics_db import read_series
from launch.supervision.start_check import StartCheck, asked_share, describe_start, start_warnings
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.train import train


def measured(online=0.5, own=0.5, foreign=0.0, accepted=None, ages=None):
    shares = {"online": online, "own_replay": own, "foreign_replay": foreign}
    values = {"start/updates": 100.0} | {f"start/share/{source}": share for source, share in shares.items()}
    values |= {f"start/age/{source}": age for source, age in (ages or {}).items()}
    return values | {f"start/accepted/{source}": share for source, share in (accepted or {}).items()}


def config(**changes):
    return change(load_preset("cartpole"), {"algorithm.replay-fraction": 0.5, "algorithm.batch-size": 8} | changes)


def warnings(values, shares_replay=False, **changes):
    return list(start_warnings(values, config(**changes), shares_replay))


def test_the_line_has_the_mix_its_age_and_its_accepted_share():
    values = measured(0.5, 0.375, 0.125, {"online": 1.0, "own_replay": 0.97}, {"online": 1.04, "own_replay": 41.0})
    assert describe_start(values) == (
        "first 100 updates: learned from 50% fresh (1.0 versions old, 100% accepted), "
        "38% own replay (41.0 versions old, 97% accepted), 12% foreign replay"
    )


def test_a_mix_as_asked_for_is_no_warning():
    assert warnings(measured(accepted={"online": 1.0, "own_replay": 0.4})) == []
    assert warnings(measured(0.5, 0.2, 0.3), shares_replay=True) == []


@pytest.mark.parametrize(("online", "own"), [(1.0, 0.0), (0.2, 0.8), (0.8, 0.2)])
def test_a_mix_other_than_asked_for_is_one(online, own):
    (line,) = warnings(measured(online, own))
    assert line.startswith(f"replayed {100 * own:.0f}% although 50% were asked for; likely cause: ")


def test_a_ratio_of_replayed_batches_counts_as_asked_for():
    acer = load_preset("acer_cartpole")
    ratio = acer.algorithm.replay_ratio
    assert asked_share(acer) == pytest.approx(ratio / (1 + ratio))
    assert not list(start_warnings(measured(1 / (1 + ratio), ratio / (1 + ratio)), acer, False))
    (line,) = start_warnings(measured(1.0, 0.0), acer, False)
    assert f"replay-ratio {ratio:g}" in line


def test_a_shared_replay_without_the_others_is_a_warning():
    (line,) = warnings(measured(), shares_replay=True)
    assert line.startswith("share-replay: 0% of the steps were made by other members; likely cause: ")
    unused = change(load_preset("cartpole"), {"algorithm.replay-fraction": 0.0})
    assert not list(start_warnings(measured(1.0, 0.0), unused, True))


def test_a_trust_region_that_accepts_nothing_is_a_warning():
    (line,) = warnings(measured(accepted={"online": 1.0, "own_replay": 0.001, "foreign_replay": 0.0}))
    assert line == (
        "0% of the steps from own replay were accepted: they had no effect; "
        f"likely cause: trust-region-threshold {config().algorithm.trust_region_threshold:g} is too tight"
    )


def small(path, **changes):
    values = {
        "steps": 100 * 8 * 20,
        "num_envs": 4,
        "unroll-length": 20,
        "runtime": "lockstep",
        "learner.compile": "off",
        "replay.min-steps": 80,
        "stop_at_return": float("inf"),
    }
    return dataclasses.replace(config(**(values | changes)), run_dir=path)


def test_a_run_says_what_it_learned_from_on_the_terminal_in_its_log_its_record_and_its_result(tmp_path, capsys):
    result = train(small(tmp_path / "run", **{"algorithm.trust-region-threshold": 0.0}))
    start = json.loads(json.dumps(result.to_json()))["start"]
    assert start["updates"] == 100
    assert start["share"]["own_replay"] == pytest.approx(0.5, abs=0.05)
    assert start["age"]["own_replay"] > start["age"]["online"] >= 0.0
    assert start["accepted"]["own_replay"] == 0.0
    said, log = capsys.readouterr().err, (tmp_path / "run" / "log.txt").read_text()
    for text in (said, log):
        assert text.count("first 100 updates: learned from") == 1
        assert "warning: 0% of the steps from own replay were accepted" in text
    assert any("from own replay" in warning for warning in start["warnings"])
    (point,) = read_series(tmp_path / "run" / "metrics.db", "start/share/own_replay")
    assert point[1] == start["share"]["own_replay"]


def test_a_run_says_that_its_updates_are_refused(tmp_path, capsys):
    result = train(small(tmp_path / "run", **{"algorithm.reward-scale": 1e30}))
    warning = "100% of the newest updates were skipped, since their gradient was not finite"
    for text in (capsys.readouterr().err, (tmp_path / "run" / "log.txt").read_text()):
        assert text.count(f"warning: {warning}") == 1
    assert [line for line in result.to_json()["start"]["warnings"] if line.startswith(warning)]


def test_updates_that_are_refused_later_are_said_once():
    said, gauges = [], {"start/updates": 100.0, "updates_applied": 1.0}
    recorder = SimpleNamespace(
        has_gauge=gauges.__contains__, gauge=gauges.get, snapshot=lambda: SimpleNamespace(gauges=gauges)
    )
    check = StartCheck(recorder, config(), False, said.append)
    check.look()
    num_lines = len(said)
    for applied in (1.0, 0.4, 0.2):
        gauges["updates_applied"] = applied
        check.look()
    assert [line.partition(",")[0] for line in said[num_lines:]] == ["warning: 60% of the newest updates were skipped"]


def test_each_member_of_a_sweep_says_it(tmp_path, capsys):
    base = small(tmp_path / "run", steps=100 * 4 * 20)
    grid = {"algorithm.learning-rate": [3e-3, 1e-3]}
    result = sweep(SweepConfig(base, grid, SweepOptions(share_replay=True)))
    said = capsys.readouterr().err
    for member in result.members:
        assert f"member {member.number}: first 100 updates: learned from" in said
        assert member.result.start["share"]["foreign_replay"] > 0.1
        assert member.result.start["warnings"] == []
