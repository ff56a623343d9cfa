"""Numbers of figures as a real headless Chromium draws them: marks of axes, values at the pointer, reference lines."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from in_chromium import IN_CHROMIUM, bring, graphs, traces, wait

from launch.formats import short
from launch.records.lineage import Decision, Lineage
from launch.records.settings_schedule import SettingsChange, write_changes

pytestmark = IN_CHROMIUM

RETURN = "return, last 20 episodes"
LOSSES = [1e6, *(0.2 + n / 200 for n in range(1, 100))]
PANELS = ("Return", "Return by task", "Losses", "Where threads spend their time", "Processes: CPU", "Processes: memory")
_PLOT = """
  const panel = Array.from(document.querySelectorAll('.panel')).find((each) => each.ariaLabel === arguments[0]);
  const plot = panel.querySelector('.js-plotly-plot');
  const texts = (css) => Array.from(plot.querySelectorAll(css), (each) => each.textContent);
"""


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """A run with numbers of all sizes, one with many lines, two of Pong, a wide sweep, and a population."""
    root, make_run = shared_runs
    begun = time.time() - 1000.0
    sizes = [
        {
            "charts/mean_return": -20.0 + 0.4 * n,
            "charts/episodic_length": 1e6 + 1e4 * n,
            "charts/learning_rate": 9e-4 - 8e-6 * n,
            "entropy": 1e-6 * 10 ** (n / 20),
            "value_loss": LOSSES[n],
            "gradient_norm": 0.0,
        }
        for n in range(100)
    ]
    make_run("sizes", sizes, begun=begun, repeat=400)
    for name in ("pong a", "pong b"):
        config = {"env": "ALE/Pong-v5", "stop_at_return": 18.0}
        make_run(name, sizes, begun=begun, config=config)
    processes = [f"actor-{n}{part}" for n in range(16) for part in ("", "/children")]
    stages = ("environment", "inference", "insert", "insert_wait", "decode", "learner_wait", "learner_step", "publish")
    many = {"charts/mean_return": 1.0, "charts/SPS": 0.5}
    many |= {f"tasks/ALE/LongNameOfAGame{n}-v5/mean_return": 1.0 + n for n in range(8)}
    many |= {f"busy/{stage}": 1.0 for stage in stages}
    many |= {f"process/{name}/cpu_percent": 50.0 for name in processes}
    many |= {f"process/{name}/memory_bytes": 2.0**30 for name in processes}
    many |= {f"{name}_loss": 1.0 for name in ("advantage", "critic", "pg", "pixel_control", "value", "first", "second")}
    make_run("many", [many] * 3, begun=begun)

    def sweep(name: str, keys: tuple[str, ...], members: int, *, pbt: bool) -> None:
        values = [f"{number + 1}e-4" for number in range(members)]
        make_run(name, facts={"sweep": {"grid": dict.fromkeys(keys, values), "options": {"pbt": pbt}}})
        for number, value in enumerate(values):
            rows = [{"charts/mean_return": 1e-5 * number, "totals/episodes": 20.0 * n} for n in range(1, 4)]
            own = {each.partition(".")[2].replace("-", "_"): float(value) for each in keys}
            facts = {"member": {"index": number, "overrides": dict.fromkeys(keys, value)}}
            config = {"algorithm": {"name": "laser"} | own}
            make_run(f"{name}/members/{number}", rows, config=config, facts=facts, begun=begun)

    key = "algorithm.learning-rate"
    sweep("wide", (key, "algorithm.entropy-cost"), 13, pbt=False)  # so many cells have no room for their numbers
    sweep("population", (key,), 3, pbt=True)
    Lineage(root / "population" / "lineage.jsonl").add(Decision(20_000, 9, 1, 0, {0: 5.0, 1: 4.0}, {key: 3.7e-4}))
    for number in range(3):
        changes = [SettingsChange(at, {key: 1e-4 + at * 1.35e-8}) for at in (0, 10_000, 20_000)]
        write_changes(root / "population" / "members" / str(number) / "schedule.json", changes)
    return root


def marks(browser: Any, panel: str, axis: str = "y") -> list[str]:
    """Return the marks of an axis, in Plotly's order, with its own minus sign as a hyphen."""
    script = _PLOT + "return texts(arguments[1]).map((each) => each.replaceAll('−', '-'))"
    found: list[str] = browser.execute_script(script, panel, ".cbaxis text" if axis == "bar" else f".{axis}tick text")
    return found


