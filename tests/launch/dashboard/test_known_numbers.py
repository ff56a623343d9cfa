"""Known numbers on the pages, as a real headless Chromium writes and draws them."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_chromium import IN_CHROMIUM, find, graphs, texts, traces, wait

from launch.presets import load_preset
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick
from launch.train import train

pytestmark = IN_CHROMIUM

RETURN = "return, last 20 episodes"
SEEDS = (10.0, 20.0, 60.0)
RAW = [float(n % 2) for n in range(100)]


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """Runs of few numbers, and a run of SAC that was really trained."""
    root, make_run = shared_runs
    begun = time.time() - 1000.0

    def one(name: str, values: dict[str, float], **more: Any) -> None:
        make_run(name, [{"charts/mean_return": 1.0} | values] * 3, begun=begun, **more)

    one("young", {"totals/episodes": 15.0})
    one("old", {"totals/episodes": 20.0})
    one("solved", {"totals/episodes": 30.0}, log="2026-01-01 00:00:00 finished: solved\n")
    one("killed", {"totals/episodes": 30.0}, log="2026-01-01 00:00:00 running: there\n")
    one("lossy", {"totals/episodes": 30.0, "totals/unrolls_lost/died": 12.0})
    with MetricsDb(make_run("slow", config={"steps": 1000}) / "metrics.db") as metrics:
        metrics.write(Tick(100.0, begun, 40, 40, 1), {"charts/mean_return": 1.0})
    make_run("noisy", [{"charts/mean_return": value} for value in RAW], begun=begun)
    for seed in range(2):
        rows = [{"charts/mean_return": 0.5 * n + seed + 3.0 * (-1) ** n} for n in range(100)]
        make_run(f"rising {seed}", rows, begun=begun, config={"seed": seed, "steps": 3000})
    for seed, value in enumerate(SEEDS):
        make_run(
            f"seed {seed}", [{"charts/mean_return": value}] * 100, begun=begun, config={"seed": seed, "steps": 2000}
        )
    small = {"steps": 480, "algorithm.batch-size": 16, "replay.min-steps": 128, "replay.samples-per-insert": 4.0}
    small |= {"network.hidden-sizes": (8,)}
    train(load_preset("sac_pendulum", {**small, "runtime": "lockstep", "quiet": True, "run-dir": root / "sac"}))
    return root


def tiles(browser: Any) -> dict[str, list[str]]:
    """Return the number of each tile and the words below it, once there are any."""
    script = """
      const words = (tile, css) => tile.querySelector(css).textContent;
      return Object.fromEntries(Array.from(document.querySelectorAll('#tiles .tile'), (tile) => [words(tile, '.label'),
        [words(tile, 'strong'), words(tile, 'small')]]));
    """
    found: dict[str, list[str]] = wait("the tiles", lambda: browser.execute_script(script))
    return found


def test_a_return_is_of_as_many_episodes_as_there_were(browser, address, root) -> None:
    for run, said in (("young", "all 15 episodes so far"), ("old", "last 20 episodes")):
        browser.get(f"{address}run/{run}")
        assert tiles(browser)["return"] == ["1", said]
        assert ("last 20" in find(browser, "#tiles").text) == (run == "old")


def test_a_solved_run_says_so_beside_its_env_steps(browser, address, root) -> None:
    for run, said in (("solved", "solved, of at most 1,000"), ("old", "20 % of 1,000")):
        browser.get(f"{address}run/{run}")
        assert tiles(browser)["env steps"] == ["200", said]


def test_a_slow_run_has_a_speed(browser, address, root) -> None:
    browser.get(f"{address}run/slow")
    assert tiles(browser)["env steps / s"][0] == "0.4"
    browser.get(f"{address}run/old")
    assert tiles(browser)["env steps / s"][0] == "100"


def test_a_run_says_what_it_lost_and_a_killed_one_not_that_nothing_was(browser, address, root) -> None:
    browser.get(f"{address}run/lossy")
    said = "the run ended with losses: 12 unrolls that never arrived from actors that died"
    wait("its losses", lambda: texts(browser, "#findings .finding") == [said])
    browser.get(f"{address}run/killed")
    wait("its end", lambda: any("as after a kill" in each for each in texts(browser, "#findings .finding")))
    assert texts(browser, "#losses") == ["nothing was counted as rejected, dropped or lost before the run was killed"]


def test_sac_has_its_own_panels_and_a_line_names_those_that_it_has_no_numbers_for(browser, address, root) -> None:
    browser.get(f"{address}run/sac")
    wait("the temperature", lambda: traces(browser, "Temperature"))
    wait("its values", lambda: {"q value", "q of policy"} <= set(traces(browser, "Values and their errors")))
    last = """
      const panel = Array.from(document.querySelectorAll('.panel')).find((each) => each.ariaLabel === 'Temperature');
      return panel.querySelector('.js-plotly-plot')._fullData[0].y.at(-1);
    """
    assert 0.0 < browser.execute_script(last) < 10.0
    folded = texts(browser, "details[data-section=off-policy] p.quiet")
    assert len(folded) == 1, "one line"
    assert folded[0].startswith("this run has no numbers for: Trust region: accepted steps, ")
    assert "Trust region: accepted steps" not in texts(browser, ".panel h2")
    assert "Temperature" not in " ".join(texts(browser, "p.quiet"))


_LINES = """
  const plot = document.querySelector('#comparison .js-plotly-plot');
  return plot._fullData.map((each) => [each.name, each.y.at(0), each.line.width, each.opacity]);
