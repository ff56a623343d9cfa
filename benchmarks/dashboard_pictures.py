"""Pictures of every page of the dashboard, `docs/pictures/dashboard_*.png`, in a Chromium, on runs trained for them.

Each page is photographed 1280 and 390 pixels wide (`_phone`), light and dark (`_dark`). The runs are some seeds of
CartPole, a population that evolves, a sweep of twelve settings with two seeds each and one replay, and a run that
trains while its page is photographed; they take ten minutes or so. `--keep DIR` keeps the runs there; the next call
makes only the pictures.
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import chromium
import measure

from launch.records.listing import key_of_path

_PICTURES = measure.ROOT / "docs" / "pictures"
_GRID = "algorithm.learning-rate=1e-4,3e-4,1e-3,2e-3,4e-3,8e-3"
_SETTINGS = ("algorithm.learning-rate=1e-4,5e-4,2e-3,8e-3", "algorithm.entropy-cost=0.001,0.01,0.05")
_SEEDS_OF_A_SETTING = 2
_TALLEST_PX = 6000
"""More than any page of a sweep, so that all of its parts are made."""
_PHONE_PX = 390
_IN_COLOURS = """
  const pen = document.createElement("i");
  document.body.append(pen);
  const same = Array.from(document.querySelectorAll(".panel .js-plotly-plot")).every((plot) => {
    if (plot.offsetParent === null) return true;  // hidden, and not drawn
    pen.style.color = plot._fullLayout ? plot._fullLayout.paper_bgcolor : "";
    const found = getComputedStyle(pen).color;
    return found === "rgba(0, 0, 0, 0)" || found === getComputedStyle(plot.closest(".panel")).backgroundColor;
  });
  pen.remove();
  return same;
