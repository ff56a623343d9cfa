"""The balance of accounts, which is checked after every test."""

import pytest
from balances import imbalances_in

from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick

LEDGER = ("received", "inserted", "rejected", "failed", "lost", "waiting")


def test_a_difference_at_the_last_moment_is_seen(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "metrics.db"
    with MetricsDb(path) as metrics:
        for number, (received, inserted) in enumerate([(3.0, 0.0), (0.0, 2.0)]):
            values = {"ledger/imbalance/received": received, "ledger/imbalance/inserted": inserted, "ledger/lost": 5.0}
            metrics.write(Tick(float(number), 0.0, number, number, number), values)
    assert imbalances_in(path) == {"ledger/imbalance/inserted": 2.0}
    path.unlink()  # the end of the module checks what is left


def test_a_file_that_is_no_record_has_none(tmp_path):
    (tmp_path / "metrics.db").write_bytes(b"no database")
    assert imbalances_in(tmp_path / "metrics.db") == {}


def write_run(path, finished=True, **values):
    """Write the record and the log of a run with these numbers, slashes as double underscores."""
    path.mkdir(parents=True)
    named = {"totals/unrolls": 0.0, **dict.fromkeys(map("ledger/{}".format, LEDGER), 0.0)}
    named |= {name.replace("__", "/"): float(value) for name, value in values.items()}
    with MetricsDb(path / "metrics.db") as metrics:
        metrics.write(Tick(0.0, 0.0, 0, 0, 0), named)
    (path / "log.txt").write_text(f"1 running: it\n{'2 finished: steps' if finished else '2 restarted'}\n")
    return path / "metrics.db"


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"totals__unrolls": 5, "ledger__inserted": 3, "ledger__failed": 2}, {}),
        ({"totals__unrolls": 5, "ledger__inserted": 3}, {"unaccounted": 2}),
        ({"totals__unrolls": 5, "ledger__inserted": 3, "totals__unrolls_lost__stopped": 2}, {}),
        ({"totals__unrolls": 3, "ledger__inserted": 3, "totals__unrolls_lost__shard": 2}, {}),
        ({"totals__unrolls": 3, "ledger__inserted": 4, "totals__unrolls_unreported__died": 1}, {}),
        ({"totals__unrolls": 3, "ledger__inserted": 3, "ledger__waiting": 1}, {"waiting": 1}),
    ],
)
def test_at_the_end_of_a_run_what_was_sent_has_arrived_or_is_lost_and_nothing_waits(tmp_path_factory, values, found):
    folder = tmp_path_factory.mktemp("runs")
    path = write_run(folder / "ended", **values)
    assert imbalances_in(path) == found
    assert imbalances_in(write_run(folder / "killed", finished=False, **values)) == {}
    path.unlink()


def test_members_that_share_a_replay_have_one_account(tmp_path):
    for number, (made, received) in enumerate([(3, 4), (2, 5)]):
        write_run(
            tmp_path / "members" / str(number), totals__unrolls=made, ledger__inserted=5, ledger__received=received
        )
    (tmp_path / "config.json").write_text('{"sweep": {"options": {"share_replay": true}}}')
    paths = [tmp_path / "members" / str(number) / "metrics.db" for number in range(2)]
    assert [imbalances_in(path) for path in paths] == [{}, {}]
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    assert [imbalances_in(path) for path in paths] == [{"unaccounted": -2}, {"unaccounted": -3}]
    (tmp_path / "other.json").rename(tmp_path / "config.json")


def test_the_account_of_members_is_that_of_the_one_that_ended_last(tmp_path):
    """All had arrived when the first of them ended, and some still waited."""
    for number, waiting in enumerate([4, 0]):
        write_run(
            tmp_path / "members" / str(number),
            totals__unrolls=5,
            ledger__received=10,
            ledger__inserted=6,
            ledger__failed=4 - waiting,
            ledger__waiting=waiting,
        )
    (tmp_path / "config.json").write_text('{"sweep": {"options": {"share_replay": true}}}')
    assert [imbalances_in(tmp_path / "members" / str(number) / "metrics.db") for number in range(2)] == [{}, {}]
