"""The panels of a run's page in a real headless Chromium: pinned, enlarged, scaled, searched, over a baseline."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from in_chromium import IN_CHROMIUM, find, texts, traces, wait

pytestmark = IN_CHROMIUM

IMPALA = ["impala-0", "impala-1", "impala-2"]
_PANEL = "Array.from(document.querySelectorAll('.panel')).find((each) => each.ariaLabel === arguments[0])"
_PLOT = f"{_PANEL}.querySelector('.js-plotly-plot')"


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    root, make_run = shared_runs
    begun = time.time() - 1000.0
    for name, factor in (("one", 1.0), ("other", 2.0)):
        rows = [
            {
                "charts/mean_return": factor * n,
                "entropy": factor,
                "busy/environment": factor,
                "value_loss": 1e6 if n < 1 else 1.0 + n / 100,
            }
            for n in range(100)
        ]
        make_run(name, rows, begun=begun)
    on_gpu = {
        "process/main/cpu_percent": 90.0,
        "process/main/memory_bytes": 2.0**30,
        "process/main/gpu_percent": 40.0,
        "process/main/gpu_memory_bytes": 3 * 2.0**30,
    }
    make_run("on-gpu", [on_gpu] * 3, begun=begun)
    for seed, factor in enumerate((10.0, 20.0, 60.0)):
        config = {"seed": seed, "algorithm": {"name": "impala"}}
        make_run(
            f"impala-{seed}", [{"charts/mean_return": factor} for _ in range(100 + seed)], begun=begun, config=config
        )
    return root


def query(browser: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(browser.current_url).query)


def press(browser: Any, panel: str, tool: str) -> None:
    button = browser.execute_script(f"return {_PANEL}.querySelector('[data-tool={tool}]')", panel)
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
    button.click()


def shown(browser: Any) -> list[str]:
    script = """
      return Array.from(document.querySelectorAll('.panels > .panel')).filter((each) => each.offsetHeight > 0)
        .map((each) => each.querySelector('h2').textContent);
    """
    found: list[str] = browser.execute_script(script)
    return found


def sections(browser: Any) -> list[str]:
    return texts(browser, "details[data-section] > summary")


def test_a_pinned_panel_stands_above_all_others_and_the_address_keeps_it(browser, address, root) -> None:
    browser.get(f"{address}run/one")
    wait("the entropy", lambda: traces(browser, "Entropy"))
    assert sections(browser)[:1] == ["Learning"]
    press(browser, "Entropy", "pin")
    wait("a section of pins", lambda: sections(browser)[:1] == ["Pinned"] and traces(browser, "Entropy"))
    assert texts(browser, "details[data-section=pinned] h2") == ["Entropy"]
    assert "Entropy" not in texts(browser, "details[data-section=learning] h2")
    assert query(browser)["pin"] == ["entropy"]
    browser.refresh()
    wait("the same after a reload", lambda: sections(browser)[:1] == ["Pinned"] and traces(browser, "Entropy"))
    press(browser, "Entropy", "pin")
    wait("it back", lambda: "Entropy" in texts(browser, "details[data-section=learning] h2"))
    assert "pin" not in query(browser)


def test_an_enlarged_panel_is_as_wide_as_the_page(browser, address, root) -> None:
    size = f"const layout = {_PLOT}._fullLayout; return [layout.width, layout.height]"
    browser.get(f"{address}run/one")
    wait("the return", lambda: traces(browser, "Return"))
    width, height = browser.execute_script(size, "Return")
    press(browser, "Return", "enlarge")
    wait("a large one", lambda: browser.execute_script(size, "Return")[0] > 2 * width)
    assert browser.execute_script(size, "Return")[1] > 2 * height
    browser.get(f"{address}run/one?large=return")
    wait("the same from its address", lambda: browser.execute_script(size, "Return")[0] > 2 * width)


def test_pin_enlarge_and_y_are_pressed_with_keys_and_keep_the_focus(browser, address, root) -> None:
    from selenium.webdriver.common.keys import Keys

    def focused() -> list[str]:
        active = browser.switch_to.active_element
        return [active.get_attribute(f"data-{name}") for name in ("tool", "panel")]

    browser.get(f"{address}run/one")
    wait("the entropy", lambda: traces(browser, "Entropy"))
    browser.execute_script("document.querySelector('[data-tool=pin][data-panel=entropy]').focus()")
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait("a section of pins", lambda: sections(browser)[:1] == ["Pinned"] and focused() == ["pin", "entropy"])
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert focused() == ["enlarge", "entropy"]
    browser.switch_to.active_element.send_keys(Keys.SPACE)
    wait("a large one", lambda: query(browser).get("large") == ["entropy"])
    browser.switch_to.active_element.send_keys(Keys.TAB)
    assert focused() == ["y", "entropy"]
    browser.switch_to.active_element.send_keys(Keys.ENTER)
    wait("its own axis", lambda: query(browser).get("y-most") == ["entropy"])
    assert focused() == ["y", "entropy"]


def test_a_panel_has_a_y_axis_of_its_own(browser, address, root) -> None:
    axis = f"const axis = {_PLOT}._fullLayout.yaxis; return [axis.type, axis.range[1]]"
    browser.get(f"{address}run/one")
    wait("all values", lambda: browser.execute_script(axis, "Losses")[1] > 1e5)
    before = browser.execute_script(axis, "Return")
    press(browser, "Losses", "y")
    wait("most values", lambda: 1.9 < browser.execute_script(axis, "Losses")[1] < 2.1)
    press(browser, "Losses", "y")
    wait("decades", lambda: browser.execute_script(axis, "Losses")[0] == "log")
    assert query(browser)["y-log"] == ["losses"]
    assert browser.execute_script(axis, "Return") == before
    browser.refresh()
    wait("decades after a reload", lambda: browser.execute_script(axis, "Losses")[0] == "log")


def test_a_word_finds_panels(browser, address, root) -> None:
    browser.get(f"{address}run/one")
    wait("the entropy", lambda: traces(browser, "Entropy"))
    before = shown(browser)
    find(browser, "#panel-search").send_keys("entr")
    wait("one panel", lambda: shown(browser) == ["Entropy"])
    assert texts(browser, "#panels-found") == [f"1 of {len(texts(browser, '.panels > .panel'))} panels"]
    wait("the word in the address", lambda: query(browser).get("find") == ["entr"])
    browser.refresh()
    wait("the same after a reload", lambda: shown(browser) == ["Entropy"])
    find(browser, "#panel-search").send_keys("\b" * 4)
    wait("all panels", lambda: shown(browser) == before)


def test_a_baseline_lies_under_every_panel(browser, address, root) -> None:
    browser.get(f"{address}run/one?baseline=other")
    wait("both runs", lambda: traces(browser, "Return") == ["last 20 episodes, baseline", "last 20 episodes"])
    lines = f"return {_PLOT}._fullData.map((each) => [each.line.dash, each.y.at(-1)])"
    assert browser.execute_script(lines, "Return") == [["dot", 198.0], ["solid", 99.0]]
    wait("the entropy's", lambda: browser.execute_script(lines, "Entropy") == [["dot", 2.0], ["solid", 1.0]])

    words = f"return Array.from({_PANEL}.querySelectorAll('.annotation-text'), (each) => each.textContent)"
    threads = "Where threads spend their time"
    why_not = ["areas on top of each other have no baseline"]
    wait("why some panels have none", lambda: browser.execute_script(words, threads) == why_not)
    assert traces(browser, threads) == ["environment"]
    assert "other" in find(browser, "#run-baseline").text
    find(browser, "#run-baseline .dash-dropdown-clear").click()
    wait("one run", lambda: traces(browser, "Return") == ["last 20 episodes"])
    assert "baseline" not in query(browser)


def test_all_seeds_of_a_setting_are_a_baseline(browser, address, root) -> None:
    browser.get(f"{address}run/one?baseline=all%20seeds%20of%20impala-0")
    name = "last 20 episodes, mean of 3 baselines"
    wait("their mean, with its band", lambda: traces(browser, "Return").count(name) == 1)
    assert traces(browser, "Return")[-1] == "last 20 episodes"
    lines = f"return {_PLOT}._fullData.map((each) => [each.name, each.line.dash, each.y.at(0)])"
    drawn = browser.execute_script(lines, "Return")
    assert [name, "dot", 30.0] in drawn
    half = 4.302653 * math.sqrt(700.0 / 3.0)  # Student's t with two degrees of freedom; the variance is 700
    edges = sorted(height for each, _, height in drawn if each.endswith(" band"))
    assert edges == pytest.approx([30.0 - half, 30.0 + half], rel=1e-4)
    assert "all seeds of impala-0 (3 runs)" in find(browser, "#run-baseline").text
    assert traces(browser, "Entropy") == ["policy"], "the baselines have not recorded it"


def test_the_seeds_of_a_run_are_offered_without_itself(root) -> None:
    from launch.dashboard.library import Library
    from launch.dashboard.pages.run_panels import baseline_of

    library = Library(root)
    entries = {entry.name: entry for entry in library.entries().values()}
    own = baseline_of(library, entries["impala-1"], "all seeds of impala-0")
    assert [entry.name for entry in own] == ["impala-0", "impala-2"]
    for name in ("all seeds of impala-2", "all seeds of ", "nobody", "", None, 3, ["one"]):
        assert baseline_of(library, entries["impala-1"], name) == []


def test_a_note_is_kept_and_an_archived_run_leaves_the_table(browser, address, root) -> None:
    from in_chromium import names_in_table

    before = sorted(path.as_posix() for path in root.rglob("*"))
    browser.get(f"{address}run/other?open=notes")
    wait("the note", lambda: find(browser, "#note").is_displayed())
    find(browser, "#note").send_keys("diverged after the second spike")
    find(browser, "#note-tags").send_keys("paper")
    find(browser, "#note-archived input").click()
    find(browser, "#note-save").click()
    wait("that it is saved", lambda: texts(browser, "#note-said") == ["saved"])
    assert sorted(path.as_posix() for path in root.rglob("*")) == sorted(
        [*before, (root / ".dashboard.sqlite").as_posix()]
    )
    browser.refresh()
    note = "const note = document.querySelector('#note'); return note && note.value"
    wait("the note again", lambda: browser.execute_script(note) == "diverged after the second spike")
    browser.get(f"{address}?column=note&column=tags")
    wait("the other runs", lambda: names_in_table(browser) == [*IMPALA, "on-gpu", "one"])
    find(browser, "#archived input").click()
    wait("all", lambda: names_in_table(browser) == [*IMPALA, "on-gpu", "one", "other"])
    browser.execute_script("window.dash_ag_grid.getApi('table').ensureColumnVisible('c_tags')")
    wait("the last column", lambda: texts(browser, "#table .ag-row [col-id=c_tags]"))
    assert "paper" in texts(browser, "#table .ag-row [col-id=c_tags]")
    assert "diverged after the second spike" in texts(browser, "#table .ag-row [col-id=c_note]")
    wait("the choice in the address", lambda: query(browser).get("archived") == ["show"])


def test_a_run_on_a_gpu_shows_its_time_and_memory(browser, address, root) -> None:
    last = f"return {_PLOT}._fullData.map((each) => [each.name, each.y.at(-1)])"
    browser.get(f"{address}run/on-gpu")
    wait("the time", lambda: traces(browser, "GPU: time in use"))
    assert browser.execute_script(last, "GPU: time in use") == [["main", 40]]
    wait("the memory", lambda: traces(browser, "GPU: memory"))
    assert browser.execute_script(last, "GPU: memory") == [["main", 3]]
    assert browser.execute_script(f"return {_PLOT}.layout.yaxis.title.text", "GPU: memory") == "GiB"
    rows = texts(browser, "#processes th, #processes td")
    assert rows == ["process", "CPU", "memory", "GPU", "GPU memory", "main", "90 %", "1 GiB", "40 %", "3 GiB"]
    browser.get(f"{address}run/one")
    wait("the return", lambda: traces(browser, "Return"))
    assert "GPU: time in use" not in shown(browser)


def test_the_bar_of_axis_and_smoothing_stays_in_view(browser, address, root) -> None:
    top = "return document.querySelector('.controls.sticky').getBoundingClientRect().top"
    browser.get(f"{address}run/one")
    wait("the panels", lambda: len(shown(browser)) > 3)
    assert browser.execute_script(top) > 100
    browser.execute_script("document.querySelector('details[data-section=config]').scrollIntoView()")
    wait("the bar at the top", lambda: browser.execute_script(f"{top} === 0 && window.scrollY > 500"))
    assert find(browser, "#run-axis").is_displayed()


def test_any_metric_is_drawn_and_the_address_keeps_it(browser, address, root) -> None:
    browser.get(f"{address}run/one")
    wait("the panels", lambda: len(shown(browser)) > 3)
    field = find(browser, "#any")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", field)
    field.click()
    wait("a field to type in", lambda: find(browser, ".dash-dropdown-search")).send_keys("value")
    options = "return Array.from(document.querySelectorAll('.dash-dropdown-option'), (each) => each.textContent)"
    wait("the one that has the word", lambda: browser.execute_script(options) == ["value_loss"])
    find(browser, ".dash-dropdown-option").click()
    wait("its curve", lambda: len(traces(browser, "Chosen metrics")) == 1)
    assert query(browser)["metric"] == ["value_loss"]
    browser.get(f"{address}run/one?metric=value_loss&metric=entropy")
    wait("both", lambda: len(traces(browser, "Chosen metrics")) == 2)
