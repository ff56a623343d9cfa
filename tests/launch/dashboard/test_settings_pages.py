"""A sweep of 24 settings in a real headless Chromium: which settings matter, and how numbers are written."""

from __future__ import annotations

import itertools
import json
import math
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from in_chromium import IN_CHROMIUM, bring, find, press_keys, texts, wait
from written_numbers import WRITTEN

pytestmark = IN_CHROMIUM

GRID = {
    "algorithm.learning-rate": ["1e-4", "3e-4", "1e-3", "3e-3"],
    "algorithm.entropy-cost": ["0.001", "0.01", "0.03"],
    "network.activation": ["relu", "tanh"],
}
_PLOT = "document.querySelector('#' + arguments[0] + ' .js-plotly-plot')"


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """A sweep in which the step size matters, and one of three settings."""
    root, make_run = shared_runs
    now = time.time() - 1000.0

    def sweep(name: str, grid: dict[str, list[str]], seeds: int, value: Any) -> None:
        make_run(name, facts={"sweep": {"grid": grid, "options": {"pbt": False}}})
        number = 0
        for values in itertools.product(*grid.values()):
            for seed in range(seeds):
                overrides = dict(zip(grid, values, strict=True))
                config: dict[str, Any] = {"seed": seed, "algorithm": {"name": "laser"}, "network": {}}
                for key, text in overrides.items():
                    section, field = key.replace("-", "_").split(".")
                    config[section][field] = text if section == "network" else float(text)
                rows = [
                    {"charts/mean_return": value(overrides, seed, n), "totals/episodes": 20.0 * n} for n in range(1, 11)
                ]
                facts = {"member": {"index": number, "overrides": overrides}}
                make_run(f"{name}/members/{number}", rows, config=config, facts=facts, begun=now)
                number += 1

    def by_rate(overrides: dict[str, str], seed: int, n: int) -> float:
        return 400.0 - 100.0 * abs(math.log10(float(overrides["algorithm.learning-rate"])) + 3.0) + 2.0 * seed

    # The second setting is the better one, but only later.
    def late(overrides: dict[str, str], seed: int, n: int) -> float:
        return {"1e-4": 100.0, "1e-3": 40.0 * n, "1e-2": 10.0}[overrides["algorithm.learning-rate"]] + seed

    sweep("large", GRID, 2, by_rate)
    sweep("small", {"algorithm.learning-rate": ["1e-4", "1e-3", "1e-2"]}, 2, late)
    return root


def query(browser: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(browser.current_url).query)


def said_by(browser: Any, graph: str) -> list[str]:
    script = f"return ({_PLOT}.layout.annotations || []).map((each) => each.text.replaceAll('<br>', ' '))"
    found: list[str] = browser.execute_script(script, graph)
    return found


def test_the_importance_of_settings_is_drawn_with_its_interval_and_said(browser, address, root) -> None:
    browser.get(f"{address}sweep/large")
    bring(browser, "settings")
    bars = (
        f"const bar = {_PLOT}._fullData[0];"
        "return [Array.from(bar.y), Array.from(bar.x), Array.from(bar.error_x.arrayminus)]"
    )
    wait("bars", lambda: len(browser.execute_script(bars, "importance")[0]) == 3, 90.0)
    keys, means, below = browser.execute_script(bars, "importance")
    assert keys[0] == "algorithm.learning-rate"
    assert means[0] - below[0] > 0.1
    (words,) = texts(browser, "#importance-words")
    assert words.startswith("algorithm.learning-rate matters; no effect can be told of ")


def test_few_settings_are_too_few(browser, address, root) -> None:
    browser.get(f"{address}sweep/small")
    bring(browser, "settings")
    words = "3 settings have a return: fewer than 12 are too few to tell which of them matter"
    wait("why there is none", lambda: said_by(browser, "importance") == [words])


def test_two_settings_are_a_map_of_means(browser, address, root) -> None:
    browser.get(f"{address}sweep/large?second=network.activation")
    bring(browser, "settings")
    cells = f"const map = {_PLOT}._fullData[0]; return [map.x, map.y, map.text, map.customdata[0][0]]"
    row = ["301", "348.7", "401", "353.3"]
    expected = [["1e-4", "3e-4", "0.001", "0.003"], ["relu", "tanh"], [row, row], "3 settings, 6 seeds"]
    wait("the map", lambda: browser.execute_script(cells, "two-settings") == expected)
    browser.get(f"{address}sweep/small")
    bring(browser, "settings")
    wait("why not", lambda: said_by(browser, "two-settings") == ["only one setting of this sweep has several values"])


def test_a_second_setting_colours_points_and_lines(browser, address, root) -> None:
    browser.get(f"{address}sweep/large?colour=network.activation")
    bring(browser, "settings")
    points = f"const {{ color }} = {_PLOT}._fullData[0].marker; return [color.length, new Set(color).size]"
    wait("two colours of 48 members", lambda: browser.execute_script(points, "sweep-settings") == [48, 2])
    named = f"return {_PLOT}._fullData.filter((each) => each.showlegend).map((each) => each.name)"
    assert browser.execute_script(named, "sweep-settings") == ["activation relu", "activation tanh"]
    wait("their names", lambda: browser.execute_script(named, "all-settings") == ["activation relu", "activation tanh"])
    lines = (
        f"return new Set({_PLOT}._fullData.filter((each) => each.mode === 'lines+markers')"
        ".map((each) => each.line.color)).size"
    )
    assert browser.execute_script(lines, "all-settings") == 2


