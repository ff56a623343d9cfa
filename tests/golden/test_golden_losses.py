"""Losses, gradients and steps beside those that were kept."""

import json

import pytest
from golden_losses import GOLDEN, KEPT, follow

from laser.algorithms import find_algorithms

# Other instruction sets (no AVX, AVX2, AVX-512) move these numbers by 3e-6; a mistake moves them by far more.
TOLERANCES = {"rel": 1e-4, "abs": 1e-5}


@pytest.fixture(scope="module")
def kept(request):
    if request.config.getoption("--write-golden"):
        KEPT.write_text(json.dumps({name: follow(name) for name in GOLDEN}, indent=1) + "\n")
    return json.loads(KEPT.read_text())


@pytest.mark.parametrize("name", GOLDEN)
def test_updates_follow_the_kept_ones_and_repeat_bit_by_bit(name, kept):
    told = follow(name)
    for what, numbers in kept[name].items():
        assert told[what] == pytest.approx(numbers, **TOLERANCES), (
            f"{what}; if that is meant: pytest tests/golden --write-golden"
        )
    assert follow(name) == told


def test_every_algorithm_is_followed_and_no_other_is_kept(kept):
    assert {config.name for config, _ in GOLDEN.values()} == set(find_algorithms())
    assert set(kept) == set(GOLDEN)
