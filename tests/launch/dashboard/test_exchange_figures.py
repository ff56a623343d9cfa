"""The map of a shared replay: numbers against a small sweep whose counts are known."""

import numpy as np
import pytest

from launch.dashboard.downloads import csv_pieces
from launch.dashboard.exchange_figures import EXCHANGES, course_figure, exchange_figure
from launch.dashboard.figures import decoded
from launch.dashboard.library import Library
from launch.records.listing import find_entries

# By reader, then by maker: steps, accepted, sum of |log rho|, sum of lags, sum of KLs.
COUNTS = {0: {0: (60, 60, 6, 0, 3), 1: (40, 10, 80, 400, 60)}, 1: {0: (0, 0, 0, 0, 0), 1: (50, 25, 25, 100, 10)}}


def drawn(counts):
    names = ("steps", "accepted", "abs_log_rho", "lag", "kl")
    return {maker: dict(zip(names, map(float, values), strict=True)) for maker, values in counts.items()}


@pytest.fixture
def sweep(make_run):
    root = make_run("sweep", facts={"sweep": {"grid": {}, "options": {"share_replay": True}}}).parent
    for number, counts in COUNTS.items():
        half = {maker: tuple(value * (maker == number) for value in values) for maker, values in counts.items()}
        facts = {"member": {"index": number, "overrides": {}}}
        make_run(f"sweep/members/{number}", drawn=[drawn(half), drawn(counts)], facts=facts)
    library = Library(root)
    (entry,) = [each for each in find_entries(root).values() if each.is_sweep]
    return library, library.members(library.find(entry.key))


def alone(members):
    return {f"member {member.path.name}": [member] for member in members}


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("share", [[0.6, 0.4], [0.0, 1.0]]),
        ("accepted", [[1.0, 0.25], [None, 0.5]]),
        ("abs_log_rho", [[0.1, 2.0], [None, 0.5]]),
        ("lag", [[0.0, 10.0], [None, 2.0]]),
        ("kl", [[0.05, 1.5], [None, 0.2]]),
    ],
)
def test_the_map_has_readers_in_rows_and_makers_in_columns(sweep, what, expected):
    library, members = sweep
    (trace,) = exchange_figure(library, alone(members), what, "light")["data"]
    assert trace["x"] == trace["y"] == ["member 0", "member 1"]
    assert trace["z"] == [[pytest.approx(value) if value is not None else None for value in line] for line in expected]


def test_groups_add_up_their_members(sweep):
    library, members = sweep
    (trace,) = exchange_figure(library, {"both": members}, "accepted", "dark")["data"]
    assert trace["z"] == [[pytest.approx(95 / 150)]]
    assert trace["text"] == [["63 %"]]


def test_members_of_an_algorithm_without_a_kl_have_an_empty_row(make_run):
    root = make_run("sweep", facts={"sweep": {"grid": {}, "options": {"share_replay": True}}}).parent
    for number, counts in COUNTS.items():
        known = {
            maker: {name: n for name, n in by.items() if number == 0 or name != "kl"}
            for maker, by in drawn(counts).items()
        }
        make_run(f"sweep/members/{number}", drawn=[known], facts={"member": {"index": number, "overrides": {}}})
    library = Library(root)
    members = [library.find(each.key) for each in find_entries(root).values() if not each.is_sweep]
    (trace,) = exchange_figure(library, alone(members), "kl", "light")["data"]
    assert trace["z"] == [[pytest.approx(0.05), pytest.approx(1.5)], [None, None]]
    (trace,) = exchange_figure(library, {"both": members}, "kl", "light")["data"]
    assert trace["z"] == [[pytest.approx(63 / 100)]]  # over the steps whose KL is known


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ("share", {"member 0": [1.0, 0.0], "member 1": [0.0, 1.0]}),
        ("accepted", {"member 0": [1.0], "member 1": [0.25]}),
        ("abs_log_rho", {"member 0": [0.1], "member 1": [2.0]}),
        ("lag", {"member 0": [0.0], "member 1": [10.0]}),
        ("kl", {"member 0": [0.05], "member 1": [1.5]}),
    ],
)
def test_the_course_is_of_what_was_drawn_between_two_points(sweep, what, expected):
    library, members = sweep
    figure = course_figure(library, members[0], alone(members), what, "env_steps", "light")
    assert figure["layout"]["yaxis"]["title"]["text"] == EXCHANGES[what]
    courses = {trace["name"]: decoded(trace["y"]) for trace in figure["data"] if trace.get("showlegend", True)}
    assert courses.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(courses[name], values)


