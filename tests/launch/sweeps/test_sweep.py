"""Whole sweeps, small: repeatable in lockstep, shared or not, at the same pace, continued, and evolving."""

from __future__ import annotations

import dataclasses
import functools
import json
import shutil
import signal
from contextlib import nullcontext

import pytest
import torch
from small_sweeps import SMALL

from laser.config import ConfigError
from launch.errors import Interrupted, LaunchError, NothingToResumeError
from launch.evaluation.evaluate import evaluate, load_policy
from launch.presets import change, load_preset
from launch.recording.recorder import Recorder
from launch.records.lineage import Lineage
from launch.records.metrics_db import read_names, read_series
from launch.records.run_directory import RunDirectory
from launch.records.run_record import newest_run
from launch.records.settings_schedule import SettingsChange, read_changes, setting_keys, write_changes
from launch.settings.train_config import TrainConfig
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.signals import StopSignal
from launch.sweeps.population import PbtConfig
from launch.sweeps.search_space import Range
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.sweep_progress import SweepSnapshot, describe_sweep
from launch.sweeps.sweep_result import SweepResult
from launch.train import train
from learner.checkpoint import load_newest_checkpoint
from learner.feedback.prioritizer_link import PrioritizerLink
from learner.learner import Learner

PAIR = {"algorithm.learning-rate": [3e-3, 1e-3]}
FOUR = PAIR | {"algorithm.entropy-cost": [0.01, 0.05]}


def small(path, grid=PAIR, pbt=None, share_replay=True, seeds=1, **changes) -> SweepConfig:
    base: TrainConfig = change(load_preset("cartpole"), SMALL | changes)
    base = dataclasses.replace(base, run_dir=path)
    options = SweepOptions(seeds=seeds, share_replay=share_replay, pbt=pbt is not None)
    return SweepConfig(base, grid, options, pbt or PbtConfig())


def weights(result: SweepResult) -> dict[str, torch.Tensor]:
    found = {}
    for member in result.members:
        checkpoint, warnings = load_newest_checkpoint(member.result.run_dir / "checkpoints")
        assert not warnings
        for group in ("networks", "optimizer"):
            found |= {f"{member.number}/{group}/{name}": item for name, item in checkpoint.tensors[group].items()}
    return found


