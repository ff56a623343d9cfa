"""Kills of every part of a run on Ray, a pause and a full disk: it goes on, and nothing is lost without a reason."""

from __future__ import annotations

import json

import pytest

from launch.__main__ import main
from launch.bench.chaos_run.plan import PARTS

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

NUM_KILLS = 8
# Eight deaths within a minute and a half: each learner loses up to ten seconds of updates, a driver's return takes ten.
LEAST_EFFECTIVE_TIME = 0.03


@pytest.mark.long
def test_faults_of_every_kind_lose_nothing_without_a_reason_and_the_run_ends_at_its_steps(capsys):
    words = ["--kills", str(NUM_KILLS), "--every", "3", "--steps", "200000", "--seed", "100", "--json"]
    assert main(["bench", "chaos", *words]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["kills"] == sum(result[f"kills_{part}"] for part in PARTS) == NUM_KILLS
    assert all(result[f"kills_{part}"] >= 1 for part in PARTS), result
    assert result["pauses"] == 1
    assert result.get("full_disks", 0) == 1 or result["full_disk"].startswith("not tried: "), result
    assert result["ended_by_itself"] is True
    zero = ("unaccounted", "imbalance", "duplicates", "invalid_checkpoints", "processes_left")
    assert {name: result[name] for name in zero} == dict.fromkeys(zero, 0), result
    assert result["ledger/made"] > result["ledger/inserted"] > result["ledger/stored"] > 0
    assert result["learner_recoveries"] >= 1
    assert result["learner_recovery_s_worst"] >= result["learner_recovery_s_median"] > 0.0
    assert result["effective_training_time"] > LEAST_EFFECTIVE_TIME, result
