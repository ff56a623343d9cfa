"""A page in a real headless Chromium: what it shows, how axe-core judges it, and how long a test waits for it."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")

IN_CHROMIUM = [
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(
        not (CHROMIUM and DRIVER), reason="there is no Chromium: apt-get install chromium chromium-driver"
    ),
]

PATIENCE_S = 30.0


def wait(what: str, ask: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Return what `ask` returns once it is true; a page that is just being redrawn is asked again."""
    from selenium.common.exceptions import JavascriptException, NoSuchElementException, StaleElementReferenceException

    deadline = time.monotonic() + patience_s
    while True:
        try:
            found = ask()
        except (IndexError, JavascriptException, NoSuchElementException, StaleElementReferenceException):
            found = None
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {patience_s:g} s for {what}"
        time.sleep(0.05)


def bring(browser: Any, part: str) -> None:
    """Scroll to a part of a page that is made once it is nearly in view, and wait until it is made."""
    script = """
      const place = document.querySelector(`[data-later=${arguments[0]}]`);
      place.scrollIntoView({ block: 'center' });
      return place.childElementCount > 0;
    """
    wait(f"{part} to be made", lambda: browser.execute_script(script, part))


def bring_all(browser: Any) -> None:
    """Scroll to all parts of a page that are made later, from top to bottom; not to those that it hides."""
    script = """
      return Array.from(document.querySelectorAll('[data-later]')).filter((place) => place.offsetParent !== null)
        .map((place) => place.dataset.later);
    """
    for part in browser.execute_script(script):
        bring(browser, part)


def find(browser: Any, css: str) -> Any:
    return browser.find_element("css selector", css)


def texts(browser: Any, css: str) -> list[str]:
    """Return the texts of elements, at one moment: a page that is redrawn would lose them one by one."""
    script = "return Array.from(document.querySelectorAll(arguments[0])).map((item) => item.textContent)"
    found: list[str] = browser.execute_script(script, css)
    return found


def traces(browser: Any, panel: str) -> list[str]:
    """Return the names of the lines that a panel draws."""
    script = """
      const panel = Array.from(document.querySelectorAll('.panel')).find(
        (item) => item.querySelector('h2') && item.querySelector('h2').textContent === arguments[0]);
      const plot = panel && panel.querySelector('.js-plotly-plot');
      return plot && plot._fullData ? plot._fullData.map((trace) => trace.name) : [];
    """
    found: list[str] = browser.execute_script(script, panel)
    return found


def graphs(browser: Any) -> list[str]:
    """Return the titles of the panels that draw lines, in the order of the page."""
    script = """
      return Array.from(document.querySelectorAll('.panel')).filter((panel) => {
        const plot = panel.querySelector('.js-plotly-plot');
        return plot && plot._fullData && plot._fullData.length;
      }).map((panel) => panel.querySelector('h2').textContent);
    """
    found: list[str] = browser.execute_script(script)
    return found


def x_range(browser: Any, panel: str) -> list[float]:
    """Return the range of a panel's x axis."""
    script = """
      const panel = Array.from(document.querySelectorAll('.panel')).find(
        (item) => item.querySelector('h2') && item.querySelector('h2').textContent === arguments[0]);
      return panel.querySelector('.js-plotly-plot')._fullLayout.xaxis.range;
    """
    found: list[float] = browser.execute_script(script, panel)
    return found


def press_keys(browser: Any, css: str, *keys: str) -> None:
    """Press keys on an element, which takes the focus."""
    for key in keys:
        find(browser, css).send_keys(key)


def tick(browser: Any, name: str) -> None:
    """Tick a run of the table, or take its tick away."""
    labels = texts(browser, "#table .ag-pinned-left-cols-container a")
    boxes = browser.find_elements("css selector", "#table .ag-pinned-left-cols-container .ag-selection-checkbox input")
    boxes[labels.index(name)].click()


def names_in_table(browser: Any) -> list[str]:
    """Return the names of the rows that pass the table's filters, sorted."""
    return sorted(text for text in texts(browser, "#table .ag-pinned-left-cols-container a") if text)


def rows_from_the_top(browser: Any, table: str) -> list[str]:
    """Return the names of a table's rows in the order in which they are shown."""
    script = """
      return Array.from(document.querySelectorAll(arguments[0] + ' .ag-pinned-left-cols-container .ag-row'))
        .sort((one, other) => one.getAttribute('row-index') - other.getAttribute('row-index'))
        .map((row) => row.querySelector('a').textContent);
    """
    found: list[str] = browser.execute_script(script, table)
    return found


def judge(browser: Any) -> list[str]:
    """Return one line for each of axe-core's findings about a page."""
    import axe_core_python

    browser.execute_script((Path(axe_core_python.__file__).parent / "axe.min.js").read_text("utf-8"))
    run = "axe.run(document, {resultTypes: ['violations']}).then((all) => arguments[0](all.violations))"
    found = browser.execute_async_script(run)
    return [f"{each['id']}: {node['html'][:200]}" for each in found for node in each["nodes"]]


def without_findings(browser: Any, page: str) -> None:
    """Wait until a page has no findings: what Dash draws last is named within a moment."""
    deadline = time.monotonic() + 15.0
    while found := judge(browser):
        assert time.monotonic() < deadline, "\n".join([page, *found])


def too_wide_px(browser: Any) -> float:
    """Return by how many pixels a page is wider than its window."""
    found: float = browser.execute_script("return document.documentElement.scrollWidth - window.innerWidth")
    return found
