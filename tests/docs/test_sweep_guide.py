"""The commands of the guide to sweeps, in their order and as they are printed; only their runs are shorter."""

import json
import shlex
from pathlib import Path

import pytest

from launch.__main__ import main
from launch.reproductions.games_options import asks_for_games

GUIDE = Path(__file__).parents[2] / "docs" / "sweeps.md"
_SHORT = ["--num-envs", "2", "--learner.compile", "off", "--stop-at-return", "inf"]


# What the guide compares at 2,000 and after 5,000 env steps.
_LONGER = {"--pruner.first-rung": 2_500, "--pbt": 12_000}


def commands():
    """Return the words of each command of LASER that stands in a block of the guide, without its first one.

    Sweeps over games are left out: each is a process, and their own tests run them.
    """
    lines = GUIDE.read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
    found = [shlex.split(line)[1:] for line in lines if line.startswith("    laser ")]
    return [words for words in found if not asks_for_games(words)]


def without_steps(words):
    if "--steps" not in words:
        return words
    place = words.index("--steps")
    return words[:place] + words[place + 2 :]


def test_the_guide_has_commands_for_every_way_to_make_members():
    words = {word for command in commands() for word in command}
    ways = {"--grid", "--zip", "--space", "--seeds", "--concurrent", "--pruner", "--tuner", "--pbt", "--resume"}
    assert ways <= words


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_of_the_guide_runs_as_printed(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    newest = ""
    for command, *words in commands():
        steps = next((steps for flag, steps in _LONGER.items() if flag in words), 600)
        if any("sweep-NAME" in word for word in words):
            words = [word.replace("runs/sweep-NAME", newest) for word in words]
            steps = 900
        arguments = [command, *words]
        if command != "eval":
            arguments = [command, *without_steps(words), "--steps", str(steps)]
            arguments += [] if "--resume" in words else _SHORT
        assert main([*arguments, "--quiet", "--json"]) == 0, (arguments, capsys.readouterr().err)
        printed = json.loads(capsys.readouterr().out.splitlines()[-1])
        if command == "sweep":
            newest = printed["run_dir"]
            assert printed["members"]
            assert not [member for member in printed["members"] if member.get("error")]
