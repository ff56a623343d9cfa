"""The commands of the guide to sweeps, in their order and as they are printed; only their runs are shorter."""

import json
import shlex
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.bench.chaos_run.place import titled
from launch.bench.chaos_run.two_nodes import TwoNodes, joined_namespaces
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


def run_all(run):
    """Run every command of the guide, with fewer env steps.

    Args:
        run: runs `laser` with these words, and returns what it printed.
    """
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
        printed = json.loads(run([*arguments, "--quiet", "--json"]).splitlines()[-1])
        if command == "sweep":
            newest = printed["run_dir"]
            assert printed["members"]
            assert not [member for member in printed["members"] if member.get("error")]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_every_command_of_the_guide_runs_as_printed(tmp_path, monkeypatch, capsys):
    def run(words):
        assert main(words) == 0, (words, capsys.readouterr().err)
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    run_all(run)


@pytest.mark.long
@pytest.mark.ray
@pytest.mark.timeout(2400)
def test_every_command_of_the_guide_runs_on_two_nodes(tmp_path):
    said, out, places = tmp_path / "said.txt", tmp_path / "out.txt", set()
    with ExitStack() as stack:
        try:
            namespaces = stack.enter_context(joined_namespaces())
        except ConfigError as error:
            pytest.skip(str(error))
        # Ray's sockets need a short path.
        short = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="laser-nodes-", ignore_cleanup_errors=True))
        )
        nodes = stack.enter_context(TwoNodes(namespaces, short, (8, 8)))
        nodes.start()

        def run(words):
            where = () if words[0] == "eval" or "--resume" in words else nodes.words
            command = [*nodes.prefix, sys.executable, "-m", "launch", *words, *where]
            with said.open("wb") as errors, out.open("wb") as printed:
                laser = subprocess.Popen(command, env=nodes.environment, cwd=tmp_path, stdout=printed, stderr=errors)
            while laser.poll() is None:
                places.update(node.name for node in namespaces if titled(node.processes(), "ray::_"))
                time.sleep(0.5)
            assert laser.returncode == 0, (words, said.read_text(errors="replace")[-3000:])
            return out.read_text()

        run_all(run)
    assert len(places) == 2, "both nodes have had parts of members: learners here, actors there"
