"""Reports in a real headless Chromium: columns, a small screen, dark, folded settings, and what axe-core finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from in_chromium import IN_CHROMIUM, find, too_wide_px, wait, without_findings

from launch.presets import load_preset
from launch.report.options import ReportOptions
from launch.report.report import report
from launch.settings.train_config import EvaluationConfig
from launch.train import train

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The report of a short run of CartPole with evaluations."""
    root = tmp_path_factory.mktemp("reported")
    config = load_preset("cartpole", {"steps": 600, "quiet": True, "runtime": "lockstep", "run-dir": root / "run"})
    train(dataclasses.replace(config, evaluation=EvaluationConfig(interval=300, episodes=1, num_envs=1)))
    return report(root / "run", ReportOptions(out=root / "out")).page


@pytest.fixture
def browser(chromium, page) -> Iterator[Any]:
    """Chromium with the report; afterwards light and of its size again, and without a word on its console."""
    size = chromium.get_window_size()
    chromium.get(page.as_uri())
    yield chromium
    chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    chromium.set_window_size(size["width"], size["height"])
    assert [entry["message"] for entry in chromium.get_log("browser")] == []


def in_dark(browser: Any) -> None:
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


_COLUMNS = """
  const places = Array.from(document.querySelectorAll('.pictures img'), (each) => each.getBoundingClientRect().left);
  return new Set(places.map(Math.round)).size;
"""


@pytest.mark.parametrize(("width", "columns"), [(1280, 2), (390, 1)])
def test_pictures_stand_in_columns_and_nothing_is_wider_than_the_page(browser, width, columns) -> None:
    browser.set_window_size(width, 1000)
    wait(f"{columns} columns", lambda: browser.execute_script(_COLUMNS) == columns)
    assert too_wide_px(browser) <= 0
    without_findings(browser, f"the report at {width} px")


def test_a_dark_report_has_light_frames_around_its_pictures(browser) -> None:
    colours = """
      const style = (css) => getComputedStyle(document.querySelector(css));
      return [style('body').backgroundColor, style('body').color, style('img').backgroundColor,
        Number.parseFloat(style('img').paddingTop)];
    """
    paper, ink, *_ = browser.execute_script(colours)
    in_dark(browser)
    dark, light, frame, frame_px = browser.execute_script(colours)
    assert (paper, dark) == ("rgb(255, 255, 255)", "rgb(18, 22, 28)")
    assert (ink, light) == ("rgb(34, 34, 34)", "rgb(215, 220, 226)")
    assert frame == "rgb(255, 255, 255)"
    assert frame_px >= 4
    without_findings(browser, "the dark report")


def test_settings_are_folded_until_their_title_is_pressed(browser) -> None:
    from selenium.webdriver.common.keys import Keys

    config = find(browser, "details")
    assert config.find_element("css selector", "summary").text == "Config"
    assert not config.find_element("css selector", "table").is_displayed()
    config.find_element("css selector", "summary").send_keys(Keys.ENTER)
    wait("the settings", lambda: "algorithm.learning-rate" in config.text)
    without_findings(browser, "the unfolded report")
