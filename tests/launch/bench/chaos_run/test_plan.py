"""Plans of faults: enough of each kind, in an order that the seed decides."""

import itertools
from collections import Counter

import numpy as np
import pytest

from launch.bench.chaos_run.plan import FULL_DISK, PARTS, PAUSE, endless_faults, planned_faults


@pytest.mark.parametrize("num_kills", [1, 8, 25, 200])
def test_an_eighth_of_the_kills_is_of_each_part(num_kills):
    counts = Counter(planned_faults(num_kills, np.random.default_rng(0), can_fill_disk=True))
    assert sum(counts[part] for part in PARTS) == num_kills
    assert all(counts[part] >= num_kills // 8 for part in PARTS)
    assert counts[PAUSE] == max(1, num_kills // 8)
    assert counts[FULL_DISK] == 1
    assert set(counts) <= {*PARTS, PAUSE, FULL_DISK}


def test_the_seed_decides_the_order():
    plans = [planned_faults(40, np.random.default_rng(seed), can_fill_disk=False) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert FULL_DISK not in plans[0]
    first = [part for part, _ in itertools.groupby(plans[0])]
    assert len(first) > 2 * len(PARTS), "they come in a random order, not one part after the other"


@pytest.mark.parametrize("can_fill_disk", [True, False])
def test_faults_without_an_end_are_of_every_kind(can_fill_disk):
    faults = endless_faults(np.random.default_rng(0), can_fill_disk)
    found = set(itertools.islice(faults, 500))
    assert found == {*PARTS, PAUSE} | ({FULL_DISK} if can_fill_disk else set())