def test_dragging_along_an_axis_keeps_the_lines_that_cross_it_and_the_address_does(browser, address, root) -> None:
    from selenium.webdriver import ActionChains, Keys

    shown = f"return {_PLOT}._fullData.filter((each) => each.mode === 'lines+markers' && each.opacity === 1).length"
    browser.get(f"{address}sweep/large")
    bring(browser, "settings")
    wait("all lines", lambda: browser.execute_script(shown, "all-settings") == 24)
    place = find(browser, "#all-settings .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    box = place.rect
    # The axis of the activation is the third of four; tanh stands at its top.
    x = int(box["width"] * ((2 + 0.15) / 3.3 - 0.5))
    drag = ActionChains(browser).move_to_element_with_offset(place, x, -int(box["height"] * 0.49)).click_and_hold()
    drag.move_by_offset(0, 30).move_by_offset(0, 40).release().perform()
    wait("those with tanh", lambda: browser.execute_script(shown, "all-settings") == 12)
    assert texts(browser, "#parallel small") == ["12 of 24 settings kept; a double click shows all"]
    assert list(json.loads(query(browser)["brush"][0])) == ["2"]
    browser.refresh()
    bring(browser, "settings")
    wait("the same after a reload", lambda: browser.execute_script(shown, "all-settings") == 12)
    browser.execute_script(f"{_PLOT}.emit('plotly_doubleclick')", "all-settings")
    wait("all lines again", lambda: browser.execute_script(shown, "all-settings") == 24)
    assert "brush" not in query(browser)
    press_keys(browser, "#parallel .figure", Keys.ARROW_RIGHT)
    assert texts(browser, "#parallel small") == ["axis entropy-cost"]
    press_keys(browser, "#parallel .figure", Keys.ARROW_DOWN)
    wait("those with the highest cost", lambda: browser.execute_script(shown, "all-settings") == 8)
    assert query(browser)["brush"] == ['{"1":[0.75,1]}']
    press_keys(browser, "#parallel .figure", *[Keys.ARROW_DOWN] * 3)
    assert json.loads(query(browser)["brush"][0]) == {"1": [0, 0.25]}
    press_keys(browser, "#parallel .figure", "0")
    wait("all lines", lambda: browser.execute_script(shown, "all-settings") == 24)


def test_the_best_setting_over_time_says_how_many_episodes_stand_behind_it(browser, address, root) -> None:
    browser.get(f"{address}sweep/small")
    line = (
        f"const line = {_PLOT}._fullData[0], said = line.customdata.filter((each) => each); "
        "return [said.at(0), said.at(-1), line.y.at(-1)]"
    )
    wait("the line", lambda: browser.execute_script(line, "incumbent")[0])
    first, last, height = browser.execute_script(line, "incumbent")
    assert last == "learning-rate 0.001: 400.5, mean of 2 seeds, the last 20 episodes of each"
    assert height == 400.5
    wait(
        "the tile",
        lambda: "best setting's return400.5learning-rate 0.001: mean over 2 seeds" in texts(browser, ".tile"),
    )
    wait("an early leader", lambda: first.startswith("learning-rate 1e-4: 100.5, mean of 2 seeds, "))


def test_tables_write_numbers_as_all_else_does(browser, address, root) -> None:
    browser.get(f"{address}sweep/small")
    wait("the table", lambda: texts(browser, "#members .ag-row"))
    script = "return arguments[0].map((value) => dashAgGridFunctions.shown({ value: value }))"
    assert browser.execute_script(script, list(WRITTEN)) == list(WRITTEN.values())
    assert browser.execute_script("return dashAgGridFunctions.counted({ value: 12345678 })") == "12,345,678"


def test_a_legend_stands_above_the_curves_after_the_window_was_resized(browser, address, root) -> None:
    above = f"""
      const plot = {_PLOT}, legend = plot.querySelector('.legend .bg').getBoundingClientRect();
      return legend.bottom <= plot.querySelector('.nsewdrag').getBoundingClientRect().top;
    """
    width = f"return {_PLOT}._fullLayout.width"
    size = browser.get_window_size()
    browser.get(f"{address}sweep/small?curves=runs")
    wait("a legend", lambda: browser.execute_script(above, "sweep-curves"))
    before = browser.execute_script(width, "sweep-curves")
    try:
        browser.set_window_size(390, 900)
        wait("another width", lambda: browser.execute_script(width, "sweep-curves") != before)
        wait("the legend above it", lambda: browser.execute_script(above, "sweep-curves"))
    finally:
        browser.set_window_size(size["width"], size["height"])
    wait("the first width", lambda: browser.execute_script(width, "sweep-curves") == before)
    wait("the legend above it again", lambda: browser.execute_script(above, "sweep-curves"))
