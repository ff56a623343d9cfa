import numpy as np
import pytest

from launch.dashboard.comparing import differences, flat, group_by_settings, show_setting
from launch.dashboard.facets import View, draw_facet, facets_of, groups_of, ranges_of, zoom_alone
from launch.dashboard.figures import decoded
from launch.dashboard.library import Library
from launch.records.listing import find_entries


def entries_of(tmp_path):
    return list(find_entries(tmp_path / "runs").values())


def test_configs_are_flattened_by_the_keys_of_the_command_line() -> None:
    assert flat({"num_envs": 3, "algorithm": {"learning_rate": 0.1}}) == {"num-envs": 3, "algorithm.learning-rate": 0.1}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        *[(1e-4, "1e-4"), ("0.0001", "1e-4"), (0.123456, "0.1235"), (256, "256"), (100_000, "100,000")],
        *[(10**6, "1M"), (1_234_567, "1,234,567"), (True, "True"), ("relu", "relu"), ((64, 64), "(64, 64)")],
        *[(None, "none"), ("nan", "nan")],
    ],
)
def test_a_setting_is_written_as_any_number_and_never_rounded_if_it_is_whole(value, text) -> None:
    assert show_setting(value) == text
    assert show_setting(1_234_567, "seed") == "1234567"


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path, make_run) -> None:
    for name, seed, rate in (("a", 0, 0.1), ("b", 1, 0.1), ("c", 0, 0.2)):
        config = {"seed": seed, "run_dir": name, "algorithm": {"name": "laser", "learning_rate": rate}}
        make_run(name, config=config)
    named = {name: [entry.name for entry in each] for name, each in group_by_settings(entries_of(tmp_path)).items()}
    assert named == {"learning-rate 0.1 (2 seeds)": ["a", "b"], "learning-rate 0.2": ["c"]}


def test_what_a_sweep_does_to_its_members_keeps_them_from_runs_with_the_same_settings(tmp_path, make_run) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        make_run(name, config={"seed": seed})
    for name, options in (("shared", {"share_replay": True}), ("own", {}), ("evolving", {"pbt": True})):
        make_run(name, facts={"sweep": {"grid": {}, "options": options}})
        for number in range(2):
            facts = {"member": {"index": number, "overrides": {}}}
            make_run(f"{name}/members/{number}", config={"seed": 2 + number}, facts=facts)
    runs = [entry for entry in entries_of(tmp_path) if not entry.is_sweep]
    named = {name: [entry.name for entry in each] for name, each in group_by_settings(runs).items()}
    assert list(named.values()) == [
        ["a", "b", "own/member 0", "own/member 1"],
        ["evolving/member 0"],
        ["evolving/member 1"],
        ["shared/member 0", "shared/member 1"],
    ]
    assert list(named) == [
        "share-replay False (4 seeds)",
        "member evolving/member 0, share-replay False",
        "member evolving/member 1, share-replay False",
        "share-replay True (2 seeds)",
    ]


def test_the_name_of_a_group_has_as_few_settings_as_tell_it_from_all_others(tmp_path, make_run) -> None:
    # Three settings differ between algorithms, as defaults do; a fourth one, of the user, tells two groups apart.
    for place, (name, cost) in enumerate([("laser", 0.5), ("laser", 0.7), ("ppo", 0.5)]):
        others = {"batch_size": 16, "c_clip": 1.0, "baseline_cost": 0.5} if name == "laser" else {"epochs": 4}
        make_run(str(place), config={"algorithm": {"name": name, **others, "entropy_cost": cost}})
    assert list(group_by_settings(entries_of(tmp_path))) == [
        "algorithm laser, entropy-cost 0.5",
        "algorithm laser, entropy-cost 0.7",
        "algorithm ppo, entropy-cost 0.5",
    ]