"""


def test_each_kind_of_band_is_drawn_as_what_it_is(browser, address, root) -> None:
    mean, deviation = 30.0, math.sqrt(700.0)
    half = 4.302653 * deviation / math.sqrt(3.0)  # Student's t with two degrees of freedom
    edges = {
        "interval": [mean - half, mean + half],
        "iqm": [15.0, 40.0],
        "deviation": [mean - deviation, mean + deviation],
        "range": [10.0, 60.0],
    }
    runs = "&".join(f"run=seed%20{seed}" for seed in range(len(SEEDS)))
    for kind, expected in edges.items():
        browser.get(f"{address}?{runs}&curves={kind}")
        wait("a curve with its band", lambda: len(traces(browser, RETURN)) == 3)
        low, high, centre = (height for _, height, *_ in browser.execute_script(_LINES))
        assert [low, high] == pytest.approx(expected, rel=1e-4), kind
        assert centre == pytest.approx(mean)


def test_smoothing_keeps_the_raw_curve_faint_behind_the_smooth_one(browser, address, root) -> None:
    browser.get(f"{address}?run=noisy")
    wait("the curve", lambda: traces(browser, RETURN) == ["noisy"])
    assert browser.execute_script(_LINES) == [["noisy", 0.0, 2, 1]]
    browser.get(f"{address}?run=noisy&smoothing=10")
    wait("both", lambda: traces(browser, RETURN) == ["noisy", "noisy"])
    heights = "return document.querySelector('#comparison .js-plotly-plot')._fullData.map((each) => Array.from(each.y))"
    raw, smooth = browser.execute_script(heights)
    assert raw == RAW
    assert all(0.3 < value < 0.7 for value in smooth[20:80])
    (_, _, width, opacity), (_, _, own_width, own_opacity) = browser.execute_script(_LINES)
    assert width < own_width
    assert opacity < own_opacity == 1
    assert graphs(browser) == [RETURN]


def test_a_smooth_mean_of_seeds_lies_on_its_raw_one_and_is_right_at_its_ends(browser, address, root) -> None:
    browser.get(f"{address}?run=rising%200&run=rising%201&curves=range&smoothing=20")
    wait("the raw mean, the band's edges and the mean", lambda: len(traces(browser, RETURN)) == 4)
    drawn = """
      const plot = document.querySelector('#comparison .js-plotly-plot');
      return plot._fullData.map((each) => [each.opacity, Array.from(each.x), Array.from(each.y)]);
    """
    (opacity, x, raw), *_, (_, _, smooth) = browser.execute_script(drawn)
    assert opacity < 1
    steps = np.arange(100)
    assert raw == pytest.approx(np.interp(x, 100 * steps, 0.5 * steps + 0.5 + 3.0 * (-1.0) ** steps), abs=1e-4)
    # The mean of the points within reach would be 5 off at both ends.
    assert smooth == pytest.approx(0.005 * np.array(x) + 0.5, abs=0.5)
