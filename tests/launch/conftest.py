"""Run directories as training leaves them, written in milliseconds, and a Chromium that opens pages about them."""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from in_chromium import CHROMIUM, DRIVER

from launch.records.exchange import Exchange
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick

MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Returns a function that writes a run directory below `tmp_path / "runs"`."""
    return functools.partial(_write_run, tmp_path / "runs")


@pytest.fixture(scope="module")
def shared_runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, MakeRun]:
    """A directory for the runs of a whole module, and what writes one into it."""
    root = tmp_path_factory.mktemp("runs")
    return root, functools.partial(_write_run, root)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--window-size=1280,1000"):
        options.add_argument(argument)
    downloads = tmp_path_factory.mktemp("downloads")
    options.add_experimental_option("prefs", {"download.default_directory": str(downloads)})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    driver.downloads = downloads
    yield driver
    driver.quit()


def _write_run(
    root: Path,
    name: str,
    rows: Sequence[Mapping[str, float]] = (),
    *,
    config: Mapping[str, Any] | None = None,
    facts: Mapping[str, Any] | None = None,
    notes: Mapping[str, str] | None = None,
    drawn: Sequence[Exchange] = (),
    log: str = "2026-01-01 00:00:00 finished: steps\n",
    begun: float = 1_700_000_000.0,
    repeat: int = 4,
) -> Path:
    path = root / name
    path.mkdir(parents=True)
    settings = {
        "preset": "cartpole",
        "env": "CartPole-v1",
        "steps": 1000,
        "seed": 0,
        "algorithm": {"name": "laser"},
    }
    record = {
        "schema_version": 1,
        "created": "now",
        "command": "laser train",
        "config": settings | dict(config or {}),
    }
    (path / "config.json").write_text(json.dumps(record | dict(facts or {})))
    (path / "log.txt").write_text(log)
    if rows or drawn:
        with MetricsDb(path / "metrics.db") as metrics:
            for place, (values, exchange) in enumerate(itertools.zip_longest(rows, drawn)):
                tick = Tick(float(place), begun + place, 100 * place, 100 * repeat * place, 3 * place)
                metrics.write(tick, values or {}, notes, exchange)
    return path
