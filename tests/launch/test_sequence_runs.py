"""Whole small runs whose replayed sequences begin at any step, and what cannot be combined with that."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from laser.config import ConfigError
from launch.planning.plan import make_plan
from launch.presets import load_preset
from launch.settings.json_form import config_from_json, config_to_json
from launch.train import train
from learner.feedback.column_writer import ColumnWriter
from learner.learner import Learner

AT_STEPS = {"replay.sequence-starts": "step"}
SMALL = {"steps": 640, "num-envs": 2, "replay.min-steps": 128, "network.hidden-sizes": (8,), "quiet": True}
RECURRENT = {"network.core": "lstm", "network.core-size": 4, "network.separate-critic": False}


@pytest.fixture
def batches(monkeypatch):
    """Each mix that a learner collates, with its batch."""
    found, collate = [], Learner._collate

    def spy(self, mixes):
        made = collate(self, mixes)
        found.extend(zip(mixes, made, strict=True))
        return made

    monkeypatch.setattr(Learner, "_collate", spy)
    return found


def test_replayed_sequences_begin_at_every_row_and_fresh_ones_stay_unrolls(tmp_path, batches):
    config = load_preset("cartpole", {**SMALL, **AT_STEPS, "run-dir": tmp_path / "run", "runtime": "lockstep"})
    assert train(config).learner_steps > 5
    rows = [row for mix, _ in batches if mix.replayed for row in mix.replayed.keys["row"][:, 0].tolist()]
    assert set(rows) == set(range(config.unroll_length))
    for mix, batch in batches:
        assert mix.online.keys.ndim == 1
        assert batch.shape == (config.unroll_length, mix.num_online + len(mix.replayed.unrolls))
        # The observation to bootstrap from is that of the next row, also across stored unrolls.
        assert torch.isfinite(batch.observations["observation"]).all()
        assert not batch.first[1:][batch.valid].any(), "an episode begins after a row that holds the last observation"


@pytest.mark.parametrize("sampler", ["per", "rank"])
def test_priorities_of_sequences_belong_to_their_first_rows(tmp_path, monkeypatch, sampler):
    written, write = [], ColumnWriter._send

    def spy(self, writes):
        written.append(writes)
        write(self, writes)

    monkeypatch.setattr(ColumnWriter, "_send", spy)
    # With ReF-ER each batch writes numbers of all rows as well.
    values = {**SMALL, **AT_STEPS, "replay.sampler": sampler, "algorithm.refer.enabled": True}
    config = load_preset("cartpole", {**values, "run-dir": tmp_path / "run", "runtime": "lockstep"})
    assert train(config).learner_steps > 5
    assert {tuple(writes.values) for writes in written} > {("priority",)}
    for writes in written:
        of_all_rows = len(writes.keys) // (1 if "priority" in writes.values else config.unroll_length)
        assert of_all_rows == config.algorithm.num_replayed
    priorities = np.concatenate([writes.values["priority"] for writes in written if "priority" in writes.values])
    assert len(np.unique(priorities)) > 10
    rows = [writes.keys["row"] for writes in written if "priority" in writes.values]
    assert set(np.concatenate(rows).tolist()) == set(range(config.unroll_length))


def test_recurrent_sequences_begin_with_zeros(tmp_path, batches):
    """Fresh sequences keep their actors' states; replayed ones may begin where none is stored."""
    values = {**SMALL, **AT_STEPS, **RECURRENT, "learner.replay-core-state": "zero", "runtime": "lockstep"}
    assert train(load_preset("cartpole", {**values, "run-dir": tmp_path / "run"})).learner_steps > 5
    for mix, batch in batches:
        for state in batch.core_state.values():
            assert (state[mix.num_online :] == 0).all()
    assert any((state[: mix.num_online] != 0).any() for mix, batch in batches for state in batch.core_state.values())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"replay.sampler": "delayed"}, "delayed draws no sequences that begin at any step; use unroll"),
        (
            {**RECURRENT, "learner.replay-core-state": "stored"},
            "no recurrent state is stored amid an unroll, where sequences then begin; use unroll",
        ),
    ],
)
def test_what_cannot_be_is_refused(values, message):
    with pytest.raises(ConfigError) as caught:
        make_plan([load_preset("cartpole", {**SMALL, **AT_STEPS, **values})])
    assert str(caught.value).startswith(f"replay.sequence-starts: {message}")
    make_plan([load_preset("cartpole", {**SMALL, **values})])


@pytest.mark.parametrize(
    ("preset", "values", "why"),
    [
        ("dqn_cartpole", {}, "dqn learns from single steps"),
        ("cartpole", RECURRENT, "recurrent agents read episode streams"),
        ("ppo", {}, "nothing is replayed"),
    ],
)
def test_where_it_has_no_effect_a_warning_says_so(preset, values, why):
    def keys(changes):
        return {str(problem) for problem in load_preset(preset, changes).warnings() if "sequence" in problem.key}

    assert not keys(values)
    (warning,) = keys({**values, **AT_STEPS})
    assert warning.startswith(f"replay.sequence-starts: has no effect: {why}")


def test_records_of_before_keep_their_unrolls():
    record = config_to_json(load_preset("reactor"))
    assert record["replay"].pop("sequence_starts") == "step"
    assert config_from_json(record).replay.sequence_starts == "unroll"
