"""Reports in a real headless Chromium: columns, a small screen, dark, a video, folded settings, axe-core's findings."""

from __future__ import annotations

import dataclasses
import io
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_chromium import IN_CHROMIUM, find, too_wide_px, wait, without_findings

from launch.presets import load_preset
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick
from launch.report.options import ReportOptions
from launch.report.page import Page
from launch.report.pictures import DARK, LIGHT, Line, Panel, Theme, draw
from launch.report.report import report, report_comparison
from launch.settings.train_config import EvaluationConfig
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.train import train

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The report of a short run of CartPole with evaluations, which are filmed."""
    root = tmp_path_factory.mktemp("reported")
    config = load_preset("cartpole", {"steps": 600, "quiet": True, "runtime": "lockstep", "run-dir": root / "run"})
    evaluation = EvaluationConfig(interval=300, episodes=1, num_envs=1)
    train(dataclasses.replace(config, evaluation=evaluation, capture_video=True))
    return report(root / "run", ReportOptions(out=root / "out")).page


@pytest.fixture(scope="module")
def others(tmp_path_factory) -> dict[str, Path]:
    """The reports of a sweep with seeds, whose members' returns are known, and of a comparison of two of them."""
    root = tmp_path_factory.mktemp("reported")
    values = {"steps": 400, "quiet": True, "runtime": "lockstep", "run-dir": root / "sweep"}
    config = SweepConfig(
        load_preset("cartpole", values), {"algorithm.entropy-cost": [0.01, 0.05]}, SweepOptions(seeds=2)
    )
    sweep(config, ["laser", "sweep", "cartpole"])
    members = [root / "sweep" / "members" / str(number) for number in range(4)]
    for member, value in zip(members, (400.0, 10.0, 300.0, 310.0), strict=True):
        with MetricsDb(member / "metrics.db") as metrics:
            metrics.write(Tick(1e3, 2e9, 401, 401, 50), {"charts/mean_return": value})
    return {
        "sweep": report(root / "sweep", ReportOptions(out=root / "of sweep")).page,
        "comparison": report_comparison(members[:2], ReportOptions(out=root / "of two")).page,
    }


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


def rgb(colour: str) -> list[int]:
    return [int(colour[place : place + 2], 16) for place in (1, 3, 5)]


def shown(picture: Any) -> np.ndarray:
    """Return the pixels [height, width, 3] of a picture as the screen shows them."""
    from matplotlib.image import imread

    return np.asarray(imread(io.BytesIO(picture.screenshot_as_png)))[:, :, :3] * 255.0


def share(pixels: np.ndarray, *colours: str) -> float:
    """Return the share of pixels near one of the colours: the browser scales pictures, which blurs lines."""
    return float(np.any([np.abs(pixels - rgb(colour)).max(-1) < 25.0 for colour in colours], 0).mean())


def assert_pictures_are_of(browser: Any, theme: Theme, num: int) -> None:
    paper = "return getComputedStyle(document.body).backgroundColor"
    assert [int(part) for part in re.findall(r"\d+", browser.execute_script(paper))] == rgb(theme.paper)
    whole = "return Array.from(document.images).every((each) => each.complete && each.naturalWidth > 0)"
    wait("whole pictures", lambda: browser.execute_script(whole))
    pictures = browser.find_elements("css selector", ".pictures img")
    assert len(pictures) == num
    other = LIGHT if theme is DARK else DARK
    for picture in pictures:
        words = picture.get_attribute("alt")
        deadline = time.monotonic() + 10.0
        while share(pixels := shown(picture), theme.paper) < 0.5:  # it may just be redrawn
            assert time.monotonic() < deadline, f"{words}: not on the theme's paper"
        assert share(pixels, other.paper) < 0.02, words
        assert share(pixels, theme.ink) > 0.001, words
        assert share(pixels, *theme.lines[:6]) > 0.0001, words  # those that are not grey; a line of two points is short


