"""A population of more than 64 members is drawn by the settings that its members began with, or by ranges of one."""

import itertools

import numpy as np
import pytest

from launch.dashboard.exchange_figures import exchange_figure
from launch.dashboard.library import Library
from launch.dashboard.member_groups import MOST_GROUPS, few_groups
from launch.dashboard.sweep_figures import descent_figure, lanes_of
from launch.dashboard.sweeps import Decision


@pytest.fixture
def population(tmp_path, make_run):
    """Returns a function that makes a population of two step sizes; members with an even number have the first."""

    def make(num_members):
        make_run("sweep", facts={"sweep": {"grid": {}, "options": {"pbt": True}}})
        for number in range(num_members):
            overrides = {"algorithm.learning-rate": ("1e-3", "1e-2")[number % 2], "seed": number // 2}
            facts = {"member": {"index": number, "overrides": overrides}}
            make_run(f"sweep/members/{number}", [{"charts/mean_return": 1.0}] * (number % 3 + 2), facts=facts)
        library = Library(tmp_path / "runs")
        return library, library.members(next(each for each in library.entries().values() if each.is_sweep))

    return make


DECISIONS = [Decision(50, 1, 40, {1: 0.0, 40: 9.0}), Decision(100, 3, 1), Decision(100, 0, None)]


def test_its_lineage_has_a_lane_for_each_first_setting(population) -> None:
    library, members = population(66)
    assert [name for name, _ in lanes_of(library, members)] == ["learning-rate 0.001 (33)", "learning-rate 0.01 (33)"]
    figure = descent_figure(library, members, DECISIONS, members[3], "light")
    assert figure["layout"]["yaxis"]["ticktext"] == ["learning-rate 0.001 (33)", "learning-rate 0.01 (33)"]
    (arrow,) = figure["layout"]["annotations"]  # a copy within a lane has no length
    assert (arrow["x"], arrow["ay"], arrow["y"]) == (50, 0, 1)
    first, second, *path = figure["data"][:-2]
    assert (first["x"], second["x"]) == ([0, 300.0], [0, 300.0])
    assert [(each["x"], each["y"][0]) for each in path] == [([100, 100.0], 1), ([50, 100], 1), ([0, 50], 0)]
    changed, copied = figure["data"][-2:]
    assert (changed["y"], copied["y"]) == ([0], [1, 1])
    assert copied["text"][0].startswith("member 1 copied member 40 at 50 env steps")


def test_a_smaller_one_has_a_lane_for_each_member(population) -> None:
    library, members = population(4)
    figure = descent_figure(library, members, DECISIONS[1:], members[3], "light")
    assert figure["layout"]["yaxis"]["ticktext"] == [f"member {number}" for number in range(4)]
    (arrow,) = figure["layout"]["annotations"]
    assert (arrow["ay"], arrow["y"]) == (1, 3)


def test_its_map_of_who_learns_from_whom_has_these_settings_too(population) -> None:
    library, members = population(66)
    groups = few_groups(library, members)
    assert {name: len(group) for name, group in groups.items()} == {"learning-rate 0.001": 33, "learning-rate 0.01": 33}
    assert np.all([entry in members for group in groups.values() for entry in group])


@pytest.fixture
def sampled(tmp_path, make_run):
    """Returns a function that makes a sweep of settings that were drawn, from functions of a member's number."""

    def make(num_members, mean_return=lambda number: 1.0, **settings):
        make_run("sweep", facts={"sweep": {"grid": {}, "options": {"share_replay": True}}})
        for number in range(num_members):
            overrides = {key.replace("_", "-"): of(number) for key, of in settings.items()} | {"seed": number}
            facts = {"member": {"index": number, "overrides": overrides}}
            row = {"charts/mean_return": mean_return(number)}
            make_run(f"sweep/members/{number}", [row], drawn=[{number: {"steps": 1.0}}], facts=facts)
        library = Library(tmp_path / "runs")
        return library, library.members(next(each for each in library.entries().values() if each.is_sweep))

    return make


def numbers_in(groups):
    return [sorted(int(member.path.name) for member in group) for group in groups.values()]


def test_settings_that_were_all_drawn_are_grouped_by_ranges_of_that_which_decides_the_return(sampled) -> None:
    library, members = sampled(
        100,
        # The order of the step sizes is that of the returns, from greatest to least; the discount decides nothing.
        mean_return=lambda number: -float(number * 37 % 100),
        discount=lambda number: str(0.9 + number * 53 % 100 / 1000),
        learning_rate=lambda number: f"{1 + number * 37 % 100}e-4",
        batch_size=lambda number: (32, 64)[number % 2],
    )
    groups = few_groups(library, members)
    assert len(groups) == MOST_GROUPS
    assert list(groups)[:2] == ["learning-rate 1e-4 to 2e-4", "learning-rate 3e-4 to 4e-4"]
    assert list(groups)[-1] == "learning-rate 0.01"
    places = [[number * 37 % 100 for number in group] for group in numbers_in(groups)]
    assert sorted(each for group in places for each in group) == list(range(100))
    assert all(max(one) < min(other) for one, other in itertools.pairwise(places)), "not in their order"
    assert {len(group) for group in places} == {1, 2}
    (trace,) = exchange_figure(library, groups, "share", "light")["data"]
    assert trace["x"] == trace["y"] == list(groups)
    assert lanes_of(library, members)[0][0] == "learning-rate 1e-4 to 2e-4 (2)"


def test_a_grid_of_many_settings_is_grouped_by_the_setting_with_the_most_values(sampled) -> None:
    library, members = sampled(70, unroll=lambda number: number // 10, rate=lambda number: 0.5 * (number % 10))
    groups = few_groups(library, members)
    assert list(groups)[:3] == ["rate 0", "rate 0.5", "rate 1"]
    assert numbers_in(groups)[0] == [0, 10, 20, 30, 40, 50, 60]


def test_settings_without_numbers_are_put_together_in_their_order(sampled) -> None:
    library, members = sampled(66, game=lambda number: f"game{number:02}")
    groups = few_groups(library, members)
    assert list(groups)[:3] == ["game game00 to game game01", "game game02 to game game03", "game game04"]
    assert [number for group in numbers_in(groups) for number in group] == list(range(66))