def test_the_differences_of_runs_are_those_of_their_settings_and_seeds(tmp_path, make_run) -> None:
    make_run("a", config={"seed": 1, "algorithm": {"name": "laser", "learning_rate": 0.1}})
    make_run("b", config={"seed": 2, "algorithm": {"name": "laser"}})
    assert differences(entries_of(tmp_path)) == {"seed": [1, 2], "algorithm.learning-rate": [0.1, None]}


def test_a_group_is_drawn_as_mean_and_band_and_a_hidden_run_changes_no_colour(tmp_path, make_run) -> None:
    for seed in (0, 1):
        make_run(f"run{seed}", [{"loss": 2.0 * seed + n} for n in range(5)], config={"seed": seed})
    entries, library = entries_of(tmp_path), Library(tmp_path / "runs")
    view = View(metrics=("loss",), by_setting=True, band="deviation")
    (facet,) = facets_of(entries, view)
    low, high, mean = draw_facet(library, facet, groups_of(entries, view), frozenset(), view)["data"]
    assert mean["name"] == "cartpole CartPole-v1 (2 seeds)"
    x, y = decoded(mean["x"]), decoded(mean["y"])
    np.testing.assert_allclose(np.interp([0, 100, 400], x, y), [1.0, 2.0, 5.0])
    np.testing.assert_allclose(decoded(high["y"]) - decoded(low["y"]), 2 * np.sqrt(2.0), rtol=1e-6)
    single = View(metrics=("loss",), half_width=1)
    groups = groups_of(entries, single)
    both = draw_facet(library, facet, groups, frozenset(), single)["data"]
    assert [(trace["name"], trace["opacity"]) for trace in both] == [
        ("run0", 0.35),
        ("run1", 0.35),
        ("run0", 1.0),
        ("run1", 1.0),
    ]
    raw, smoothed = draw_facet(library, facet, groups, frozenset([entries[0].key]), single)["data"]
    assert raw["name"] == smoothed["name"] == "run1"
    assert smoothed["line"]["color"] == both[3]["line"]["color"]


@pytest.mark.parametrize(
    ("num_runs", "is_preview", "least", "most"), [(2, False, 800, 800), (16, False, 500, 500), (2, True, 128, 256)]
)
def test_a_curve_has_as_many_points_as_a_picture_has_room_for_and_a_preview_few(
    tmp_path, make_run, num_runs, is_preview, least, most
) -> None:
    for seed in range(num_runs):
        make_run(f"run{seed}", [{"charts/mean_return": float(n)} for n in range(4000)], config={"seed": seed})
    view = View(is_preview=is_preview)
    (facet,) = facets_of(entries_of(tmp_path), view)
    drawn = draw_facet(Library(tmp_path / "runs"), facet, groups_of(facet.entries, view), frozenset(), view)["data"]
    assert len(drawn) == num_runs
    assert all(least <= len(decoded(trace["x"])) <= most for trace in drawn)


def test_environments_share_an_axis_only_if_asked_to(tmp_path, make_run) -> None:
    for place, env in enumerate(["CartPole-v1", "Pendulum-v1", "CartPole-v1"]):
        make_run(str(place), config={"env": env})
    entries = entries_of(tmp_path)
    facets = facets_of(entries, View(metrics=("loss", "entropy")))
    assert [facet.title for facet in facets] == [
        "loss · CartPole-v1",
        "loss · Pendulum-v1",
        "entropy · CartPole-v1",
        "entropy · Pendulum-v1",
    ]
    assert [entry.name for entry in facets[0].entries] == ["0", "2"]
    assert [facet.title for facet in facets_of(entries, View(metrics=("loss",), one_axis=True))] == ["loss"]


def test_a_zoom_belongs_to_its_axis_and_may_hold_anything() -> None:
    zoom = {"axis": "seconds", "x": [1, 2.5], "y": {"loss": [0, 1]}}
    assert ranges_of(zoom, "loss", "seconds") == {"xaxis": [1, 2.5], "yaxis": [0, 1]}
    assert ranges_of(zoom, "entropy", "seconds") == {"xaxis": [1, 2.5]}
    assert ranges_of(zoom, "loss", "env_steps") == {}
    for strange in (None, [], "x", {"axis": "seconds", "x": [1], "y": []}, {"axis": "seconds", "x": ["a", True]}):
        assert ranges_of(strange, "loss", "seconds") == {}


