"""Replay by priority through a whole run, and who cannot have it."""

import pytest

import laser
from laser.algorithms.laser import Laser
from laser.config import ConfigError
from laser.ports import ColumnSpec

QUICK = {
    "steps": 1200,
    "quiet": True,
    "runtime": "lockstep",
    "num_envs": 2,
    "replay.min_steps": 64,
    "replay.sampler": "per",
    "network.separate_critic": False,
}


def test_unrolls_are_drawn_by_what_the_learner_wrote(tmp_path, monkeypatch):
    from learner.experience.batch_loader import BatchLoader

    seen = []
    load = BatchLoader.load

    def watched(self, mixes):
        loaded = load(self, mixes)
        for mix, ready in zip(mixes, loaded, strict=True):
            if mix.replayed is not None:
                seen.append((mix.replayed.probabilities, ready.batch.importance_weights.numpy()))
        return loaded

    monkeypatch.setattr(BatchLoader, "load", watched)
    values = {**QUICK, "run_dir": str(tmp_path / "run")}
    result = laser.train(laser.load_preset("cartpole", values))
    assert result.learner_steps > 3
    probabilities, weights = seen[-1]
    assert probabilities.max() > 2 * probabilities.min(), "no priority was written"
    replayed = weights[-len(probabilities) :]
    assert replayed.max() == 1.0
    assert replayed[probabilities.argmax()] == replayed.min() < 0.5


def test_without_priorities_it_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(Laser, "per_step", ())
    config = laser.load_preset("cartpole", {**QUICK, "run_dir": str(tmp_path / "run")})
    line = r"^replay.sampler: per needs priority or td_error of every item, which laser does not provide; use"
    with pytest.raises(ConfigError, match=line):
        laser.train(config)


def test_a_column_that_the_algorithm_writes_too_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Laser, "columns", (ColumnSpec("priority"),))
    config = laser.load_preset("cartpole", {**QUICK, "run_dir": str(tmp_path / "run")})
    with pytest.raises(ConfigError, match=r"^replay.sampler: per and laser would both write the column priority;"):
        laser.train(config)


@pytest.mark.parametrize("sampler", ["per", "ners"])
def test_that_nothing_is_replayed_is_said_and_nothing_else(sampler):
    config = laser.load_preset("impala_cartpole", {"replay.sampler": sampler})
    said = f"replay.sampler: {sampler} has no effect: nothing is replayed; leave it out"
    assert [str(problem) for problem in config.warnings()] == [said]


def test_episode_streams_do_not_ask_the_sampler_and_it_is_said(tmp_path):
    values = {**QUICK, "network.core": "lstm", "network.core_size": 8, "run_dir": str(tmp_path / "run")}
    config = laser.load_preset("cartpole", values)
    assert "replay.sampler: per has no effect" in "".join(map(str, config.warnings()))
    assert laser.train(config).learner_steps > 3
