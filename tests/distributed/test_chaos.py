"""A few random kills of a run on Ray: it goes on, and nothing is lost without a reason."""

from __future__ import annotations

import json

import pytest

from launch.__main__ import main

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]


def test_a_few_kills_lose_nothing_without_a_reason(capsys):
    assert main(["bench", "chaos", "--minutes", "0.7", "--every", "5", "--seed", "100", "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["kills"] >= 2
    zero = ("unaccounted", "imbalance", "duplicates", "invalid_checkpoints", "processes_left")
    assert {name: result[name] for name in zero} == dict.fromkeys(zero, 0), result
    assert result["effective_training_time"] > 0.0
