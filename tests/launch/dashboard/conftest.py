"""A dashboard of a module's runs, and a Chromium that notes what its pages complain about and ask for."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from in_chromium import CHROMIUM, DRIVER

from launch.dashboard.options import DashboardOptions


@pytest.fixture(scope="module")
def address(root: Path) -> Iterator[str]:
    from launch.dashboard.server import open_server

    with open_server(root, DashboardOptions(port=0)) as (server, address):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield address
        server.shutdown()
        thread.join()


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


@pytest.fixture
def browser(chromium: Any, address: str) -> Iterator[Any]:
    """Chromium, and afterwards: no word on its console, no request to any other host, nothing that ran."""
    for kind in ("browser", "performance"):
        chromium.get_log(kind)
    yield chromium
    complaints = [entry["message"] for entry in chromium.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
    assert complaints == []
    hosts = set()
    for entry in chromium.get_log("performance"):
        message = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            url = urlsplit(message["params"]["request"]["url"])
            if url.scheme not in ("data", "blob", "about", "chrome"):
                hosts.add(url.netloc)
    assert hosts == {urlsplit(address).netloc}