def test_updates_that_were_lost_are_not_drawn_below_nothing(make_run):
    root = make_run("sweep", facts={"sweep": {"grid": {}, "options": {"share_replay": True}}}).parent
    counts = [{0: {"steps": first}, 1: {"steps": second}} for first, second in ((10.0, 10.0), (4.0, 12.0), (5.0, 13.0))]
    for number in range(2):
        make_run(f"sweep/members/{number}", drawn=counts, facts={"member": {"index": number, "overrides": {}}})
    library = Library(root)
    members = [library.find(each.key) for each in find_entries(root).values() if not each.is_sweep]
    traces = course_figure(library, members[0], alone(members), "share", "env_steps", "light")["data"]
    shares = {trace["name"]: decoded(trace["y"]).tolist() for trace in traces}
    assert shares == {"member 0": [0.5, 0.0, 0.5], "member 1": [0.5, 1.0, 0.5]}


def test_a_course_adds_up_groups_and_says_what_is_not_recorded(sweep, make_run):
    library, members = sweep
    (trace,) = course_figure(library, members[0], {"both": members}, "lag", "env_steps", "light")["data"]
    np.testing.assert_allclose(decoded(trace["y"]), [0.0, 10.0])  # only its own experience first, only foreign then
    counts = {0: {"steps": 5.0}, 1: {"steps": 5.0}}
    make_run("other/members/0", drawn=[counts], facts={"member": {"index": 0, "overrides": {}}})
    (reader,) = [each for each in find_entries(library.root).values() if each.name == "other/members/0"]
    figure = course_figure(library, reader, alone(members), "kl", "env_steps", "light")
    assert figure["layout"]["annotations"][0]["text"].replace("<br>", " ").startswith("the algorithms of these members")


def test_a_sweep_without_such_counts_says_so(make_run):
    root = make_run("sweep", facts={"sweep": {"grid": {}, "options": {}}}).parent
    make_run("sweep/members/0", [{"charts/mean_return": 1.0}], facts={"member": {"index": 0, "overrides": {}}})
    library = Library(root)
    members = [library.find(each.key) for each in find_entries(root).values() if not each.is_sweep]
    for figure in (
        exchange_figure(library, alone(members), "share", "light"),
        course_figure(library, None, alone(members), "share", "env_steps", "light"),
    ):
        assert (
            figure["layout"]["annotations"][0]["text"].replace("<br>", " ")
            == "no member has drawn another member's experience yet"
        )


def test_the_course_of_many_makers_has_a_short_legend(make_run):
    root = make_run("sweep", facts={"sweep": {"grid": {}, "options": {"share_replay": True}}}).parent
    counts = {maker: {"steps": float(maker)} for maker in range(20)}
    for number in range(20):
        make_run(f"sweep/members/{number}", drawn=[counts], facts={"member": {"index": number, "overrides": {}}})
    library = Library(root)
    members = [library.find(each.key) for each in find_entries(root).values() if not each.is_sweep]
    traces = course_figure(library, members[0], alone(members), "share", "env_steps", "light")["data"]
    shares = {trace["name"]: float(decoded(trace["y"])[-1]) for trace in traces}
    assert shares.keys() == {f"member {maker}" for maker in range(12, 20)} | {"the other 12"}
    assert shares["the other 12"] == pytest.approx(sum(range(12)) / 190)


def test_all_points_of_a_member_as_csv_hold_what_it_drew(sweep):
    _, members = sweep
    lines = "".join(csv_pieces([members[1]], None)).splitlines()
    assert lines[1:3] == [
        f"{members[1].name},learned_from/1/steps,0,0,0,0.0,1700000000.0,50.0",
        f"{members[1].name},learned_from/1/accepted,0,0,0,0.0,1700000000.0,25.0",
    ]
    assert len(lines) == 1 + 5
    assert len("".join(csv_pieces([members[1]], ["charts/mean_return"])).splitlines()) == 1
