"""The page of a sweep of many settings in a real headless Chromium: whose line is whose, and what the address keeps."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from in_chromium import IN_CHROMIUM, bring, find, press_keys, rows_from_the_top, texts, traces, wait, x_range

pytestmark = IN_CHROMIUM

RATES = [f"{place + 1}e-4" for place in range(12)]
_PLOT = "document.querySelector('#' + arguments[0] + ' .js-plotly-plot')"


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """Twelve settings of two seeds each, as many as make the table scroll, four settings of one, and a population."""
    root, make_run = shared_runs
    now = time.time() - 1000.0

    def sweep(name: str, rates: list[str], seeds: int, costs: Sequence[str] = (), **more: Any) -> None:
        """Make a sweep of rates and seeds; with `costs` each seed has a cost of entropy, too."""
        grid = {"algorithm.learning-rate": rates} | ({"algorithm.entropy-cost": list(costs)} if costs else {})
        make_run(name, facts={"sweep": {"grid": grid, "options": {"pbt": bool(more)} | more}})
        for number in range(len(rates) * seeds):
            rate = rates[number // seeds]
            rows = [
                {"charts/mean_return": float(n * (1 + number // seeds)), "totals/episodes": 5.0 * n}
                for n in range(1, 21)
            ]
            config: dict[str, Any] = {
                "seed": number % seeds,
                "algorithm": {"name": "laser", "learning_rate": float(rate)},
            }
            overrides = {"algorithm.learning-rate": rate}
            if costs:
                overrides["algorithm.entropy-cost"] = costs[number % seeds]
                config["algorithm"] |= {"entropy_cost": float(costs[number % seeds])}
            facts = {"member": {"index": number, "overrides": overrides}}
            make_run(f"{name}/members/{number}", rows, config=config, facts=facts, begun=now, repeat=1)

    sweep("many", RATES, 2)
    sweep("long", [f"{place + 1}e-5" for place in range(20)], 2)
    sweep("single", RATES[:4], 1)
    sweep("pairs", RATES[:3], 2, ["0.01", "0.02"])
    sweep("population", RATES[:3], 1, pbt=True)
    with (root / "population" / "lineage.jsonl").open("w", encoding="utf-8") as lineage:
        for at, member, copied in ((500, 0, None), (900, 1, 2)):
            settings = {"algorithm.learning-rate": 1e-4 * (1 + member), "algorithm.entropy-cost": 0.01}
            decision = {"env_steps": at, "member": member, "copied": copied, "settings": settings}
            lineage.write(json.dumps(decision) + "\n")
    changes = [
        {"env_steps": at, "settings": {"algorithm.learning-rate": rate, "algorithm.entropy-cost": 10 * rate}}
        for at, rate in ((0, 3e-4), (900, 2e-4))
    ]
    (root / "population" / "members" / "1" / "schedule.json").write_text(json.dumps(changes), encoding="utf-8")
    return root


def query(browser: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(browser.current_url).query)


def lines(browser: Any) -> dict[str, list[Any]]:
    """Return colour, dashes and opacity of each line that the members' figure draws and a mark stands for."""
    script = f"""
      const plot = {_PLOT};
      return Object.fromEntries(plot._fullData.filter((each) => each.showlegend).map((each) => [each.name, [
        each.line.color, each.line.dash,
        Number(getComputedStyle(plot.querySelector('.scatterlayer .trace' + each.uid)).opacity)]]));
    """
    found: dict[str, list[Any]] = browser.execute_script(script, "sweep-curves")
    return found


def marks(browser: Any, table: str) -> dict[str, list[str]]:
    """Return the colour and the dashes of each mark of a table, by the first line that it stands for."""
    script = """
      return Object.fromEntries(Array.from(document.querySelectorAll(arguments[0] + ' [data-curves]')).map(
        (each) => [JSON.parse(each.dataset.curves)[0], [each.style.getPropertyValue('--curve'), each.dataset.dash]]));
    """
    found: dict[str, list[str]] = browser.execute_script(script, table)
    return found


