"""Pruned sweeps, small: who ends early, on which scores, whose place it becomes, and that a resumed sweep goes on."""

from __future__ import annotations

import dataclasses
import functools
import json
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from small_sweeps import SMALL
from stopped_sweeps import stopped

from laser.config import ConfigError
from launch.command_line.arguments import parse_sweep
from launch.errors import NothingToResumeError
from launch.presets import change, load_preset
from launch.records.listing import find_entries, members_of, read_status
from launch.records.metrics_db import read_series
from launch.records.run_directory import open_run
from launch.supervision.ending import Ending
from launch.sweeps.halving import PrunerConfig
from launch.sweeps.pruning import RECORD_NAME, Pruning
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.sweep_progress import closing_table, describe_sweep, look_at
from learner.checkpoint import load_newest_checkpoint
from learner.learner import Learner

PRUNER = PrunerConfig(first_rung=96, reduction=2)
both_schedules = pytest.mark.parametrize("schedule", ["lockstep", "free"])


class Paying(gymnasium.Env):
    """Episodes of four steps, each with the same reward whatever the action: the return is known."""

    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reward=1.0):
        self._reward, self._num_steps = reward, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._num_steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self._num_steps += 1
        return np.zeros(2, np.float32), self._reward, self._num_steps == 4, False, {}


def paying(path, rewards, concurrent=1, seeds=1, share_replay=True, pruner=PRUNER, score="auto", **changes):
    base = change(load_preset("cartpole"), SMALL | {"env": Paying} | changes)
    options = SweepOptions(seeds=seeds, share_replay=share_replay, concurrent=concurrent, pruner="asha", score=score)
    grid = {"environment.kwargs.reward": list(rewards)}
    return SweepConfig(dataclasses.replace(base, run_dir=path), grid, options, pruner=pruner)


def endings(result):
    return [member.result.finished for member in result.members]


