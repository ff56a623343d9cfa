"""Reports in a real headless Chromium: columns, a small screen, dark, folded settings, and what axe-core finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from in_chromium import IN_CHROMIUM, find, too_wide_px, wait, without_findings

from launch.presets import load_preset
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick
from launch.report.options import ReportOptions
from launch.report.report import report, report_comparison
from launch.settings.train_config import EvaluationConfig
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.train import train

pytestmark = IN_CHROMIUM


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    """The report of a short run of CartPole with evaluations."""
    root = tmp_path_factory.mktemp("reported")
    config = load_preset("cartpole", {"steps": 600, "quiet": True, "runtime": "lockstep", "run-dir": root / "run"})
    train(dataclasses.replace(config, evaluation=EvaluationConfig(interval=300, episodes=1, num_envs=1)))
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