def test_the_table_of_settings_has_the_colour_and_dashes_of_every_line(browser, address, root) -> None:
    browser.get(f"{address}sweep/many")
    wait("twelve lines", lambda: len(lines(browser)) == 12)
    wait(
        "their marks",
        lambda: marks(browser, "#sweep-settings-table") == {name: each[:2] for name, each in lines(browser).items()},
    )
    assert len({tuple(each[:2]) for each in lines(browser).values()}) == 12
    drawn = """
      const mark = document.querySelector(arguments[0]), before = getComputedStyle(mark, '::before');
      return [before.backgroundColor, before.backgroundImage, before.height];
    """
    first = browser.execute_script(drawn, "#sweep-settings-table tbody tr:nth-child(12) [data-curves]")
    assert first == ["rgb(0, 114, 178)", "none", "4px"], "the first line is solid, and the worst setting"
    ninth = browser.execute_script(drawn, "#sweep-settings-table tbody tr:nth-child(4) [data-curves]")
    assert "rgb(0, 114, 178) 0px, rgb(0, 114, 178) 7px" in ninth[1], "the ninth has its colour, in dashes"


def test_a_row_brings_its_line_to_the_front_and_its_mark_keeps_it_there(browser, address, root) -> None:
    from selenium.webdriver import ActionChains

    browser.get(f"{address}sweep/many")
    wait("lines", lambda: len(lines(browser)) == 12)
    row = find(browser, "#sweep-settings-table tbody tr:first-child")
    wait("the best first", lambda: row.text.startswith("0.0012"))
    others = {f"learning-rate {text}" for text in ("1e-4", "2e-4", "3e-4", "9e-4", "0.001")}

    def in_front() -> set[str]:
        return {name for name, each in lines(browser).items() if each[2] == 1}

    assert len(in_front()) == 12
    ActionChains(browser).move_to_element(row).perform()
    wait("its line alone", lambda: in_front() == {"learning-rate 0.0012"})
    assert all(lines(browser)[name][2] == pytest.approx(0.1) for name in others)
    ActionChains(browser).move_to_element(find(browser, "h1")).perform()
    wait("all lines", lambda: len(in_front()) == 12)
    find(browser, "#sweep-settings-table tbody tr:nth-child(3) [data-curves]").click()
    ActionChains(browser).move_to_element(find(browser, "h1")).perform()
    wait("the chosen line", lambda: in_front() == {"learning-rate 0.001"})
    assert query(browser)["line"] == ["learning-rate 0.001"]
    pale = f"return {_PLOT}._fullData.filter((each) => each.opacity < 1).length"
    assert browser.execute_script(pale, "sweep-curves") == 11, "a saved picture shows it, too"
    browser.refresh()
    wait("the same after a reload", lambda: in_front() == {"learning-rate 0.001"})
    time.sleep(2.0)  # the clock's drawing
    assert in_front() == {"learning-rate 0.001"}
    find(browser, "#sweep-settings-table [aria-pressed=true]").click()
    ActionChains(browser).move_to_element(find(browser, "h1")).perform()
    wait("all lines again", lambda: len(in_front()) == 12 and "line" not in query(browser))


def test_members_are_marked_too_with_their_own_line_or_that_of_their_setting(browser, address, root) -> None:
    browser.get(f"{address}sweep/single")
    wait("a line each", lambda: list(lines(browser)) == [f"member {number}" for number in range(4)])
    wait("their marks", lambda: marks(browser, "#members") == {n: each[:2] for n, each in lines(browser).items()})
    browser.get(f"{address}sweep/many")
    wait("lines", lambda: len(lines(browser)) == 12)
    line = lines(browser)["learning-rate 0.0012"][:2]
    wait("the line of its setting", lambda: marks(browser, "#members").get("member 23") == line)


