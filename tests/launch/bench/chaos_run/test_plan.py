"""Plans of faults: enough of each kind, in an order that the seed decides."""

import itertools
from collections import Counter

import numpy as np
import pytest

from launch.bench.chaos_run.plan import CUT_CABLE, FULL_DISK, PARTS, PAUSE, endless_faults, planned_faults


@pytest.mark.parametrize("num_kills", [1, 8, 25, 200])
def test_an_eighth_of_the_kills_is_of_each_part(num_kills):
    counts = Counter(planned_faults(num_kills, np.random.default_rng(0), can_fill_disk=True, can_cut_cable=True))
    assert sum(counts[part] for part in PARTS) == num_kills
    assert all(counts[part] >= num_kills // 8 for part in PARTS)
    assert counts[PAUSE] == counts[CUT_CABLE] == max(1, num_kills // 8)
    assert counts[FULL_DISK] == 1
    assert set(counts) <= {*PARTS, PAUSE, FULL_DISK, CUT_CABLE}


def test_the_seed_decides_the_order():
    possible = {"can_fill_disk": False, "can_cut_cable": False}
    plans = [planned_faults(40, np.random.default_rng(seed), **possible) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert {FULL_DISK, CUT_CABLE}.isdisjoint(plans[0])
    first = [part for part, _ in itertools.groupby(plans[0])]
    assert len(first) > 2 * len(PARTS), "they come in a random order, not one part after the other"


@pytest.mark.parametrize("can_fill_disk", [True, False])
@pytest.mark.parametrize("can_cut_cable", [True, False])
def test_faults_without_an_end_are_of_every_kind_that_is_possible(can_fill_disk, can_cut_cable):
    faults = endless_faults(np.random.default_rng(0), can_fill_disk, can_cut_cable)
    found = set(itertools.islice(faults, 500))
    possible = [FULL_DISK] * can_fill_disk + [CUT_CABLE] * can_cut_cable
    assert found == {*PARTS, PAUSE, *possible}


def test_a_sixth_of_the_faults_of_two_nodes_cuts_their_cable():
    num = 6000
    counts = Counter(itertools.islice(endless_faults(np.random.default_rng(0), False, True), num))
    # A chance of 0.2 beside those of one machine, which add up to 1; five standard errors of the share.
    share = 0.2 / 1.2
    assert counts[CUT_CABLE] / num == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / num))
