"""Learned samplers through whole small runs: they learn, resume bit by bit, and say what cannot be."""

from __future__ import annotations

import functools
import signal
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from saved_runs import assert_same, train_whole_and_in_parts, weights

from actors.evaluator import Evaluator
from laser.algorithms.ddpg import Ddpg
from laser.config import ConfigError
from laser.prioritization.ners import Ners
from launch.errors import Interrupted
from launch.presets import load_preset
from launch.records.metrics_db import read_names, read_series
from launch.supervision.signals import StopSignal
from launch.train import train
from learner.learner import Learner
from replay_server.serving.shard import Shard

SMALL = {
    "network.hidden-sizes": (8,),
    "algorithm.batch-size": 16,
    "unroll-length": 8,
    "replay.capacity-steps": 640,
    "replay.min-steps": 256,
    "replay.samples-per-insert": 8.0,
    "replay.importance-schedule": "constant",
    "evaluation.interval": 150,
    "evaluation.episodes": 1,
    "evaluation.num-envs": 1,
    "quiet": True,
    "checkpoint-replay": True,
}
EVALUATED = {"ners": {"replay.sampler": "ners"}, "ero": {"replay.sampler": "ero"}}
CASES = {
    **EVALUATED,
    "ners over shards": {"replay.sampler": "ners", "replay.num-shards": 2, "num-actors": 2},
    "ero over shards": {"replay.sampler": "ero", "replay.num-shards": 2, "num-actors": 2},
    "ners*": {"replay.sampler": "ners", "replay.ners.reward": "training", "evaluation.interval": 0},
    "ners, the break where an evaluation is due": {"replay.sampler": "ners", "evaluation.interval": 112},
    # An episode ends between the last return it was told of and the end of the first part.
    "ners* told late": {"replay.sampler": "ners", "replay.ners.reward": "training", "evaluation.interval": 300},
}

QUICK = ("ners over shards", "ero", "ners, the break where an evaluation is due")


def small(name: str, path: Path, **changes: object):
    return load_preset("ddpg_pendulum", {**SMALL, **CASES[name], "run-dir": path, **changes})


def recorded(path: Path) -> dict[str, float]:
    """Return the newest value of every metric."""
    database = path / "metrics.db"
    return {name: series[-1][1] for name in read_names(database) if (series := read_series(database, name))}


@pytest.mark.parametrize(
    "name", [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES]
)
def test_a_resumed_run_equals_one_that_was_never_interrupted(name, tmp_path):
    _, one = train_whole_and_in_parts(functools.partial(small, name), tmp_path, 960, 560)
    assert any(key.startswith("sampler/network/") for key in one)
    assert any(key.startswith("sampler/optimizer/") for key in one), "the sampler never learned"