def test_many_lines_have_a_crosshair_and_the_nearest_one_at_the_pointer(browser, address, root) -> None:
    from selenium.webdriver import ActionChains

    browser.get(f"{address}sweep/many")
    wait("lines", lambda: len(lines(browser)) == 12)
    layout = f"const of = {_PLOT}._fullLayout; return [of.hovermode, of.xaxis.showspikes, of.yaxis.showspikes]"
    assert browser.execute_script(layout, "sweep-curves") == ["closest", True, True]
    place = find(browser, "#sweep-curves .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    said = (
        "return Array.from(document.querySelectorAll('#sweep-curves .hoverlayer .hovertext')).map((e) => e.textContent)"
    )
    ActionChains(browser).move_to_element(place).move_by_offset(7, -30).perform()
    labels = wait("a label", lambda: browser.execute_script(said))
    assert len(labels) == 1
    assert labels[0].startswith("learning-rate ")
    assert labels[0].endswith(" env steps")
    spikes = "return document.querySelectorAll('#sweep-curves .hoverlayer line.spikeline').length"
    assert browser.execute_script(spikes) >= 2
    browser.get(f"{address}sweep/single")
    wait("few lines", lambda: len(lines(browser)) == 4)
    assert browser.execute_script(layout, "sweep-curves")[0] == "x unified"


def test_the_best_curve_is_drawn_once_and_says_what_it_is_of(browser, address, root) -> None:
    seen = "return document.querySelector('#incumbent').offsetHeight > 0"
    titles = f"return {_PLOT}.layout.yaxis.title.text"
    for name in ("population", "single"):
        browser.get(f"{address}sweep/{name}")
        wait("the best member", lambda: "best member" in traces(browser, "Best member at each moment"))
        assert browser.execute_script(titles, "sweep-best") == "return, last 20 episodes"
        assert not browser.execute_script(seen)
        assert not traces(browser, "Best setting at each moment")
    said = f"return {_PLOT}._fullData.at(-1).customdata.at(-1)"
    assert browser.execute_script(said, "sweep-best") == (
        "member 3 (learning-rate 4e-4): 80, mean of the last 20 episodes"
    )
    browser.get(f"{address}sweep/many")
    wait("the best setting", lambda: traces(browser, "Best setting at each moment") == ["best setting"])
    assert browser.execute_script(seen)
    assert browser.execute_script(titles, "incumbent") == "return, last 20 episodes"


def heads(browser: Any) -> list[str]:
    return [text for text in texts(browser, "#members .ag-header-cell-text") if text]


def members(browser: Any) -> list[str]:
    """Return the members from top to bottom."""
    return rows_from_the_top(browser, "#members")


def test_the_table_of_members_is_sorted_and_filtered_and_the_address_keeps_it(browser, address, root) -> None:
    browser.get(f"{address}sweep/single")
    best_first = [f"member {number}" for number in (3, 2, 1, 0)]
    wait("the best first", lambda: members(browser) == best_first)
    assert heads(browser) == ["member", "status", "learning-rate", "seed", "return", "env steps", "steps/s"]
    assert "sort" not in query(browser)
    find(browser, "#members .ag-header-cell[col-id=c_algorithm_learning_rate] .ag-header-cell-label").click()
    wait("another order", lambda: members(browser) == best_first[::-1])
    assert query(browser)["sort"] == ["c_algorithm_learning_rate:asc"]
    find(browser, "#members input[aria-label='return Filter Input']").send_keys("50")
    wait("those of at least 50", lambda: members(browser) == ["member 2", "member 3"])
    assert json.loads(query(browser)["filter"][0])["return"]["filter"] == 50
    browser.refresh()
    wait("the same after a reload", lambda: members(browser) == ["member 2", "member 3"])
    find(browser, "#members input[aria-label='learning-rate Filter Input']").send_keys("0.0004")
    wait("numbers, not texts", lambda: members(browser) == ["member 3"])