@both_schedules
@pytest.mark.parametrize("share_replay", [True, False])
def test_settings_that_fall_behind_end_early_and_the_next_ones_take_their_places(tmp_path, schedule, share_replay):
    steps = 384 if schedule == "lockstep" else 8000  # threads make some hundreds before they are looked at
    pruner = dataclasses.replace(PRUNER, first_rung=steps // 4)
    config = paying(
        tmp_path / "run", [3.0, 1.0, 2.0, 4.0], share_replay=share_replay, schedule=schedule, steps=steps, pruner=pruner
    )
    result = sweep(config)
    assert endings(result) == ["steps", "pruned", "pruned", "steps"]
    for member in result.members[1:3]:
        assert steps // 4 <= member.result.env_steps < steps
        assert (member.pruned.rung, member.pruned.score) == (
            steps // 4,
            4 * member.overrides["environment.kwargs.reward"],
        )
    assert [member.pruned is None for member in result.members] == [True, False, False, True]
    verdicts = [(each.rank, each.num_settings) for each in (result.members[1].pruned, result.members[2].pruned)]
    assert verdicts == [(2, 2), (2, 3)]


def test_where_and_why_is_in_the_table_the_json_the_logs_and_the_record(tmp_path):
    result = sweep(paying(tmp_path / "run", [3.0, 1.0]))
    value = result.to_json()["members"][1]
    reached = value["env_steps"]
    assert value["finished"] == "pruned"
    assert value["pruned"] == {"setting": 1, "rung": 96, "score": 4.0, "rank": 2, "num_settings": 2, "goes_on": False}
    assert "pruned" not in result.to_json()["members"][0]
    assert "pruned: rung 96: 4.0, rank 2 of 2" in closing_table(result, "cartpole")
    assert f"finished: pruned at {reached:,} env steps" in (tmp_path / "run/members/1/log.txt").read_text()
    assert "pruned: member 1 at rung 96: 4.0, rank 2 of 2" in (tmp_path / "run/log.txt").read_text()
    lines = [json.loads(line) for line in (tmp_path / "run" / RECORD_NAME).read_text().splitlines()]
    assert [(line["member"], line["rung"]) for line in lines if "member" in line] == [(0, 96), (0, 192), (1, 96)]
    assert [line["goes_on"] for line in lines if "setting" in line] == [True, True, False]
    entries = find_entries(tmp_path / "run")
    whole = next(entry for entry in entries.values() if entry.is_sweep)
    assert [read_status(member, None) for member in members_of(whole, entries)] == ["finished", "pruned"]
    assert read_status(whole, None) == "finished"


@pytest.mark.parametrize("concurrent", [0, 2])
def test_the_seeds_of_a_setting_end_together_at_the_same_rung(tmp_path, concurrent):
    result = sweep(paying(tmp_path / "run", [3.0, 1.0, 5.0], seeds=2, concurrent=concurrent))
    assert endings(result) == ["steps"] * 2 + ["pruned"] * 2 + ["steps"] * 2
    assert {member.pruned.num_settings for member in result.members if member.pruned} == {2}
    for member in result.members:
        saved, _ = load_newest_checkpoint(member.result.run_dir / "checkpoints")
        updates = saved.state["tree"]["numbers"]["num_steps"]
        assert member.result.learner_steps == updates, "the last report of each learner counts"


def test_a_seed_whose_setting_is_pruned_before_its_turn_trains_no_step(tmp_path):
    result = sweep(paying(tmp_path / "run", [3.0, 1.0], seeds=2, concurrent=1))
    assert endings(result) == ["steps", "steps", "pruned", "pruned"]
    assert result.members[2].result.env_steps >= 96
    assert result.members[3].result.env_steps == 0


def test_evaluations_decide_if_there_are_any(tmp_path):
    values = {"evaluation.interval": 150, "evaluation.episodes": 2, "evaluation.num-envs": 2}
    result = sweep(paying(tmp_path / "run", [3.0, 1.0], **values))
    assert endings(result) == ["steps", "pruned"]
    lines = [json.loads(line) for line in (tmp_path / "run" / RECORD_NAME).read_text().splitlines()]
    evaluated = [step for step, _ in read_series(tmp_path / "run/members/0/metrics.db", "evaluation/mean_return")]
    assert lines[0]["env_steps"] == evaluated[0] >= 150
    by_return = sweep(paying(tmp_path / "other", [3.0, 1.0], score="return", **values))
    first = json.loads((tmp_path / "other" / RECORD_NAME).read_text().splitlines()[0])
    assert 96 <= first["env_steps"] < 150
    assert endings(by_return) == ["steps", "pruned"]


def test_the_experience_of_a_pruned_member_stays_in_a_shared_replay(tmp_path):
    result = sweep(paying(tmp_path / "run", [3.0, 1.0, 4.0]))
    assert endings(result) == ["steps", "pruned", "steps"]
    trained = [member.result.env_steps for member in result.members]
    stored = read_series(tmp_path / "run/members/2/metrics.db", "replay/num_steps")[-1][1]
    assert trained[0] + trained[2] < stored <= sum(trained)


@both_schedules
def test_a_resumed_sweep_keeps_the_record(tmp_path, monkeypatch, schedule):
    steps = 384 if schedule == "lockstep" else 8000
    pruner = dataclasses.replace(PRUNER, first_rung=steps // 4)
    config = paying(tmp_path / "run", [3.0, 1.0, 2.0, 4.0], schedule=schedule, steps=steps, pruner=pruner)
    stopped(config, monkeypatch, member=3, env_steps=1)
    before = (tmp_path / "run" / RECORD_NAME).read_text()
    result = sweep(dataclasses.replace(config, base=dataclasses.replace(config.base, resume=True)))
    assert endings(result) == ["steps", "pruned", "pruned", "steps"]
    assert result.members[1].result.env_steps < steps, "a pruned member does not train again"
    assert (tmp_path / "run" / RECORD_NAME).read_text().startswith(before)
    assert result.members[2].pruned.num_settings == 3


def test_a_pruned_lockstep_sweep_goes_on_as_if_it_had_not_been_interrupted(tmp_path, monkeypatch):
    values = {"share_replay": False, "checkpoint_replay": True, "concurrent": 2, "rewards": [3.0, 1.0, 2.0, 4.0, 5.0]}
    whole = sweep(paying(tmp_path / "whole", **values))
    stopped(paying(tmp_path / "parts", **values), monkeypatch, member=3, env_steps=100)
    again = sweep(paying(tmp_path / "parts", **values, resume=True))
    records = [(tmp_path / name / RECORD_NAME).read_text() for name in ("whole", "parts")]
    assert records[0] == records[1]
    assert endings(whole) == endings(again)
    assert [item.result.env_steps for item in whole.members] == [item.result.env_steps for item in again.members]


def test_the_other_seeds_do_not_wait_for_one_that_fails(tmp_path, monkeypatch):
    step = Learner.step

    @functools.wraps(step)
    def fails(self, *arguments):
        if self._member == 2:
            raise RuntimeError("no step here")
        return step(self, *arguments)

    monkeypatch.setattr(Learner, "step", fails)
    result = sweep(paying(tmp_path / "run", [3.0, 1.0], seeds=2, concurrent=0))
    assert endings(result) == ["steps", "steps", "failed", "pruned"]


def member_at(number, env_steps, fitness, evaluated=None):
    """A member's supervisor, as far as pruning looks at it."""
    recorder = SimpleNamespace(
        position=lambda: SimpleNamespace(env_steps=env_steps),
        fitness=lambda: fitness,
        newest_evaluation=lambda: evaluated,
    )
    return SimpleNamespace(number=number, finished=Ending.NONE, recorder=recorder)


def pruning(path, by_evaluation=False):
    setting_of = {0: 0, 1: 0, 2: 1}
    return Pruning(2, {number: [10, 20] for number in range(3)}, setting_of, by_evaluation, path, lambda line: None)


def test_a_solved_member_counts_at_all_its_later_rungs(tmp_path):
    rule = pruning(tmp_path / "record")
    assert rule.judge(member_at(0, 12, 50.0), Ending.SOLVED) is Ending.SOLVED
    rule.judge(member_at(1, 12, 40.0), Ending.SOLVED)
    for env_steps, ending in ((11, Ending.NONE), (21, Ending.PRUNED)):
        rest = member_at(2, env_steps, 60.0 if env_steps < 20 else 30.0)
        assert rule.judge(rest, Ending.NONE) is ending
    assert rule.verdict(2).num_settings == 2
    assert rule.judge(rest, Ending.STEPS) is Ending.STEPS, "a member that is done was not ended by others"


def test_a_member_without_a_score_is_judged_once_it_has_one(tmp_path):
    rule = pruning(tmp_path / "record")
    rule.judge(member_at(2, 12, 50.0), Ending.NONE)
    assert rule.judge(member_at(0, 12, None), Ending.NONE) is Ending.NONE
    assert rule.judge(member_at(0, 15, 1.0), Ending.NONE) is Ending.PRUNED
    by_evaluation = pruning(tmp_path / "other", by_evaluation=True)
    by_evaluation.judge(member_at(2, 12, 0.0, (10, 50.0)), Ending.NONE)
    assert by_evaluation.judge(member_at(0, 12, 99.0, (9, 1.0)), Ending.NONE) is Ending.NONE, "of older weights"
    assert by_evaluation.judge(member_at(0, 12, 99.0, (10, 1.0)), Ending.NONE) is Ending.PRUNED


def test_a_score_that_was_left_is_not_left_again(tmp_path):
    rule = pruning(tmp_path / "record")
    rule.judge(member_at(0, 12, 5.0), Ending.NONE)
    again = pruning(tmp_path / "record")
    again.judge(member_at(0, 11, 7.0), Ending.NONE)  # trains once more from its last checkpoint
    again.judge(member_at(2, 11, 6.0), Ending.NONE)
    assert again.verdict(2) is None
    scores = [json.loads(line) for line in (tmp_path / "record").read_text().splitlines()]
    assert [line["score"] for line in scores if "member" in line] == [5.0, 6.0]


def test_a_record_that_cannot_be_read_is_refused(tmp_path):
    (tmp_path / "record").write_text("{}\n")
    with pytest.raises(NothingToResumeError, match="record cannot be read"):
        pruning(tmp_path / "record")


RATES = ["--grid", "algorithm.learning-rate=1e-3,3e-3"]


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        ([*RATES, "--pruner", "asha", "--pbt"], "pruner: population based training replaces"),
        (
            [*RATES, "--pruner", "asha", "--pruner.first-rung", "2000", "--steps", "2000"],
            "pruner.first-rung: must be below",
        ),
        ([*RATES, "--pruner", "asha", "--pruner.reduction", "1"], "pruner.reduction: must be at least 2"),
        (
            [*RATES, "--pruner", "asha", "--score", "evaluation", "--evaluation.interval", "0"],
            "score: is evaluation, but",
        ),
        (
            [
                *RATES,
                "--pruner",
                "asha",
                "--steps",
                "5000",
                "--pruner.first-rung",
                "1000",
                "--evaluation.interval",
                "5000",
            ],
            "score: takes evaluations, and the first one from 1,000 env steps on",
        ),
        (["--seeds", "4", "--pruner", "asha"], "pruner: needs several settings"),
        ([*RATES, "--pruner.first-rung", "100"], "pruner.first-rung: has no effect without --pruner asha"),
        ([*RATES, "--score", "return"], "score: has no effect: there is no pruner"),
        ([*RATES, "--pruner", "median"], "pruner: must be one of none, asha"),
        ([*RATES, "--pruner", "asha", "--pruner.rung", "100"], "pruner.rung: unknown key"),
        (
            ["--grid", "env=CartPole-v1,Acrobot-v1", "--no-share-replay", "--pruner", "asha"],
            "pruner: returns in different environments",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words, mistake):
    with pytest.raises(ConfigError) as caught:
        parse_sweep(["cartpole", *words])
    (problem,) = caught.value.problems
    assert str(problem).startswith(mistake)


def test_a_resumed_sweep_keeps_its_pruner_and_its_rungs(tmp_path):
    config = parse_sweep(
        ["cartpole", *RATES, "--pruner", "asha", "--steps", "2700", "--run-dir", str(tmp_path / "run")]
    )
    with open_run(config.base, ["test"], facts={"sweep": config.to_json()}):
        pass
    resume = ["cartpole", "--resume", "--run-dir", str(tmp_path / "run"), "--steps", "27000"]
    again = parse_sweep(resume)
    assert (again.options.pruner, again.pruner.first_rung) == ("asha", 512)
    for words in (["--pruner", "none"], ["--pruner.first-rung", "1000"], ["--score", "return"]):
        with pytest.raises(ConfigError, match="a resumed sweep keeps its own"):
            parse_sweep([*resume, *words])


def test_nobody_waits_for_the_steps_of_pruned_members():
    def recorder(env_steps, has_failed=False):
        rest = {"mean_return": 1.0, "env_steps_per_second": 10.0, "gauges": {}, "bottleneck": ""}
        snapshot = SimpleNamespace(env_steps=env_steps, **rest)
        return SimpleNamespace(has_failed=has_failed, snapshot=lambda: snapshot)

    verdicts = {0: "pruned", 2: "pruned"}
    begun = [recorder(5), recorder(50), recorder(7, has_failed=True), recorder(60)]
    some = look_at(begun, 5, verdicts.get)
    assert (some.env_steps, some.num_waiting, some.num_failed, some.num_pruned) == (50, 1, 1, 1)
    assert "50 to 60 of 100" in describe_sweep(some, 100)
    assert "1 members wait · 1 failed · 1 pruned" in describe_sweep(some, 100)
    assert look_at(begun[:1], 5, verdicts.get).env_steps == 5