@pytest.mark.parametrize("kind", ["run", "sweep"])
def test_pictures_are_dark_where_the_page_is_and_light_elsewhere(browser, page, others, kind) -> None:
    browser.get((page if kind == "run" else others[kind]).as_uri())
    num = browser.execute_script("return document.querySelectorAll('picture').length")
    assert num >= 2
    assert_pictures_are_of(browser, LIGHT, num)
    in_dark(browser)
    assert_pictures_are_of(browser, DARK, num)
    without_findings(browser, f"the dark {kind}'s report")


def test_a_picture_that_is_light_everywhere_has_a_frame_in_its_colour(browser, tmp_path) -> None:
    own = Page("one picture")
    own.picture(draw([Panel("x", "y", [Line("a", [(0.0, 1.0), (2.0, 3.0)])])]), "a line")
    (tmp_path / "index.html").write_text(own.render())
    browser.get((tmp_path / "index.html").as_uri())
    in_dark(browser)
    style = "const found = getComputedStyle(document.images[0]); return [found.backgroundColor, found.paddingTop]"
    assert browser.execute_script(style) == ["rgb(255, 255, 255)", "6.4px"]
    assert share(shown(find(browser, "img")), LIGHT.paper) > 0.7


_PLAYED = """
  const video = document.querySelector('video'), canvas = document.createElement('canvas');
  const [width, height] = [video.videoWidth, video.videoHeight];
  if (!(width && height && video.currentTime > 0)) return null;
  Object.assign(canvas, { width: width, height: height });
  const context = canvas.getContext('2d');
  context.drawImage(video, 0, 0);
  const values = context.getImageData(0, 0, width, height).data;
  let dark = 0, light = 0;
  for (let place = 0; place < values.length; place += 4) {
    if (values[place + 1] < 40) dark += 1;
    else if (values[place + 1] > 215) light += 1;
  }
  return [width, height, video.duration, dark / (width * height), light / (width * height)];
"""


def test_the_video_of_an_evaluation_plays_and_shows_the_cart(browser) -> None:
    browser.execute_script("document.querySelector('video').play()")
    width, height, duration_s, dark, light = wait("a frame", lambda: browser.execute_script(_PLAYED))
    assert (width, height) == (600, 400)
    assert 8 / 30 <= duration_s <= 500 / 30  # CartPole: an untrained agent falls after 8 steps or more
    # A black cart of 50 x 30 pixels and a black track, on white.
    assert 0.005 < dark < 0.05
    assert light > 0.9


@pytest.mark.parametrize("kind", ["sweep", "comparison"])
def test_reports_of_several_runs_fit_a_phone_and_a_desk_light_and_dark(browser, others, kind) -> None:
    browser.get(others[kind].as_uri())
    for width in (1280, 390):
        browser.set_window_size(width, 1000)
        wait("its pictures", lambda: browser.execute_script("return document.querySelectorAll('img').length") > 0)
        assert too_wide_px(browser) <= 0
        without_findings(browser, f"the {kind}'s report at {width} px")
    in_dark(browser)
    without_findings(browser, f"the dark {kind}'s report")


def test_a_sweeps_report_ends_with_the_best_seed_of_its_best_setting(browser, others) -> None:
    browser.get(others["sweep"].as_uri())
    titles = [each.text for each in browser.find_elements("css selector", "h2")]
    assert [each for each in titles if "by itself" in each] == ["The best of the best setting, member 3, by itself"]
    assert any("400" in each.text for each in browser.find_elements("css selector", "tr")), "member 0 was lucky"
    rows = [each.text for each in browser.find_elements("css selector", "tr") if "entropy-cost=0.05" in each.text]
    assert any("305" in row for row in rows)


def test_settings_are_folded_until_their_title_is_pressed(browser) -> None:
    from selenium.webdriver.common.keys import Keys

    config = find(browser, "details")
    assert config.find_element("css selector", "summary").text == "Config"
    assert not config.find_element("css selector", "table").is_displayed()
    config.find_element("css selector", "summary").send_keys(Keys.ENTER)
    wait("the settings", lambda: "algorithm.learning-rate" in config.text)
    without_findings(browser, "the unfolded report")
