"""The app without a browser: what it answers, what it refuses, what it makes of requests that no page would send."""

import csv
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from laser.config import ConfigError
from launch.command_line.cli import run
from launch.dashboard import scripts
from launch.dashboard.checked import MOST_RUNS
from launch.dashboard.library import Library
from launch.dashboard.live import LiveStoppedError, LiveView
from launch.dashboard.notes import FILE_NAME
from launch.dashboard.options import DashboardOptions
from launch.dashboard.scripts import HINT
from launch.dashboard.server import make_app, open_server, serve
from launch.errors import CannotCreateError, NothingToResumeError
from launch.records.lineage import Decision, Lineage
from launch.records.listing import find_entries

HOSTILE = "<img src=x onerror=alert(1)>"
NASTY: tuple[Any, ...] = (None, True, -1, 1e400, "../../etc/passwd", HOSTILE, [], ["x"], [{"key": "../.."}], {}, [[1]])


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    root, make_run = shared_runs
    rows = [{"charts/mean_return": float(place), HOSTILE: 1.0, "entropy": 0.5} for place in range(20)]
    make_run(HOSTILE, rows)
    make_run("=SUM(A1)", rows)
    make_run("damaged", rows)
    (root / "damaged/metrics.db").write_bytes(b"nothing good" * 100)
    make_run("empty")
    make_run("sweep", facts={"sweep": {"grid": {"algorithm.learning-rate": ["0.1"]}, "options": {"pbt": True}}})
    make_run("sweep/members/0", rows, facts={"member": {"index": 0, "overrides": {}}})
    videos = root / HOSTILE / "videos"
    videos.mkdir()
    (videos / "evaluation-000000100.mp4").write_bytes(bytes(range(200)))
    (root / HOSTILE / "secret.mp4").write_bytes(b"not a video of a run")
    return root


@pytest.fixture(scope="module")
def app(root: Path):
    return make_app(Library(root), LiveView(command=(sys.executable, "-c", "pass")))


def keys(root: Path) -> dict[str, str]:
    return {entry.name: entry.key for entry in find_entries(root).values()}


def get(app, address: str, **headers: str):
    return app.server.test_client().get(address, headers={"Host": "localhost"} | headers)


@pytest.mark.parametrize(
    ("address", "expected"),
    [("/", [""]), ("/sweep/sweep?curves=runs", ["sweep"]), ("/run?key=abc", ["abc"]), ("/_dash-layout", [])],
)
def test_a_page_is_read_for_as_soon_as_its_address_is_opened(root, monkeypatch, address, expected) -> None:
    library = Library(root)
    asked: list[str] = []
    monkeypatch.setattr(library, "expect", asked.append)
    app = make_app(library, LiveView(command=(sys.executable, "-c", "pass")))
    get(app, address).close()
    get(app, address, Host="elsewhere.example").close()  # a refused request reads nothing
    assert asked == expected


def post(app, callback: str, inputs: list[Any], state: list[Any], changed: str, outputs: Any) -> Any:
    body = {"output": callback, "outputs": outputs, "inputs": inputs, "state": state, "changedPropIds": [changed]}
    return app.server.test_client().post("/_dash-update-component", json=body, headers={"Host": "localhost"})


def outputs_of(callback: str) -> Any:
    def one(text: str) -> dict[str, Any]:
        name, _, prop = text.rpartition(".")
        return {"id": name, "property": prop.partition("@")[0]}

    if not callback.startswith(".."):
        return one(callback)
    found: list[Any] = []
    for part in callback.strip(".").split("..."):
        if part.startswith("{"):
            prop = part.rpartition(".")[2]
            found.append([{"id": {"panel": "return"}, "property": prop}])
        else:
            found.append(one(part))
    return found


def call(app, callback: str, values: dict[str, Any], default: Any, changed: str = "") -> Any:
    spec = app.callback_map[callback]

    def filled(items: list[dict[str, str]]) -> list[Any]:
        found: list[Any] = []
        for item in items:
            name = f"{item['id']}.{item['property']}"
            if item["id"].startswith("{"):
                found.append([{"id": {"panel": "return"}, "property": item["property"], "value": {"panel": "return"}}])
            else:
                found.append(item | {"value": values.get(name, default)})
        return found

    inputs, state = filled(spec["inputs"]), filled(spec["state"])
    changed = changed or f"{inputs[0]['id']}.{inputs[0]['property']}"
    return post(app, callback, inputs, state, changed, outputs_of(callback))


