"""Sweeps over games as one thing: their commands, their directory, their result, and how a stopped one goes on."""

import json

import pytest
from PIL import Image

from laser.config import ConfigError
from laser.environments.named_sets import ATARI57, DMLAB30
from launch.__main__ import main
from launch.evaluation.several import evaluate_runs
from launch.reproductions import over_games
from launch.reproductions.games_options import GamesOptions, asks_for_games, take_options

GAMES = ("mini/Catch-v0", "mini/SparseCatch2-v0")
WORDS = ["mini", "--steps", "200", "--grid", "algorithm.learning-rate=1e-3,3e-3"]


@pytest.fixture
def begun(monkeypatch):
    """Names of the sweeps that were trained, in this process instead of one of their own; names in `fails` fail."""
    names, fails = [], set()

    def run_all(sweeps, runs, jobs, ray_address, say):
        failures = {}
        for run in [run for run in runs if not sweeps.is_done(run)]:
            names.append(run.name)
            if run.name in fails:
                failures[run.name] = "it broke"
                continue
            assert main([*run.words, "--run-dir", str(sweeps.run_dir(run)), "--quiet"]) == 0
            sweeps.set_done(run, 1.0)
        return failures

    monkeypatch.setattr(over_games, "run_all", run_all)
    run_all.names, run_all.fails = names, fails
    return run_all


def test_every_game_and_repeat_is_a_sweep_and_all_are_one_result(begun, tmp_path, capsys):
    words = [*WORDS, "--seed", "4", "--games", ",".join(GAMES), "--repeats", "2", "--run-dir", str(tmp_path / "all")]
    assert main(["sweep", *words, "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    places = [tmp_path / "all" / "runs" / name for name in begun.names]
    assert len(places) == 4
    records = [json.loads((place / "config.json").read_text()) for place in places]
    assert [record["config"]["env"] for record in records] == [*GAMES, *GAMES]
    assert [record["config"]["seed"] for record in records] == [4, 4, 5, 5]
    assert {record["sweep"]["options"]["share_replay"] for record in records} == {True}
    together = found["together"]
    assert together["games"] == list(GAMES)
    assert [len(repeat["run_dirs"]) for repeat in together["repeats"]] == [2, 2]
    assert all(repeat["num_agents"] == 2 for repeat in together["repeats"])
    assert "4 sweeps of 2 members, one replay per game" in printed.err
    assert json.loads((tmp_path / "all" / "results.json").read_text())["together"] == together
    with Image.open(tmp_path / "all" / "figure.png") as picture:
        assert picture.size[0] > 300
    page = (tmp_path / "all" / "report.html").read_text()
    assert page.count('<source media="(prefers-color-scheme: dark)"') == 1
    assert all(str(repeat["best"]) in page for repeat in together["repeats"])
    # laser eval reads the same sweeps: curves while training are the same, whatever episodes it plays.
    evaluated = evaluate_runs(places, episodes=2, quiet=True).to_json()["together"]
    assert evaluated["best_curve"] == together["best_curve"]
    # Nothing is left: the same command trains nothing more.
    assert main(["sweep", *words, "--quiet"]) == 0
    assert len(begun.names) == 4


def test_a_sweep_that_fails_is_named_and_the_same_command_tries_it_again(begun, tmp_path, capsys):
    words = [*WORDS, "--seed", "0", "--games", ",".join(GAMES), "--run-dir", str(tmp_path / "all")]
    begun.fails.add("sweep-mini-sparsecatch2-v0-seed0")
    assert main(["sweep", *words]) == 1
    printed = capsys.readouterr().err
    assert "1 of 2 sweeps failed, sweep-mini-sparsecatch2-v0-seed0 among them: it broke" in printed
    assert json.loads((tmp_path / "all" / "results.json").read_text())["together"]["games"] == [GAMES[0]]
    begun.fails.clear()
    assert main(["sweep", *words]) == 0
    assert begun.names.count("sweep-mini-catch-v0-seed0") == 1
    assert json.loads((tmp_path / "all" / "results.json").read_text())["together"]["games"] == list(GAMES)
    changed = [word.replace("200", "300") for word in words]
    assert main(["sweep", *changed]) == 73
    assert "have changed since it was begun" in capsys.readouterr().err


def test_repeats_need_no_games(begun, tmp_path, capsys):
    words = [*WORDS, "--env", GAMES[0], "--repeats=2", "--run-dir", str(tmp_path / "all")]
    assert main(["sweep", *words]) == 2
    assert "error: env: has no effect on several sweeps: --games names the environments" in capsys.readouterr().err
    assert main(["sweep", *[word for word in words if word not in ("--env", GAMES[0])]]) == 0
    assert "mini/Catch-v0, 2 repeats with one sweep of each" in capsys.readouterr().err
    assert len(begun.names) == 2


def test_sets_are_their_games():
    assert over_games.ids_of(GamesOptions(games="atari57"), "") == list(ATARI57)
    assert over_games.ids_of(GamesOptions(games="dmlab30, mini/Catch-v0"), "") == [*DMLAB30, "mini/Catch-v0"]
    assert over_games.ids_of(GamesOptions(), "dmlab30") == ["dmlab30"], "one agent that learns all levels"
    with pytest.raises(ConfigError, match="games: mini/Catch-v0 is named twice; --repeats N"):
        over_games.ids_of(GamesOptions(games="mini/Catch-v0,mini/Catch-v0"), "")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--games"], "games: needs a value"),
        (["--games", "a", "--repeats", "0"], "repeats: must be"),
        (["--games", "a", "--resume"], "resume: has no effect on several sweeps: the same command goes on"),
        (["--games", "a", "--restart"], "restart: has no effect on several sweeps"),
        (["--jobs", "4"], "jobs: has no effect without --games or --repeats; --concurrent N sets how many members"),
    ],
)
def test_mistakes_are_one_line(words, message):
    assert asks_for_games(words)
    with pytest.raises(ConfigError, match=message):
        take_options(words)


