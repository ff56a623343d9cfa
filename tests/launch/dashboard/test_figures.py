import json

import numpy as np
import pytest

from launch.dashboard.figures import (
    Curve,
    as_text,
    bar_figure,
    colour_of,
    decoded,
    encoded,
    in_byte_units,
    line_figure,
    scatter_figure,
)
from launch.dashboard.lineage_figures import lineage_figure, steps_figure
from launch.dashboard.panels import AXIS_TITLES, SCALES, draw, panels_of
from launch.recording.metric_panels import names_of
from launch.records.series import read_series

HOSTILE = "<img src=x onerror=alert(1)>"


def test_arrays_survive_the_journey() -> None:
    values = np.array([1.5, np.nan, -3e30])
    np.testing.assert_array_equal(decoded(encoded(values, "f8")), values)
    np.testing.assert_array_equal(decoded(json.loads(json.dumps(encoded(values)))), values.astype("f4"))


def test_a_line_with_a_band() -> None:
    x = np.arange(3.0)
    figure = line_figure([Curve("a", x, x, x - 1, x + 1), Curve("b", x, 2 * x)], "env steps", "return", "dark")
    assert [trace["name"] for trace in figure["data"]] == ["a band", "a band", "a", "b"]
    np.testing.assert_array_equal(decoded(figure["data"][3]["y"]), 2 * x)
    assert figure["layout"]["xaxis"]["title"]["text"] == "env steps"
    assert figure["data"][2]["line"]["color"] == colour_of(0, "dark")


def test_from_zero_leaves_room_above_the_band() -> None:
    x = np.arange(3.0)
    figure = line_figure([Curve("a", x, x, x, x + 8)], "x", from_zero=True)
    low, high = figure["layout"]["yaxis"]["range"]
    assert low == 0
    assert high > 10


def test_beyond_the_palette_lines_differ_in_their_dashes() -> None:
    x = np.arange(2.0)
    lines = [trace["line"] for trace in line_figure([Curve(str(n), x, x) for n in range(20)], "x")["data"]]
    assert len({(line["color"], line["dash"]) for line in lines}) == 20


@pytest.mark.parametrize(
    "figure",
    [
        line_figure([Curve(HOSTILE, np.zeros(2), np.zeros(2), np.zeros(2), np.zeros(2))], "x"),
        scatter_figure([1.0, 2.0], [1.0, 2.0], [HOSTILE, "b"], "x", "y"),
        scatter_figure([HOSTILE, "b"], [1.0, 2.0], ["a", "b"], HOSTILE, "y"),
        line_figure([Curve("a", np.zeros(2), np.zeros(2))], "x", HOSTILE),
        bar_figure([HOSTILE], [1.0]),
        steps_figure([Curve(HOSTILE, np.zeros(2), np.zeros(2))], "x"),
        lineage_figure({0: HOSTILE, 1: "b"}, {0: 1.0, 1: 2.0}, [(1.0, 0, 1, HOSTILE)], [(2.0, 0, HOSTILE)]),
    ],
)
def test_hostile_text_never_reaches_plotly_as_markup(figure) -> None:
    text = json.dumps(figure)
    assert "<img" not in text
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert as_text("&lt;") == "&amp;lt;"


def test_a_tree_leaves_out_members_that_are_gone() -> None:
    figure = lineage_figure({0: "a"}, {0: 9.0}, [(1.0, 5, 0, ""), (2.0, 0, 5, "")], [(3.0, 5, "")], [(0.0, 1.0, 5)])
    assert [list(trace["x"]) for trace in figure["data"]] == [[0, 9.0], [], [1.0]]
    assert not figure["layout"]["annotations"]


def test_settings_over_decades_are_drawn_on_a_logarithmic_axis_and_words_as_categories() -> None:
    assert scatter_figure([1e-4, 1e-2], [0.0, 1.0], ["a", "b"], "x", "y")["layout"]["xaxis"]["type"] == "log"
    assert "type" not in scatter_figure([0.0, 1e-2], [0.0, 1.0], ["a", "b"], "x", "y")["layout"]["xaxis"]
    assert scatter_figure(["off", "on"], [0.0, 1.0], ["a", "b"], "x", "y")["layout"]["xaxis"]["type"] == "category"


def test_panels_draw_what_a_run_has_and_say_what_it_lacks(make_run) -> None:
    rows = [
        {
            "charts/mean_return": float(n),
            "policy_lag/online/p50": 2.0 + n,
            "policy_lag/online/p10": 1.0 + n,
            "policy_lag/online/p90": 3.0 + n,
            "totals/unrolls_learned/online": 1.0 * n,
            "totals/unrolls_learned/replayed": 3.0 * n,
            "totals/time/environment": 0.5 * n,
        }
        for n in range(10)
    ]
    path = make_run("a", rows) / "metrics.db"
    panels = {panel.key: panel for panel in panels_of(rows[0])}
    series = read_series(path, names_of(list(panels.values())))
    drawn = {key: draw(panel, series, "env_steps", "light") for key, panel in panels.items()}
    np.testing.assert_array_equal(decoded(drawn["return"]["data"][0]["y"]), np.arange(10))
    np.testing.assert_array_equal(decoded(drawn["lag"]["data"][0]["y"]), np.arange(10) + 1)
    np.testing.assert_array_equal(decoded(drawn["fraction"]["data"][0]["y"]), [0.75] * 9)
    np.testing.assert_allclose(decoded(drawn["busy"]["data"][0]["y"]), [0.5] * 9)
    assert drawn["acceptance"]["data"] == []
    assert drawn["acceptance"]["layout"]["annotations"][0]["text"] == "the algorithm has no trust region"