def server_callbacks(app) -> list[str]:
    return [name for name, spec in app.callback_map.items() if spec.get("callback")]


def test_every_page_is_made_and_holds_no_markup_of_ours(app, root) -> None:
    found = keys(root)
    pages = [
        ("/", ""),
        ("/watch", ""),
        *(("/run", f"?key={key}") for key in found.values()),
        *(("/sweep", f"?key={key}") for key in found.values()),
        ("/run", "?key=../../etc/passwd"),
        *(("/run/" + quote(name), "?axis=seconds&metric=loss&smoothing=7&shut=learning&zoom=[") for name in found),
        *(("/watch/" + quote(name), "") for name in found),
        ("/nonsense", ""),
    ]
    for pathname, search in pages:
        page = next(name for name in server_callbacks(app) if "page.children" in name)
        answer = call(app, page, {"address.data": {"pathname": pathname, "search": search}}, None)
        assert answer.status_code == 200, (pathname, search)
        tree = json.dumps(answer.json)
        assert "dangerously" not in tree
        assert '"Markdown"' not in tree


@pytest.mark.parametrize("value", NASTY, ids=repr)
def test_whatever_a_request_holds_it_is_answered_and_changes_nothing(app, root, value) -> None:
    found = keys(root)
    named = {"run-key.data": found[HOSTILE], "sweep-key.data": found["sweep"], "live-run.value": found["empty"]}
    before = files(root)
    callbacks = server_callbacks(app)
    assert len(callbacks) > 8
    for callback in callbacks:
        for values in ({}, {"theme.data": "dark"}, {"theme.data": "dark", **named}):
            answer = call(app, callback, values, value)
            assert answer.status_code in (200, 204), callback
    assert files(root) == before


def files(root: Path) -> list[tuple[str, int]]:
    """Everything below a directory with its time, without the file in which the dashboard keeps notes."""
    return sorted((str(path), path.stat().st_mtime_ns) for path in root.rglob("*") if path != root / FILE_NAME)


def test_a_run_is_shown_with_its_numbers_and_nothing_is_sent_twice(app, root) -> None:
    tell = next(name for name in server_callbacks(app) if "run-seen" in name)
    values = {"run-key.data": keys(root)[HOSTILE], "theme.data": "light"}
    answer = call(app, tell, values, None).json["response"]
    assert '"19"' in json.dumps(answer["tiles"])
    assert "finished" in answer["status"]["children"]
    marks = answer["run-seen"]["data"]
    assert call(app, tell, values | {"run-seen.data": marks}, None).status_code == 204
    # Of the words only those are sent that differ from what the page has.
    changed = call(app, tell, values | {"run-seen.data": [*marks[:3], 0, *marks[4:]]}, None).json["response"]
    assert changed == {"tiles": answer["tiles"], "run-seen": {"data": marks}}

    panels = next(name for name in server_callbacks(app) if "run-drawn" in name)
    answer = call(app, panels, values, None).json["response"]
    figure = answer['{"panel":"return"}']["figure"]
    assert [trace["name"] for trace in figure["data"]] == ["last 20 episodes"]
    drawn = {"run-drawn.data": answer["run-drawn"]["data"], "run-clock.data": {"visible": ["return"]}}
    assert call(app, panels, values | drawn, None, changed="run-clock.data").status_code == 204
    stale = drawn | {"run-drawn.data": {"return": "another state"}}
    answer = call(app, panels, values | stale, None, changed="run-clock.data").json["response"]
    assert answer['{"panel":"return"}']["figure"] == figure
    unseen = stale | {"run-clock.data": {"visible": ["losses"]}}
    assert call(app, panels, values | unseen, None, changed="run-clock.data").status_code == 204


class Playing(LiveView):
    """A view whose player always answers with the same step."""

    playing = ""

    def steps(self, key: str, number: int, patience_s: float = 0.0) -> list[dict[str, Any]]:
        self.playing = key
        step = {"env": "CartPole-v1", "step": 7, "episode": 1, "checkpoint_step": 100, "png": ""}
        return [step | dict.fromkeys(("value", "reward", "learned_reward", "return"), 0.5)]


def test_an_answer_of_the_player_that_comes_late_does_not_replace_that_it_was_stopped(root) -> None:
    app = make_app(Library(root), Playing())
    play = next(name for name in server_callbacks(app) if "live-picture.src" in name)
    values = {"live-run.value": keys(root)["empty"], "theme.data": "light"}
    first = call(app, play, values, None).json["response"]
    assert first["live-said"]["children"].startswith("empty: CartPole-v1, checkpoint of 100 env steps")
    # Asked while the page said so; meanwhile it may have come to say "stopped".
    later = call(app, play, values | {"live-said.children": first["live-said"]["children"]}, None).json["response"]
    assert later["live-picture"]["alt"] == "step 7 of episode 1"
    assert "live-said" not in later


