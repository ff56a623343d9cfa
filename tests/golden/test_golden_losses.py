"""Losses, gradients and steps beside those that were kept."""

import json

import pytest
from golden_losses import GOLDEN, KEPT, draws_as_on_cpu, follow, largest_difference

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


def test_the_largest_difference_is_relative_to_what_was_kept(kept):
    (name, *_) = GOLDEN
    told = {what: list(numbers) for what, numbers in kept[name].items()}
    assert largest_difference(told, kept[name]) == 0.0
    told["loss"][3] += 0.02 * abs(told["loss"][3])
    assert largest_difference(told, kept[name]) == pytest.approx(0.02)
    # Numbers near 0 count as the tests' tolerance takes them.
    assert largest_difference({"loss": [1e-3]}, {"loss": [0.0]}) == pytest.approx(1e-2)


@pytest.mark.parametrize(
    ("name", "eager", "compiled"), [("impala", True, True), ("sac", True, False), ("ppo", False, False)]
)
def test_which_losses_draw_the_noise_of_the_cpu_on_a_gpu(name, eager, compiled):
    assert draws_as_on_cpu(name, "cuda") == eager
    assert draws_as_on_cpu(name, "cuda", compile="on") == compiled
    assert draws_as_on_cpu(name, "cpu", compile="on")
