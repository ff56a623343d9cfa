"""Kills of every part of a run on Ray, pauses, a full disk and a cut cable: it goes on, and loses nothing unnoticed."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.bench.chaos_run.plan import PARTS
from launch.bench.chaos_run.two_nodes import joined_namespaces

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(900)]

NUM_KILLS = 8
# Eight deaths within a minute and a half: each learner loses up to ten seconds of updates, a driver's return takes ten.
LEAST_EFFECTIVE_TIME = 0.03
CUT_LATE = 31
"""A seed whose plan kills each of these once: an actor and the learner after the cut, and no fault that undoes them."""
KILLED = ("learner", "driver", "actor", "shard")
OURS = f"laser-{os.getpid()}-"
"""The beginning of the names of our namespaces."""
ZERO = ("unaccounted", "imbalance", "duplicates", "invalid_checkpoints", "processes_left")


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
    assert {name: result[name] for name in ZERO} == dict.fromkeys(ZERO, 0), result
    assert result["ledger/made"] > result["ledger/inserted"] > result["ledger/stored"] > 0
    assert result["learner_recoveries"] >= 1
    assert result["learner_recovery_s_worst"] >= result["learner_recovery_s_median"] > 0.0
    assert result["effective_training_time"] > LEAST_EFFECTIVE_TIME, result


@pytest.fixture
def permitted():
    """Skip the test where this machine does not permit two network namespaces with a cable."""
    try:
        with joined_namespaces():
            pass
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.mark.long
def test_a_run_over_two_nodes_loses_nothing_without_a_reason_where_their_cable_is_cut(permitted, capsys):
    words = ["--nodes", "2", "--kills", "4", "--every", "3", "--seed", str(CUT_LATE), "--json"]
    assert main(["bench", "chaos", *words]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert {part: result[f"kills_{part}"] for part in KILLED} == dict.fromkeys(KILLED, 1)
    assert result["cut_cables"] == result["pauses"] == 1
    assert result.get("full_disks", 0) == 1 or result["full_disk"].startswith("not tried: "), result
    assert {name: result[name] for name in ZERO} == dict.fromkeys(ZERO, 0), result
    assert result["ledger/sent"] >= result["ledger/received"] >= result["ledger/inserted"] > result["ledger/stored"] > 0
    assert result["effective_training_time"] > 0.0
    assert not [word for word in subprocess.check_output(["ip", "netns", "list"], text=True).split() if OURS in word]
