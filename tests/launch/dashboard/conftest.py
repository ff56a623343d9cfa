"""A dashboard of a module's runs, and a Chromium that notes what its pages complain about and ask for."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

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


@pytest.fixture
def serve(browser: Any, address: str) -> Callable[..., AbstractContextManager[str]]:
    """Serves another directory for a while, with options of the dashboard."""

    @contextmanager
    def serving(root: Path, **options: Any) -> Iterator[str]:
        from launch.dashboard.server import open_server

        with open_server(root, DashboardOptions(port=0, **options)) as (server, own):
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield own
            finally:
                browser.get("about:blank")
                server.shutdown()
                thread.join()
        browser.get_log("performance")  # what this other server was asked is not for `browser` to judge
        browser.get(address)

    return serving
