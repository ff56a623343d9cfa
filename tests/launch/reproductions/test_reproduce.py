"""Reproductions from their commands to their pictures: stopped, gone on with, refused."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time

import pytest
from PIL import Image

from launch.__main__ import main
from launch.errors import CannotCreateError, OutputError
from launch.records.listing import _is_locked
from launch.records.metrics_db import MetricsDb
from launch.records.run_lock import locked
from launch.records.run_record import write_record
from launch.records.tick import Tick
from launch.reproductions import catalogue
from launch.reproductions.catalogue import load_figure
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.outcomes import choose_settings
from launch.reproductions.plan import make_plan, make_tuning
from launch.reproductions.reproduce import rules_for
from launch.reproductions.running import run_all
from launch.reproductions.state import Reproduction

FIGURE = "acer/figure-1"
SMALL = ReproduceOptions(small=True, seeds=1)


def begin(path, options=SMALL, name=FIGURE):
    figure = load_figure(name)
    runs = make_plan(figure, options)
    reproduction = Reproduction(path)
    reproduction.begin(figure, options, runs)
    return reproduction, runs


def wait_until(holds, seconds):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (ReproduceOptions(small=True, seeds=2), "seeds: {} was begun with seeds 1, not 2"),
        (ReproduceOptions(small=True, seeds=1, scale=0.9), "scale: {} was begun with scale 1.0, not 0.9"),
        (ReproduceOptions(seeds=1, scale=0.01), "scale: {} was begun with scale 1.0, not 0.01"),
        (ReproduceOptions(small=True), "seeds: {} was begun with seeds 1, not all"),
        (ReproduceOptions(small=True, seeds=1, preset="mini"), "preset: {} was begun without a preset, not with mini"),
    ],
)
def test_changed_settings_are_refused_in_one_line(tmp_path, options, words):
    begin(tmp_path / "out")
    begin(tmp_path / "out")  # the same again is no change
    with pytest.raises(CannotCreateError) as caught:
        begin(tmp_path / "out", options)
    assert str(caught.value) == (
        words.format(tmp_path / "out") + "; go on with the settings of before, or choose another --out"
    )


def test_other_figures_commands_rules_and_files_are_refused(tmp_path):
    begin(tmp_path / "out")
    with pytest.raises(CannotCreateError, match="holds runs of acer/figure-1, not of refer/figure-2"):
        begin(tmp_path / "out", name="refer/figure-2")
    record = tmp_path / "out" / "reproduction.json"
    then = json.loads(record.read_text())
    record.write_text(json.dumps({**then, "rules": {FIGURE: ["the area of ratio 4 is more"]}}))
    with pytest.raises(CannotCreateError, match="the rules of acer/figure-1 have changed since"):
        begin(tmp_path / "out")
    name = next(iter(then["commands"]))
    then["commands"][name].append("--seed")
    record.write_text(json.dumps(then))
    with pytest.raises(CannotCreateError, match=f"have changed since it was begun, {name} among them"):
        begin(tmp_path / "out")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x").touch()
    with pytest.raises(CannotCreateError, match="holds other files"):
        begin(tmp_path / "other")
    with pytest.raises(CannotCreateError, match="other/x is a file"):
        begin(tmp_path / "other" / "x")


def test_a_figure_may_use_the_runs_of_another(tmp_path):
    begin(tmp_path / "out", name="refer/figure-2")
    begin(tmp_path / "out", name="refer/figure-3")
    rules = json.loads((tmp_path / "out" / "reproduction.json").read_text())["rules"]
    assert set(rules) == {"refer/figure-2", "refer/figure-3"}


def test_a_run_without_a_checkpoint_begins_again(tmp_path):
    reproduction, runs = begin(tmp_path / "out")
    place = reproduction.run_dir(runs[0])
    (place / "checkpoints").mkdir(parents=True)
    assert reproduction.resume_or_clear(runs[0]) is False
    assert not place.exists()
    (place / "checkpoints" / "000100").mkdir(parents=True)
    assert reproduction.resume_or_clear(runs[0]) is True
    assert place.exists()


def test_a_run_that_still_trains_is_not_removed(tmp_path):
    """The command that began it was killed, and it has no checkpoint yet."""
    reproduction, runs = begin(tmp_path / "out")
    place = reproduction.run_dir(runs[0])
    place.mkdir(parents=True)
    said = []
    with locked(place, ""):
        failures = run_all(reproduction, runs[:1], 1, "", said.append)
    assert failures == {
        runs[0].name: f"out: {place} is in use by process {os.getpid()}; wait for it, or choose another --out"
    }
    assert place.exists()
    assert said[-1].startswith(f"failed: {runs[0].name}: out: ")


def test_two_commands_do_not_run_in_one_directory(tiny, tmp_path, capsys):
    arguments = ["reproduce", "laser/figure-1", "--small", "--out", str(tmp_path / "out")]
    figure, options = load_figure("laser/figure-1"), ReproduceOptions(small=True)
    reproduction = Reproduction(tmp_path / "out")
    reproduction.begin(figure, options, make_plan(figure, options))
    with reproduction.held():
        assert main(arguments) == 75
    assert f"out: {tmp_path / 'out'} is in use by process {os.getpid()}" in capsys.readouterr().err
    assert not (tmp_path / "out" / "runs").exists()


def test_a_run_whose_directory_is_gone_is_not_done(tmp_path):
    reproduction, runs = begin(tmp_path / "out")
    reproduction.run_dir(runs[0]).mkdir(parents=True)
    (reproduction.run_dir(runs[0]) / "config.json").touch()
    reproduction.set_done(runs[0], 1.0)
    assert reproduction.is_done(runs[0])
    shutil.rmtree(reproduction.run_dir(runs[0]))
    assert not reproduction.is_done(runs[0])


@pytest.mark.slow
def test_a_run_ends_with_the_command_that_began_it(tmp_path):
    """Else it trains on without anybody who notes its end, while the same command wants to go on with it."""
    out = tmp_path / "out"
    program = (
        "import dataclasses, sys; from pathlib import Path; from test_reproduce import begin; "
        "from launch.reproductions.running import run_all; "
        f"reproduction, (run, *_) = begin(Path({str(out)!r})); "
        "run = dataclasses.replace(run, words=[*run.words, '--steps', '100000000']); "
        "run_all(reproduction, [run], 1, '', print)"
    )
    here = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    process = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": here})
    _, (run, *_) = begin(out)
    log = Reproduction(out).run_dir(run) / "log.txt"
    wait_until(lambda: log.exists() and "first 100 updates" in log.read_text(), 100.0)
    process.kill()
    process.wait()
    wait_until(lambda: "stopped" in log.read_text(), 60.0)
    wait_until(lambda: not _is_locked(log.parent / "lock"), 60.0)


def test_what_is_too_short_is_left_out_of_several_figures(tiny, capsys):
    (tiny / "laser" / "figure-2.toml").write_text(TINY.replace("steps = 1_000_000", "steps = 20_000"))
    catalogue.load_figure.cache_clear()
    assert main(["reproduce", "laser", "--scale", "0.001", "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "left out: laser/figure-2: scale: 0.001 leaves 20 env steps" in captured.err
    assert "# laser/figure-1: " in captured.out
    assert "# laser/figure-2: " not in captured.out
    assert main(["reproduce", "laser", "--scale", "0.00001", "--dry-run"]) == 2
    assert main(["reproduce", "laser/figure-2", "--scale", "0.001", "--dry-run"]) == 2


def test_commands_of_a_dry_run_go_to_the_cluster(tiny, capsys):
    assert main(["reproduce", "laser/figure-1", "--small", "--dry-run", "--ray-address", "10.0.0.1:6379"]) == 0
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("laser ")]
    assert commands
    assert all(line.endswith(" --ray-address 10.0.0.1:6379") for line in commands)


def test_a_cluster_that_does_not_answer_is_one_line_before_anything_is_made(tiny, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with socket.socket() as nobody:  # bound, so that nothing else listens there
        nobody.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{nobody.getsockname()[1]}"
        assert main(["reproduce", "laser/figure-1", "--small", "--ray-address", address]) == 1
    assert f"error: ray-address: {address} cannot be reached: Connection refused" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_thresholds_of_the_paper_are_about_its_games_scores_and_steps():
    figure = load_figure("laser/figure-1")

    def has_value(normalised=True, **options):
        return any(rule.compare == "value" for rule in rules_for(figure, ReproduceOptions(**options), normalised))

    assert has_value()
    assert has_value(seeds=1, arms="one shared replay")
    assert not has_value(normalised=False)
    assert not any(has_value(**{key: value}) for key, value in {"scale": 0.5, "games": 1, "preset": "mini"}.items())
    assert not has_value(env="CartPole-v1")


def test_a_list_refuses_what_it_would_ignore(capsys):
    assert main(["reproduce", "list", "laser", "--scale", "0.1", "--small"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in errors if line.startswith("error:")] == [
        "error: scale: has no effect on list",
        "error: small: has no effect on list",
    ]


def test_an_unknown_preset_is_one_line_for_several_figures(tiny, capsys):
    (tiny / "laser" / "figure-2.toml").write_text(TINY)
    assert main(["reproduce", "laser", "--preset", "cartpol", "--dry-run"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "error: preset: there is no preset 'cartpol'; did you mean cartpole?"
    ]


def test_a_child_has_its_directory_the_cluster_and_whether_it_goes_on(tmp_path, monkeypatch):
    reproduction, runs = begin(tmp_path / "out")
    started = []

    class Child:
        returncode = 0

        def __init__(self, words, **options):
            started.append(words[3:])

        def poll(self):
            return 0

    monkeypatch.setattr(subprocess, "Popen", Child)
    reproduction.set_done(runs[2], 1.0)
    for run in runs:
        reproduction.run_dir(run).mkdir(parents=True, exist_ok=True)
        (reproduction.run_dir(run) / "config.json").touch()
    monkeypatch.setattr(reproduction, "resume_or_clear", lambda run: run is runs[1])
    assert run_all(reproduction, runs, 2, "10.0.0.1:6379", lambda text: None) == {}
    assert len(started) == len(runs) - 1
    assert started[0] == [
        *(*runs[0].words, "--run-dir", str(reproduction.run_dir(runs[0])), "--quiet"),
        *("--ray-address", "10.0.0.1:6379"),
    ]
    assert "--resume" in started[1]
    assert all(reproduction.is_done(run) for run in runs)
    assert run_all(reproduction, runs, 2, "", lambda text: None) == {}
    assert len(started) == len(runs) - 1


def test_the_commits_are_those_of_the_runs_and_not_of_who_draws_them(tmp_path, monkeypatch):
    reproduction, runs = begin(tmp_path / "out")
    for run, commit in zip(runs[:4], ["a", "b", "a", None], strict=True):
        place = reproduction.run_dir(run)
        monkeypatch.setattr("launch.records.run_record.commit_of_sources", lambda commit=commit: commit)
        place.mkdir(parents=True)
        write_record(place, run.config, [], {})
        reproduction.set_done(run, 1.0)
    assert reproduction.commits(runs) == ["a", "b"]


TINY = """
title = "Tiny"
shows = "Nothing."
numbers = [{ arm = "one", game = "CartPole-v1", value = 500.0 }, { arm = "another", value = 1.0, note = "cited" }]