def test_a_step_that_was_asked_for_before_a_stop_and_comes_after_it_says_stopped_too(root, monkeypatch) -> None:
    live = Playing()

    def stopped(key: str, number: int, patience_s: float = 0.0) -> Any:
        raise LiveStoppedError("it was stopped")

    monkeypatch.setattr(live, "steps", stopped)
    app = make_app(Library(root), live)
    play = next(name for name in server_callbacks(app) if "live-picture.src" in name)
    answer = call(app, play, {"live-run.value": keys(root)["empty"], "theme.data": "light"}, None).json["response"]
    assert answer == {"live-said": {"children": "stopped"}, "live-clock-ticks": {"data-stopped": True}}


def test_a_sweep_is_shown_with_its_members_and_nothing_is_sent_twice(app, root) -> None:
    values = {"sweep-key.data": keys(root)["sweep"], "theme.data": "light"}
    tell = next(name for name in server_callbacks(app) if "sweep-seen" in name)
    answer = call(app, tell, values, None).json["response"]
    assert [row["return"] for row in answer["members"]["rowData"]] == [19.0]
    seen = {"sweep-seen.data": answer["sweep-seen"]["data"]}
    assert call(app, tell, values | seen, None).status_code == 204

    draw = next(name for name in server_callbacks(app) if "sweep-drawn" in name)
    answer = call(app, draw, values, None).json["response"]
    assert [trace["name"] for trace in answer["sweep-curves"]["figure"]["data"]] == ["member 0"]
    drawn = {"sweep-drawn.data": answer["sweep-drawn"]["data"]}
    assert call(app, draw, values | drawn, None).status_code == 204
    dark = call(app, draw, values | drawn | {"theme.data": "dark"}, None).json["response"]
    assert dark["sweep-curves"]["figure"] != answer["sweep-curves"]["figure"]


def test_a_population_that_decided_is_drawn_anew(tmp_path, make_run) -> None:
    path = make_run("sweep", facts={"sweep": {"grid": {}, "options": {"pbt": True}}})
    make_run("sweep/members/0", facts={"member": {"index": 0, "overrides": {}}})
    app = make_app(Library(tmp_path / "runs"), LiveView(command=(sys.executable, "-c", "pass")))
    values = {"sweep-key.data": keys(tmp_path / "runs")["sweep"], "theme.data": "light"}
    draw = next(name for name in server_callbacks(app) if "lineage-drawn" in name)
    answer = call(app, draw, values, None).json["response"]
    drawn = {"lineage-drawn.data": answer["lineage-drawn"]["data"]}
    assert call(app, draw, values | drawn, None).status_code == 204
    Lineage(path / "lineage.jsonl").add(Decision(10, 1, 0, None, {0: 1.0}, {"algorithm.entropy-cost": 0.1}))
    lineage = call(app, draw, values | drawn, None).json["response"]["lineage"]
    assert lineage != answer["lineage"]


def test_a_damaged_run_says_so(app, root) -> None:
    callback = next(name for name in server_callbacks(app) if "run-seen" in name)
    values = {"run-key.data": keys(root)["damaged"], "theme.data": "light"}
    answer = call(app, callback, values, None).json["response"]
    assert "metrics.db cannot be read" in json.dumps(answer["findings"])


def test_points_come_as_csv_and_are_no_formulas(app, root) -> None:
    found = keys(root)
    text = get(app, f"/csv?runs={found['=SUM(A1)']},{found[HOSTILE]},{found['damaged']}&metric=charts/mean_return").text
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0][:3] == ["run", "metric", "env_steps"]
    assert len(rows) == 1 + 20 + 20 + 1
    assert rows[1] == ["'=SUM(A1)", "charts/mean_return", "0", "0", "0", "0.0", "1700000000.0", "0.0"]
    assert rows[21][0] == HOSTILE
    assert rows[-1][1].startswith("metrics.db cannot be read")
    assert get(app, "/csv?runs=nothing").status_code == 404