@pytest.mark.parametrize(("name", "key"), [("far_fraction", "far"), ("projected_fraction", "projected")])
def test_an_algorithm_without_a_trust_region_shows_its_own_share_in_place_of_it(make_run, name, key) -> None:
    rows = [{name: float(n)} for n in range(4)]
    path = make_run("a", rows) / "metrics.db"
    (panel,) = [panel for panel in panels_of(rows[0]) if panel.key in ("acceptance", "projected", "far")]
    assert panel.key == key
    (line,) = draw(panel, read_series(path, names_of([panel])), "env_steps", "light")["data"]
    np.testing.assert_array_equal(decoded(line["y"]), np.arange(4))


def test_a_few_outliers_do_not_flatten_a_panel_that_is_to_show_most_values(make_run) -> None:
    rows = [{"value_loss": 1e6 if n < 1 else 1.0 + n / 100, "accept_fraction_online": 0.5} for n in range(100)]
    path = make_run("a", rows) / "metrics.db"
    panels = {panel.key: panel for panel in panels_of(rows[0])}
    series = read_series(path, names_of(list(panels.values())))
    drawn = {scale: draw(panels["losses"], series, "env_steps", "light", scale=scale) for scale in SCALES}
    assert "range" not in drawn["all"]["layout"]["yaxis"]
    low, high = drawn["most"]["layout"]["yaxis"]["range"]
    assert 0.9 < low < 1.03
    assert 1.97 < high < 2.1
    assert drawn["log"]["layout"]["yaxis"]["type"] == "log"
    for scale in SCALES:  # a share keeps its range
        shares = draw(panels["acceptance"], series, "env_steps", "light", scale=scale)["layout"]["yaxis"]
        assert shares["range"] == [-0.02, 1.05]
        assert "type" not in shares


def test_curves_without_positive_values_are_not_lost_on_a_logarithmic_axis(make_run) -> None:
    rows = [{"charts/mean_return": -5.0 - n} for n in range(4)]
    path = make_run("a", rows) / "metrics.db"
    panel = next(panel for panel in panels_of(rows[0]) if panel.key == "return")
    figure = draw(panel, read_series(path, names_of([panel])), "env_steps", "light", scale="log")
    assert "type" not in figure["layout"]["yaxis"]


@pytest.mark.parametrize("axis", AXIS_TITLES)
def test_any_column_of_a_tick_can_be_the_axis(make_run, axis) -> None:
    rows = [{"entropy": float(n)} for n in range(4)]
    path = make_run("a", rows) / "metrics.db"
    panel = next(panel for panel in panels_of(rows[0]) if panel.key == "entropy")
    figure = draw(panel, read_series(path, ["entropy"]), axis, "light")
    scale = {"env_steps": 100, "frames": 400, "learner_steps": 3, "seconds": 1}[axis]
    np.testing.assert_array_equal(decoded(figure["data"][0]["x"]), scale * np.arange(4))


def test_small_numbers_are_powers_of_ten_and_bytes_are_mebibytes(make_run) -> None:
    x = np.arange(3.0)
    assert line_figure([Curve("a", x, x * 1e-4)], "x")["layout"]["yaxis"]["tickformat"] == "~e"
    assert line_figure([Curve("a", x, x)], "x")["data"][0]["yhoverformat"] == ",.4~g"
    rows = [{"replay/memory_bytes": 3.0 * 2**20}] * 2
    path = make_run("a", rows) / "metrics.db"
    panel = next(panel for panel in panels_of(rows[0]) if panel.key == "bytes")
    figure = draw(panel, read_series(path, names_of([panel])), "env_steps", "light")
    assert figure["layout"]["yaxis"]["title"]["text"] == "MiB"
    np.testing.assert_array_equal(decoded(figure["data"][0]["y"])[-1], 3.0)


def test_bytes_of_any_metric_are_in_a_unit_of_their_size() -> None:
    x = np.arange(3.0)
    (curve,), unit = in_byte_units([Curve("a", x, x * 2.0**31, low=x * 2.0**30)], "bytes")
    assert unit == "GiB"
    assert (curve.y[-1], curve.low[-1], curve.high) == (4.0, 2.0, None)
    (curve,), unit = in_byte_units([Curve("a", x, x)], "nats")
    assert (curve.y[-1], unit) == (2.0, "nats")


def test_a_smoothed_curve_lies_on_its_raw_values(make_run) -> None:
    rows = [{"entropy": float(n % 2)} for n in range(8)]
    path = make_run("a", rows) / "metrics.db"
    panel = next(panel for panel in panels_of(rows[0]) if panel.key == "entropy")
    raw, smoothed = draw(panel, read_series(path, ["entropy"]), "env_steps", "light", half_width=2)["data"]
    assert (raw["showlegend"], raw["opacity"], raw["line"]["color"]) == (False, 0.35, smoothed["line"]["color"])
    np.testing.assert_array_equal(decoded(raw["y"]), [0, 1] * 4)
    assert np.ptp(decoded(smoothed["y"])) < 1