def zoom(browser: Any, panel: str, axis: str, low: float, high: float) -> None:
    script = _PLOT + "window.Plotly.relayout(plot, { [arguments[1]]: [arguments[2], arguments[3]] })"
    browser.execute_script(script, panel, f"{axis}axis.range", low, high)


def said_at(browser: Any, panel: str, x: float) -> list[str]:
    """Return the values beside the curves, and in a box of Plotly's, with the pointer at a value of x."""
    from selenium.webdriver import ActionChains

    script = (
        _PLOT
        + """
      plot.scrollIntoView({ block: 'center' });
      return [plot.querySelector('.nsewdrag'), plot._fullLayout.xaxis.l2p(arguments[1]) - plot._fullLayout._size.w / 2];
    """
    )
    place, across = browser.execute_script(script, panel, x)
    ActionChains(browser).move_to_element(place).move_by_offset(round(across), 5).perform()
    said = "return texts('.values > *, .hoverlayer .hovertext').map((each) => each.replaceAll('−', '-'))"
    found: list[str] = wait("values", lambda: browser.execute_script(_PLOT + said, panel))
    return found


@pytest.mark.parametrize(
    ("scale", "losses", "rates"),
    [
        ("all", ["0", "0.5M", "1M"], ["0", "2e-4", "4e-4", "6e-4", "8e-4"]),
        ("most", ["0.2", "0.3", "0.4", "0.5", "0.6", "0.7"], ["2e-4", "4e-4", "6e-4", "8e-4"]),
        ("log", ["1", "100", "10,000", "1M"], [f"{n}e-4" for n in range(1, 10)] + ["1e-3"]),
    ],
)
def test_marks_suit_the_range_that_is_drawn(browser, address, root, scale, losses, rates) -> None:
    browser.get(f"{address}run/sizes?axis=frames&y={scale}")
    wait("the losses", lambda: traces(browser, "Losses"))
    wait("their marks", lambda: marks(browser, "Losses") == losses)
    assert marks(browser, "Learning rate") == rates
    assert marks(browser, "Losses", "x") == ["0", "1M", "2M", "3M"]
    if scale == "log":
        assert marks(browser, "Entropy") == ["1e-6", "1e-4", "0.01"]


def test_values_at_the_pointer_and_marks_after_a_zoom_suit_what_is_there(browser, address, root) -> None:
    browser.get(f"{address}run/sizes?axis=frames")
    wait("the losses", lambda: traces(browser, "Losses"))
    for n in (0, 50, 99):
        at, value = f"{40_000 * n:,}", f"value : {short(LOSSES[n])}"
        wait(f"row {n}", lambda n=n, at=at, value=value: said_at(browser, "Losses", 40_000 * n) == [at, value])
    assert said_at(browser, "Learning rate", 40_000 * 50)[1] == "5e-4"
    assert said_at(browser, "Episode length", 40_000 * 50)[1] == "1.5M"
    # A flat line has points at its ends only.
    assert said_at(browser, "Gradient norm, before clipping", 40_000) == ["0", "0"]
    zoom(browser, "Losses", "y", 0.2, 0.7)
    wait("smaller marks", lambda: marks(browser, "Losses") == ["0.2", "0.3", "0.4", "0.5", "0.6", "0.7"])
    zoom(browser, "Losses", "x", 0.0, 4000.0)
    wait("fewer frames", lambda: marks(browser, "Losses", "x") == ["0", "1,000", "2,000", "3,000", "4,000"])


def test_a_schedule_and_a_lineage_are_written_as_other_figures(browser, address, root) -> None:
    browser.get(f"{address}sweep/population")
    wait("the parts", lambda: traces(browser, "Members"))
    bring(browser, "population")
    wait("the schedule", lambda: traces(browser, "Schedule"))
    assert marks(browser, "Schedule") == ["0", "1e-4", "2e-4", "3e-4"]
    assert marks(browser, "Schedule", "x") == ["0", "5,000", "10,000", "15,000", "20,000"]
    assert said_at(browser, "Schedule", 10_000) == ["10,000", "2.35e-4"]
    assert marks(browser, "Lineage", "x") == ["0", "5,000", "10,000", "15,000", "20,000"]


