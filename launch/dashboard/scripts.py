"""The two largest scripts of the pages, compiled early: a first visit waits for little else.

Chromium compiles a function when it is first called, on the thread that draws. plotly.js and AG Grid call most of their
functions as they start. The hint makes Chromium compile all of them on another thread, while it loads the script. Other
browsers take the hint for a comment. Source: https://github.com/WICG/explicit-javascript-compile-hints-file-based
"""

from __future__ import annotations

from dash import Dash
from flask import Response, request

HINT = b"//# allFunctionsCalledOnLoad\n"

_PLOTLY = "/_dash-component-suites/plotly/"
_AG_GRID = "/_dash-component-suites/dash_ag_grid/"


def install(app: Dash) -> None:
    """Add the hint to both scripts, and let each page begin plotly.js before Dash has a figure to draw.

    See assets/plotly_early.js for what keeps Dash from loading it once more.
    """
    address = app.get_relative_path(f"{_PLOTLY}package_data/plotly.min.js")  # type: ignore[no-untyped-call]
    begin = f'<script async fetchpriority="low" id="plotly-early" src="{address}"></script>'
    app.index_string = app.index_string.replace("{%metas%}", "{%metas%}" + begin)

    def hint(response: Response) -> Response:
        is_large = request.path.startswith((_PLOTLY, _AG_GRID)) and request.path.endswith(".js")
        if is_large and response.status_code == 200:
            response.direct_passthrough = False
            response.set_data(HINT + response.get_data())
        return response

    app.server.after_request(hint)