@pytest.mark.slow
def test_of_more_ticked_runs_than_a_comparison_draws_it_says_how_many_are_left_out(tmp_path, make_run) -> None:
    rows = [{"charts/mean_return": float(place)} for place in range(2)]
    first = make_run("run0000", rows)
    for number in range(1, MOST_RUNS + 3):
        shutil.copyfile(first / "metrics.db", make_run(f"run{number:04}", config={"seed": number}) / "metrics.db")
    root = tmp_path / "runs"
    app = make_app(Library(root), LiveView(command=(sys.executable, "-c", "pass")))
    compare = next(name for name in server_callbacks(app) if "comparison-seen" in name)
    found = keys(root)
    newest_first = [found[name] for name in sorted(found, reverse=True)]
    values: dict[str, Any] = {"table-view.data": {"ticked": newest_first, "kept": None, "out": 0}}
    values |= {"metric.value": ["charts/mean_return"], "theme.data": "light"}
    answer = call(app, compare, values, None).json["response"]

    drawn = sorted(found)[:1000]
    said = "1,000 of 1,003 runs drawn, the first of 1,003 that are ticked"
    assert answer["compared"]["children"] == said
    assert curves_of(answer) == drawn
    assert len(answer["legend"]["children"]) == 1000
    assert list(answer["drawn"]["data"]) == [found[name] for name in drawn], "the table shows other runs as drawn"
    assert answer["difference-title"]["children"] == "These 1,000 runs differ in 1 setting"
    points = list(csv.reader(io.StringIO(get(app, answer["all-points"]["href"]).text)))
    assert list(dict.fromkeys(row[0] for row in points[1:])) == drawn

    # Hidden are those that are drawn, too, whatever else is hidden and wherever it stands in the list.
    answer = call(app, compare, values | {"hidden.data": newest_first}, None).json["response"]
    assert answer["compared"]["children"] == f"{said}, 1,000 of them hidden"
    assert curves_of(answer) == []
    answer = call(app, compare, values | {"hidden.data": newest_first[:-1]}, None).json["response"]
    assert answer["compared"]["children"] == f"{said}, 999 of them hidden"
    assert curves_of(answer) == ["run0000"]


def curves_of(comparison: dict[str, Any]) -> list[str]:
    """Return the names of the curves that the only picture of a comparison draws."""

    def figures(part: Any) -> Iterator[Any]:
        if isinstance(part, dict) and "figure" in part:
            yield part["figure"]
        elif isinstance(part, (dict, list)):
            for each in part.values() if isinstance(part, dict) else part:
                yield from figures(each)

    (figure,) = figures(comparison["comparison"])
    return [trace["name"] for trace in figure["data"]]


def test_the_newest_videos_are_shown_and_the_others_counted(tmp_path, make_run) -> None:
    for number in range(27):
        videos = make_run(f"run {number}") / "videos"
        videos.mkdir()
        (videos / "evaluation.mp4").write_bytes(b"")
        os.utime(videos / "evaluation.mp4", (number, number))
    app = make_app(Library(tmp_path / "runs"), LiveView(command=(sys.executable, "-c", "pass")))
    oldest = keys(tmp_path / "runs")["run 0"]
    page = next(name for name in server_callbacks(app) if "page.children" in name)
    answer = call(app, page, {"address.data": {"pathname": "/watch", "search": f"?key={oldest}"}}, None)
    text = json.dumps(answer.json)
    assert text.count("/video?") == 24
    assert "3 more runs have videos" in text
    assert f"/video?run={oldest}" in text  # the one that was asked for comes first


def test_videos_are_served_by_name_and_in_parts(app, root) -> None:
    key = keys(root)[HOSTILE]
    with get(app, f"/video?run={key}&name=evaluation-000000100.mp4") as answer:
        assert answer.mimetype == "video/mp4"
        assert answer.data == bytes(range(200))
    with get(app, f"/video?run={key}&name=evaluation-000000100.mp4", Range="bytes=10-19") as part:
        assert part.status_code == 206
        assert part.data == bytes(range(10, 20))


@pytest.mark.parametrize("name", ["../secret.mp4", "secret.mp4", "/etc/passwd", "", "..", "%2e%2e/secret.mp4"])
def test_no_other_file_is_served(app, root, name) -> None:
    assert get(app, f"/video?run={keys(root)[HOSTILE]}&name={name}").status_code == 404
    assert get(app, f"/assets/../{name}").status_code in (404, 403)


def test_foreign_hosts_and_origins_and_methods_are_refused(app) -> None:
    client = app.server.test_client()
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
    assert client.get("/", headers={"Host": "localhost", "Origin": "http://evil.example"}).status_code == 403
    for method in ("put", "delete", "patch", "post"):
        assert getattr(client, method)("/csv", headers={"Host": "localhost"}).status_code == 405
    assert client.get("/", headers={"Host": "localhost"}).status_code == 200


