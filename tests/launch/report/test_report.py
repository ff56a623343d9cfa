"""Reports of real runs: what they say, that the command in them repeats the run, and that no name is taken for HTML."""

import base64
import dataclasses
import html
import json
import os
import re
import shlex
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest

from launch.command_line.arguments import parse_sweep, parse_train
from launch.command_line.cli import run
from launch.errors import run_reporting
from launch.presets import change, load_preset
from launch.records.lineage import Decision, Lineage
from launch.records.metrics_db import MetricsDb
from launch.records.run_record import read_record
from launch.records.settings_schedule import SettingsChange, write_changes
from launch.records.tick import Tick
from launch.report.options import ReportOptions
from launch.report.recorded import Recorded
from launch.report.repeating import sweep_command
from launch.report.report import report
from launch.sweeps.population import PbtConfig
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.sweep_record import sweep_from_json
from launch.train import train

HOSTILE = "<img src=x onerror=alert(1)> $\\frac{"
VALUES = {
    "steps": 400,
    "replay.min-steps": 256,
    "num_envs": 4,
    "quiet": True,
    "algorithm.learning-rate": 0.002,
    "evaluation.greedy": True,
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    root = tmp_path_factory.mktemp("runs")
    train(load_preset("cartpole", {**VALUES, "run_dir": str(root / HOSTILE)}), ["laser", "train", HOSTILE])
    base = change(load_preset("cartpole"), {**VALUES, "run_dir": str(root / "sweep")})
    sweep(SweepConfig(base, {"algorithm.entropy-cost": [0.01, 0.05]}, SweepOptions(seeds=2)), ["laser", "sweep"])
    return root


class Reader(HTMLParser):
    """Collects tags and whatever a browser would load."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.loaded, self.num_dark = set(), [], 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.num_dark += ("media", "(prefers-color-scheme: dark)") in attrs
        self.loaded += [value for name, value in attrs if name in ("src", "href", "srcset", "data", "action")]
        assert not any(name.startswith("on") for name, _ in attrs)


def words_of(page):
    text = page.read_text()
    return re.sub(r"data:image/png;base64,[\w+/=]+", "", text), Reader(text)


def assert_every_picture_has_a_dark_one(reader, num_pictures):
    pictures = [item for item in reader.loaded if item.startswith("data:image/png;base64,")]
    assert len(pictures) == len(set(pictures)) == 2 * num_pictures
    assert reader.num_dark == num_pictures > 0


def test_the_report_of_a_run_stands_by_itself(made, tmp_path):
    written = report(made / HOSTILE, ReportOptions(out=tmp_path / "out"))
    text, reader = words_of(written.page)
    assert not reader.tags & {"script", "link", "iframe", "object", "base", "form"}
    assert reader.loaded
    assert all(item.startswith("data:image/png;base64,") for item in reader.loaded)
    assert "&lt;img src=x onerror=alert(1)&gt;" in text
    assert "<img src=x" not in text
    assert "algorithm.learning-rate</td>" in text
    assert re.search(
        r"<td>CartPole-v1</td><td>training, newest episodes</td><td>\d+</td><td>[\d.]+</td><td>[\d.]+ to ", text
    )
    assert_every_picture_has_a_dark_one(reader, len(written.pictures))
    names = {path.name for path in written.pictures}
    assert {"return.png", "losses.png", "acceptance.png", "policy-lag.png"} <= names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in written.pictures)


def test_the_command_in_it_trains_the_same_again(made):
    recorded = Recorded(made / HOSTILE)
    words = shlex.split(recorded.repeat)
    assert words[:3] == ["laser", "train", "cartpole"]
    again = parse_train(words[2:])
    assert dataclasses.replace(again, run_dir=None) == dataclasses.replace(recorded.config, run_dir=None, quiet=False)


def test_the_commands_of_a_resumed_run_are_in_their_order(made, tmp_path):
    run = Path(shutil.copytree(made / HOSTILE, tmp_path / "run"))
    record = read_record(run)
    (first,) = record["history"]
    resumed = [{**first, "command": f"laser train --resume --steps {steps}"} for steps in (500, 500, 900)]
    record |= {"history": [first, *resumed], "command": resumed[-1]["command"]}
    (run / "config.json").write_text(json.dumps(record))
    text = report(run, ReportOptions()).page.read_text()
    assert f"The original command: {html.escape(first['command'])}" in text
    assert "It was resumed 3 times, and the command above has the settings of the last time:" in text
    assert "<pre>laser train --resume --steps 500\nlaser train --resume --steps 900</pre>" in text


def test_the_command_of_a_sweep_makes_the_same_members(made):
    recorded = Recorded(made / "sweep")
    words = shlex.split(recorded.repeat)
    assert words[:3] == ["laser", "sweep", "cartpole"]
    again = parse_sweep(words[2:])
    before = sweep_from_json(recorded.record, recorded.config)
    assert (again.grid, again.options, again.pbt) == (before.grid, before.options, before.pbt)
    assert dataclasses.replace(again.base, run_dir=None) == dataclasses.replace(before.base, run_dir=None, quiet=False)


@pytest.mark.parametrize(
    ("grid", "options", "pbt"),
    [
        ({"network.hidden-sizes": [(8,), (8, 9)]}, SweepOptions(seeds=3, share_replay=False), PbtConfig()),
        ({"algorithm.entropy-cost": [1e-7, 0.5]}, SweepOptions(seeds=2, pbt=True), PbtConfig(interval=77)),
    ],
)
def test_options_of_a_sweep_are_repeated(grid, options, pbt):
    base = load_preset("cartpole")
    record = {"sweep": SweepConfig(base, grid, options, pbt).to_json()}
    again = parse_sweep(shlex.split(sweep_command(record, base, {}))[2:])
    assert (again.grid, again.options, again.pbt) == (grid, options, pbt)


def test_zip_and_space_are_repeated():
    words = ["cartpole", "--zip", "algorithm.discount=0.9,0.8", "--zip", "network.hidden-sizes=(8,),(8,9)"]
    words += ["--space", "algorithm.learning-rate=log(1e-4,1e-2)", "--space", "algorithm.batch-size={16,32}"]
    before = parse_sweep([*words, "--sample", "3"])
    command = sweep_command({"sweep": before.to_json()}, before.base, {})
    assert parse_sweep(shlex.split(command)[2:]) == before


def test_the_report_of_a_sweep(made, tmp_path):
    path = tmp_path / "sweep"
    shutil.copytree(made / "sweep", path)
    (path / "members" / "3" / "metrics.db").write_bytes(b"no database")
    with (path / "members" / "1" / "log.txt").open("a") as log:
        log.write("2026-01-01 00:00:00 finished: pruned at 300 env steps\n")
    text, _ = words_of(report(path, ReportOptions()).page)
    assert text.count(" (pruned)</td>") == 1
    assert "<h2>Over seeds</h2>" in text
    assert "95 % interval over seeds" not in text  # that of two seeds would say nothing, and empty columns are left out
    assert "The best setting has the highest mean over its seeds: algorithm.entropy-cost=0.0" in text
    shutil.rmtree(path / "report")
    lineage = Lineage(path / "lineage.jsonl")
    lineage.add(Decision(200, 9, 1, 0, {0: 5.0, 1: 4.0}, {"algorithm.learning-rate": 0.001}))
    for member in range(4):
        changes = [SettingsChange(0, {"algorithm.learning-rate": 0.002})]
        changes += [SettingsChange(200, {"algorithm.learning-rate": 0.001})] if member != 3 else []
        write_changes(path / "members" / str(member) / "schedule.json", changes)
    written = report(path, ReportOptions())
    text, reader = words_of(written.page)
    assert_every_picture_has_a_dark_one(reader, 4)
    assert {picture.name for picture in written.pictures} == {"members.png", "best.png", "lineage.png", "schedule.png"}
    assert "4 members with one replay" in text
    assert "algorithm.entropy-cost=0.05" in text
    assert "Over seeds" not in text  # members of a population have no setting of their own
    assert "file is not a database" in text
    assert "1 of which copied another member" in text
    assert "<td>200</td><td>1</td><td>0</td>" in text
    assert "<td>200</td><td>0.001</td>" in text
    assert text.index("Members") < text.index("The best, member")
    best = int(re.search(r"The best, member (\d), by itself", text)[1])
    assert best != 3  # its numbers cannot be read
    assert f"--settings-schedule {path}/members/{best}/schedule.json" in text
    assert "<td>algorithm.learning-rate</td><td>0.002</td><td>0.001</td>" in text


@pytest.mark.parametrize("changes", [{"member": 3}, {"member": {"index": 1, "overrides": 3}}, {"config": {}}], ids=str)
def test_a_member_whose_record_has_another_form_is_listed_with_the_reason(made, tmp_path, changes):
    path = shutil.copytree(made / "sweep", tmp_path / "sweep")
    edit(path / "members" / "1", changes)
    text, _ = words_of(report(path, ReportOptions()).page)
    assert "members/1/config.json cannot be read: config.json." in text
    assert "4 members" in text


def edit(path, changes):
    record = path / "config.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | changes))


def test_settings_that_pbt_changed_are_shown_as_they_ended_and_repeated(made, tmp_path):
    run = tmp_path / "a run"
    shutil.copytree(made / HOSTILE, run)
    assert "--settings-schedule" not in Recorded(run).repeat
    changes = [SettingsChange(0, {"algorithm.learning-rate": 0.002, "algorithm.entropy-cost": 0.03})]
    write_changes(run / "schedule.json", [*changes, SettingsChange(200, {"algorithm.learning-rate": 0.001})])
    recorded = Recorded(run)
    assert recorded.ended_settings["algorithm.learning-rate"] == ("0.002", "0.001")
    ended = {
        "algorithm.learning-rate": 1e-5,
        "algorithm.optimizer-epsilon": recorded.config.algorithm.optimizer_epsilon,
    }
    write_changes(run / "schedule.json", [*changes, SettingsChange(200, ended)])
    again = Recorded(run).ended_settings
    assert again["algorithm.learning-rate"] == ("0.002", "1e-5")
    assert "algorithm.optimizer-epsilon" not in again
    words = shlex.split(recorded.repeat)
    assert words[-2:] == ["--settings-schedule", str(run / "schedule.json")]
    assert parse_train(words[2:]).settings_schedule == run / "schedule.json"


def test_a_report_holds_evaluations_and_the_newest_video_and_folds_its_settings(made, tmp_path):
    run = tmp_path / "filmed"
    shutil.copytree(made / HOSTILE, run)
    (run / "videos").mkdir()
    for place, name in enumerate(("evaluation-1.mp4", "evaluation-2.mp4")):
        (run / "videos" / name).write_bytes(name.encode())
        os.utime(run / "videos" / name, (place, place))
    with MetricsDb(run / "metrics.db") as metrics:
        for place in range(15):
            metrics.write(Tick(900.0 + place, 0.0, 1000 * place, 4, 5), {"evaluation/mean_return": float(place)})
    text, reader = words_of(report(run, ReportOptions()).page)
    (video,) = [item for item in reader.loaded if item.startswith("data:video/mp4")]
    assert base64.b64decode(video.partition(",")[2]) == b"evaluation-2.mp4"
    assert "<td>14,000</td><td>14</td>" in text
    assert "The last 12 of 15" in text
    assert "<details><summary>Config</summary>" in text
    assert "prefers-color-scheme: dark" in text
    assert "normalised</th>" not in text  # CartPole has no reference scores, so the column would be empty


def test_runs_are_compared_on_one_page(made, tmp_path, capsys):
    for seed, rate in ((0, 0.002), (1, 0.002), (2, 0.004)):
        path = tmp_path / f"run{seed}"
        shutil.copytree(made / HOSTILE, path)
        record = json.loads((path / "config.json").read_text())
        record["config"] |= {"seed": seed}
        record["config"]["algorithm"] |= {"learning_rate": rate}
        (path / "config.json").write_text(json.dumps(record))
    paths = [str(tmp_path / f"run{seed}") for seed in range(3)]
    assert run_reporting(lambda: run(["report", *paths, "--json"])) == 0
    written = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert written["page"] == str(tmp_path / "report" / "index.html")
    text, reader = words_of(tmp_path / "report" / "index.html")
    assert "Comparison of run0, run1, run2" in text
    assert_every_picture_has_a_dark_one(reader, len(written["pictures"]))
    assert all(item.startswith("data:image/png;base64,") for item in reader.loaded)
    assert "<td>algorithm.learning-rate</td><td>0.002</td><td>0.002</td><td>0.004</td>" in text
    differences = text.partition("The runs differ in")[2].partition("</table>")[0]
    assert re.findall(r"<tr><td>([^<]*)", differences) == ["algorithm.learning-rate"]
    assert re.search(r"<td>algorithm.learning-rate=0.002</td><td>[\d.]+, 2 seeds</td>", text)
    assert {"return.png", "losses.png"} <= {Path(name).name for name in written["pictures"]}
    assert run_reporting(lambda: run(["report", str(made / "sweep"), paths[0]])) == 66
    assert "is a sweep, and runs are compared; name its members" in capsys.readouterr().err
    assert run_reporting(lambda: run(["report", paths[0], paths[0]])) == 66
    assert "a run is named twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("break_it", "code", "says"),
    [
        (lambda path: shutil.rmtree(path), 66, "holds no run"),
        (lambda path: (path / "metrics.db").unlink(), 74, "metrics.db is missing"),
        (lambda path: (path / "metrics.db").write_bytes(b"x" * 5000), 74, "file is not a database"),
        (lambda path: (path / "config.json").write_text("{"), 66, "cannot be read"),
        (lambda path: edit(path, {"history": 3}), 66, "config.json.history must be a list, got 3"),
        (lambda path: edit(path, {"history": ["abc"]}), 66, "config.json.history[0] must be an object"),
        (lambda path: edit(path, {"versions": 3}), 66, "config.json.versions must be an object, got 3"),
        (lambda path: edit(path, {"sweep": 3}), 66, "config.json.sweep must be an object, got 3"),
        (lambda path: edit(path, {"sweep": {"grid": {}, "pbt": {}}}), 66, "config.json.sweep.options must be"),
        (lambda path: (path / "report").write_text(""), 73, "out: "),
    ],
)
def test_bad_input_is_one_line(made, tmp_path, capsys, break_it, code, says):
    path = tmp_path / "run"
    shutil.copytree(made / HOSTILE, path)
    break_it(path)
    assert run_reporting(lambda: run(["report", str(path)])) == code
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert says in line


def test_a_run_that_has_just_begun_has_a_report(made, tmp_path, capsys):
    path = tmp_path / "run"
    shutil.copytree(made / HOSTILE, path)
    shutil.rmtree(path / "checkpoints")
    assert run(["report", str(path), "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert "No episode had finished at the newest checkpoint." in words_of(path / "report" / "index.html")[0]
    assert result["page"].endswith("report/index.html")


def test_a_run_of_which_nothing_was_recorded_has_a_report(made, tmp_path):
    path = tmp_path / "run"
    shutil.copytree(made / HOSTILE, path)
    (path / "metrics.db").unlink()
    MetricsDb(path / "metrics.db").close()
    page = report(path, ReportOptions(quiet=True)).page
    assert "Nothing was recorded yet." in words_of(page)[0]
