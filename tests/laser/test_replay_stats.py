"""Statistics of several shards, added."""

from collections import Counter

from laser.replay_stats import ItemCounts, LedgerCounts, MemberStats, ReplayStats, add_stats


def test_shards_are_added_field_by_field_and_key_by_key():
    one = ReplayStats(
        LedgerCounts(received=5, rejected=Counter(late=1)),
        {"received": 0},
        {(1, 0, 0): 3},
        num_unrolls=4,
        num_stored=ItemCounts(4, 80, 1),
        members={0: MemberStats(inserted_steps=80, online_dropped={"closed": 1}, limiter_difference=0.5)},
        process={"cpu": 0.5},
    )
    two = ReplayStats(
        LedgerCounts(received=2, rejected=Counter(late=2, large=1)),
        {"received": 1},
        {(1, 0, 0): 1, (1, 1, 0): 2},
        num_unrolls=3,
        num_stored=ItemCounts(3, 60, 0),
        members={
            0: MemberStats(inserted_steps=60, online_dropped={"closed": 2}, limiter_difference=1.0),
            1: MemberStats(sampled_steps=7),
        },
        process={"cpu": 0.25},
    )
    total = add_stats([one, None, two], online_pooled=9)
    assert total.ledger == LedgerCounts(received=7, rejected=Counter(late=3, large=1))
    assert total.imbalances == {"received": 1}
    assert total.arrived == {(1, 0, 0): 4, (1, 1, 0): 2}
    assert (total.num_unrolls, total.num_stored, total.online_pooled) == (7, ItemCounts(7, 140, 1), 9)
    assert total.members[0] == MemberStats(inserted_steps=140, online_dropped={"closed": 3}, limiter_difference=1.5)
    assert total.members[1].sampled_steps == 7
    assert total.process == {}
    assert total.parts == (one, None, two)
    assert one.parts == (one,)
    assert total.num_stored.of("steps") == 140
