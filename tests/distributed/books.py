"""The books of runs: as a run directory has them, and what must hold of those of `cluster_run.py`."""

from launch.records.metrics_db import read_names, read_series


def newest_totals(run_dir):
    """Return the newest of a run's totals and of its replay's accounts, by name."""
    metrics = run_dir / "metrics.db"
    names = [name for name in read_names(metrics) if name.startswith(("totals/", "ledger/"))]
    return {name.removeprefix("totals/"): read_series(metrics, name)[-1][1] for name in names}


def check(result, num_envs=4, unroll_length=16):
    """Assert that every unroll is accounted for, and that actors insert on their own node while they can.

    The run was over two nodes, one of which lost its actors and then its shard.
    """
    books = result["books"]
    assert len(set(result["shards"])) == 2
    for place in [*result["before"], *result["after"]]:
        assert place["shard_node"] == place["node"] == result["shards"][place["shard"]]
    assert {place["node"] for place in result["before"]} == set(result["shards"])
    assert [place["incarnation"] for place in result["after"]].count(1) == result["killed"] == books["deaths"] > 0
    # The shard of the same node was lost then; its actors went on with the other, or with the one that took its place.
    assert {place["shard_node"] for place in result["moved"]} <= set(result["shards"])
    assert {place["node"] for place in result["moved"]} == set(result["shards"])
    assert (books["shards_lost"], books["moves"]) == (1, books["deaths"])
    assert books["lost_with_shard"] > 0
    assert all(books["by_shard"])
    assert not any(value for part in books["imbalances"] for value in part.values())
    assert books["rejected"] == books["duplicates"] == books["lost_in_gaps"] == 0
    # What waited at the end has failed.
    arrived = sum(books["by_shard"]) + books["failed"]
    assert books["reported"] + books["unreported"] == arrived + books["lost_on_the_way"]
    # Who dies has at most this much under way; what a shard takes after it was last seen is lost with it.
    assert books["dropped_rows_at_most"] == (books["deaths"] + books["moves"]) * num_envs * unroll_length