[paper]
preset = "acer_cartpole"
games = ["CartPole-v1"]
steps = 1_000_000
seeds = 3

[small]
preset = "acer_cartpole"
games = ["CartPole-v1"]
steps = 3_000
seeds = 1

[[arms]]
label = "one"

[[arms]]
label = "both"
grid = { "algorithm.learning-rate" = [1e-3, 2e-3] }
share = true

[[curves]]
metric = "charts/mean_return"
title = "return"

[[rules]]
claim = "both are better"
arm = "both"
than = "one"

[[rules]]
claim = "one solves it"
arm = "one"
compare = "value"
threshold = 475.0
"""


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A figure of two arms, one of them a sweep, as another folder's only file."""
    folder = tmp_path / "figures"
    (folder / "laser").mkdir(parents=True)
    (folder / "laser" / "figure-1.toml").write_text(TINY)
    monkeypatch.setattr(catalogue, "_HERE", folder)
    load_figure.cache_clear()
    monkeypatch.chdir(tmp_path)
    yield folder
    load_figure.cache_clear()


@pytest.mark.slow
def test_a_reproduction_runs_to_its_end_and_is_not_run_twice(tiny, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["reproduce", "laser/figure-1", "--small", "--jobs", "2", "--out", str(out), "--json"]
    assert main(arguments) == 0
    captured = capsys.readouterr()
    (content,) = json.loads(captured.out.splitlines()[-1])["figures"]
    assert content["failures"] == {}
    assert [row["arm"] for row in content["table"]] == ["one", "both", "another"]
    assert content["table"][0]["the paper"] == "500"
    assert content["table"][2]["the paper"] == "1 (cited)"
    assert float(content["table"][0]["last tenth (95 %)"]) > 10.0
    # The rule about a value is of the paper's games; one run has no interval that decides.
    assert [item["verdict"] for item in content["verdicts"]] == ["undecided"]
    assert "smallest size" in content["note"]
    assert (out / "figure-1" / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "smallest size" in (out / "figure-1" / "report.html").read_text()
    members = sorted(path.name for path in (out / "runs" / "both-cartpole-v1-seed1" / "members").iterdir())
    assert members == ["0", "1"]
    marks = {path: path.stat().st_mtime_ns for path in (out / "runs").glob("*/log.txt")}
    assert len(marks) == 2
    assert main(arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in marks} == marks
    assert "1 of 2" not in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(300)  # processes that import torch, one after the other
def test_a_stopped_reproduction_goes_on_where_it_was(tiny, tmp_path):
    text = TINY.replace("steps = 3_000", "steps = 12_000")
    (tiny / "laser" / "figure-1.toml").write_text(
        text.partition('[[arms]]\nlabel = "both"')[0]
        + """
[[arms]]
label = "both"
length = 0.1

[[curves]]
metric = "charts/mean_return"
title = "return"

[[rules]]
claim = "both are better"
arm = "both"
than = "one"
"""
    )
    out = tmp_path / "out"
    program = (
        "import sys; from pathlib import Path; from launch.reproductions import catalogue; "
        f"catalogue._HERE = Path({str(tiny)!r}); from launch.__main__ import main; "
        f"sys.exit(main(['reproduce', 'laser/figure-1', '--small', '--out', {str(out)!r}]))"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    metrics = out / "runs" / "one-cartpole-v1-seed1" / "metrics.db"
    deadline = time.monotonic() + 100.0
    while not metrics.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert metrics.exists()
    time.sleep(1.0)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120.0)
    assert process.returncode == 130
    assert "2 runs are left in" in errors
    assert "the same command goes on with them" in errors
    checkpoints = list((out / "runs" / "one-cartpole-v1-seed1" / "checkpoints").glob("[0-9]*"))
    assert checkpoints, "the child saved no checkpoint"
    assert not (out / "done").exists() or not list((out / "done").iterdir())
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True, check=False, timeout=200)
    assert done.returncode == 0, done.stderr
    log = (out / "runs" / "one-cartpole-v1-seed1" / "log.txt").read_text()
    assert "resumed" in log
    assert (out / "figure-1" / "figure.png").exists()
    assert os.listdir(out / "done")
    assert len(os.listdir(out / "done")) == 2


def test_tuning_takes_the_setting_with_the_largest_median_area(tiny, tmp_path):
    text = TINY.replace(
        "[[curves]]", '[tune]\ngrid = { "algorithm.learning-rate" = [1e-3, 2e-3] }\nseeds = 3\n\n[[curves]]'
    )
    (tiny / "laser" / "figure-1.toml").write_text(text)
    figure = load_figure("laser/figure-1")
    tuning = [run for run in make_tuning(figure, ReproduceOptions()) if run.arm == "one"]
    places = {}
    for run, level in zip(tuning, (1.0, 1.0, 90.0, 2.0, 2.0, 2.0), strict=True):  # medians 1 and 2, means 31 and 2
        places[run.name] = tmp_path / run.name
        places[run.name].mkdir()
        with MetricsDb(places[run.name] / "metrics.db") as metrics:
            metrics.write(Tick(1.0, 1.0, 1000, 1000, 1), {"charts/mean_return": level})
    chosen = choose_settings(figure, tuning, places, small=False)
    assert chosen == {("one", "CartPole-v1"): {"algorithm.learning-rate": 2e-3}}
    with pytest.raises(OutputError, match="no run of its tuning is finished"):
        choose_settings(figure, tuning, {}, small=False)


@pytest.mark.slow
def test_a_run_that_fails_is_named_and_the_others_are_drawn(tiny, tmp_path, capsys):
    out = tmp_path / "out"
    figure = load_figure("laser/figure-1")
    options = ReproduceOptions(small=True)
    reproduction = Reproduction(out)
    reproduction.begin(figure, options, make_plan(figure, options))
    place = out / "runs" / "one-cartpole-v1-seed1" / "checkpoints" / "000001"
    place.mkdir(parents=True)  # a checkpoint, and nothing to continue from
    assert main(["reproduce", "laser/figure-1", "--small", "--jobs", "2", "--out", str(out)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1].startswith("error: reproduce: 1 run failed, laser/figure-1 one-cartpole-v1-seed1 among them: ")
    content = json.loads((out / "figure-1" / "results.json").read_text())
    assert list(content["failures"]) == ["one-cartpole-v1-seed1"]
    assert content["table"][0]["last tenth (95 %)"] == "no finished runs"
    assert content["curves"]["charts/mean_return | one | CartPole-v1"] == [None]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("name", "scale"),
    [
        ("laser/figure-1", 1.0),
        ("acer/figure-3", 0.5),
        ("acer/figure-6", 0.25),  # eight members
        ("reactor/figure-5", 0.5),
        ("refer/figure-11", 0.25),
        ("ners/table-3", 0.25),
        ("claims/replay-fraction", 1.0),
        ("claims/mixed-sweep", 1.0),
    ],
)
def test_a_figure_of_each_kind_runs_to_its_end(name, scale, tmp_path, capsys):
    out = tmp_path / "out"
    arguments = ["reproduce", name, "--small", "--seeds", "1", "--games", "1", "--scale", str(scale)]
    assert main([*arguments, "--jobs", "2", "--out", str(out), "--json"]) == 0
    (content,) = json.loads(capsys.readouterr().out.splitlines()[-1])["figures"]
    figure = load_figure(name)
    assert content["failures"] == {}
    rules = [rule for rule in figure.rules if rule.compare != "value"]  # those are of the paper's games
    assert len(content["verdicts"]) == len(rules)
    assert {row["arm"] for row in content["table"] if row["metric"] == figure.curves[0].metric} >= {
        arm.label for arm in figure.arms
    }
    ours = [row for row in content["table"] if row["arm"] in {arm.label for arm in figure.arms}]
    assert not [row for row in ours if row["last tenth (95 %)"] == "no finished runs"]
    assert all(item["num"] > 0 for item in content["verdicts"])
    picture = Image.open(out / name.partition("/")[2] / "figure.png")
    assert picture.width > 300
    assert len(picture.convert("RGB").getcolors(1 << 24)) > 10, "an empty picture"
    page = (out / name.partition("/")[2] / "report.html").read_text()
    assert page.count('<source media="(prefers-color-scheme: dark)"') == 1
