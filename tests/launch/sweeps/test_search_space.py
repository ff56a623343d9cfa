"""Search spaces: what is drawn from them, and each mistake in one line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from launch.presets import load_preset
from launch.sweeps.search_space import Choice, Range, draw_settings, find_space_problems, parse_space, value_at

BASE = load_preset("cartpole")
RATE, COST = "algorithm.learning-rate", "algorithm.entropy-cost"


def parsed(*texts):
    space, problems = parse_space(BASE, texts, ())
    assert not problems
    return space


def mistakes(*texts):
    space, problems = parse_space(BASE, texts, ())
    return [str(problem) for problem in [*problems, *find_space_problems(space, BASE)]]


def test_dimensions_are_read():
    space = parsed(
        f"{RATE}=log(1e-4, 1e-2)",
        f"{COST} = uniform(0,0.05)",
        "algorithm.batch_size=integers(8,32)",
        "network.hidden-sizes={(64,64),[256,],16}",
    )
    assert space == {
        RATE: Range("log", 1e-4, 1e-2),
        COST: Range("uniform", 0.0, 0.05),
        "algorithm.batch-size": Range("integers", 8.0, 32.0),
        "network.hidden-sizes": Choice(((64, 64), (256,), (16,))),
    }
    assert parsed(*(f"{key}={dimension}" for key, dimension in space.items())) == space, "what is written is read"
    assert not find_space_problems(space, BASE)


@pytest.mark.parametrize(
    ("dimension", "is_whole", "expected"),
    [
        (Range("uniform", -1.0, 3.0), False, [-1.0, 0.0, 1.0, 2.0]),
        (Range("log", 1e-4, 1.0), False, [1e-4, 1e-3, 1e-2, 1e-1]),
        (Range("integers", 1, 4), True, [1, 2, 3, 4]),
        (Range("integers", 7, 8), True, [7, 7, 8, 8]),
        (Range("log", 1, 15), True, [1, 2, 4, 8]),  # 16 ** 0.25 = 2
        (Choice(("a", "b", "c", "d")), False, ["a", "b", "c", "d"]),
    ],
)
def test_values_at_quarters_of_the_probability(dimension, is_whole, expected):
    values = [value_at(dimension, share, is_whole) for share in (0.0, 0.25, 0.5, 0.75)]
    assert values == pytest.approx(expected) if isinstance(expected[0], float) else values == expected
    assert all(type(value) is type(expected[0]) for value in values)


@pytest.mark.parametrize("dimension", [Range("log", 3, 9), Range("integers", 3, 9)])
def test_whole_numbers_reach_both_ends_and_no_further(dimension):
    values = [value_at(dimension, share, True) for share in np.linspace(0, np.nextafter(1, 0), 1000)]
    assert sorted(set(values)) == list(range(3, 10))


def test_real_numbers_are_short_and_inside():
    dimension = Range("log", math.pi * 1e-4, 2e-2 / 3)
    values = [value_at(dimension, share, False) for share in np.linspace(0, np.nextafter(1, 0), 1000)]
    assert min(values) == dimension.low
    assert max(values) == dimension.high
    assert all(float(f"{value:.6g}") == value for value in values[1:-1])


@pytest.mark.parametrize("even", [True, False])
def test_draws_have_the_distribution(even):
    space = parsed(f"{RATE}=log(1e-4,1e-2)", f"{COST}=uniform(0,2)", "algorithm.batch-size={8,16}")
    num = 4000
    drawn = draw_settings(space, BASE, num, 0, even=even)
    for shares in (
        [math.log(item[RATE] / 1e-4) / math.log(100.0) for item in drawn],
        [item[COST] / 2.0 for item in drawn],
    ):
        ordered = np.sort(shares)
        distance = np.max(np.abs(ordered - (np.arange(num) + 0.5) / num))
        assert distance < 1.95 / math.sqrt(num), "Kolmogorov and Smirnov, alpha 0.001"
    assert abs(np.mean([item["algorithm.batch-size"] == 8 for item in drawn]) - 0.5) < 5 * 0.5 / math.sqrt(num)
    assert abs(np.corrcoef([item[RATE] for item in drawn], [item[COST] for item in drawn])[0, 1]) < 5 / math.sqrt(num)


def test_even_draws_fall_into_different_parts_of_each_range_and_independent_ones_do_not():
    space = parsed(f"{RATE}=log(1e-4,1e-2)", f"{COST}=uniform(0,2)")

    def parts(even, seed):
        drawn = draw_settings(space, BASE, 20, seed, even=even)
        return [
            [int(8 * share) for share in shares]
            for shares in (
                [math.log(item[RATE] / 1e-4) / math.log(100.0) for item in drawn],
                [item[COST] / 2.0 for item in drawn],
            )
        ]

    for seed in range(20):
        for places in parts(True, seed):
            assert sorted(places[:8]) == sorted(places[8:16]) == list(range(8))
            assert len(set(places[16:])) == 4
    assert any(len(set(parts(False, seed)[0][:8])) < 8 for seed in range(3))
    # Two keys are not spread in the same order: which part of one goes with which of the other is open.
    assert len({(a, b) for seed in range(200) for a, b in zip(*parts(True, seed), strict=True)}) == 64


def test_draws_depend_on_the_seed_and_the_key_alone():
    rate, cost = f"{RATE}=log(1e-4,1e-2)", f"{COST}=uniform(0,0.05)"
    drawn = draw_settings(parsed(rate, cost), BASE, 6, 3)
    assert drawn == draw_settings(parsed(cost, rate), BASE, 6, 3)
    assert drawn[:4] == draw_settings(parsed(rate, cost), BASE, 4, 3), "more draws leave the first ones as they are"
    assert [item[RATE] for item in drawn] == [item[RATE] for item in draw_settings(parsed(rate), BASE, 6, 3)]
    assert drawn != draw_settings(parsed(rate, cost), BASE, 6, 4)
    assert draw_settings({}, BASE, 2, 3) == [{}, {}]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (RATE, f"space: must be KEY=log(LOW,HIGH), uniform(LOW,HIGH), integers(LOW,HIGH) or {{V1,V2}}, got '{RATE}'"),
        (f"{RATE}=", f"space: {RATE} must be log(LOW,HIGH)"),
        (f"{RATE}=1e-3,1e-2", f"space: {RATE} must be log(LOW,HIGH)"),
        (f"{RATE}=normal(0,1)", f"space: {RATE} must be log(LOW,HIGH)"),
        (f"{RATE}=log(1e-4,1e-2", f"space: {RATE}=log(1e-4,1e-2 has a bracket without its other half"),
        (f"{RATE}={{1e-4", f"space: {RATE}={{1e-4 has a bracket without its other half"),
        (f"{RATE}=log()", f"space: {RATE}: log needs two numbers, LOW and HIGH, got 'log()'"),
        (f"{RATE}=log(1e-4)", f"space: {RATE}: log needs two numbers"),
        (f"{RATE}=log(1,2,3)", f"space: {RATE}: log needs two numbers"),
        (f"{RATE}=log(a,b)", f"space: {RATE}: log needs two numbers"),
        (f"{RATE}=log(1e-2,1e-4)", "; write log(0.0001,0.01)"),
        (f"{RATE}=uniform(1,1)", f"space: {RATE}: the low end must be below the high end, got uniform(1,1); use --"),
        (f"{RATE}=uniform(0.1,inf)", f"space: {RATE}: both ends must be finite, got uniform(0.1,inf)"),
        (f"{RATE}=uniform(nan,1)", f"space: {RATE}: both ends must be finite"),
        (f"{RATE}=log(0,1)", f"space: {RATE}: the ends of log must be above 0, got log(0,1)"),
        (f"{RATE}=uniform(-1,1)", f"space: {RATE}: must be above 0, got -1.0, as an end of uniform(-1,1)"),
        ("algorithm.discount=uniform(0.9,1.5)", "space: algorithm.discount: must be in"),
        (f"{RATE}=integers(1,2)", f"space: {RATE} is not a whole number, got integers(1,2); use uniform(1,2)"),
        ("steps=uniform(1,2)", "space: steps is a whole number, got uniform(1,2); use integers(1,2)"),
        ("steps=log(1.5,20)", "space: steps: both ends must be whole numbers, got log(1.5,20)"),
        ("steps=integers(0,20)", "space: steps: must be in [1, 1e+15], got 0, as an end of integers(0,20)"),
        ("quiet=uniform(0,1)", "space: quiet is not a number, got uniform(0,1); list values: quiet={V1,V2}"),
        ("network.hidden-sizes=integers(8,64)", "space: network.hidden-sizes is not a number"),
        ("network.hidden-sizes=x", "space: network.hidden-sizes must be log(LOW,HIGH)"),
        ("preset=uniform(0,1)", "space: preset is not a number"),
        ("preset={cartpole,cartpol}", "space: there is no preset 'cartpol'"),
        ("steps={}", "space: steps lists no values"),
        ("steps={5,x}", "steps: in --space: must be a whole number, got 'x'"),
        ("steps={5,5}", "space: steps lists 5 twice"),
        ("stepz=integers(1,2)", "stepz: in --space: unknown key; did you mean steps?"),
        ("network=integers(1,2)", "network: in --space: is a section, not a value"),
    ],
)
def test_each_mistake_is_one_line(text, says):
    (found,) = mistakes(text)
    assert says in found
    assert "\n" not in found
    key = text.partition("=")[0]
    assert key in found or "preset" in found


def test_a_key_has_one_dimension_and_no_other_value():
    texts = [f"{RATE}=log(1e-4,1e-2)", f"{RATE}=log(1e-4,1e-3)", f"{COST}=uniform(0,1)"]
    _, problems = parse_space(BASE, texts, [COST])
    assert [problem.wrong for problem in problems] == [
        f"{RATE} is given twice",
        f"{COST} also has a value outside of the space",
    ]
