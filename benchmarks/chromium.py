"""A headless Chromium and a running dashboard, for the dashboard's benchmark and its pictures."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import measure

PATIENCE_S = 60.0


@contextmanager
def dashboard(runs: Path) -> Iterator[str]:
    """Run `laser dashboard` as a user would; yield its address."""
    command = [*measure.LASER, "dashboard", str(runs), "--port", "0"]
    with subprocess.Popen(command, cwd=measure.ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if "http" not in line:
                raise measure.BenchmarkError(f"the dashboard did not start: {line}")
            yield line[line.index("http") :].strip()
        finally:
            process.kill()


@contextmanager
def browser(width: int = 1280, height: int = 900, *, listens: bool = False) -> Iterator[Any]:
    """Start Chromium; yield its driver.

    Args:
        width: of the window, pixels.
        height: likewise.
        listens: the driver logs the pages' requests and responses, which slows the pages.
    """
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        raise measure.BenchmarkError("there is no Chromium: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    flags = ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars")
    for argument in (*flags, f"--window-size={width},{height}"):
        options.add_argument(argument)
    if listens:
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(driver))
    try:
        # The window has a frame even without a screen; this makes pages as wide as requested.
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        made.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        yield made
    finally:
        made.quit()


def wait(what: str, ask: Callable[[], Any], patience_s: float = PATIENCE_S) -> Any:
    """Call `ask` until its result is true, and return that result.

    Raises:
        BenchmarkError: the result did not become true in time.
    """
    from selenium.common.exceptions import WebDriverException

    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        try:
            found = ask()
        except WebDriverException:
            found = None
        if found:
            return found
        time.sleep(0.02)
    raise measure.BenchmarkError(f"waited {patience_s:g} s for {what}")


def bring(driver: Any, part: str) -> None:
    """Scroll to a part of a page that is made once it is nearly in view."""
    script = """
      const place = document.querySelector(`[data-later=${arguments[0]}]`);
      place.scrollIntoView();
      return place.childElementCount > 0;
    """
    wait(f"{part} to be made", lambda: driver.execute_script(script, part))


def num_lines(driver: Any, graph: str) -> int:
    """Return the number of lines in a figure, by the id of its graph; 0 before it is drawn."""
    script = """
      const plot = document.querySelector(arguments[0] + ' .js-plotly-plot');
      return plot && plot._fullData ? plot._fullData.filter((trace) => trace.visible).length : 0;
    """
    return int(driver.execute_script(script, graph))
