"""The accounts of what was on its way when an actor or a shard ended."""

from __future__ import annotations

from laser.replay_stats import LedgerCounts, ReplayStats
from launch.recording.accounts import Accounts, Ended

RUN, ROWS = 5, 64


def shard(arrived, num_unrolls=0, life=0, died=0):
    makers = {(RUN, actor, incarnation): num for actor, incarnation, num in arrived}
    return ReplayStats(LedgerCounts(died=died), arrived=makers, num_unrolls=num_unrolls, life=life)


def ended(actor, num_reported, incarnations=range(4)):
    return Ended(RUN, actor, incarnations, num_reported, ROWS)


def test_nothing_lost_is_nothing_said():
    accounts = Accounts()
    accounts.look(shard([(0, 0, 9)]))
    assert accounts.counters() == {}


def test_what_was_reported_and_never_arrived_is_lost_and_the_reverse_unreported():
    accounts = Accounts()
    accounts.end(ended(0, 12))
    accounts.end(ended(1, 12))
    # The actor's next start, another actor and another shard count for themselves.
    accounts.look(
        ReplayStats(shards=(shard([(0, 0, 5), (0, 2, 3), (0, 4, 100), (1, 1, 15)]), shard([(2, 0, 7), (0, 1, 1)])))
    )
    assert accounts.counters() == {
        "unrolls_lost/died": 3.0,
        "unrolls_unreported/died": 3.0,
        "dropped_rows_at_most/died": 2.0 * ROWS,
    }


def test_a_lost_shard_counts_as_it_was_last_seen():
    accounts = Accounts()
    accounts.look(ReplayStats(shards=(shard([(0, 0, 4)], 3), shard([(1, 0, 6)], 6))))
    accounts.end(ended(1, 8))
    accounts.look(ReplayStats(shards=(shard([(0, 0, 9)], 8), None)))
    accounts.look(ReplayStats(shards=(shard([(0, 0, 9)], 8), None)))
    assert accounts.counters() == {
        "unrolls_lost/died": 2.0,
        "unrolls_unreported/died": 0.0,
        "dropped_rows_at_most/died": float(ROWS),
        "shards_lost": 1.0,
        "unrolls_lost/shard": 6.0,
    }


def test_an_actor_that_was_still_at_work_has_a_reason_of_its_own():
    accounts = Accounts()
    accounts.end(ended(0, 2))
    accounts.end(Ended(RUN, 1, range(1), 5, ROWS, "stopped"))
    accounts.look(shard([(0, 0, 2), (1, 0, 6)]))
    assert accounts.counters() == {
        "unrolls_lost/died": 0.0,
        "unrolls_unreported/died": 0.0,
        "dropped_rows_at_most/died": float(ROWS),
        "unrolls_lost/stopped": 0.0,
        "unrolls_unreported/stopped": 1.0,
        "dropped_rows_at_most/stopped": float(ROWS),
    }


def test_all_shards_may_be_lost_together():
    accounts = Accounts()
    accounts.look(ReplayStats(shards=(shard([], 3), shard([], 4))))
    accounts.lose_all_shards()
    assert accounts.counters() == {"shards_lost": 2.0, "unrolls_lost/shard": 7.0}


def test_a_shard_that_only_could_not_be_reached_is_not_lost():
    accounts = Accounts()
    accounts.look(ReplayStats(shards=(shard([], 3), None)))
    accounts.look(ReplayStats(shards=(shard([], 3), shard([], 1))))
    assert accounts.counters() == {}


def test_what_arrived_at_a_shard_before_it_began_again_has_arrived():
    accounts = Accounts()
    accounts.look(ReplayStats(shards=(shard([(0, 0, 4)], 3), shard([(1, 0, 6)], 6, died=10))))
    accounts.end(ended(1, 8, range(1)))
    accounts.look(ReplayStats(shards=(shard([(0, 0, 9)], 8), None)))
    assert accounts.has_lost_shards
    accounts.look(ReplayStats(shards=(shard([(0, 0, 9)], 8), shard([(1, 1, 2)], 2, life=1, died=16))))
    assert accounts.has_lost_shards
    assert accounts.counters() == {
        "unrolls_lost/died": 2.0,
        "unrolls_unreported/died": 0.0,
        "dropped_rows_at_most/died": float(ROWS),
        "shards_lost": 1.0,
        "unrolls_lost/shard": 6.0,
    }
    assert accounts.num_missing(ended(1, 2, range(1, 2))) == 0
    # It dies once more and stays away.
    accounts.look(ReplayStats(shards=(shard([(0, 0, 9)], 8), None)))
    assert (accounts.counters()["shards_lost"], accounts.counters()["unrolls_lost/shard"]) == (2.0, 6.0 + 2.0)


def inserted(num, life=0, died=0):
    return ReplayStats(LedgerCounts(inserted=num, died=died), num_unrolls=4, life=life)


def test_what_another_member_saw_is_taken_over_where_it_is_newer():
    before, after = Accounts(), Accounts()
    before.look(ReplayStats(shards=(inserted(9, died=2), inserted(3), inserted(8), inserted(1, life=1))))
    after.look(ReplayStats(shards=(None, inserted(5), inserted(6), inserted(7))))
    after.take_over(before)
    assert [after.last_seen(index) for index in range(4)] == [
        inserted(9, died=2),
        inserted(5),
        inserted(8),
        inserted(1, life=1),
    ]


def test_what_died_before_the_shards_were_taken_over_is_not_the_members_loss():
    before, after = Accounts(), Accounts()
    before.look(inserted(9, died=2))
    after.take_over(before)
    after.look(inserted(0, life=1, died=6))
    assert after.counters() == {"shards_lost": 1.0, "unrolls_lost/shard": 4.0}
