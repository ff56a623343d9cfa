"""Plans of faults: enough of each kind, in an order that the seed decides."""

import itertools
from collections import Counter

import numpy as np
import pytest

from launch.bench.chaos_run.plan import CUT_CABLE, FULL_DISK, PARTS, PAUSE, endless_faults, planned_faults

OTHERS = (PAUSE, FULL_DISK, CUT_CABLE)


@pytest.mark.parametrize("num_kills", [1, 8, 25, 200])
def test_an_eighth_of_the_kills_is_of_each_part(num_kills):
    counts = Counter(planned_faults(num_kills, np.random.default_rng(0), OTHERS))
    assert sum(counts[part] for part in PARTS) == num_kills
    assert all(counts[part] >= num_kills // 8 for part in PARTS)
    assert counts[PAUSE] == counts[CUT_CABLE] == max(1, num_kills // 8)
    assert counts[FULL_DISK] == 1
    assert set(counts) <= {*PARTS, *OTHERS}


def test_the_seed_decides_the_order():
    plans = [planned_faults(40, np.random.default_rng(seed), ()) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert set(plans[0]) == set(PARTS)
    first = [part for part, _ in itertools.groupby(plans[0])]
    assert len(first) > 2 * len(PARTS), "they come in a random order, not one part after the other"


@pytest.mark.parametrize("others", [OTHERS, (PAUSE,), (FULL_DISK,), (CUT_CABLE, PAUSE), ()])
def test_faults_without_an_end_are_of_every_kind_that_is_possible(others):
    faults = endless_faults(np.random.default_rng(0), others)
    assert set(itertools.islice(faults, 500)) == {*PARTS, *others}


def test_a_sixth_of_the_faults_of_two_nodes_cuts_their_cable():
    num = 6000
    counts = Counter(itertools.islice(endless_faults(np.random.default_rng(0), (PAUSE, CUT_CABLE)), num))
    # A chance of 0.2 beside those of one machine, which add up to 1; five standard errors of the share.
    share = 0.2 / 1.2
    assert counts[CUT_CABLE] / num == pytest.approx(share, abs=5 * np.sqrt(share * (1 - share) / num))
