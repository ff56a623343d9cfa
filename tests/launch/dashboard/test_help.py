"""The "?" behind the titles of panels in a real headless Chromium: the metric table's words, by mouse and keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest
from in_chromium import IN_CHROMIUM, find, traces, wait

from launch.dashboard.pages.help import about_metric, about_panel
from launch.recording.metric_panels import PANELS
from launch.recording.metric_table import METRICS

pytestmark = [mark for mark in IN_CHROMIUM if mark.name != "slow"]

ENTROPY = next(metric for metric in METRICS if metric.name == "entropy")
_SHOWN = """
  return Array.from(document.querySelectorAll('.help-text')).filter((each) => each.checkVisibility())
    .map((each) => each.textContent);
"""


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    root, make_run = shared_runs
    make_run("one", [{"charts/mean_return": float(n), "entropy": 0.5 * n} for n in range(20)])
    return root


def test_every_panel_has_words_for_its_metrics() -> None:
    for panel in PANELS:
        assert about_panel(panel, ()), panel.key
    (entropy,) = about_panel(next(panel for panel in PANELS if panel.key == "entropy"), {"entropy"})
    assert entropy == f"entropy [nats]: {ENTROPY.words}"
    assert about_metric("entropy") == [entropy]
    assert about_panel(next(panel for panel in PANELS if panel.key == "lag"), ())[-1].startswith(
        "line: the median; band"
    )
    assert about_metric("my_own") == []


@pytest.mark.parametrize("key", ["\ue007", " "], ids=["enter", "space"])
@pytest.mark.slow
def test_a_key_opens_it_and_escape_shuts_it(browser, address, key) -> None:
    browser.get(f"{address}run/one")
    wait("the entropy", lambda: traces(browser, "Entropy"))
    mark = find(browser, "summary[aria-label='about Entropy']")
    assert mark.text == "?"
    assert browser.execute_script(_SHOWN) == []
    browser.execute_script("arguments[0].focus()", mark)
    mark.send_keys(key)
    wait("its words", lambda: browser.execute_script(_SHOWN) == [f"entropy [nats]: {ENTROPY.words}"])
    mark.send_keys("\ue00c")
    wait("nothing", lambda: browser.execute_script(_SHOWN) == [])
    assert browser.switch_to.active_element == mark


@pytest.mark.slow
def test_another_one_shuts_it_and_it_stays_inside_its_panel(browser, address) -> None:
    browser.get(f"{address}run/one")
    wait("the entropy", lambda: traces(browser, "Entropy"))
    find(browser, "summary[aria-label='about Entropy']").click()
    wait("its words", lambda: len(browser.execute_script(_SHOWN)) == 1)
    inside = """
      const text = document.querySelector('.help[open] .help-text'), box = text.getBoundingClientRect();
      const around = text.closest('.panel').getBoundingClientRect();
      return box.left >= around.left && box.right <= around.right && box.height > 20;
    """
    assert browser.execute_script(inside)
    find(browser, "summary[aria-label='about Return']").click()
    wait("the other one", lambda: "mean_return" in "".join(browser.execute_script(_SHOWN)))
    assert len(browser.execute_script(_SHOWN)) == 1
    find(browser, "h1").click()
    wait("nothing", lambda: browser.execute_script(_SHOWN) == [])


@pytest.mark.slow
def test_titles_take_one_line(browser, address) -> None:
    size = browser.get_window_size()
    lines = """
      return Array.from(document.querySelectorAll('.panels > .panel h2')).filter((each) => each.offsetHeight > 24)
        .map((each) => each.textContent);
    """
    try:
        for width in (1280, 390):
            browser.set_window_size(width, 900)
            browser.get(f"{address}run/one")
            wait("the entropy", lambda: traces(browser, "Entropy"))
            assert browser.execute_script(lines) == [], f"{width} pixels"
    finally:
        browser.set_window_size(size["width"], size["height"])
