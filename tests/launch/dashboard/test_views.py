"""Views of the dashboard in a real headless Chromium: what an address holds, and what follows the table."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from in_chromium import IN_CHROMIUM, bring, bring_all, find, graphs, names_in_table, texts, tick, traces, wait, x_range

from launch.commands import resume_command

pytestmark = IN_CHROMIUM

RETURN = "return, last 20 episodes"
MEMBERS = {"0.1": (500.0, 10.0, 20.0), "0.2": (300.0, 310.0, 320.0)}
MANY = 120


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """Five runs of CartPole, one of Pendulum, and a sweep whose best member has not the best setting."""
    root, make_run = shared_runs
    now = time.time() - 1000.0
    for place, (name, rate) in enumerate([("a1", 0.1), ("a2", 0.1), ("a3", 0.1), ("b1", 0.2), ("b2", 0.2)]):
        rows = [{"charts/mean_return": float(n + 10 * place), "entropy": 0.5 * n} for n in range(20 + place)]
        config = {"seed": place, "algorithm": {"name": "laser", "learning_rate": rate}}
        make_run(name, rows, config=config, begun=now + place)
    spiked = [{"charts/mean_return": 1.0, "value_loss": 1e6 if n < 1 else 1.0 + n / 100} for n in range(100)]
    make_run("spiked", spiked, begun=now - 1000.0)
    make_run(
        "pendulum",
        [{"charts/mean_return": -500.0 + n} for n in range(20)],
        config={"env": "Pendulum-v1", "preset": "sac"},
        begun=now,
    )
    facts = {
        "sweep": {"grid": {"algorithm.learning-rate": list(MEMBERS)}, "options": {"pbt": False, "share_replay": True}}
    }
    make_run("sweep", facts=facts)
    for setting, returns in MEMBERS.items():
        for seed, value in enumerate(returns):
            number = 3 * list(MEMBERS).index(setting) + seed
            overrides = {"algorithm.learning-rate": setting}
            rows = [
                {"charts/mean_return": value * n / 9, "totals/episodes": 25.0}
                | {"buckets/mean_return": value, "buckets/ends_at": 400.0 * n}
                for n in range(10)
            ]
            drawn = [
                {
                    maker: {
                        "steps": float(n * (3 if maker == number else 1)),
                        "accepted": 0.5 * n,
                        "kl": 0.25 * n * (maker + 1),
                    }
                    for maker in range(6)
                }
                for n in range(10)
            ]
            make_run(
                f"sweep/members/{number}",
                rows,
                drawn=drawn,
                config={"seed": number, "algorithm": {"name": "laser", "learning_rate": float(setting)}},
                facts={"member": {"index": number, "overrides": overrides}},
                begun=now,
            )
    frames = "".join(f"2026-01-01 00:00:00   File library.py, line {n}\n" for n in range(60))
    own = "2026-01-01 00:00:00   File my_environment.py, line 12, in step\n"
    why = "2026-01-01 00:00:00 failed: EnvironmentBudgetError: it failed more often than max-restarts allows\n"
    failed = make_run("failed", [{"charts/mean_return": 1.0}], log=f"earlier\n{why}{own}{frames}", begun=now)
    make_run("failed early", [{"charts/mean_return": 1.0}], log=why, begun=now)
    stopped = "2026-01-01 00:00:00 finished: stopped by SIGTERM\n"
    make_run("stopped", [{"charts/mean_return": 1.0}], log=stopped, begun=now)
    (failed / "checkpoints" / "000001-step-100").mkdir(parents=True)
    return root


def query(browser: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(browser.current_url).query)


def chosen(browser: Any) -> list[str]:
    rows = "#table .ag-pinned-left-cols-container .ag-row-selected a"
    return sorted(texts(browser, rows))


def drag(browser: Any, panel: int) -> None:
    """Zoom into the middle of a picture of the comparison, as a user drags over it."""
    from selenium.webdriver import ActionChains

    place = browser.find_elements("css selector", "#comparison .nsewdrag")[panel]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    across = ActionChains(browser).move_to_element_with_offset(place, -60, 0).click_and_hold()
    across.move_by_offset(60, 0).move_by_offset(60, 0).release().perform()


def test_a_view_is_its_address_for_reload_and_back(browser, address, root) -> None:
    browser.get(address)
    wait("all rows", lambda: len(names_in_table(browser)) >= 10)
    tick(browser, "a1")
    wait("one curve", lambda: traces(browser, RETURN) == ["a1"])
    tick(browser, "b1")
    wait("two curves", lambda: len(traces(browser, RETURN)) == 2)
    find(browser, "#axis input[value=learner_steps]").click()
    wait("the axis in the address", lambda: query(browser).get("axis") == ["learner_steps"])
    find(browser, "#table .ag-header-cell[col-id=return] .ag-header-cell-label").click()
    wait("the order in the address", lambda: query(browser).get("sort") == ["return:desc"])
    find(browser, "#search").send_keys("CartPole")
    wait("the search in the address", lambda: query(browser).get("search") == ["CartPole"])
    assert sorted(query(browser)["run"]) == ["a1", "b1"]

    def stands() -> bool:
        axis = "return document.querySelector('#comparison .js-plotly-plot').layout.xaxis.title.text"
        return (
            sorted(traces(browser, RETURN)) == ["a1", "b1"]
            and browser.execute_script(axis) == "learner steps"
            and chosen(browser) == ["a1", "b1"]
            and "pendulum" not in names_in_table(browser)
            and texts(browser, "#table .ag-pinned-left-cols-container [row-index='0'] a") == ["sweep"]
        )

    wait("the whole view", stands)
    browser.refresh()
    wait("the same after a reload", stands)
    browser.back()
    wait("the view before the search", lambda: "pendulum" in names_in_table(browser))
    for _ in range(3):
        browser.back()
    wait("the view with one run", lambda: traces(browser, RETURN) == ["a1"] and chosen(browser) == ["a1"])
    assert list(query(browser)) == ["run"]


def test_columns_are_chosen_and_the_address_keeps_them(browser, address, root) -> None:
    browser.get(f"{address}?search=a1")
    wait("a row", lambda: names_in_table(browser) == ["a1"])
    assert "learning-rate" not in texts(browser, "#table .ag-header-cell-text")
    find(browser, "#columns").click()
    options = ".dash-dropdown-option, .dash-options-list-option"
    wait("the choices", lambda: "algorithm.learning-rate" in texts(browser, options))
    assert "run-dir" not in texts(browser, options)
    place = texts(browser, options).index("algorithm.learning-rate")
    browser.find_elements("css selector", options)[place].click()
    cell = "#table .ag-row [col-id=c_algorithm_learning_rate]"
    wait("its column", lambda: texts(browser, cell) == ["0.1"])
    wait("the address", lambda: query(browser).get("column") == ["algorithm.learning-rate"])
    browser.get(
        f"{address}?column=algorithm.learning-rate&column=duration&sort=c_algorithm_learning_rate:desc&search=CartPole"
    )
    wait("the largest first", lambda: texts(browser, f"{cell}")[:1] and "0.2" in texts(browser, cell))
    first = "#table .ag-row[row-index='0'] [col-id=c_algorithm_learning_rate]"
    wait("sorted", lambda: texts(browser, first) == ["0.2"])
    assert "duration" in texts(browser, "#table .ag-header-cell-text")


def test_enter_on_a_row_opens_it(browser, address, root) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{address}?search=a1")
    wait("a row", lambda: names_in_table(browser) == ["a1"])
    cell = find(browser, "#table .ag-row [col-id=status]")
    browser.execute_script("arguments[0].focus()", cell)
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait("its page", lambda: texts(browser, "h1") == ["a1"])


def test_eyes_folds_and_dropdowns_are_reached_and_used_with_keys(browser, address, root) -> None:
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    def press(key: str) -> None:
        """Press a key as a keyboard does: whatever has the focus gets it, also while a list is still opening."""
        ActionChains(browser).send_keys(key).perform()

    def reach(cell: str) -> None:
        """Go into a cell of the table with the Tab key, from the one to its left; rows may be drawn anew meanwhile."""

        def is_there() -> bool:
            if not browser.find_elements("css selector", cell):
                return False
            browser.execute_script("document.querySelector(arguments[0]).previousElementSibling.focus()", cell)
            press(Keys.TAB)
            return bool(browser.execute_script("return document.activeElement.matches(arguments[0])", cell))

        wait(f"the focus in {cell}", is_there)

    browser.get(f"{address}?run=a1&run=a2")
    wait("two curves", lambda: sorted(traces(browser, RETURN)) == ["a1", "a2"])
    reach("#table .ag-row:has([aria-label='hide a1']) [col-id=mark]")
    press(Keys.ENTER)
    wait("one curve", lambda: traces(browser, RETURN) == ["a2"] and query(browser)["hide"] == ["a1"])
    reach("#table .ag-row:has([aria-label='show a1']) [col-id=mark]")
    press(Keys.ENTER)
    wait("both again", lambda: len(traces(browser, RETURN)) == 2 and "hide" not in query(browser))
    reach("#table .ag-row:has(.fold) [col-id=name]")
    press("+")
    wait("its rows", lambda: browser.execute_script("return document.querySelectorAll('#table .inside').length") > 0)
    reach("#table .ag-row:has(.fold) [col-id=name]")
    press("-")
    wait("no members", lambda: "opened" not in query(browser))
    find(browser, "#smoothing .dash-slider-thumb").send_keys(Keys.TAB)
    assert browser.switch_to.active_element.get_attribute("id") == "curves"
    press(Keys.ENTER)
    wait("the choices", lambda: texts(browser, ".dash-dropdown-content .dash-options-list-option"))


def said_values(browser: Any) -> list[list[str]]:
    """Return the moment and the values that are shown above or below each figure."""
    script = """
      return Array.from(document.querySelectorAll('.values')).map((strip) => Array.from(strip.children)
        .map((each) => each.textContent));
    """
    found: list[list[str]] = browser.execute_script(script)
    return found


@pytest.mark.parametrize(
    ("page", "names", "has_room_above"),
    [
        ("?run=a1&run=a2&run=b1", ["a1", "a2", "b1"], True),
        ("sweep/sweep", ["learning-rate 0.1", "learning-rate 0.2"], True),
        ("run/a1", [""], False),  # its only curve
    ],
)
def test_values_at_the_pointer_do_not_cover_the_curves(browser, address, root, page, names, has_room_above) -> None:
    from selenium.webdriver import ActionChains

    browser.get(f"{address}{page}")
    wait("curves", lambda: graphs(browser))
    place = find(browser, ".linked .nsewdrag")
    browser.execute_script(
        "arguments[0].scrollIntoView({block: arguments[1] ? 'center' : 'start'})", place, has_room_above
    )
    if not has_room_above:
        browser.execute_script("window.scrollBy(0, -document.querySelector('.sticky').offsetHeight)")
    ActionChains(browser).move_to_element(place).move_by_offset(9, 4).perform()
    values = wait("values", lambda: said_values(browser))[0]
    assert [each.rpartition(" : ")[0] for each in values[1:]] == names
    assert all(float(each.rpartition(" : ")[2]) >= 0.0 for each in values[1:])
    places = """
      const plot = document.querySelector('.linked .js-plotly-plot');
      return ['.values', '.nsewdrag', '.hoverlayer .legend'].map((each) => {
        const found = plot.querySelector(each), box = found.getBoundingClientRect();
        return [box.top, box.bottom, getComputedStyle(found).visibility];
      });
    """
    strip, curves, plotlys_own = browser.execute_script(places)
    assert strip[0] >= curves[1] or strip[1] <= curves[0], "the values cover the curves"
    assert plotlys_own[2] == "hidden"
    assert (strip[1] <= curves[0]) == has_room_above
    assert strip[0] >= 0.0, "the values are outside of the window"


def test_metrics_side_by_side_share_crosshair_and_zoom(browser, address, root) -> None:
    from selenium.webdriver import ActionChains

    browser.get(f"{address}?run=a1&run=a2&metric=charts/mean_return&metric=entropy")
    wait("two pictures", lambda: graphs(browser) == [RETURN, "entropy"])
    whole = x_range(browser, "entropy")
    place = browser.find_elements("css selector", "#comparison .nsewdrag")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    ActionChains(browser).move_to_element(place).move_by_offset(9, 4).perform()
    wait("values in both", lambda: [len(each) for each in said_values(browser)] == [3, 3])
    assert all("a1 : " in each[1] and "a2 : " in each[2] for each in said_values(browser))
    drag(browser, 0)
    wait("the other to follow", lambda: x_range(browser, "entropy") == x_range(browser, RETURN) != whole)
    zoomed = x_range(browser, "entropy")
    assert json.loads(query(browser)["zoom"][0])["x"] == zoomed
    browser.refresh()
    wait("the same after a reload", lambda: x_range(browser, "entropy") == zoomed == x_range(browser, RETURN))
    time.sleep(2.0)  # the clock's drawing
    assert x_range(browser, RETURN) == zoomed
    find(browser, "#axis input[value=learner_steps]").click()
    wait("no zoom on another axis", lambda: x_range(browser, "entropy") != zoomed and "zoom" not in query(browser))


def test_environments_are_faceted_and_an_eye_hides_a_run(browser, address, root) -> None:
    browser.get(f"{address}?run=a1&run=a2&run=pendulum")
    titles = [f"{RETURN} · CartPole-v1", f"{RETURN} · Pendulum-v1"]
    wait("a picture each", lambda: sorted(graphs(browser)) == titles)
    assert sorted(traces(browser, titles[0])) == ["a1", "a2"]
    find(browser, "#table button[aria-label='hide a1']").click()
    wait("it to go", lambda: traces(browser, titles[0]) == ["a2"])
    assert query(browser)["hide"] == ["a1"]
    assert texts(browser, "#compared") == ["3 of 16 runs drawn, 1 of them hidden"]
    eye = find(browser, "#table button[aria-label='hide a2']")
    colour = browser.execute_script("return getComputedStyle(arguments[0].previousSibling).backgroundColor", eye)
    line = browser.execute_script("""
      const plots = Array.from(document.querySelectorAll('#comparison .js-plotly-plot'));
      const trace = plots.flatMap((plot) => plot._fullData).find((each) => each.name === 'a2');
      const probe = document.createElement('i');
      probe.style.color = trace.line.color;
      document.body.appendChild(probe);
      const found = getComputedStyle(probe).color;
      probe.remove();
      return found;
    """)
    assert line == colour
    browser.get(f"{address}?run=a1&run=pendulum&show=one-axis&show=references")
    wait("one picture when asked", lambda: graphs(browser) == [RETURN])
    assert sorted(traces(browser, RETURN)) == ["a1", "pendulum"]


def test_settings_have_a_band_and_short_names_and_their_difference_is_a_table(browser, address, root) -> None:
    runs = "&".join(f"run={name}" for name in ("a1", "a2", "a3", "b1", "b2"))
    browser.get(f"{address}?{runs}&curves=interval&open=difference")
    wait(
        "two settings",
        lambda: texts(browser, "#legend > span") == ["learning-rate 0.1 (3 seeds)", "learning-rate 0.2 (2 seeds)"],
    )
    drawn = traces(browser, RETURN)
    assert drawn.count("learning-rate 0.1 (3 seeds) band") == 2
    assert "learning-rate 0.2 (2 seeds) band" not in drawn  # an interval of two seeds would say nothing
    assert "learning-rate 0.1 (3 seeds): a seed ends here, the others go on" in drawn
    assert texts(browser, "#difference-title") == ["These 5 runs differ in 2 settings"]
    assert texts(browser, "#difference th") == ["run", "seed", "algorithm.learning-rate"]
    assert texts(browser, "#difference tbody tr:first-child td")[0] in ("a1", "b2")


def test_a_saved_picture_names_every_curve(browser, address, root) -> None:
    names = ["a1", "a2", "a3", "b1", "b2", *(f"sweep/member {number}" for number in range(6))]
    browser.get(f"{address}?" + "&".join(f"run={name}" for name in names))
    wait("all curves", lambda: len(traces(browser, RETURN)) == len(names))
    find(browser, "#comparison [data-save=svg]").click()
    path = browser.downloads / "laser-return-last-20-episodes.svg"
    wait("the picture", lambda: path.is_file() and path.stat().st_size > 1000)
    text = path.read_text()
    assert [name for name in names if f">{name}</text>" not in text] == []


def test_a_run_opens_by_name_with_its_return_in_the_title(browser, address, root) -> None:
    browser.get(f"{address}run/sweep/member%200?shut=speed")
    wait("its title", lambda: browser.title == "sweep/member 0 · return 500 · LASER")
    assert "learning-rate 0.1" in texts(browser, "#member-settings")[0]
    assert "500last 20 episodes" in texts(browser, "#tiles")[0]
    opened = (
        "return Array.from(document.querySelectorAll('details[data-section]')).filter((each) => each.open)"
        ".map((each) => each.dataset.section)"
    )
    before = browser.execute_script(opened)
    assert "speed" not in before
    for section in ("log", "replay"):
        summary = find(browser, f"details[data-section={section}] summary")
        browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", summary)
        summary.click()
    wait("the opened section in the address", lambda: query(browser).get("open") == ["log"])
    wait("the closed one beside it", lambda: sorted(query(browser).get("shut", [])) == ["replay", "speed"])
    browser.refresh()
    wait("the same sections", lambda: set(browser.execute_script(opened)) == {*before, "log"} - {"replay"})
    browser.execute_script(
        "navigator.clipboard.writeText = (text) => { window.copied = text; return Promise.resolve(); }"
    )
    find(browser, "#copy-link").click()
    wait("the link", lambda: browser.execute_script("return window.copied") == browser.current_url)
    assert texts(browser, "#copy-link") == ["copied"]


def test_the_y_axes_show_most_values_or_decades_and_the_address_keeps_the_choice(browser, address, root) -> None:
    axis = (
        "const panel = Array.from(document.querySelectorAll('.panel')).find((each) => each.ariaLabel === 'Losses');"
        "const axis = panel.querySelector('.js-plotly-plot')._fullLayout.yaxis; return [axis.type, axis.range[1]]"
    )
    browser.get(f"{address}run/spiked")
    wait("all values", lambda: browser.execute_script(axis)[1] > 1e5)
    find(browser, "#run-scale label:nth-of-type(2)").click()
    wait("most values", lambda: 1.9 < browser.execute_script(axis)[1] < 2.1)
    wait("the address", lambda: query(browser).get("y") == ["most"])
    browser.get(f"{address}run/spiked?y=log")
    wait("decades", lambda: browser.execute_script(axis)[0] == "log")


def test_a_failed_run_opens_with_its_traceback_and_the_command_that_continues_it(browser, address, root) -> None:
    browser.get(f"{address}run/failed")
    wait(
        "the log",
        lambda: find(browser, "#log").is_displayed() and "my_environment.py, line 12" in find(browser, "#log").text,
    )
    assert "earlier" not in find(browser, "#log").text
    (said,) = texts(browser, "#findings .finding")
    assert "saved: a checkpoint of 100 env steps, numbers until" in said
    assert said.endswith(f"continue from its last checkpoint: {resume_command(root / 'failed', 'cartpole')}")
    assert texts(browser, "#losses") == ["nothing was counted as rejected, dropped or lost before the run failed"]
    browser.get(f"{address}run/failed%20early")
    wait("its end", lambda: texts(browser, "#findings .finding"))
    assert texts(browser, "#findings .finding")[0].endswith("it had no checkpoint yet, so it can only be begun again")


def test_a_stopped_run_says_by_what(browser, address, root) -> None:
    browser.get(f"{address}run/stopped")
    wait("why it ended", lambda: texts(browser, "#findings .finding"))
    (said,) = texts(browser, "#findings .finding")
    assert said.startswith("the run was stopped by SIGTERM; saved: numbers until ")


def test_watch_plays_the_run_that_was_asked_for_or_says_why_not(browser, address, root) -> None:
    browser.get(f"{address}watch/a1")
    wait("why not", lambda: texts(browser, "#live-said") == ["a1 has no checkpoint yet, so nothing can play"])
    assert "failed" not in find(browser, "#live-run").text  # the only run that has one


def test_seeds_of_one_setting_are_one_row_and_the_best_setting_is_by_their_mean(browser, address, root) -> None:
    browser.get(f"{address}sweep/sweep")
    wait("two settings", lambda: len(texts(browser, "#sweep-settings-table tbody tr")) == 2)
    first = texts(browser, "#sweep-settings-table tbody tr:first-child td")
    assert first[:2] == ["0.2", "310"]
    assert first[2] == "285.2 to 334.8"
    assert first[3:] == ["3", "345"]
    tiles = texts(browser, "#sweep-tiles .tile")
    assert "best setting's return310learning-rate 0.2: mean over 3 seeds" in tiles
    assert "best member's return500member 0" in tiles
    assert not [tile for tile in tiles if tile.startswith("copied")]  # nothing evolves
    wait("a curve for each setting", lambda: traces(browser, "Members").count("learning-rate 0.2") == 1)
    assert len(traces(browser, "Members")) == 6  # two lines, each with the two edges of its band
    assert browser.title == "sweep · best setting's return 310 · LASER"
    axes = (
        "return ['sweep-curves', 'sweep-best'].map((each) => document.querySelector('#' + each + ' .js-plotly-plot')"
        "._fullLayout.xaxis).map((axis) => [axis.title.text, Math.floor(axis.range[1] / 100)])"
    )
    wait("one axis", lambda: browser.execute_script(axes) == [["env steps", 9], ["env steps", 9]])
    find(browser, "#sweep-settings-table a").click()
    wait("a member's page", lambda: find(browser, "h1").text == "sweep/member 3")
    browser.back()
    wait("the sweep again", lambda: texts(browser, "h1") == ["sweep"])


def test_who_learns_from_whom_is_a_map_and_a_course(browser, address, root) -> None:
    browser.get(f"{address}sweep/sweep")
    bring(browser, "exchange")
    shown = (
        "const map = document.querySelector('#exchange .js-plotly-plot')._fullData[0]; return [map.y[4], map.text[4]]"
    )
    shares = ["12 %", "12 %", "12 %", "12 %", "38 %", "12 %"]
    wait("the map", lambda: browser.execute_script(shown) == ["member 4", shares])
    course = "return document.querySelector('#exchange-course .js-plotly-plot')._fullData.map((one) => one.y.at(-1))"
    wait("the course of member 0", lambda: browser.execute_script(course) == pytest.approx([3 / 8, *[1 / 8] * 5]))
    browser.get(f"{address}sweep/sweep?exchange=accepted&reader=4")
    bring(browser, "exchange")
    accepted = ["50 %", "50 %", "50 %", "50 %", "17 %", "50 %"]
    wait("another map", lambda: browser.execute_script(shown) == ["member 4", accepted])
    browser.get(f"{address}sweep/sweep?exchange=kl")
    bring(browser, "exchange")
    divergence = ["0.25", "0.5", "0.75", "1", "0.4167", "1.5"]  # member 4 draws three times as much of its own
    wait("the map of the KL", lambda: browser.execute_script(shown) == ["member 4", divergence])
    titled = "return document.querySelector('#exchange-course .js-plotly-plot')._fullLayout.yaxis.title.text"
    browser.get(f"{address}sweep/sweep?exchange=accepted&reader=4")
    bring(browser, "exchange")
    wait("the course of member 4", lambda: browser.execute_script(course)[3:5] == pytest.approx([1 / 2, 1 / 6]))
    assert browser.execute_script(titled) == "accepted share of the steps drawn"
    browser.get(f"{address}sweep/sweep?reader=4")
    bring(browser, "exchange")
    wait("its shares", lambda: browser.execute_script(course)[4:5] == pytest.approx([3 / 8]))


def test_the_course_of_who_learns_from_whom_has_the_zoom_of_the_curves(browser, address, root) -> None:
    from selenium.webdriver import ActionChains

    course, heights = "The same over time, for one member", "return document.querySelector('#exchange-course "
    heights += ".js-plotly-plot')._fullLayout.yaxis.range"
    browser.get(f"{address}sweep/sweep?reader=4")
    bring(browser, "exchange")
    wait("the course", lambda: traces(browser, course))
    whole = x_range(browser, "Members")
    place = find(browser, "#exchange-course .nsewdrag")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    across = ActionChains(browser).move_to_element_with_offset(place, -60, -40).click_and_hold()
    across.move_by_offset(60, 40).move_by_offset(60, 40).release().perform()
    wait("the curves to follow", lambda: x_range(browser, course) == x_range(browser, "Members") != whole)
    zoomed, height = x_range(browser, course), browser.execute_script(heights)
    kept = json.loads(query(browser)["zoom"][0])
    assert (kept["x"], kept["y"]) == (zoomed, {"course share 4": height})
    browser.refresh()
    bring(browser, "exchange")
    wait("the same after a reload", lambda: zoomed == x_range(browser, course) == x_range(browser, "Members"))
    assert browser.execute_script(heights) == height


def test_what_is_far_below_is_made_when_it_is_nearly_in_view_and_what_is_hidden_never(browser, address, root) -> None:
    size = browser.get_window_size()
    drawn = "return Array.from(document.querySelectorAll('[data-later] .js-plotly-plot')).map((plot) => plot.closest("
    drawn += "'[data-later]').dataset.later)"
    try:
        browser.set_window_size(1280, 600)
        browser.get(f"{address}sweep/sweep")
        wait("the first curves", lambda: traces(browser, "Members"))
        assert browser.execute_script(drawn) == []
        bring(browser, "exchange")
        wait("the map and its course", lambda: browser.execute_script(drawn).count("exchange") == 2)
        bring_all(browser)
        wait("the settings", lambda: browser.execute_script(drawn).count("settings") == 4)
        assert "population" not in browser.execute_script(drawn)  # nothing evolves in this sweep
    finally:
        browser.set_window_size(size["width"], size["height"])


def test_a_clock_waits_for_the_answer_to_what_the_opening_of_a_page_asked(browser, address, root, monkeypatch) -> None:
    from launch.dashboard.pages import sweep

    asked, under_way = [], set()

    def slowly(*known):
        number = len(asked)
        asked.append(len(under_way))
        under_way.add(number)
        time.sleep(4.0)
        under_way.remove(number)
        return news(*known)

    news = sweep.news
    monkeypatch.setattr(sweep, "news", slowly)
    browser.get(f"{address}sweep/sweep")
    wait("its words", lambda: texts(browser, "#sweep-tiles .tile"))
    wait("the next tick", lambda: len(asked) > 1)
    assert asked[1] == 0, "Dash drops the first answer once there is a second request, and the page waits twice"


def test_all_that_is_ticked_is_drawn_however_many(browser, tmp_path, make_run) -> None:
    from threading import Thread

    from launch.dashboard.options import DashboardOptions
    from launch.dashboard.server import open_server

    for place in range(MANY):
        rows = [{"charts/mean_return": float(n + place)} for n in range(3)]
        make_run(f"run{place:03d}", rows, config={"seed": place}, repeat=1)
    with open_server(tmp_path / "runs", DashboardOptions(port=0)) as (server, own):
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            browser.get(own)
            wait("rows", lambda: names_in_table(browser))
            # Not by its place on the screen, which may still move while the page is made.
            browser.execute_script("arguments[0].click()", find(browser, "#table .ag-header-select-all input"))
            wait("all curves", lambda: len(traces(browser, RETURN)) == MANY)
            assert texts(browser, "#compared") == [f"{MANY} of {MANY} runs drawn"]
            heads = texts(browser, "#table .ag-header-cell-text")
            assert "env steps" in heads
            assert "frames" not in heads  # they equal the env steps
            browser.refresh()
            wait("all curves again", lambda: len(traces(browser, RETURN)) == MANY)
        finally:
            browser.get("about:blank")
            server.shutdown()
            thread.join()
    browser.get_log("performance")  # what this other server was asked is not for the fixture to judge


@pytest.fixture(autouse=True)
def _ends_on_the_dashboard(browser, address):
    """The browser's own check expects requests to the dashboard of this module."""
    yield
    if browser.current_url == "about:blank":
        browser.get(address)
        wait("rows", lambda: len(names_in_table(browser)) >= 10)