def same(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    assert set(one) == set(other)
    return all(torch.equal(value, other[name]) for name, value in one.items())


@pytest.mark.parametrize("share_replay", [True, False])
def test_a_lockstep_sweep_repeats_bit_by_bit(tmp_path, share_replay):
    first = sweep(small(tmp_path / "a", share_replay=share_replay))
    second = sweep(small(tmp_path / "b", share_replay=share_replay))
    assert same(weights(first), weights(second))
    assert [item.result.env_steps for item in first.members] == [item.result.env_steps for item in second.members]
    steps = [item.result.env_steps for item in first.members]
    assert min(steps) >= 384
    assert max(steps) - min(steps) <= 4 * 16, "members take turns"
    learned = weights(first)
    assert not torch.equal(learned["0/networks/" + _one(learned)], learned["1/networks/" + _one(learned)])


def _one(learned):
    return next(name.removeprefix("0/networks/") for name in learned if name.startswith("0/networks/"))


def test_sharing_changes_what_members_learn_from(tmp_path):
    shared = sweep(small(tmp_path / "shared", FOUR))
    alone = sweep(small(tmp_path / "alone", FOUR, share_replay=False))
    assert not same(weights(shared), weights(alone))
    for result, sources in ((shared, {"online", "own_replay", "foreign_replay"}), (alone, {"online", "own_replay"})):
        steps = dict.fromkeys(("own_replay", "foreign_replay"), 0.0)
        for member in result.members:
            path = member.result.run_dir
            names = set(read_names(path / "metrics.db"))
            for what in ("accept_fraction", "abs_log_rho"):
                assert {name.removeprefix(f"{what}_") for name in names if name.startswith(what)} == sources
            for source in steps:
                steps[source] += sum(value for _, value in read_series(path / "metrics.db", f"num_steps_{source}"))
            assert {name.split("/")[1] for name in names if name.startswith("policy_lag/")} == sources
        # Uniform over all: three of four replayed unrolls are others'. Single reports may be of few batches.
        expected = 3 * steps["own_replay"] if result is shared else 0.0
        assert steps["foreign_replay"] == pytest.approx(expected, rel=0.3)


def test_a_sweep_of_one_point_is_the_run_itself(tmp_path):
    """The same seeds everywhere, so a member is what `laser train` with its config gives."""
    result = sweep(small(tmp_path / "sweep", {"seed": [5, 6]}, share_replay=False))
    config = dataclasses.replace(small(tmp_path / "x").base, seed=6, run_dir=tmp_path / "alone")
    train(config)
    alone, _ = load_newest_checkpoint(tmp_path / "alone" / "checkpoints")
    member = {name: item for name, item in weights(result).items() if name.startswith("1/networks/")}
    assert all(torch.equal(item, alone.tensors["networks"][name[11:]]) for name, item in member.items())


def test_a_resumed_sweep_equals_one_that_was_never_interrupted(tmp_path):
    values = {"checkpoint_replay": True}
    whole = sweep(small(tmp_path / "whole", **values, steps=768))
    sweep(small(tmp_path / "parts", **values, steps=384))
    again = sweep(small(tmp_path / "parts", **values, steps=768, resume=True))
    assert same(weights(whole), weights(again))


def test_what_a_sweep_leaves_behind(tmp_path):
    result = sweep(small(tmp_path / "runs" / "s", {"algorithm.learning-rate": [3e-3, 1e-3]}, seeds=2))
    value = result.to_json()
    assert len(value["members"]) == 4
    assert value["env_steps"] == sum(member["env_steps"] for member in value["members"])
    assert value["members"][2]["overrides"] == {"algorithm.learning-rate": 1e-3}
    assert len({member["seed"] for member in value["members"]}) == 4
    assert all(member["ledger"]["stages"]["received"] > 0 for member in value["members"])
    assert not any(any(member["ledger"]["imbalance"].values()) for member in value["members"])
    record = json.loads((tmp_path / "runs" / "s" / "config.json").read_text())
    assert record["sweep"]["grid"] == {"algorithm.learning-rate": ["0.003", "0.001"]}
    member = json.loads((tmp_path / "runs" / "s" / "members" / "2" / "config.json").read_text())
    assert member["member"] == {"index": 2, "overrides": {"algorithm.learning-rate": "0.001"}}
    assert member["config"]["algorithm"]["learning_rate"] == 1e-3
    assert evaluate(result.members[2].result.run_dir, 2, num_envs=2, quiet=True).env_steps >= 384
    with pytest.raises(NothingToResumeError, match="members/0"):
        load_policy(tmp_path / "runs" / "s")
    assert len(evaluate(tmp_path / "runs" / "s", 2, num_envs=2, quiet=True).members) == 4
    with pytest.raises(NothingToResumeError, match="no run"):
        newest_run("cartpole", None, tmp_path / "runs")
    assert newest_run("cartpole", None, tmp_path / "runs", of_sweeps=True) == tmp_path / "runs" / "s"


@pytest.mark.parametrize("share_replay", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_threads_keep_pace(tmp_path, share_replay):
    values = {"runtime": "local", "steps": 2000, "num_envs": 2, "replay.num-shards": 2 if share_replay else 1}
    result = sweep(small(tmp_path / "run", share_replay=share_replay, **values))
    steps = [member.result.env_steps for member in result.members]
    assert all(member.result.finished == "steps" for member in result.members)
    assert max(steps) <= 1.1 * min(steps)  # the pace, and the unrolls that actors finish at the end
    assert min(member.result.learner_steps for member in result.members) > 10


EVOLVING = {"steps": 1500, "checkpoint_replay": True}


def evolving(path, rule="impala", **changes):
    pbt = PbtConfig(rule=rule, burn_in=300, interval=300)
    return small(path, {"algorithm.learning-rate": [1e-5, 3e-3]}, pbt, **EVOLVING | changes)


@pytest.mark.parametrize("rule", ["impala", pytest.param("truncation", marks=pytest.mark.slow)])
def test_evolution_copies_between_living_members_and_repeats(tmp_path, monkeypatch, rule):
    told, copied = [], MemberSupervisor.copied

    def watched(self, snapshot):
        told.append((self.number, snapshot.env_steps))
        copied(self, snapshot)

    monkeypatch.setattr(MemberSupervisor, "copied", watched)
    first, second = sweep(evolving(tmp_path / "a", rule)), sweep(evolving(tmp_path / "b", rule))
    lineage = Lineage(tmp_path / "a" / "lineage.jsonl").decisions
    assert lineage == Lineage(tmp_path / "b" / "lineage.jsonl").decisions
    assert same(weights(first), weights(second))
    copies = [item for item in lineage if item.copied is not None]
    assert copies, "nobody copied anybody: the test shows nothing"
    assert told == [(item.member, item.env_steps) for item in copies] * 2
    for item in copies:
        assert item.fitness[item.copied] > item.fitness[item.member]
        assert item.settings["algorithm.learning-rate"] > 1e-4 or item.copied == 0
    for member in first.members:
        changes = read_changes(member.result.run_dir / "schedule.json")
        assert changes[-1].settings == member.settings
        checkpoint, _ = load_newest_checkpoint(member.result.run_dir / "checkpoints")
        applied = setting_keys(checkpoint.state["tree"]["numbers"]["settings"])
        assert not applied or applied == member.settings, "what the lineage says is what the learner uses"


class StopsAfter(StopSignal):
    """A Ctrl-C that comes when it has been looked for so many times."""

    def __init__(self, num_looks):
        super().__init__()
        self.num_looks = num_looks

    @property
    def requested(self):
        self.num_looks -= 1
        self.number = signal.SIGINT if self.num_looks <= 0 else None
        return self.number is not None


def test_an_evolving_sweep_goes_on_as_if_it_had_not_been_interrupted(tmp_path, monkeypatch):
    whole = sweep(evolving(tmp_path / "whole"))
    with monkeypatch.context() as patch:
        patch.setattr("launch.sweeps.sweep.stop_on_signals", lambda: nullcontext(StopsAfter(30)))
        with pytest.raises(Interrupted, match="--resume"):
            sweep(evolving(tmp_path / "parts"))
    before = Lineage(tmp_path / "parts" / "lineage.jsonl").decisions
    again = sweep(evolving(tmp_path / "parts", resume=True))
    lineages = [Lineage(tmp_path / name / "lineage.jsonl").decisions for name in ("whole", "parts")]
    assert lineages[0] == lineages[1]
    assert 0 < len(before) < len(lineages[0])
    assert same(weights(whole), weights(again))


def test_a_resumed_sweep_keeps_what_it_tries_also_from_python(tmp_path):
    """Else values of another space would be told to a study of the first."""
    begun = small(tmp_path / "run", steps=128)
    sweep(begun)
    other = dataclasses.replace(begun, base=dataclasses.replace(begun.base, resume=True, seed=7))
    options = SweepOptions(sample=2, share_replay=False)
    space = {"algorithm.entropy-cost": Range("uniform", 0.0, 0.1)}
    changed = dataclasses.replace(other, grid={"algorithm.learning-rate": [3e-3]}, space=space, options=options)
    with pytest.raises(ConfigError) as caught:
        sweep(changed)
    keys = sorted(problem.key for problem in caught.value.problems)
    assert keys == ["grid", "sample", "seed", "share-replay", "space"]
    longer = dataclasses.replace(begun, base=dataclasses.replace(begun.base, resume=True, steps=256))
    assert len(sweep(longer).members) == 2


def test_a_signal_after_the_last_step_of_all_members_leaves_the_result(tmp_path, monkeypatch):
    stop = StopSignal()
    log = RunDirectory.log

    def stopping(self, text):
        if text == "finished: steps":  # of the first member; all have made their steps by then
            stop.number = signal.SIGINT
        log(self, text)

    monkeypatch.setattr(RunDirectory, "log", stopping)
    monkeypatch.setattr("launch.sweeps.sweep.stop_on_signals", lambda: nullcontext(stop))
    result = sweep(small(tmp_path / "run"))
    assert stop.requested
    assert [member.result.finished for member in result.members] == ["steps"] * 2


def test_a_resumed_sweep_that_is_stopped_keeps_what_it_was_resumed_with(tmp_path, monkeypatch):
    sweep(small(tmp_path / "run"))
    monkeypatch.setattr("launch.sweeps.sweep.stop_on_signals", lambda: nullcontext(StopsAfter(2)))
    with pytest.raises(Interrupted, match="--resume"):
        sweep(small(tmp_path / "run", steps=768, resume=True))
    records = [tmp_path / "run" / "config.json", *sorted(tmp_path.glob("run/members/*/config.json"))]
    assert [json.loads(path.read_text())["config"]["steps"] for path in records] == [768] * 3


def test_threads_evolve_too(tmp_path):
    result = sweep(evolving(tmp_path / "run", runtime="local", num_envs=2))
    assert all(member.result.finished == "steps" for member in result.members)
    assert Lineage(tmp_path / "run" / "lineage.jsonl").decisions


def test_a_schedule_is_followed(tmp_path):
    base = small(tmp_path / "x", num_envs=4).base
    path = tmp_path / "schedule.json"
    found = {}
    for rate in (1e-3, 1e-9):
        changes = [SettingsChange(0, {}), SettingsChange(256, {"algorithm.learning-rate": rate})]
        write_changes(path, changes)
        train(dataclasses.replace(base, run_dir=tmp_path / str(rate), settings_schedule=path))
        checkpoint, _ = load_newest_checkpoint(tmp_path / str(rate) / "checkpoints")
        assert checkpoint.state["tree"]["numbers"]["settings"] == {"learning_rate": rate}
        found[rate] = checkpoint.tensors["networks"]
    assert any(not torch.equal(value, found[1e-9][name]) for name, value in found[1e-3].items())


FAILING = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Failing(CartPoleEnv):
    def step(self, action):
        self.num_steps = getattr(self, "num_steps", 0) + 1
        if self.num_steps > 60:
            raise RuntimeError("the pole is missing")
        return super().step(action)

gymnasium.register("Failing-v0", Failing)
"""


def noting(end_accounts, logged, tmp_path):
    """Notes, when the sound member ends, whether the log of the other one says that it has failed."""

    def noted(self):
        if self.number == 0:
            logged.append("failed: " in (tmp_path / "run" / "members" / "1" / "log.txt").read_text())
        end_accounts(self)

    return noted


@pytest.mark.parametrize("runtime", ["lockstep", "local"])
def test_a_member_that_fails_does_not_end_the_others(tmp_path, monkeypatch, capsys, runtime):
    (tmp_path / "failing_environment.py").write_text(FAILING)
    monkeypatch.syspath_prepend(str(tmp_path))
    grid = {"env": ["CartPole-v1", "failing_environment:Failing-v0"]}
    values = {"runtime": runtime, "environment.max-restarts": 0, "num_envs": 2}
    logged = []
    monkeypatch.setattr(MemberSupervisor, "end_accounts", noting(MemberSupervisor.end_accounts, logged, tmp_path))
    result = sweep(small(tmp_path / "run", grid, share_replay=False, **values | {"quiet": False, "steps": 1500}))
    said = capsys.readouterr().err.splitlines()
    assert any(line.startswith("member 1 failed after ") and line.endswith("the pole is missing") for line in said)
    assert said.count("observation is 4 numbers (mlp)") == 1, "what members have in common is said once"
    assert any("; 1 of 2 members failed; everything is in" in line for line in said)
    assert logged[0], "its log says so before the others end"
    assert [member.result.finished for member in result.members] == ["steps", "failed"]
    assert "the pole is missing" in result.members[1].error
    assert "error" in result.to_json()["members"][1]
    log = (tmp_path / "run" / "members" / "1" / "log.txt").read_text()
    assert "the pole is missing" in log
    assert 'failing_environment.py", line 9, in step' in log  # where the user looks
    with pytest.raises(LaunchError, match="the pole is missing"):
        sweep(small(tmp_path / "all", {"env": grid["env"][1:]}, seeds=2, **values))


def fail_for(member: int, method: str, monkeypatch) -> None:
    """Lets a method of one member's learner raise."""
    works = getattr(Learner, method)

    @functools.wraps(works)
    def fails(self, *arguments):
        if self._member == member:
            raise RuntimeError(f"no {method} here")
        return works(self, *arguments)

    monkeypatch.setattr(Learner, method, fails)


@pytest.mark.parametrize("runtime", ["lockstep", "local"])
@pytest.mark.parametrize(("method", "interval_s"), [("step", 300.0), ("state_dict", 300.0), ("state_dict", 0.01)])
def test_nor_does_one_whose_learner_dies_or_cannot_be_saved(tmp_path, monkeypatch, runtime, method, interval_s):
    if runtime == "local" and method == "step":
        method = "tick"  # what threads call
    fail_for(1, method, monkeypatch)
    values = {"runtime": runtime, "num_envs": 2, "learner.checkpoint-interval-s": interval_s}
    result = sweep(small(tmp_path / "run", **values))
    assert [member.result.finished for member in result.members] == ["steps", "failed"]
    assert f"no {method} here" in result.members[1].error
    members = tmp_path / "run" / "members"
    assert load_newest_checkpoint(members / "0" / "checkpoints")
    assert f"failed: RuntimeError: no {method} here" in (members / "1" / "log.txt").read_text()


@pytest.mark.parametrize("runtime", ["lockstep", "local"])
def test_a_sweep_goes_on_without_a_member_that_has_no_checkpoint(tmp_path, runtime):
    values = {"runtime": runtime, "num_envs": 2}
    sweep(small(tmp_path / "run", **values))
    shutil.rmtree(tmp_path / "run" / "members" / "1" / "checkpoints")
    result = sweep(small(tmp_path / "run", resume=True, **values | {"steps": 500}))
    assert [member.result.finished for member in result.members] == ["steps", "failed"]
    assert result.members[0].result.env_steps >= 500
    assert not list((tmp_path / "run" / "members" / "1").glob("checkpoints/*"))
    shutil.rmtree(tmp_path / "run" / "members" / "0" / "checkpoints")
    with pytest.raises(NothingToResumeError, match="no checkpoint"):
        sweep(small(tmp_path / "run", resume=True, **values | {"steps": 600}))


def test_a_resumed_sweep_does_not_look_for_the_weights_that_it_began_with(tmp_path):
    train(dataclasses.replace(small(tmp_path / "weights").base, seed=9))
    values = {"init_from": str(tmp_path / "weights"), "num_envs": 2}
    sweep(small(tmp_path / "run", **values))
    shutil.rmtree(tmp_path / "weights")
    shutil.rmtree(tmp_path / "run" / "members" / "1" / "checkpoints")
    result = sweep(small(tmp_path / "run", resume=True, **values | {"steps": 500}))
    assert [member.result.finished for member in result.members] == ["steps", "failed"]


def test_why_the_members_failed_that_could_go_on_is_told(tmp_path, monkeypatch):
    sweep(small(tmp_path / "run"))
    shutil.rmtree(tmp_path / "run" / "members" / "0" / "checkpoints")
    fail_for(1, "state_dict", monkeypatch)
    with pytest.raises(RuntimeError, match="no state_dict here"):
        sweep(small(tmp_path / "run", resume=True, steps=400))


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("share_replay", [False, True])
def test_every_member_is_told_whether_its_replay_came_back(tmp_path, monkeypatch, saved, share_replay):
    sweep(small(tmp_path / "run", share_replay=share_replay, checkpoint_replay=saved))
    told = []
    monkeypatch.setattr(
        PrioritizerLink, "load_state_dict", lambda self, state, replay_restored: told.append(replay_restored)
    )
    sweep(small(tmp_path / "run", share_replay=share_replay, checkpoint_replay=saved, resume=True, steps=400))
    assert told == [saved, saved]


def test_who_asks_for_weights_that_cannot_be_had_goes_on(tmp_path, monkeypatch):
    fail_for(1, "weights", monkeypatch)
    result = sweep(evolving(tmp_path / "run"))
    # A learner that raises has failed; who asked it has not.
    assert {member.number for member in result.members if member.result.finished == "failed"} <= {1}
    decisions = Lineage(tmp_path / "run" / "lineage.jsonl").decisions
    assert decisions
    assert all(decision.copied != 1 for decision in decisions)
    assert "its weights cannot be copied" in (tmp_path / "run" / "members" / "1" / "log.txt").read_text()


def test_members_that_have_failed_are_counted_and_hold_back_nothing():
    snapshot = Recorder().snapshot()
    ahead = dataclasses.replace(snapshot, env_steps=50)
    line = describe_sweep(SweepSnapshot([ahead], num_waiting=2, num_failed=1), 100)
    assert line.startswith("50 to 50 of 100 env steps (50%) · 2 members wait · 1 failed")