def test_an_evaluation_that_a_stop_interrupts_is_made_when_the_run_goes_on(tmp_path, monkeypatch):
    train(small("ners", tmp_path / "whole", steps=480))
    stop, play, played = StopSignal(), Evaluator._play, []

    def play_on(self, *arguments):
        played.append(arguments)
        if len(played) == 2:
            stop.number = signal.SIGINT
            while not self._is_interrupted:
                time.sleep(0.01)
        return play(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(Evaluator, "_play", play_on)
        patch.setattr("launch.train.stop_on_signals", lambda: nullcontext(stop))
        with pytest.raises(Interrupted):
            train(small("ners", tmp_path / "parts", steps=480))
    train(small("ners", tmp_path / "parts", steps=480, resume=True))
    assert_same(weights(tmp_path / "whole"), weights(tmp_path / "parts"))
    whole, parts = (read_series(tmp_path / run / "metrics.db", "evaluation/mean_return") for run in ("whole", "parts"))
    assert whole == parts
    assert len(whole) == 3


@pytest.mark.parametrize("name", EVALUATED)
def test_it_learns_from_every_evaluation_but_the_first_and_records_what_it_draws(name, tmp_path):
    train(small(name, tmp_path / "run", steps=960))
    metrics = recorded(tmp_path / "run")
    assert metrics["sampler/updates"] == 960 // 150 - 1
    assert metrics["sampler/replay_reward"] != 0
    for what in ("sampled_td_error", "stored_td_error", "sampled_q", "stored_q"):
        # What ERO leaves out of its draws it cannot say anything of.
        if what.startswith("sampled") or name != "ero":
            assert {f"{what}/{part}" for part in ("p10", "p50", "p90", "mean", "std")} <= set(metrics)
    assert name == "ero" or 0 < metrics["effective_draws"] <= 1
    assert metrics["times_replayed/max"] >= metrics["times_replayed/p50"] >= 1
    if name == "ners":
        assert 0 < metrics["sampler/score_mean"] < 1


@pytest.mark.parametrize("name", ["ners", "ero"])
def test_threads_learn_too(name, tmp_path, monkeypatch):
    heard, marks = [], []
    hear, mark = Learner.hear_return, Learner.mark_evaluation

    @functools.wraps(hear)
    def watched(self, mean_return):
        heard.append(mean_return)
        hear(self, mean_return)

    @functools.wraps(mark)
    def marked(self):
        marks.append(len(heard))
        mark(self)

    monkeypatch.setattr(Learner, "hear_return", watched)
    monkeypatch.setattr(Learner, "mark_evaluation", marked)
    result = train(small(name, tmp_path / "run", steps=960, runtime="local", **{"learner.deadline_s": 60.0}))
    assert result.learner_steps > 10
    assert heard
    assert marks[: len(heard)] == list(range(len(heard))), "an evaluation was not announced"


def test_that_it_never_learns_without_evaluations_is_said(tmp_path):
    for changes, said in (
        ({"evaluation.interval": 0}, True),
        ({"evaluation.interval": 500}, True),
        ({"evaluation.interval": 480}, True),  # the second one would be due at the run's end
        ({"evaluation.interval": 470}, False),
        ({"evaluation.interval": 0, "replay.ners.reward": "training"}, False),
        ({"evaluation.interval": 300, "replay.min-steps": 600}, False),
        ({"evaluation.interval": 470, "replay.min-steps": 600}, False),
    ):
        lines = [str(problem) for problem in small("ners", tmp_path, steps=960, **changes).warnings()]
        assert any("ners learns from the change between two evaluations" in line for line in lines) == said
        assert not any(line.startswith("replay.min-steps") for line in lines)


def test_that_nothing_is_drawn_before_the_last_evaluation_is_said(tmp_path):
    changes = {"evaluation.interval": 300, "replay.min-steps": 900, "replay.capacity-steps": 1000}
    (problem,) = small("ners", tmp_path, steps=960, **changes).warnings()
    assert str(problem) == (
        "replay.min-steps: ners learns from draws before its last evaluation, which is after 900 env steps, but "
        "learning begins only after 900; lower it"
    )


def test_settings_of_priorities_are_named_where_nothing_goes_by_them(tmp_path):
    for sampler in ("uniform", "episodes", "episodes_by_length", "ero"):
        changes = {"replay.sampler": sampler, "replay.priority-exponent": 0.9, "replay.ners.batch-size": 64}
        keys = {problem.key for problem in small("ners", tmp_path, **changes).warnings()}
        assert {"replay.priority-exponent", "replay.ners.batch-size"} <= keys, sampler


@pytest.mark.parametrize(("exponent", "said"), [(0.0, True), (0.5, False)])
def test_that_its_scores_have_no_effect_is_said(tmp_path, exponent, said):
    warnings = small("ners", tmp_path, **{"replay.priority-exponent": exponent}).warnings()
    assert any("0 draws uniformly whatever ners learns" in str(problem) for problem in warnings) == said


@pytest.mark.parametrize(
    ("preset", "changes", "line"),
    [
        ("cartpole", {"replay.sampler": "ners"}, "replay.sampler: ners does not draw unrolls, which laser learns from"),
        ("cartpole", {"replay.sampler": "ero"}, "replay.sampler: ero does not draw unrolls, which laser learns from"),
    ],
)
def test_agents_that_cannot_feed_it_are_refused_in_one_line(preset, changes, line, tmp_path):
    with pytest.raises(ConfigError) as caught:
        train(load_preset(preset, {**changes, "evaluation.interval": 100, "run-dir": tmp_path / "run", "quiet": True}))
    assert str(caught.value).startswith(line)
    assert len(str(caught.value).splitlines()) == 1


def test_exponents_outside_their_ranges_are_named_together():
    wrong = {
        "replay.priority-exponent": -0.1,
        "replay.priority-uniform": 1.5,
        "replay.importance-exponent": 1.2,
        "replay.ners.learning-rate": 0.0,
        "replay.ners.batch-size": 1,
        "replay.ero.num-updates": 0,
    }
    with pytest.raises(ConfigError) as caught:
        load_preset("ddpg_pendulum", wrong)
    assert {problem.key for problem in caught.value.problems} == set(wrong)


STEP_PRESETS = ["sac_pendulum", "td3_pendulum", "ddpg_pendulum", "naf_pendulum", "racer_pendulum", "v_racer_pendulum"]
PAIRS = [(preset, sampler) for preset in [*STEP_PRESETS, "dqn_mini"] for sampler in ("per", "rank", "ero", "ners")]
OFTEN = [("sac_pendulum", "ners"), ("dqn_mini", "ners")]  # images too


@pytest.mark.parametrize(
    ("preset", "sampler"), [pair if pair in OFTEN else pytest.param(*pair, marks=pytest.mark.slow) for pair in PAIRS]
)
def test_every_sampler_works_with_every_agent_of_single_steps(preset, sampler, tmp_path):
    values = {"replay.sampler": sampler, "run-dir": tmp_path / "run", "steps": 480, "evaluation.interval": 90}
    if preset == "dqn_mini":
        values |= {"algorithm.distributional": True, "algorithm.noisy": True, "algorithm.dueling": True}
        values |= {"network.hidden-sizes": ()}
    result = train(load_preset(preset, {**SMALL, **values}))
    assert result.learner_steps > 10
    metrics = recorded(tmp_path / "run")
    assert metrics["sampled_q/std"] > 0
    if sampler == "ero":  # draws evenly from a part, which says nothing of the rest
        assert not {"stored_q/std", "effective_draws"} & set(metrics)
    else:
        assert 0 < metrics["effective_draws"] <= 1
        assert metrics["stored_q/std"] > 0
    if sampler in EVALUATED:
        assert metrics["sampler/updates"] > 0


@pytest.mark.parametrize("sampler", ["per", "rank", "ners"])
def test_after_every_update_the_weights_are_those_of_what_was_said(sampler, tmp_path, monkeypatch):
    """Draws and losses are watched, and the weights recomputed slowly: new steps, written steps, forgotten ones."""
    writes_seen, alpha, column = [], 0.5, {"ners": "ners_score"}.get(sampler, "priority")
    write = Shard.write

    def watched(self, writes):
        receipt = write(self, writes)
        member = self._members[0]
        if column in writes.values and "steps" in member.samplers:
            values = writes.values[column][:, 0]
            last = {tuple(key): value for key, value in zip(writes.keys.tolist(), values, strict=True)}
            index, tree = self._store.index, member.samplers["steps"]._tree
            writes_seen.append([])
            for (_, page, generation, row), value in last.items():
                if index.pages.generation[page] == generation and index.episode_of_row[page, row] >= 0:
                    leaf = tree.leaves[page * index.unroll_length + row]
                    writes_seen[-1].append((float(value), leaf))
        return receipt

    said = []
    prepare, loss = Ners.prepare, Ddpg.loss
    monkeypatch.setattr(Shard, "write", watched)
    if sampler == "ners":

        def scored(self, items):
            values = prepare(self, items)
            said.extend(each["ners_score"] for each in values)
            return values

        monkeypatch.setattr(Ners, "prepare", scored)
    else:

        def spied(self, *arguments):
            output = loss(self, *arguments)
            said.append(output.per_step["td_error"].detach().abs())
            return output

        monkeypatch.setattr(Ddpg, "loss", spied)
    train(small("ners", tmp_path / "run", steps=480, **{"replay.sampler": sampler}))
    values, leaves = np.array([pair for pairs in writes_seen for pair in pairs]).T
    assert len(values) > 500
    numbers = torch.cat([part.flatten() for part in said]) + (0.0 if sampler == "ners" else 1e-6)
    assert set(values.astype(np.float32)) <= set(numbers.numpy().tolist())
    if sampler == "rank":
        for pairs in writes_seen:  # within one order the larger error has at least the other's weight
            weights = [leaf for _, leaf in sorted(pairs)]
            assert weights == sorted(weights)
        assert len(set(leaves)) > 50
        assert np.isin(np.round(leaves ** (-1 / alpha), 6), np.arange(1, 641)).all()
    else:
        np.testing.assert_allclose(leaves, np.abs(values) ** alpha, rtol=1e-6)