"""


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--steps", type=int, default=30_000, help="env steps of each run and each member")
    parser.add_argument("--seeds", type=int, default=5, help="runs to compare")
    parser.add_argument("--keep", type=Path, help="directory that keeps the runs for later calls")
    options = parser.parse_args()
    if options.quick:
        options.steps, options.seeds = 4000, 2
    with tempfile.TemporaryDirectory() as place:
        root = options.keep or Path(place) / "runs"
        root = root.absolute()
        train(root, options.steps, options.seeds)
        with training(root / "cartpole-live") as live, chromium.dashboard(root) as address:
            chromium.wait("the live run", lambda: (live / "metrics.db").is_file(), 120.0)
            time.sleep(20.0)
            with chromium.browser() as driver:
                photograph(driver, address, root, live)


def train(root: Path, steps: int, num_seeds: int) -> None:
    """Train the runs that do not exist yet."""
    root.mkdir(parents=True, exist_ok=True)
    common = ["--steps", str(steps), "--stop-at-return", "inf", "--quiet"]
    for seed in range(num_seeds):
        run = root / f"cartpole-seed{seed}"
        film = ["--evaluation.interval", str(steps // 3), "--evaluation.episodes", "4", "--capture-video"]
        if not run.exists():
            command = [*measure.LASER, "train", "cartpole", "--seed", str(seed), "--run-dir", str(run), *common, *film]
            subprocess.run(command, cwd=measure.ROOT, check=True)
    sweep = root / "sweep-learning-rate"
    if not sweep.exists():
        evolve = ["--pbt", "--pbt.interval", str(steps // 8), "--pbt.burn-in", str(steps // 8)]
        command = [*measure.LASER, "sweep", "cartpole", "--grid", _GRID, *evolve, "--run-dir", str(sweep), *common]
        subprocess.run(command, cwd=measure.ROOT, check=True)
    settings = root / "sweep-settings"
    if not settings.exists():
        grid = [word for each in _SETTINGS for word in ("--grid", each)]
        seeds = ["--seeds", str(_SEEDS_OF_A_SETTING), "--concurrent", "4", "--share-replay"]
        command = [*measure.LASER, "sweep", "cartpole", *grid, *seeds, "--run-dir", str(settings), *common]
        subprocess.run(command, cwd=measure.ROOT, check=True)


@contextmanager
def training(run: Path) -> Iterator[Path]:
    """Train a run while the block lasts."""
    goes_on = ["--resume"] if run.exists() else []
    command = [*measure.LASER, "train", "cartpole", "--steps", "1000000", "--stop-at-return", "inf", "--quiet"]
    process = subprocess.Popen([*command, "--run-dir", str(run), *goes_on], cwd=measure.ROOT)
    try:
        yield run
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=120.0)


def photograph(driver: Any, address: str, root: Path, live: Path) -> None:
    """Make all pictures."""
    driver.get(
        f"{address}?curves=interval&metric=charts/mean_return&metric=entropy&opened=sweep-learning-rate&sort=best:desc"
    )
    chromium.wait("the table", lambda: driver.find_elements("css selector", "#table .ag-row a"))
    choose = """
      const api = window.dash_ag_grid.getApi('table');
      api.forEachNode((node) => {
        const name = node.data.name;
        if (name.startsWith('sweep-learning-rate/') || name.startsWith('cartpole-seed')) node.setSelected(true);
      });
    """
    driver.execute_script(choose)
    said = "return document.querySelector('#compared').textContent"
    chromium.wait("their curves", lambda: "runs drawn" in driver.execute_script(said))
    shoot(driver, "runs", 1000)

    driver.get(f"{address}run?key={key_of_path(live)}&baseline=all%20seeds%20of%20cartpole-seed0&pin=return")
    chromium.wait("its panels", lambda: driver.find_elements("css selector", "#tiles .tile"))
    driver.execute_script("document.querySelector(\"summary[aria-label='about Entropy']\").parentElement.open = true")
    shoot(driver, "run", 2150)

    driver.get(f"{address}sweep?key={key_of_path(root / 'sweep-learning-rate')}")
    chromium.wait("its members", lambda: chromium.num_lines(driver, "#sweep-curves") > 0)
    shoot(driver, "sweep")

    driver.get(f"{address}sweep?key={key_of_path(root / 'sweep-settings')}")
    chromium.bring(driver, "settings")
    chromium.wait("its importances", lambda: chromium.num_lines(driver, "#importance") > 0, 240.0)
    shoot(driver, "settings", 2450)

    driver.get(f"{address}watch?key={key_of_path(root / 'cartpole-seed0')}")
    chromium.wait("the button", lambda: driver.find_element("css selector", "#live-play")).click()
    picture = "return document.querySelector('#live-picture').src"
    chromium.wait("a picture", lambda: "base64" in driver.execute_script(picture), 240.0)
    time.sleep(8.0)
    driver.execute_script("document.querySelectorAll('video').forEach((video) => { video.currentTime = 1; })")
    shoot(driver, "watch", 1500)


def shoot(driver: Any, name: str, height: int | None = None) -> None:
    """Save pictures of a page, once it no longer changes: wide and narrow, light and dark.

    Args:
        driver: of the browser, at the page.
        name: of the pictures.
        height: of the wide pictures in pixels; None: of the whole page.
    """
    for theme in ("", "_dark"):
        for width, which in ((1280, ""), (_PHONE_PX, "_phone")):
            if height is None:
                resize(driver, width, _TALLEST_PX)
                bottom = "return Math.ceil(document.querySelector('main').getBoundingClientRect().bottom + scrollY)"
                tall = driver.execute_script(bottom)
            else:
                tall = height if width > _PHONE_PX else int(1.4 * height)
            resize(driver, width, tall)
            chromium.wait("figures in the page's colours", lambda: driver.execute_script(_IN_COLOURS), 240.0)
            path = _PICTURES / f"dashboard_{name}{which}{theme}.png"
            driver.save_screenshot(str(path))
            shrink(path)
            print(f"written: {path.relative_to(measure.ROOT)}", flush=True)
        click_theme(driver)


def resize(driver: Any, width: int, height: int) -> None:
    """Give the page another size in pixels, and time to draw what comes into view."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    time.sleep(5.0)


def shrink(path: Path) -> None:
    """Reduce a picture to 256 colours, which takes a third of the space."""
    from PIL import Image

    with Image.open(path) as picture:
        reduced = picture.convert("RGB").quantize(256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    reduced.save(path, optimize=True)


def click_theme(driver: Any) -> None:
    """Change between light and dark."""
    driver.find_element("css selector", "#theme-button").click()


if __name__ == "__main__":
    main()
