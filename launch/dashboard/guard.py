"""Access control of the dashboard. Every request passes here before any other code handles it.

A foreign site that a user visits can make the browser send requests to 127.0.0.1. If the site's host name resolves to
127.0.0.1, it can even read the answers. So a request must name one of this machine's hosts, must not come from another
site, and can only read. From other machines a token is needed too.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

from flask import Flask, Response, redirect, request

COOKIE = "laser_dashboard"
_UPDATES = "/_dash-update-component"
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_MOST_BYTES = 2_000_000


@dataclass(frozen=True)
class Guard:
    """Checks requests, and adds security headers to responses.

    Args:
        host: address that the server is bound to.
        token: that requests must present; "" on loopback, where none is needed.
        inline_scripts: hashes of the page's own inline scripts, in quotes, for the content security policy.
    """

    host: str = "127.0.0.1"
    token: str = ""
    inline_scripts: tuple[str, ...] = ()
    names: frozenset[str] = field(default_factory=lambda: _LOOPBACK | {socket.gethostname().lower()})

    def install(self, server: Flask) -> None:
        """Put the guard before every request of a server."""
        server.config["MAX_CONTENT_LENGTH"] = _MOST_BYTES
        server.before_request(self._check)
        server.after_request(self._add_headers)

    def refusal(self, method: str, path: str, host: str, origin: str | None, site: str | None, mode: str | None) -> str:
        """Return why a request is refused, or "".

        Args:
            method: of the request.
            path: of the request.
            host: its Host header.
            origin: its Origin header, if any.
            site: its Sec-Fetch-Site header, if any.
            mode: its Sec-Fetch-Mode header, if any.
        """
        name = host_name(host)
        if not self._is_ours(name):
            return f"this dashboard is not called {name!r}"
        if origin is not None and _netloc(origin) != host.lower():
            return "requests from other sites are refused"
        # A link from another site may be followed; embedding and fetching are refused.
        if site in ("cross-site", "same-site") and mode != "navigate":
            return "requests from other sites are refused"
        if method not in ("GET", "HEAD") and not (method == "POST" and path == _UPDATES):
            return "this dashboard only reads"
        return ""

    def _is_ours(self, name: str) -> bool:
        if name in self.names or name == self.host.lower():
            return True
        # A server on all addresses may be reached by any numeric address; a foreign host name cannot look like one.
        return bool(self.token) and _is_address(name)

    def _check(self) -> Any:
        headers = request.headers
        refused = self.refusal(
            request.method,
            request.path,
            request.host,
            headers.get("Origin"),
            headers.get("Sec-Fetch-Site"),
            headers.get("Sec-Fetch-Mode"),
        )
        if refused:
            return Response(f"refused: {refused}\n", 405 if "only reads" in refused else 403, mimetype="text/plain")
        if not self.token:
            return None
        if self._is_token(request.args.get("token")):
            # Remove the token from the address bar, so that it does not end up in a screenshot or a bookmark.
            rest = [(name, value) for name, value in request.args.items(multi=True) if name != "token"]
            answer = redirect(request.path + (f"?{urlencode(rest)}" if rest else ""))
            answer.set_cookie(COOKIE, self.token, httponly=True, samesite="Strict", max_age=30 * 86400)
            return answer
        if self._is_token(request.cookies.get(COOKIE)):
            return None
        return Response("refused: open the address with ?token=... that laser dashboard printed\n", 401)

    def _is_token(self, text: str | None) -> bool:
        return text is not None and hmac.compare_digest(text.encode(), self.token.encode())

    def _add_headers(self, response: Response) -> Response:
        scripts = " ".join(self.inline_scripts)
        response.headers["Content-Security-Policy"] = (
            f"default-src 'self'; script-src 'self' {scripts}; style-src 'self' 'unsafe-inline'; "
            "img-src 'self' data: blob:; font-src 'self' data:; media-src 'self'; connect-src 'self'; "
            "object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
        response.headers["X-Content-Type-Options"] = "nosniff"
        response.headers["Referrer-Policy"] = "no-referrer"
        response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
        response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return response


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def new_token() -> str:
    """Return a new random token."""
    return secrets.token_urlsafe(24)


def host_name(host: str) -> str:
    """Return the host name of a Host header, without its port; "" if the header is invalid."""
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _netloc(origin: str) -> str:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return ""


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
