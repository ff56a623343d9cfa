"""Settings that are chosen when a place comes free, by a search that stands for Optuna's."""

from __future__ import annotations

import dataclasses
import itertools
import math
from types import SimpleNamespace

import pytest

from launch.errors import LaunchError
from launch.planning.member_plan import plan_member, plan_population
from launch.planning.replanning import replan
from launch.presets import change, load_preset
from launch.supervision.ending import Ending
from launch.sweeps.halving import Verdict
from launch.sweeps.scores import last_score
from launch.sweeps.search_space import Choice, Range
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.tuning import Tuning, find_unfit_ends

RATE, BATCH = "algorithm.learning-rate", "algorithm.batch-size"


class Listed:
    """A search that goes through a list of settings."""

    def __init__(self, *listed):
        self.left = list(listed)
        self.chosen, self.told, self.given = {}, {}, {}

    def values(self, setting, given):
        self.given[setting] = given
        if setting not in self.chosen:
            self.chosen[setting] = self.left.pop(0)
        return self.chosen[setting]

    def reject(self, setting):
        del self.chosen[setting]

    def is_told(self, setting):
        return setting in self.told

    def tell(self, setting, score, rung):
        self.told[setting] = (score, rung)


def tuned(search, seeds=2, share_replay=False, **others):
    """A sweep of settings 0 and 1 with some seeds each, its tuning and the plans of its members."""
    sweep = SweepConfig(load_preset("cartpole"), {}, SweepOptions(seeds=seeds, share_replay=share_replay))
    members = [sweep.member(number, number // seeds, {RATE: 0.5}) for number in range(2 * seeds)]
    plans = plan_population([member.config for member in members], share_replay=share_replay)
    return Tuning(sweep, members, search, False, **others), members, plans


def ended(number, fitness, finished=Ending.STEPS):
    recorder = SimpleNamespace(fitness=lambda: fitness, position=lambda: SimpleNamespace(mean_return=math.nan))
    return SimpleNamespace(number=number, finished=finished, recorder=recorder)


def test_members_get_their_settings_when_their_turn_comes_and_keep_the_rest_of_their_plans():
    tuning, members, plans = tuned(Listed({RATE: 0.1}, {RATE: 0.2}))
    begun = [tuning.begins(plan) for plan in plans[:3]]
    assert [plan.config.algorithm.learning_rate for plan in begun] == [0.1, 0.1, 0.2]
    assert [member.overrides[RATE] for member in members] == [0.1, 0.1, 0.2, 0.5]
    for plan, before in zip(begun, plans, strict=False):
        same = {"config": before.config, "algorithm": before.algorithm}
        assert dataclasses.replace(plan, **same) == before
        assert plan.config.seed == before.config.seed


def test_values_of_a_grid_stay_and_the_search_hears_of_them():
    sweep = SweepConfig(load_preset("cartpole"), {BATCH: [16, 32]}, SweepOptions(share_replay=False))
    members = [sweep.member(number, number, {BATCH: batch, RATE: 0.5}) for number, batch in enumerate((16, 32))]
    search = Listed({RATE: 0.1}, {RATE: 0.2})
    tuning = Tuning(sweep, members, search, False)
    plans = plan_population([member.config for member in members], share_replay=False)
    begun = [tuning.begins(plan).config.algorithm for plan in plans]
    assert [(config.batch_size, config.learning_rate) for config in begun] == [(16, 0.1), (32, 0.2)]
    assert [member.overrides for member in members] == [{BATCH: 16, RATE: 0.1}, {BATCH: 32, RATE: 0.2}]
    assert search.given == {0: {BATCH: 16}, 1: {BATCH: 32}}


def test_the_search_hears_the_mean_of_the_seeds_once_all_have_ended():
    search = Listed({RATE: 0.1}, {RATE: 0.2})
    tuning, _, plans = tuned(search)
    for plan in plans:
        tuning.begins(plan)
    tuning.ended(ended(0, 10.0))
    assert search.told == {}
    tuning.ended(ended(1, 20.0))
    tuning.ended(ended(2, 1.0, Ending.FAILED))
    tuning.ended(ended(3, 7.0))
    assert search.told == {0: (15.0, None), 1: (7.0, None)}
    tuning.ended(ended(3, 9.0))  # a resumed sweep ends it once more
    assert search.told[1] == (7.0, None)


def test_members_that_are_stopped_have_not_ended():
    search = Listed({RATE: 0.1})
    tuning, _, plans = tuned(search, seeds=1)
    tuning.begins(plans[0])
    tuning.ended(ended(0, 10.0, Ending.STOPPED))
    assert search.told == {}
    tuning.ended(ended(0, 10.0))
    assert search.told == {0: (10.0, None)}


def test_a_pruned_setting_is_told_with_its_rung_and_one_without_a_score_without():
    search = Listed({RATE: 0.1}, {RATE: 0.2})
    verdicts = {0: Verdict(0, 100, 3.0, 2, 2, False)}
    tuning, _, plans = tuned(search, seeds=1, verdict=verdicts.get)
    for plan in plans:
        tuning.begins(plan)
    tuning.ended(ended(0, 4.0, Ending.PRUNED))
    tuning.ended(ended(1, None))
    assert search.told == {0: (3.0, 100), 1: (None, None)}


def test_settings_that_break_a_rule_are_chosen_anew_and_in_the_end_refused():
    search = Listed(*[{BATCH: -1}] * 2, {BATCH: 16}, *[{RATE: -1.0}] * 20)
    tuning, _, plans = tuned(search, seeds=1)
    assert tuning.begins(plans[0]).config.algorithm.batch_size == 16
    with pytest.raises(LaunchError, match=r"20 settings in a row break a rule.*learning-rate"):
        tuning.begins(plans[1])
    assert search.left == []


def test_a_shared_replay_keeps_what_it_knows_of_a_member():
    config = change(load_preset("cartpole"), {})
    plan = plan_population([config, config], share_replay=True)[1]
    other = replan(plan, change(config, {RATE: 0.3}), share_replay=True)
    assert (other.replay, other.unrolls, other.number) == (plan.replay, plan.unrolls, 1)
    more = change(config, {BATCH: 64})
    with pytest.raises(ValueError, match="shared replay differently"):
        replan(plan, more, share_replay=True)
    assert replan(plan, more, share_replay=False).replay.online_capacity != plan.replay.online_capacity


def test_a_recurrent_core_of_another_size_does_not_fit_a_shared_replay():
    config = change(
        load_preset("cartpole"), {"network.core": "lstm", "network.core-size": 8, "network.separate-critic": False}
    )
    plan = plan_population([config, config], share_replay=True)[1]
    other = change(config, {"network.core-size": 16})
    with pytest.raises(ValueError, match="shared replay differently"):
        replan(plan, other, share_replay=True)
    assert replan(plan, other, share_replay=False).unrolls == plan_member(other).unrolls


@pytest.mark.parametrize(
    ("key", "dimension", "share_replay", "words"),
    [
        (BATCH, Choice((16, 64)), True, "algorithm.batch-size=64: share-replay: members would use"),
        (RATE, Range("log", 1e-4, 1e-2), True, ""),
        (BATCH, Choice((16, 64)), False, ""),
        ("replay.min-steps", Choice((128, 10_000_000)), False, "replay.min-steps=10000000: replay.min-steps: "),
    ],
)
def test_ends_that_do_not_fit_are_found_before_anything_starts(key, dimension, share_replay, words):
    base = change(load_preset("cartpole"), {BATCH: 16})
    sweep = SweepConfig(base, {}, SweepOptions(share_replay=share_replay), space={key: dimension})
    member = sweep.member(0, 0, {})
    plan = plan_population([member.config], share_replay=share_replay)[0]
    found = [str(problem) for problem in find_unfit_ends(sweep, [member], [plan])]
    assert len(found) == bool(words)
    assert all(words in each for each in found)


def test_ends_that_fit_at_one_point_of_a_grid_only_are_found():
    base = change(load_preset("cartpole"), {BATCH: 16})
    capacities, seeds = (20_000, 2_000), (0, 1)
    sweep = SweepConfig(
        base,
        {"replay.capacity-steps": list(capacities)},
        SweepOptions(seeds=len(seeds), share_replay=False),
        space={"replay.min-steps": Choice((256, 4_000))},
    )
    members = [
        sweep.member(number, number // 2, {"replay.capacity-steps": capacity, "seed": seed})
        for number, (capacity, seed) in enumerate(itertools.product(capacities, seeds))
    ]
    plans = plan_population([member.config for member in members], share_replay=False)
    (found,) = map(str, find_unfit_ends(sweep, members, plans))
    assert found.startswith("space: replay.min-steps=4000 with replay.capacity-steps=2000: replay.min-steps: ")


def test_the_last_score_may_have_fewer_episodes():
    def recorder(fitness, mean_return, evaluated=None):
        return SimpleNamespace(
            fitness=lambda: fitness,
            position=lambda: SimpleNamespace(mean_return=mean_return),
            newest_evaluation=lambda: evaluated,
        )

    assert last_score(recorder(5.0, 6.0), by_evaluation=False) == 5.0
    assert last_score(recorder(None, 6.0), by_evaluation=False) == 6.0
    assert last_score(recorder(None, math.nan), by_evaluation=False) is None
    assert last_score(recorder(5.0, 6.0), by_evaluation=True) is None
    assert last_score(recorder(5.0, 6.0, (100, 7.0)), by_evaluation=True) == 7.0
