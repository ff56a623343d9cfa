"""Successive halving against slow twins: who goes on, seeds judged together, and what makes no sense."""

import dataclasses
import math
import random

import pytest

from launch.presets import change, load_preset
from launch.sweeps.halving import PrunerConfig, Rungs, Verdict, rungs_below


def goes_on(score, before, reduction):
    """The rule, written slowly: sort all scores of the rung, and look for this one among the best."""
    scores = sorted([*before, score], reverse=True)
    num_chosen = len(scores) // reduction or 1
    return score in scores[:num_chosen]


@pytest.mark.parametrize("reduction", [2, 3, 4])
@pytest.mark.parametrize("seed", range(5))
def test_a_setting_goes_on_if_it_is_among_the_best_so_far(reduction, seed):
    source = random.Random(seed)
    rungs, left = Rungs(reduction, {number: number for number in range(60)}), []
    endings = set()
    for number in range(60):
        score = float(source.randrange(30))  # ties are common
        rungs.leave(number, 100, score)
        (verdict,) = rungs.judge(number, [number])
        assert verdict.goes_on == goes_on(score, left, reduction)
        left.append(score)
        assert (verdict.score, verdict.num_settings) == (score, len(left))
        assert sorted(left, reverse=True)[verdict.rank - 1] == score
        assert (number in rungs.pruned) is not verdict.goes_on
        endings.add(verdict.goes_on)
    assert endings == {True, False}


def pairs():
    """Two settings of two seeds each: members 0 and 1, and members 2 and 3."""
    return Rungs(2, {0: 0, 1: 0, 2: 1, 3: 1})


def test_the_seeds_of_a_setting_are_judged_by_their_mean_once_all_that_train_are_there():
    rungs = pairs()
    rungs.leave(0, 10, 5.0)
    assert rungs.judge(0, {0, 1, 2, 3}) == []
    rungs.leave(2, 10, 1.0)
    assert rungs.judge(1, {0, 1, 2, 3}) == []
    rungs.leave(3, 10, 20.0)
    assert rungs.judge(1, {0, 1, 2, 3}) == [Verdict(1, 10, 10.5, 1, 1, True)]
    rungs.leave(1, 10, 6.0)
    assert rungs.judge(0, {0, 1, 2, 3}) == [Verdict(0, 10, 5.5, 2, 2, False)]
    assert set(rungs.pruned) == {0}


def test_a_setting_does_not_wait_for_seeds_that_have_not_begun_or_have_ended():
    rungs = pairs()
    rungs.leave(0, 10, 5.0)
    assert [verdict.score for verdict in rungs.judge(0, {0})] == [5.0]
    assert rungs.judge(0, {0}) == [], "nothing is new"
    rungs.leave(2, 10, 5.5)
    assert [verdict.rank for verdict in rungs.judge(1, {0, 2})] == [1]
    rungs.leave(1, 10, 3.0)  # begins late: the mean of its setting falls, which is judged again
    assert rungs.judge(0, {1}) == [Verdict(0, 10, 4.0, 2, 2, False)]


def test_what_came_later_does_not_end_a_setting_that_went_on():
    rungs = Rungs(2, {0: 0, 1: 1})
    rungs.leave(0, 10, 1.0)
    rungs.judge(0, {0})
    rungs.leave(1, 10, 2.0)
    assert rungs.judge(1, {1})[0].goes_on
    assert rungs.judge(0, {0}) == []
    rungs.leave(0, 20, 1.0)
    assert rungs.judge(0, {0}) == [Verdict(0, 20, 1.0, 1, 1, True)]


def test_a_setting_that_is_pruned_is_judged_no_further():
    rungs = Rungs(2, {0: 0, 1: 1})
    for number, score in ((0, 2.0), (1, 1.0)):
        rungs.leave(number, 10, score)
        rungs.leave(number, 20, score)
    assert [verdict.rung for verdict in rungs.judge(0, {0})] == [10, 20]
    assert [verdict.rung for verdict in rungs.judge(1, {1})] == [10]


def test_a_return_that_is_no_number_is_the_worst():
    rungs = Rungs(2, {0: 0, 1: 1})
    rungs.leave(0, 10, -1e9)
    rungs.judge(0, {0})
    rungs.leave(1, 10, math.nan)
    assert not rungs.judge(1, {1})[0].goes_on


def test_verdicts_of_an_interrupted_sweep_count():
    rungs, again = pairs(), pairs()
    for number, score in ((0, 4.0), (1, 6.0), (2, 1.0), (3, 2.0)):
        rungs.leave(number, 10, score)
        again.leave(number, 10, score)
    for setting in (0, 1):
        for verdict in rungs.judge(setting, range(4)):
            again.take(verdict, 2)
    assert again.judge(0, range(4)) == again.judge(1, range(4)) == []
    assert again.pruned == rungs.pruned != {}


def test_rungs_are_powers_of_the_reduction_below_the_end():
    assert rungs_below(100, 10, 3) == [10, 30, 90]
    assert rungs_below(90, 10, 3) == [10, 30]
    assert rungs_below(10, 10, 3) == []


def member(**changes):
    return change(load_preset("cartpole"), {"replay.min-steps": 0, **changes})


def test_three_rungs_lie_below_the_end_of_the_shortest_run():
    assert PrunerConfig(first_rung=7).first([member(steps=1000)]) == 7
    for steps, rungs in ((8100, [300, 900, 2700]), (8101, [301, 903, 2709])):
        first = PrunerConfig(reduction=3).first([member(steps=90_000), member(steps=steps)])
        assert rungs_below(steps, first, 3) == rungs


def test_settings_are_not_compared_before_they_learn():
    late = member(**{"steps": 9000, "replay.min-steps": 1000})
    assert PrunerConfig().first([member(steps=9000), late]) == 1000
    (warning,) = PrunerConfig(first_rung=500).warnings([late])
    assert str(warning) == (
        "pruner.first-rung: compares settings at 500 env steps, and members learn from 1,000 on; "
        "raise it, or leave it out"
    )
    assert not list(PrunerConfig(first_rung=1000).warnings([late]))
    assert not list(PrunerConfig().warnings([late]))
    on_policy = change(load_preset("ppo_pendulum"), {"steps": 9000})
    assert PrunerConfig().first([on_policy]) == 334
    (problem,) = PrunerConfig().never([dataclasses.replace(late, steps=1000)] * 2, 2)
    assert problem.wrong == "compares settings when they learn, from 1,000 env steps on, and the run has 1,000"


@pytest.mark.parametrize(
    ("pruner", "changes", "num_settings", "words"),
    [
        (PrunerConfig(first_rung=500), [{"steps": 900}, {"steps": 500}], 2, "below the 500 env steps"),
        (PrunerConfig(), [{}, {}], 1, "the sweep has one"),
        (PrunerConfig(), [{}, {"env": "Acrobot-v1"}], 2, "different environments"),
    ],
)
def test_settings_that_could_never_be_compared_are_refused(pruner, changes, num_settings, words):
    configs = [dataclasses.replace(load_preset("cartpole"), **change) for change in changes]
    (problem,) = pruner.never(configs, num_settings)
    assert words in problem.wrong
    assert not list(pruner.never([dataclasses.replace(load_preset("cartpole"), steps=900)] * 2, 2))