def test_the_colour_bar_of_a_map_is_written_as_its_cells(browser, address, root) -> None:
    browser.get(f"{address}sweep/wide")
    wait("the parts", lambda: traces(browser, "Members"))
    bring(browser, "settings")
    map = "Two settings, mean return"
    wait("the map", lambda: traces(browser, map))
    assert marks(browser, map, "bar") == ["0", "2e-5", "4e-5", "6e-5", "8e-5", "1e-4", "1.2e-4"]


_LINES = """
  const plot = document.querySelector('#comparison .js-plotly-plot'), axis = plot._fullLayout.yaxis;
  const top = plot.querySelector('.nsewdrag').getBoundingClientRect().top;
  const value = (y) => axis.p2r(y - top);
  const box = (each) => each.getBoundingClientRect();
  return [
    Array.from(plot.querySelectorAll('.shapelayer path'), (each) => value((box(each).top + box(each).bottom) / 2)),
    Array.from(plot.querySelectorAll('.annotation-text'), (each) => [each.textContent, value(box(each).bottom)]),
    axis.range,
  ];
"""


def test_reference_lines_are_at_their_values_also_on_a_logarithmic_axis(browser, address, root) -> None:
    lines = {"random": -20.7, "human": 14.6, "stop at return": 18.0}
    page = f"{address}?run=pong%20a&run=pong%20b&show=references"
    browser.get(page)
    wait("lines", lambda: len(browser.execute_script(_LINES)[0]) == 3)
    heights, names, (low, high) = browser.execute_script(_LINES)
    assert heights == pytest.approx(list(lines.values()), abs=0.3)
    assert [name for name, _ in names] == list(lines)
    assert [height for _, height in names] == pytest.approx(list(lines.values()), abs=1.5)
    assert -25.0 < low < -20.7
    assert 19.6 < high < 25.0
    browser.get(f"{page}&show=log")
    above = {name: y for name, y in lines.items() if y > 0}  # a logarithmic axis has no place for a negative return
    wait("lines", lambda: browser.execute_script(_LINES)[0])
    heights, names, (low, high) = browser.execute_script(_LINES)
    assert [10**height for height in heights] == pytest.approx(list(above.values()), rel=0.03)
    assert [name for name, _ in names] == list(above)
    assert [10**height for _, height in names] == pytest.approx(list(above.values()), rel=0.1)
    assert -1.0 < low < high < 1.5


@pytest.mark.parametrize("width", [390, 1280])
def test_a_legend_leaves_half_of_a_figure_to_its_curves(browser, address, root, width) -> None:
    shares = """
      return Object.fromEntries(Array.from(document.querySelectorAll('.panel .js-plotly-plot')).filter(
        (plot) => plot._fullData && plot._fullData.length).map((plot) => [plot.closest('.panel').ariaLabel,
          plot.querySelector('.nsewdrag').getBoundingClientRect().height / plot.getBoundingClientRect().height]));
    """
    size = {"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        browser.get(f"{address}run/many")
        wait("all figures", lambda: set(PANELS) <= set(graphs(browser)))
        found = browser.execute_script(shares)
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    assert {panel: share for panel, share in found.items() if share < 0.5} == {}


def test_a_comparison_names_the_units_that_the_table_of_metrics_knows(browser, address, root) -> None:
    units = {
        "charts/mean_return": "return",
        "charts/SPS": "env steps/s",
        "process/actor-0/cpu_percent": "% of a core",
        "process/actor-0/memory_bytes": "GiB",
    }
    browser.get(f"{address}?run=many&axis=seconds" + "".join(f"&metric={name}" for name in units))
    titles = (
        "return Array.from(document.querySelectorAll('#comparison .' + arguments[0] + 'title'), (e) => e.textContent)"
    )
    wait("a figure each", lambda: browser.execute_script(titles, "y") == list(units.values()))
    assert browser.execute_script(titles, "x") == ["training time (s)"] * len(units)