def test_games_that_cannot_be_played_are_named_before_anything_starts(begun, tmp_path, capsys):
    words = [*WORDS, "--games", f"{GAMES[0]},mini/Chess-v0", "--run-dir", str(tmp_path / "all")]
    assert main(["sweep", *words]) == 2
    assert "games: mini/Chess-v0" in capsys.readouterr().err
    assert begun.names == []
    assert not (tmp_path / "all").exists()


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        (
            ["--pbt", "--pbt.burn-in", "50", "--pbt.interval", "50"],
            "pbt: would change the members' settings differently in each game",
        ),
        (["--pruner", "asha", "--pruner.first-rung", "100"], "pruner: would end other members in each game"),
        (
            ["--tuner", "optuna", "--sample", "3", "--concurrent", "1"],
            "tuner: would choose other settings in each game",
        ),
    ],
)
def test_members_that_would_differ_from_game_to_game_are_refused(begun, words, wrong, tmp_path, capsys):
    settings = ["--space", "algorithm.learning-rate=log(1e-4,1e-2)"] if "--sample" in words else WORDS[3:]
    words = [*WORDS[:3], *settings, *words, "--run-dir", str(tmp_path / "all")]
    assert main(["sweep", *words, "--games", ",".join(GAMES)]) == 2
    assert f"error: {wrong}, and a member is the same agent in all games; sweep over one" in capsys.readouterr().err
    assert begun.names == []
    assert not (tmp_path / "all").exists()


def test_agents_that_cannot_choose_a_games_actions_are_refused(begun, tmp_path, capsys):
    words = [
        "dqn_mini",
        "--seeds",
        "2",
        "--games",
        "mini/PixelCatch-v0,Pendulum-v1",
        "--run-dir",
        str(tmp_path / "all"),
    ]
    assert main(["sweep", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: games: Pendulum-v1: dqn needs Discrete actions, Pendulum-v1 has Box; presets that")
    assert begun.names == []


def test_a_plain_sweep_is_not_one_over_games():
    assert not asks_for_games(["mini", "--grid", "env=atari16", "--seeds", "2", "--environment.kwargs.games", "1"])