def test_enter_in_a_row_of_a_member_opens_it(browser, address, root) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{address}sweep/single")
    wait("members", lambda: members(browser) == [f"member {number}" for number in (3, 2, 1, 0)])
    find(browser, "#members .ag-row[row-index='1'] [col-id=return]").click()
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait("its page", lambda: texts(browser, "h1") == ["single/member 2"])


def test_enter_on_a_mark_keeps_its_line_in_front(browser, address, root) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{address}sweep/single")
    wait("a line each", lambda: len(lines(browser)) == 4 and len(members(browser)) == 4)
    browser.execute_script('document.querySelector("#members .ag-row [col-id=curves]").focus()')
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait("the line in front", lambda: len(query(browser).get("line", [])) == 1)
    assert texts(browser, "h1") == ["single"]


def test_evaluations_have_a_column_once_there_are_any(browser, address, root, make_run) -> None:
    from launch.records.metrics_db import MetricsDb
    from launch.records.tick import Tick

    browser.get(f"{address}sweep/population")
    wait("members", lambda: len(members(browser)) == 3)
    assert "evaluation" not in heads(browser)
    assert "copied" in heads(browser)
    with MetricsDb(root / "population" / "members" / "1" / "metrics.db") as metrics:
        metrics.write(Tick(30.0, time.time(), 3000, 3000, 90), {"evaluation/mean_return": 7.0})
    wait("the column", lambda: "evaluation" in heads(browser))
    wait("its number", lambda: "7" in texts(browser, "#members .ag-row [col-id=evaluation]"))


def test_a_long_table_of_settings_scrolls_and_does_not_push_the_curves_away(browser, address, root) -> None:
    browser.get(f"{address}sweep/long")
    wait("the settings", lambda: len(texts(browser, "#sweep-settings-table tbody tr")) == 20)
    script = """
      const table = document.getElementById('sweep-settings-table');
      return [table.clientHeight, table.scrollHeight, Number.parseFloat(getComputedStyle(table).maxHeight)];
    """
    height, whole, most = browser.execute_script(script)
    assert height <= most < whole
    assert height > most - 30, "the table is lower than it may be"


