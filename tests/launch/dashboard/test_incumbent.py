"""The best setting and the best member over time: means of 20 episodes, never one lucky episode."""

import numpy as np
import pytest

from launch.dashboard.figures import decoded
from launch.dashboard.incumbent import incumbent_figure
from launch.dashboard.library import Library
from launch.dashboard.member_groups import settings_of
from launch.dashboard.sweep_figures import best_figure


@pytest.fixture
def sweep(tmp_path, make_run):
    """Two settings of two seeds; the first episode of member 0 returned 485."""
    make_run("sweep", facts={"sweep": {"grid": {"rate": ["1", "2"]}, "options": {}}})
    for number, value in enumerate([50.0, 60.0, 196.0, 180.0]):
        rows = [{"charts/mean_return": 485.0 if number == 0 else 1.0, "totals/episodes": 1.0}]
        rows += [{"charts/mean_return": value, "totals/episodes": 5.0 * n} for n in range(2, 11)]
        facts = {"member": {"index": number, "overrides": {"rate": str(1 + number // 2)}}}
        make_run(f"sweep/members/{number}", rows, config={"seed": number % 2}, facts=facts)
    library = Library(tmp_path / "runs")
    entry = next(entry for entry in library.entries().values() if entry.is_sweep)
    return library, library.members(entry)


def line_of(figure):
    """Return x, y and what the pointer shows of the line in front."""
    trace = figure["data"][-1]
    return decoded(trace["x"]), decoded(trace["y"]), trace["customdata"]


def test_one_lucky_episode_is_not_the_best_member(sweep) -> None:
    x, y, words = line_of(best_figure(*sweep, "env_steps", "light"))
    assert np.nanmax(y) == 196.0
    assert np.isnan(y[x < 300]).all(), "before 20 episodes"
    assert np.isfinite(y[x >= 300]).all()
    assert words[-1] == "member 2: 196, mean of the last 20 episodes"
    library, members = sweep
    named = best_figure(library, members, "env_steps", "light", settings_of(library, members))
    assert line_of(named)[2][-1] == "member 2 (rate 2): 196, mean of the last 20 episodes"
    assert named["layout"]["yaxis"]["title"]["text"] == "return, last 20 episodes"


def test_a_setting_counts_once_all_its_seeds_have_ended_twenty_episodes(sweep) -> None:
    library, members = sweep
    x, y, words = line_of(incumbent_figure(library, members, settings_of(library, members), "env_steps", "light"))
    assert np.isnan(y[x < 300]).all()
    np.testing.assert_array_equal(y[x >= 300], 188.0)
    assert words[-1] == "rate 2: 188, mean of 2 seeds, the last 20 episodes of each"


def test_without_twenty_episodes_a_sentence_stands_there(tmp_path, make_run) -> None:
    make_run("sweep", facts={"sweep": {"grid": {}, "options": {}}})
    facts = {"member": {"index": 0, "overrides": {}}}
    make_run(
        "sweep/members/0", [{"charts/mean_return": 9.0, "totals/episodes": float(n)} for n in range(19)], facts=facts
    )
    library = Library(tmp_path / "runs")
    entry = next(entry for entry in library.entries().values() if entry.is_sweep)
    figure = best_figure(library, library.members(entry), "env_steps", "light")
    said = figure["layout"]["annotations"][0]["text"].replace("<br>", " ")
    assert (figure["data"], said) == ([], "no member has ended 20 episodes yet: a mean of fewer may be luck")


def test_all_members_are_one_faint_line_behind_the_best(sweep) -> None:
    figure = best_figure(*sweep, "env_steps", "light")
    assert len(figure["data"]) == 2
    values = decoded(figure["data"][0]["y"])
    ends = values[np.flatnonzero(np.isnan(values[1:]) & ~np.isnan(values[:-1]))]
    assert ends.tolist() == [50.0, 60.0, 196.0, 180.0]


@pytest.mark.parametrize("is_counted", [True, False])
def test_the_best_agent_over_games_says_how_many_episodes_stand_behind_a_bucket(tmp_path, make_run, is_counted) -> None:
    games = ["ALE/Pong-v5", "ALE/Breakout-v5"]
    make_run("sweep", facts={"sweep": {"grid": {"env": games, "rate": ["1", "2"]}, "options": {}}})
    for number in range(4):
        rows = []
        for bucket in (1, 2):
            row = {"buckets/normalised_median": number + bucket / 10, "buckets/ends_at": 400.0 * bucket}
            rows.append(row | ({"buckets/fewest_episodes": float(1 + number // 3 if bucket == 1 else 7 + number)}))
            if not is_counted:
                del rows[-1]["buckets/fewest_episodes"]
        facts = {"member": {"index": number, "overrides": {"env": games[number % 2], "rate": str(1 + number // 2)}}}
        make_run(f"sweep/members/{number}", rows, config={"env": games[number % 2]}, facts=facts)
    library = Library(tmp_path / "runs")
    entry = next(entry for entry in library.entries().values() if entry.is_sweep)
    _, y, words = line_of(best_figure(library, library.members(entry), "env_steps", "light"))
    assert y.tolist() == pytest.approx([2.6, 2.7])
    behind = "; behind each mean of a game in this bucket at least "
    wanted = [f"best: 2.6{behind}1 episode", f"best: 2.7{behind}7 episodes"]
    assert words == (wanted if is_counted else ["best: 2.6", "best: 2.7"])
