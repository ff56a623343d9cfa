"""The balance of accounts, which is checked after every test."""

from balances import imbalances_in

from launch.records.metrics_db import MetricsDb, Tick


def test_a_difference_at_the_last_moment_is_seen(tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "metrics.db"
    with MetricsDb(path) as metrics:
        for number, (received, inserted) in enumerate([(3.0, 0.0), (0.0, 2.0)]):
            values = {"ledger/imbalance/received": received, "ledger/imbalance/inserted": inserted, "ledger/lost": 5.0}
            metrics.write(Tick(float(number), 0.0, number, number, number), values)
    assert imbalances_in(path) == {"ledger/imbalance/inserted": 2.0}


def test_a_file_that_is_no_record_has_none(tmp_path):
    (tmp_path / "metrics.db").write_bytes(b"no database")
    assert imbalances_in(tmp_path / "metrics.db") == {}