def test_ranges_of_a_figure_by_itself_belong_to_what_it_shows_and_may_be_anything() -> None:
    def shown(ranges: object, meta: str = "a") -> dict[str, object]:
        figure = {"data": [], "layout": {"xaxis": {"type": "log"}, "yaxis": {}, "yaxis2": {}}}
        zoom_alone(figure, ranges, "one", meta)
        return {name: axis.get("range") for name, axis in figure["layout"].items() if "axis" in name}

    kept = {"one a": {"xaxis": [9, 10], "xaxis log": [-4, -3], "yaxis2": [0, 1.5]}}
    assert shown(kept) == {"xaxis": [-4, -3], "yaxis": None, "yaxis2": [0, 1.5]}
    nothing = {"xaxis": None, "yaxis": None, "yaxis2": None}
    assert shown(kept, "b") == nothing
    for strange in (None, [], "x", {"one a": None}, {"one a": {"yaxis": [1]}}, {"one a": {"yaxis": ["a", True]}}):
        assert shown(strange) == nothing


def test_references_are_the_random_and_the_human_return_and_the_goal(tmp_path, make_run) -> None:
    rows = [{"charts/mean_return": float(n)} for n in range(3)]
    make_run("a", rows, config={"env": "ALE/Pong-v5", "stop_at_return": 18.0})
    entries = entries_of(tmp_path)
    view = View(references=True)
    figure = draw_facet(
        Library(tmp_path / "runs"), facets_of(entries, view)[0], groups_of(entries, view), frozenset(), view
    )
    names = [note["text"] for note in figure["layout"]["annotations"]]
    assert names == ["random", "human", "stop at return"]
    assert [line["y0"] for line in figure["layout"]["shapes"]] == [-20.7, 14.6, 18.0]


def test_what_single_seeds_did_before_and_after_the_band_is_one_faint_line_with_gaps(tmp_path, make_run) -> None:
    for seed, length in enumerate((4, 6, 9)):
        rows = [{"charts/mean_return": float(10 * seed + n)} for n in range(length)]
        make_run(f"run{seed}", rows, config={"seed": seed})
    entries = entries_of(tmp_path)
    view = View(by_setting=True, axis="learner_steps")
    (facet,) = facets_of(entries, view)
    figure = draw_facet(Library(tmp_path / "runs"), facet, groups_of(entries, view), frozenset(), view)
    faint = [trace for trace in figure["data"] if trace.get("opacity", 1.0) < 1]
    assert len(faint) == 1
    x, y = decoded(faint[0]["x"]), decoded(faint[0]["y"])
    assert np.isnan(x).tolist() == np.isnan(y).tolist()
    after_the_first_seed = [13.0, 14.0, 15.0, np.nan, 23.0, 24.0, 25.0, 26.0, 27.0, 28.0, np.nan]
    np.testing.assert_array_equal(y, after_the_first_seed)
    band = next(trace for trace in figure["data"] if trace["name"].endswith("band"))
    assert len(decoded(band["x"])) == 400


def test_curves_of_many_settings_have_few_points(tmp_path, make_run) -> None:
    for number in range(64):
        config = {"seed": number % 2, "algorithm": {"learning_rate": number // 2}}
        make_run(f"run{number:02d}", [{"charts/mean_return": 1.0}] * 5, config=config)
    entries = entries_of(tmp_path)
    view = View(by_setting=True)
    (facet,) = facets_of(entries, view)
    figure = draw_facet(Library(tmp_path / "runs"), facet, groups_of(entries, view), frozenset(), view)
    assert {len(decoded(trace["x"])) for trace in figure["data"]} == {128}