def test_the_page_asks_nobody_else_for_anything(app) -> None:
    page = get(app, "/").text
    assert "http://" not in page
    assert "https://" not in page


def test_the_own_scripts_come_as_one_that_a_browser_keeps_and_dash_serves_none_of_them(app) -> None:
    page = get(app, "/").text
    (address,) = re.findall(r'<script src="(/scripts\.js\?m=\w{16})"></script>', page)
    assert "/assets/" not in re.sub(r"/assets/[^\"]*\.css", "", page)
    answer = get(app, address)
    assert answer.mimetype == "text/javascript"
    assert "max-age" in answer.headers["Cache-Control"]
    for path in (Path(scripts.__file__).parent / "assets").glob("*.js"):
        assert path.read_text() in answer.text


def test_large_scripts_carry_a_hint_to_compile_them_and_plotly_comes_first(app) -> None:
    addresses = re.findall(r'<script[^>]* src="([^"]+)"', get(app, "/").text)
    grid = next(address for address in addresses if "dash_ag_grid" in address)
    assert "plotly.min.js" in addresses[0]
    for address in (addresses[0], grid):
        response = get(app, address)
        assert response.data.startswith(HINT)
        assert response.content_length == len(response.data)
    other = next(address for address in addresses if "dash_renderer" in address)
    assert not get(app, other).data.startswith(HINT)


def test_a_run_that_appears_is_listed(app, root, shared_runs) -> None:
    make_run = shared_runs[1]
    callback = next(name for name in server_callbacks(app) if "table.rowData" in name)
    first = call(app, callback, {}, None).json["response"]["table"]["rowData"]
    make_run("later", [{"charts/mean_return": 5.0}])
    time.sleep(1.05)  # the listing is at most a second old
    then = call(app, callback, {}, None).json["response"]["table"]["rowData"]
    assert {row["name"] for row in then} - {row["name"] for row in first} == {"later"}


def test_a_port_in_use_is_one_line(tmp_path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(CannotCreateError, match=f"127.0.0.1:{port}: Address already in use") as caught:
            serve(tmp_path, DashboardOptions(port=port))
    assert "--port" in caught.value.problem.remedy


def test_a_directory_that_is_not_there_is_one_line(tmp_path) -> None:
    with pytest.raises(NothingToResumeError, match="there is no directory"):
        serve(tmp_path / "nothing", DashboardOptions())
    with pytest.raises(NothingToResumeError):
        run(["dashboard", str(tmp_path / "nothing")])


def test_an_address_that_is_not_ours_is_one_line(tmp_path) -> None:
    with pytest.raises(CannotCreateError, match=r"203\.0\.113\.7"):
        serve(tmp_path, DashboardOptions(host="203.0.113.7", port=0))


def test_mistakes_on_the_command_line_are_named_together() -> None:
    with pytest.raises(ConfigError) as caught:
        run(["dashboard", "a", "b", "--port", "70000", "--token", "short", "--nonsense", "1"])
    assert len(caught.value.problems) == 4


def test_beyond_this_machine_there_is_always_a_token(tmp_path) -> None:
    with open_server(tmp_path, DashboardOptions(port=0)) as (_, address):
        assert "token" not in address
    with open_server(tmp_path, DashboardOptions(host="0.0.0.0", port=0)) as (_, address):
        assert len(address.partition("?token=")[2]) >= 32
    token = "my-own-long-token"
    with open_server(tmp_path, DashboardOptions(host="0.0.0.0", port=0, token=token)) as (_, address):
        assert address.endswith("?token=" + token)


_WHILE_IMPORTING = """
import sys, threading, time
from pathlib import Path
from dash import html
from dash._utils import to_json
from launch.dashboard.options import DashboardOptions
from launch.dashboard.server import open_server
with open_server(Path(sys.argv[1]), DashboardOptions(port=0)):
    to_json(html.Div(html.Div()))  # the first call imports
    importing = threading.Thread(target=__import__, args=("sklearn.ensemble",))
    importing.start()
    while importing.is_alive():
        to_json(html.Div(html.Div()))
        time.sleep(0.002)
"""


@pytest.mark.slow
def test_pages_are_answered_while_scikit_learn_is_imported_for_the_importance_of_settings(tmp_path) -> None:
    done = subprocess.run([sys.executable, "-c", _WHILE_IMPORTING, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
