import pytest
from flask import Flask

from launch.dashboard.guard import Guard, host_name, is_loopback

OURS = {"origin": None, "site": None, "mode": None}


@pytest.mark.parametrize("host", ["127.0.0.1:8050", "localhost:9000", "[::1]:8050", "LOCALHOST"])
def test_our_own_names_are_answered_whatever_the_port(host) -> None:
    assert Guard().refusal("GET", "/", host, **OURS) == ""


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8050", "127.0.0.1.evil.example", "10.0.0.7:8050", "", "[", "localhost@evil"]
)
def test_foreign_names_are_refused(host) -> None:
    assert "not called" in Guard().refusal("GET", "/", host, **OURS)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "http://localhost:1", "null", "http://127.0.0.1", "http://["]
)
def test_foreign_origins_are_refused(origin) -> None:
    refused = Guard().refusal("POST", "/_dash-update-component", "127.0.0.1:8050", origin, None, None)
    assert "other sites" in refused


def test_our_own_origin_may_ask_for_an_update_and_for_nothing_else() -> None:
    ours = ("127.0.0.1:8050", "http://127.0.0.1:8050", "same-origin", "cors")
    assert Guard().refusal("POST", "/_dash-update-component", *ours) == ""
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        assert Guard().refusal(method, "/csv", *ours) == "this dashboard only reads"


def test_other_sites_may_link_here_but_not_embed() -> None:
    assert Guard().refusal("GET", "/", "localhost", None, "cross-site", "navigate") == ""
    for mode in ("no-cors", "cors", None):
        assert "other sites" in Guard().refusal("GET", "/video", "localhost", None, "cross-site", mode)


def test_beyond_this_machine_numbers_of_ours_are_answered_and_names_are_not() -> None:
    guard = Guard(host="0.0.0.0", token="t" * 20)
    assert guard.refusal("GET", "/", "192.168.1.5:8050", **OURS) == ""
    assert "not called" in guard.refusal("GET", "/", "evil.example:8050", **OURS)


def test_with_a_token_nothing_is_answered_without_it() -> None:
    server = Flask("test")
    server.get("/")(lambda: "hello")
    Guard(host="0.0.0.0", token="a-long-secret-token").install(server)
    client = server.test_client()
    assert client.get("/", headers={"Host": "localhost"}).status_code == 401
    assert client.get("/?token=another", headers={"Host": "localhost"}).status_code == 401
    answer = client.get("/?token=a-long-secret-token", headers={"Host": "localhost"})
    assert answer.status_code == 302
    assert answer.headers["Location"] == "/"
    view = client.get("/?run=a&run=b%26&token=a-long-secret-token", headers={"Host": "localhost"})
    assert view.headers["Location"] == "/?run=a&run=b%26"  # a shared view stays as it is, without the token
    assert "HttpOnly" in answer.headers["Set-Cookie"]
    assert "SameSite=Strict" in answer.headers["Set-Cookie"]
    assert client.get("/", headers={"Host": "localhost"}).text == "hello"
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403


def test_answers_forbid_everything_foreign() -> None:
    server = Flask("test")
    server.get("/")(lambda: "hello")
    Guard().install(server)
    headers = server.test_client().get("/", headers={"Host": "localhost"}).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "http" not in policy
    assert "frame-ancestors 'none'" in policy
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_names_in_host_headers() -> None:
    assert host_name("A.b:80") == "a.b"
    assert host_name("[::1]:80") == "::1"
    assert host_name("[oops") == ""


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("pc", False)],
)
def test_loopback(host, expected) -> None:
    assert is_loopback(host) is expected
