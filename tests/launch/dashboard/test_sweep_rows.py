"""The table of runs in a real headless Chromium: sweeps that open, names in full, the best return beside the last."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from in_chromium import IN_CHROMIUM, find, rows_from_the_top, texts, tick, wait

pytestmark = IN_CHROMIUM

LONG = "cartpole-learning_rate=0.001-entropy_cost=0.05-batch_size=256-with-the-new-network-seed"
RETURNS = {0: 10.0, 1: 196.0, 2: 50.0}
LABELS = {number: f"member {number} · learning-rate {rate}" for number, rate in enumerate(("0", "0.1", "0.2"))}


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """A sweep of three members, of which one began with a lucky episode, and two runs whose names differ at the end."""
    root, make_run = shared_runs
    make_run("sweep", facts={"sweep": {"grid": {"algorithm.learning-rate": ["0.0", "0.1", "0.2"]}, "options": {}}})
    for number, value in RETURNS.items():
        lucky = [{"charts/mean_return": 485.0, "totals/episodes": 1.0}]
        rows = [{"charts/mean_return": value, "totals/episodes": 30.0}, {"charts/mean_return": value - 5.0}]
        facts = {"member": {"index": number, "overrides": {"algorithm.learning-rate": f"0.{number}"}}}
        make_run(f"sweep/members/{number}", [*lucky, *rows], facts=facts)
    for seed in (1, 2):
        make_run(f"{LONG}{seed}", [{"charts/mean_return": 20.0 * seed}])
    return root


def shown(browser) -> list[str]:
    """Return the names of the rows from top to bottom."""
    return rows_from_the_top(browser, "#table")


def fold(browser):
    return find(browser, "#table button[aria-label='members of sweep']")


def test_a_sweep_is_one_row_that_opens(browser, address) -> None:
    browser.get(address)
    wait("three rows", lambda: sorted(shown(browser)) == sorted(["sweep", f"{LONG}1", f"{LONG}2"]))
    assert fold(browser).get_attribute("aria-expanded") == "false"
    fold(browser).click()
    wait("its members", lambda: len(shown(browser)) == 6)
    place = shown(browser).index("sweep")
    assert sorted(shown(browser)[place + 1 : place + 4]) == list(LABELS.values())
    assert parse_qs(urlsplit(browser.current_url).query)["opened"] == ["sweep"]

    head = "#table .ag-header-cell[col-id=return] .ag-header-cell-label"
    find(browser, head).click()
    best_first = ["sweep", LABELS[1], LABELS[2], LABELS[0], f"{LONG}2", f"{LONG}1"]
    wait("the best first, members below their sweep", lambda: shown(browser) == best_first)
    find(browser, head).click()
    worst_first = [f"{LONG}1", f"{LONG}2", "sweep", LABELS[0], LABELS[2], LABELS[1]]
    wait("the worst first", lambda: shown(browser) == worst_first)

    browser.refresh()
    wait("the same view", lambda: shown(browser) == worst_first)
    fold(browser).click()
    wait("a shut sweep", lambda: shown(browser) == [f"{LONG}1", f"{LONG}2", "sweep"])
    assert "opened" not in parse_qs(urlsplit(browser.current_url).query)


def test_a_filter_looks_into_a_shut_sweep(browser, address) -> None:
    browser.get(f"{address}?search=member")
    whole = [f"sweep/member {number}" for number in RETURNS]
    wait("the members, by their whole names", lambda: sorted(shown(browser)) == whole)
    wait("how many", lambda: texts(browser, "#kept") == ["3 of 6"])


def test_the_comparison_of_a_shut_sweep_is_that_of_its_members(browser, address) -> None:
    browser.get(address)
    wait("a newest few, members among them", lambda: "newest 5 of 5 runs" in "".join(texts(browser, "#compared")))
    wait("no word on a filter", lambda: texts(browser, "#kept") == [""])
    tick(browser, "sweep")
    wait("the members", lambda: texts(browser, "#compared") == ["3 of 5 runs drawn"])


def test_the_best_return_is_a_mean_of_twenty_episodes_and_says_where(browser, address) -> None:
    browser.get(f"{address}?opened=sweep")
    wait("six rows", lambda: len(shown(browser)) == 6)
    wait(
        "the best of all members, and of each",
        lambda: (
            sorted(texts(browser, "#table .ag-center-cols-container [col-id=best]"))
            == ["", "", "10 at 100", "196 at 100", "196 at 100", "50 at 100"]
        ),
    )


def test_no_name_is_cut(browser, address) -> None:
    browser.get(f"{address}?opened=sweep")
    wait("six rows", lambda: len(shown(browser)) == 6)
    script = """
      return Array.from(document.querySelectorAll('#table .ag-cell[col-id=name]')).map((cell) => {
        const box = cell.getBoundingClientRect(), text = document.createRange();
        text.selectNodeContents(cell.querySelector('a'));
        const found = text.getBoundingClientRect();
        return [cell.textContent, found.right <= box.right + 1 && found.bottom <= box.bottom + 1];
      });
    """
    wait(
        "names within their cells",
        lambda: (found := browser.execute_script(script)) and len(found) == 6 and all(fits for _, fits in found),
    )


def test_a_wide_screen_is_used_and_a_column_says_when_a_run_was_created(browser, address) -> None:
    size = browser.get_window_size()
    widths = """
      const wide = (css) => document.querySelector(css).getBoundingClientRect().width;
      return [wide('#table'), wide('#comparison'), document.documentElement.clientWidth];
    """
    try:
        browser.set_window_size(1900, 1000)
        browser.get(f"{address}?column=created")
        wait("the rows", lambda: len(shown(browser)) == 3)
        wait("a wide table", lambda: browser.execute_script(widths)[0] > 1750)
        table, picture, window = browser.execute_script(widths)
        assert min(table, picture) > 0.95 * window - 40
        wait("the created column", lambda: texts(browser, "#table .ag-row [col-id=c_created]") == ["now"] * 3)
    finally:
        browser.set_window_size(size["width"], size["height"])
