"""What the first updates learned from: shares, ages and acceptance by source, measured once."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from laser.ports import KEY_DTYPE, ORIGIN_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.mixing import Mix
from learner.metrics.first_updates import NUM_UPDATES, FirstUpdates


def sample(versions, members, num_valid, streams=False):
    num = len(versions)
    headers, origins = np.zeros(num, HEADER_DTYPE), np.zeros((num, 4), ORIGIN_DTYPE)
    headers["parameter_version"], headers["member"] = versions, members
    origins["parameter_version"], origins["member"] = np.array(versions)[:, None], np.array(members)[:, None]
    valid = np.arange(4) < np.array(num_valid)[:, None]
    if streams:
        headers["member"] = 99  # a header is that of a stream's first unroll, which may be another one's
    unrolls = Unrolls(headers, {"valid": valid})
    return Sample(unrolls, np.zeros(num, KEY_DTYPE), np.ones(num), num, origins=origins if streams else None)


def accepted(**shares):
    metrics = {"loss": torch.tensor(1.0)}
    for source in ("online", "own_replay", "foreign_replay"):
        metrics[f"num_steps_{source}"] = torch.tensor(1.0 if source in shares else 0.0)
        metrics[f"accept_fraction_{source}"] = torch.tensor(shares.get(source, 0.0))
    return metrics


@pytest.mark.parametrize("streams", [False, True])
def test_shares_ages_and_acceptance_are_those_of_the_first_updates(streams):
    first = FirstUpdates(member=1)
    fresh, taken = sample([9], [1], [4]), []
    for number in range(2 * NUM_UPDATES):
        # Of 8 steps 4 are fresh, 2 are its own from 5 versions ago, 2 are of member 0, 3 and 1 behind its newest.
        replayed = sample([5, 4, 6, 7], [1, 0, 0, 0], [2, 1, 1, 0], streams)
        metrics = accepted(online=1.0, own_replay=0.5 if number < NUM_UPDATES else 0.0)
        first.add(Mix(fresh, replayed), 10 if number < NUM_UPDATES else 10_000, metrics)
        taken.append(first.take())
    found = taken[NUM_UPDATES - 1]
    assert [each for each in taken if each] == [found], "measured once, after the last of them"
    assert found["start/updates"] == NUM_UPDATES
    shares = {source: found[f"start/share/{source}"] for source in ("online", "own_replay", "foreign_replay")}
    assert shares == {"online": 0.5, "own_replay": 0.25, "foreign_replay": 0.25}
    ages = {source: found[f"start/age/{source}"] for source in shares}
    assert ages == {"online": 1.0, "own_replay": 5.0, "foreign_replay": 2.0}
    assert (found["start/accepted/online"], found["start/accepted/own_replay"]) == (1.0, 0.5)
    assert "start/accepted/foreign_replay" not in found, "a source without steps has no acceptance"


def test_a_loss_without_a_trust_region_has_no_acceptance():
    first = FirstUpdates(member=0)
    for _ in range(NUM_UPDATES):
        first.add(Mix(sample([3], [0], [4]), None), 3, {"loss": torch.tensor(1.0)})
    assert first.take() == {
        "start/updates": NUM_UPDATES,
        "start/share/online": 1.0,
        "start/age/online": 0.0,
        "start/share/own_replay": 0.0,
        "start/share/foreign_replay": 0.0,
    }
