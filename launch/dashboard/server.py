"""The dashboard's server: the app with its pages, behind its guard, on one port."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from dash import ClientsideFunction, Dash, Input, Output, State, dcc, html
from flask import Response, request
from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from launch.dashboard import downloads, scripts
from launch.dashboard.address import parse_address
from launch.dashboard.guard import Guard, is_loopback, new_token
from launch.dashboard.library import Library
from launch.dashboard.live import PLAYER, LiveView
from launch.dashboard.options import DashboardOptions
from launch.dashboard.pages import run, runs, sweep, watch
from launch.errors import CannotCreateError, NothingToResumeError
from launch.records.listing import printable

_PAGES = {"": runs.layout, "run": run.layout, "sweep": sweep.layout, "watch": watch.layout}
_TITLES = {"": "Runs", "run": "", "sweep": "sweep", "watch": "Watch"}

_NICENESS = 10
"""Nice value of the dashboard, so that training gets the processor first."""


def serve(root: Path, options: DashboardOptions) -> None:
    """Show the runs of a directory until Ctrl-C.

    Raises:
        NothingToResumeError: there is no such directory.
        CannotCreateError: the port is in use, or the address is not one of this machine.
    """
    if not root.is_dir():
        remedy = "name the directory of your runs, or train first: laser train cartpole"
        raise NothingToResumeError("runs-dir", f"there is no directory {root}", remedy)
    with contextlib.suppress(OSError):
        os.nice(_NICENESS)
    with open_server(root, options) as (server, address):
        print(f"dashboard of {root}: {address}", flush=True)
        print("Ctrl-C ends the dashboard; runs continue", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


@contextmanager
def open_server(root: Path, options: DashboardOptions) -> Iterator[tuple[BaseWSGIServer, str]]:
    """Bind the port; yield the server, and the address to open, with the token if one is needed.

    Raises:
        CannotCreateError: the port is in use, or the address is not one of this machine.
    """
    token = options.token or ("" if is_loopback(options.host) else new_token())
    _check_port(options)
    # The importance of settings imports scikit-learn in the background, and that imports pandas where it is installed.
    # Plotly cannot write a response while another thread imports pandas, so this is done first.
    with contextlib.suppress(ImportError):
        importlib.import_module("pandas")
    live = LiveView(command=(*PLAYER, "--trust") if options.trust else PLAYER)
    app = make_app(Library(root, read_only=options.read_only), live, options.host, token)
    server = make_server(options.host.strip("[]"), options.port, app.server, threaded=True, request_handler=_Quiet)
    try:
        host = f"[{options.host.strip('[]')}]" if ":" in options.host else options.host
        yield server, f"http://{host}:{server.server_port}/" + (f"?token={token}" if token else "")
    finally:
        live.close()
        server.server_close()


def make_app(library: Library, live: LiveView, host: str = "127.0.0.1", token: str = "") -> Dash:
    """Return the app with all its pages, behind its guard."""
    app = Dash(
        "laser",
        title="LASER",
        update_title="",
        assets_folder=str(Path(__file__).parent / "assets"),
        assets_ignore=scripts.OWN,
        suppress_callback_exceptions=True,
        serve_locally=True,
        add_log_handler=False,
    )
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    scripts.install(app)
    app.layout = _shell(library)
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "theme"),
        Output("theme", "data"),
        Input("theme-button", "n_clicks"),
        State("theme", "data"),
    )

    for callback, output, source in (("start", "address", "address-start"), ("title", None, "page-title")):
        outputs = [Output(output, "data")] if output else []
        app.clientside_callback(  # type: ignore[no-untyped-call]
            ClientsideFunction("laser", callback), *outputs, Input(source, "data")
        )

    @app.callback(Output("page", "children"), Output("page-title", "data"), Input("address", "data"))
    def show_page(data: Any) -> Any:
        address = parse_address(data)
        found = library.find(address.name)
        is_sweep = address.page == "run" and found is not None and found.is_sweep
        page = sweep.layout if is_sweep else _PAGES.get(address.page)
        if page is None:
            return html.Div([html.H1("There is no such page"), dcc.Link("to the runs", href="/")]), "No such page"
        # A new name makes the browser forget the page before, whose table and figures would keep their state.
        made = html.Div(page(library, address), id=f"view-{address.moment}")
        return made, " · ".join(filter(None, (printable(address.name), _TITLES[address.page])))

    runs.register(app, library)
    run.register(app, library)
    sweep.register(app, library)
    watch.register(app, library, live)
    downloads.install(app.server, library)

    def expect(response: Response) -> Response:
        """Begin to read what a page shows while the browser still loads its scripts."""
        if response.mimetype == "text/html":
            asked = {"pathname": request.path, "search": request.query_string.decode(errors="replace")}
            response.call_on_close(partial(library.expect, parse_address(asked).name))
        return response

    app.server.after_request(expect)
    Guard(host, token, tuple(app.csp_hashes())).install(app.server)
    return app


def _shell(library: Library) -> Any:
    return html.Div(
        [
            html.A("to the content", href="#page", className="skip"),
            html.Header(
                [
                    html.Strong("LASER", className="brand"),
                    html.Nav([dcc.Link("Runs", href="/"), dcc.Link("Watch", href="/watch")]),
                    html.Span(printable(str(library.root.absolute()), 80), className="quiet"),
                    html.Span("", id="connection", className="quiet", role="status"),
                    html.Button("Copy link", id="copy-link", type="button", title="copy the address of this view"),
                    html.Button("light / dark", id="theme-button", type="button", n_clicks=0),
                ],
                className="top",
            ),
            dcc.Store(id="address-start", data=True),
            dcc.Store(id="address"),
            dcc.Store(id="page-title"),
            dcc.Store(id="theme", storage_type="local"),
            html.Main(id="page", tabIndex="-1"),
        ]
    )


def _check_port(options: DashboardOptions) -> None:
    """Raise a one-line error about the address before the server starts, which would print a longer one."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            options.host.strip("[]"), options.port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        remedy = "choose another --port; 0 takes any free port"
        key = "host" if isinstance(error, socket.gaierror) else "port"
        what = f"{options.host}:{options.port}: {error.strerror or error}"
        raise CannotCreateError(key, what, remedy if key == "port" else "give an address of this machine") from error


class _Quiet(WSGIRequestHandler):
    """Request handler that does not log every request, and keeps connections open."""

    protocol_version = "HTTP/1.1"

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Log nothing: a page sends a request every second."""

    def log(self, type: str, message: str, *args: Any) -> None:
        """Print an error in one line on standard error."""
        if type == "error":
            print(f"dashboard: {message % args if args else message}"[:500], file=sys.stderr)


logging.getLogger("werkzeug").setLevel(logging.ERROR)
