"""The scripts of the pages, soon there: a first visit waits for little else.

The dashboard's own scripts come as one, since a browser has few connections to a server, and Python answers slowly.

The two largest scripts are compiled early. Chromium compiles a function when it is first called, on the thread that
draws. plotly.js and AG Grid call most of their functions as they start. The hint makes Chromium compile all of them on
another thread, while it loads the script. Other browsers take the hint for a comment.
Source: https://github.com/WICG/explicit-javascript-compile-hints-file-based
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from dash import Dash
from flask import Response, request

HINT = b"//# allFunctionsCalledOnLoad\n"

_PLOTLY = "/_dash-component-suites/plotly/"
_AG_GRID = "/_dash-component-suites/dash_ag_grid/"
_CORE = "/_dash-component-suites/dash/dcc/"
# Parts of components, which Dash would ask for once a page is there. They only register what is in them, so their order
# does not matter, and Dash takes those that are there.
_PARTS = (
    f"{_AG_GRID}async-community.js",
    *(f"{_CORE}async-{name}.js" for name in ("graph", "dropdown", "slider")),
)

OWN = r".*\.js$"
"""Names of the files among the assets that Dash must leave to `install`."""


def install(app: Dash) -> None:
    """Serve the own scripts, add the hint to both large ones, and begin plotly.js before Dash has a figure to draw.

    See assets/plotly_early.js for what keeps Dash from loading it once more.
    """
    own = "\n".join(path.read_text(encoding="utf-8") for path in sorted(Path(app.config.assets_folder).glob("*.js")))
    place = app.get_relative_path("/scripts.js")  # type: ignore[no-untyped-call]
    version = hashlib.sha256(own.encode()).hexdigest()[:16]
    app.index_string = app.index_string.replace(
        "{%scripts%}", f'<script src="{place}?m={version}"></script>{{%scripts%}}'
    )

    def scripts() -> Response:
        headers = {"Cache-Control": "public, max-age=31536000"}  # another version has another address
        return Response(own, mimetype="text/javascript", headers=headers)

    app.server.add_url_rule("/scripts.js", view_func=scripts)

    address = app.get_relative_path(f"{_PLOTLY}package_data/plotly.min.js")  # type: ignore[no-untyped-call]
    begin = f'<script async fetchpriority="low" id="plotly-early" src="{address}"></script>'
    for path in _PARTS:
        address = app.get_relative_path(path)  # type: ignore[no-untyped-call]
        begin += f'<script async fetchpriority="low" src="{address}"></script>'
    app.index_string = app.index_string.replace("{%metas%}", "{%metas%}" + begin)

    def hint(response: Response) -> Response:
        is_large = request.path.startswith((_PLOTLY, _AG_GRID)) and request.path.endswith(".js")
        if is_large and response.status_code == 200:
            response.direct_passthrough = False
            response.set_data(HINT + response.get_data())
        return response

    app.server.after_request(hint)
