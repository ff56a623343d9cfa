"""The accounts of a run on Ray over a resume; `resumes.py` resumes one as often as it is asked to."""

from __future__ import annotations

from pathlib import Path

import pytest
from balances import imbalances_in
from resumes import sessions

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(500)]


@pytest.mark.long
def test_a_resume_on_ray_leaves_every_balance_at_0(tmp_path: Path) -> None:
    received = 0.0
    for values in sessions(tmp_path / "run", 1, "--checkpoint-replay"):
        part = {name.removeprefix("ledger/"): value for name, value in values.items()}
        assert imbalances_in(tmp_path / "run" / "metrics.db") == {}
        assert [part[f"imbalance/{name}"] for name in ("received", "inserted", "online")] == [0.0] * 3
        assert part["received"] == part["inserted"] + part["duplicates"] + part["rejected"] + part["failed"]
        assert part["inserted"] == part["stored"] + part["removed"] + part["not_saved"]
        assert part["received"] > received, "the ledger goes on over the resume"
        received = part["received"]
    assert part["not_saved"] == 0, "the replay came back"
