"""Every page, as axe-core judges it in a real headless Chromium: names, roles, contrast, headings, focus."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from in_chromium import IN_CHROMIUM, bring_all, find, texts, too_wide_px, wait, without_findings

from launch.records.lineage import Decision, Lineage
from launch.records.settings_schedule import SettingsChange, write_changes

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    root, make_run = shared_runs
    now = time.time() - 1000.0
    rows = [{"charts/mean_return": float(n), "entropy": 0.5 * n, "value_loss": 1.0} for n in range(20)]
    make_run("one", rows, begun=now)
    make_run("two", rows, begun=now, config={"seed": 1})
    make_run("failed", rows[:2], begun=now, log="2026-01-01 00:00:00 failed: ValueError: no\n")
    options = {"pbt": False, "share_replay": True}
    make_run("sweep", facts={"sweep": {"grid": {"algorithm.learning-rate": ["0.1", "0.2"]}, "options": options}})
    for number, value in enumerate(("0.1", "0.1", "0.2", "0.2")):
        facts = {"member": {"index": number, "overrides": {"algorithm.learning-rate": value}}}
        drawn = [{maker: {"steps": 5.0} for maker in range(4)}]
        make_run(f"sweep/members/{number}", rows, drawn=drawn, begun=now, facts=facts)
    make_run(
        "population", facts={"sweep": {"grid": {"algorithm.learning-rate": ["0.1", "0.2"]}, "options": {"pbt": True}}}
    )
    for number in range(3):
        facts = {"member": {"index": number, "overrides": {"algorithm.learning-rate": "0.1"}}}
        make_run(f"population/members/{number}", rows, begun=now, facts=facts)
    lineage = Lineage(root / "population" / "lineage.jsonl")
    lineage.add(Decision(200, 9, 1, 0, {0: 5.0, 1: 4.0}, {"algorithm.learning-rate": 0.001}))
    write_changes(
        root / "population" / "members" / "0" / "schedule.json",
        [SettingsChange(at, {"algorithm.learning-rate": 0.002 / (1 + at)}) for at in (0, 200)],
    )
    (root / "one" / "checkpoints").mkdir()
    (root / "one" / "videos").mkdir()
    for steps in (100, 200):
        (root / "one" / "videos" / f"evaluation-{steps:09d}.mp4").write_bytes(b"no film")
    return root


PAGES = {
    "": "#table .ag-row",
    "?run=one&run=two": "#comparison",
    "?run=gone&filter=no": "#not-here",
    "run/one": "#tiles .tile",
    "run/failed": "#findings .finding",
    "sweep/sweep": "#sweep-settings-table tbody tr",
    "sweep/population": "#members .ag-row",
    "watch": "#videos video",
    "watch/one": "#evaluation-name",
    "nowhere": "h1",
}
NARROW = 390


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_a_page_has_no_findings(browser, address, page, theme) -> None:
    browser.get(f"{address}{page}")
    wait("the page", lambda: texts(browser, PAGES[page]))
    bring_all(browser)
    if browser.execute_script("return document.documentElement.dataset.theme") != theme:
        find(browser, "#theme-button").click()
        wait("its colours", lambda: browser.execute_script("return document.documentElement.dataset.theme") == theme)
    without_findings(browser, page)


def test_opened_pinned_and_enlarged_parts_have_no_findings(browser, address) -> None:
    browser.get(f"{address}run/one?open=notes&open=log&pin=entropy&large=return")
    wait("the note", lambda: find(browser, "#note").is_displayed())
    without_findings(browser, "a run's page with all parts open")
    find(browser, "#run-baseline").click()
    named = "return document.querySelector('.dash-dropdown-content').ariaLabel"
    wait("its choices", lambda: browser.execute_script(named) == "choices of baseline (dotted)")
    without_findings(browser, "the choices of a dropdown")


def test_controls_have_the_names_above_them(browser, address) -> None:
    browser.get(f"{address}run/one")
    names = "return Array.from(document.querySelectorAll('[role=radiogroup], [role=slider]')).map((e) => e.ariaLabel)"
    wait("names", lambda: browser.execute_script(names) == ["axis", "smoothing", "y axes"])


def test_a_phone_shows_every_page_without_sideways_scrolling_and_without_findings(browser, address) -> None:
    size = browser.get_window_size()
    try:
        browser.set_window_size(NARROW, 900)
        for page, element in PAGES.items():
            browser.get(f"{address}{page}")
            wait("the page", lambda element=element: texts(browser, element))
            bring_all(browser)
            wait(f"{page} to fit", lambda: too_wide_px(browser) <= 0)
            without_findings(browser, f"{page} at {NARROW} px")
    finally:
        browser.set_window_size(size["width"], size["height"])


def test_a_phone_shows_ticks_names_and_status_side_by_side_and_whole_lines_of_the_legend(browser, address) -> None:
    places = """
      const box = (css) => document.querySelector(css).getBoundingClientRect();
      const columns = ['ag-Grid-SelectionColumn', 'mark', 'name', 'status'].map((each) =>
        box(`#table .ag-header-cell[col-id='${each}']`)).flatMap((each) => [each.left, each.right]);
      const legend = document.querySelector('#legend'), inner = legend.getBoundingClientRect();
      const names = Array.from(legend.children, (each) => each.getBoundingClientRect());
      return [columns, box('#table').right, names.map((each) => [each.top - inner.top, each.bottom - inner.bottom])];
    """
    size = browser.get_window_size()
    try:
        browser.set_window_size(NARROW, 900)
        browser.get(f"{address}?run=sweep&run=population")
        wait("a legend of all members", lambda: len(texts(browser, "#legend > span")) == 7)
        for _ in range(2):
            columns, edge, names = browser.execute_script(places)
            assert columns == sorted(columns), "the columns are not beside one another, or in another order"
            assert columns[-1] <= edge, "the status is cut"
            assert len({top for top, _ in names}) >= 4, "so few lines fit anywhere"
            assert all(top >= 0 and bottom <= 0 for top, bottom in names), "a name is cut"
            browser.set_window_size(size["width"], size["height"])
            wait("a wide table", lambda: browser.execute_script(places)[1] > 1000)
            browser.set_window_size(NARROW, 900)
            wait("a narrow one again", lambda: browser.execute_script(places)[1] <= NARROW)
    finally:
        browser.set_window_size(size["width"], size["height"])