def test_a_zoom_of_one_picture_is_that_of_all_and_the_address_keeps_it(browser, address, root) -> None:
    from selenium.webdriver import ActionChains

    browser.get(f"{address}sweep/many")
    wait("curves", lambda: traces(browser, "Best setting at each moment") and len(lines(browser)) == 12)
    whole = x_range(browser, "Members")
    place = find(browser, "#sweep-curves .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    across = ActionChains(browser).move_to_element_with_offset(place, -60, -40).click_and_hold()
    across.move_by_offset(60, 40).move_by_offset(60, 40).release().perform()
    best = "Best member at each moment"
    wait("the others to follow", lambda: x_range(browser, best) == x_range(browser, "Members") != whole)
    zoomed = x_range(browser, best)
    heights = f"return {_PLOT}._fullLayout.yaxis.range"
    height = browser.execute_script(heights, "sweep-curves")
    kept = json.loads(query(browser)["zoom"][0])
    assert (kept["axis"], kept["x"], list(kept["y"])) == ("env_steps", zoomed, ["members charts/mean_return"])
    browser.refresh()
    wait("the same after a reload", lambda: zoomed == x_range(browser, best) == x_range(browser, "Members"))
    assert browser.execute_script(heights, "sweep-curves") == height
    time.sleep(2.0)  # the clock's drawing
    assert x_range(browser, "Members") == zoomed
    find(browser, "#sweep-axis input[value=learner_steps]").click()
    wait("no zoom on another axis", lambda: x_range(browser, "Members") != zoomed and "zoom" not in query(browser))


def ends_of(browser: Any, graph: str, *axes: str) -> list[float]:
    """Return where axes of a figure begin and end, one axis after the other."""
    script = f"const layout = {_PLOT}._fullLayout; return arguments[1].flatMap((axis) => layout[axis].range);"
    found: list[float] = browser.execute_script(script, graph, axes)
    return found


@pytest.mark.parametrize(
    ("page", "graph", "key", "axes"),
    [
        ("many?setting=algorithm.learning-rate", "sweep-settings", "one algorithm.learning-rate", ("xaxis", "yaxis")),
        ("pairs", "two-settings", "two algorithm.learning-rate algorithm.entropy-cost", ("xaxis", "yaxis")),
        ("many", "importance", "importance", ("xaxis", "yaxis")),
        ("population", "lineage", "lineage", ("xaxis", "yaxis")),
        ("population?member=1", "schedule", "schedule 1", ("xaxis", "yaxis2")),
    ],
)
def test_the_zoom_of_a_figure_with_axes_of_its_own_stands_in_the_address(
    browser, address, root, page, graph, key, axes
) -> None:
    from selenium.webdriver import ActionChains

    part = "population" if page.startswith("population") else "settings"
    browser.get(f"{address}sweep/{page}")
    bring(browser, part)
    wait("the figure", lambda: browser.execute_script(f"return {_PLOT}?._fullData?.length > 0", graph))
    whole, members = ends_of(browser, graph, *axes), x_range(browser, "Members")
    place = browser.find_elements("css selector", f"#{graph} .nsewdrag")[int(axes[1].removeprefix("yaxis") or 1) - 1]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    across = ActionChains(browser).move_to_element_with_offset(place, -60, -25).click_and_hold()
    across.move_by_offset(60, 25).move_by_offset(60, 25).release().perform()
    wait("a part of it", lambda: all(a != b for a, b in zip(ends_of(browser, graph, *axes), whole, strict=True)))
    zoomed = ends_of(browser, graph, *axes)
    kept = json.loads(query(browser)["ranges"][0])
    assert kept == {key: {axes[0]: zoomed[:2], axes[1]: zoomed[2:]}}
    assert x_range(browser, "Members") == members, "no other figure follows"
    browser.refresh()
    bring(browser, part)
    wait("the same after a reload", lambda: ends_of(browser, graph, *axes) == pytest.approx(zoomed))
    time.sleep(2.0)  # the clock's drawing
    assert ends_of(browser, graph, *axes) == pytest.approx(zoomed)
    find(browser, f".panel:has(#{graph}) .figure").send_keys("0")
    wait("no range in the address", lambda: "ranges" not in query(browser))


def test_keys_zoom_and_move_a_figure_that_has_the_focus_and_the_others_with_it(browser, address, root) -> None:
    from selenium.webdriver import Keys

    browser.get(f"{address}sweep/many")
    wait("curves", lambda: traces(browser, "Best setting at each moment") and len(lines(browser)) == 12)
    low, high = x_range(browser, "Members")
    span, figure, best = high - low, ".figure:has(#sweep-curves)", "Best member at each moment"

    def reaches(least: float, greatest: float) -> None:
        expected = pytest.approx([low + least * span, low + greatest * span], abs=span / 1000)
        wait(f"{least} to {greatest}", lambda: x_range(browser, "Members") == expected)
        wait("the others to follow", lambda: x_range(browser, best) == expected)

    press_keys(browser, figure, "+")
    reaches(0.25, 0.75)
    press_keys(browser, figure, Keys.ARROW_RIGHT)
    reaches(0.375, 0.875)
    assert json.loads(query(browser)["zoom"][0])["x"] == x_range(browser, "Members")
    press_keys(browser, figure, Keys.ARROW_LEFT, "-")
    reaches(0.0, 1.0)
    press_keys(browser, figure, "+", "0")
    wait("all", lambda: x_range(browser, "Members") == pytest.approx([low, high]))
    assert "zoom" not in query(browser)
    label = find(browser, figure).get_attribute("aria-label")
    assert label == "Members, figure: + and - zoom, left and right move, 0 shows all."
