"""A population of more than 64 members is drawn by the settings that its members began with."""

import numpy as np
import pytest

from launch.dashboard.library import Library
from launch.dashboard.pages.sweep_tables import groups_of_members, settings_of
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
    assert [name for name, _ in lanes_of(members)] == ["learning-rate 0.001 (33)", "learning-rate 0.01 (33)"]
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
    groups = groups_of_members(members, settings_of(library, members))
    assert {name: len(group) for name, group in groups.items()} == {"learning-rate 0.001": 33, "learning-rate 0.01": 33}
    assert np.all([entry in members for group in groups.values() for entry in group])
