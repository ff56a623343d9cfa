"""Completion: what the last word may become, and that shells ask for it."""

import shutil
import subprocess
import sys

import pytest

from launch.__main__ import main
from launch.command_line.cli import COMMANDS
from launch.command_line.completion import SHELLS, find_candidates
from launch.presets import find_presets


def candidates(line):
    return find_candidates(line.split(" "), list(COMMANDS))


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("tr", ["train"]),
        ("", list(COMMANDS)),
        ("train ", list(find_presets())),
        ("train cartpole --runtime ", ["local", "ray", "lockstep"]),
        ("train cartpole --runtime l", ["local", "lockstep"]),
        ("train cartpole --algorithm.policy-c", ["--algorithm.policy-clip"]),
        ("train --algorithm.", []),
        ("train cartpole --conf", ["--config"]),
        ("train cartpole --run-dir ", []),
        ("train cartpole ", []),
        ("sweep cartpole --gri", ["--grid"]),
        ("sweep cartpole --see", ["--seed", "--seeds"]),
        ("eval runs/", []),
        ("eval runs/x --checkpoint ", ["newest", "best"]),
        ("play runs/x --fp", ["--fps"]),
        ("report runs/x --ou", ["--out"]),
        ("export runs/x --format ", ["onnx", "torch"]),
        ("dashboard --po", ["--port"]),
        ("bench pip", ["pipeline"]),
        ("reproduce laser/figure-4", ["laser/figure-4"]),
        ("completion z", ["zsh"]),
        ("doctor ", []),
        ("nonsense ", []),
    ],
)
def test_what_a_word_may_become(line, found):
    assert candidates(line) == found


def test_every_flag_of_a_command_is_offered(capsys):
    for command in ("eval", "play", "report", "export", "reproduce", "dashboard"):
        main([command, "--help"])
        helped = [line.split()[0] for line in capsys.readouterr().out.splitlines() if line.startswith("  --")]
        offered = candidates(f"{command} x --")
        assert offered == [flag for flag in helped if not flag.endswith(".NAME")]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes(tmp_path):
    program = tmp_path / "laser"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m launch "$@"\n')
    program.chmod(0o755)
    script = f"""
        PATH={tmp_path}:$PATH
        eval "$(laser completion bash)"
        COMP_WORDS=(laser train cartpole --runtime lo); COMP_CWORD=4; _laser; echo "${{COMPREPLY[*]}}"
        COMP_WORDS=(laser ev); COMP_CWORD=1; _laser; echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split("\n")[:2] == ["local lockstep", "eval"] or done.stdout == "local\nlockstep\neval\n"


def test_an_unknown_shell_is_one_line(capsys):
    assert main(["completion", "tcsh"]) == 2
    assert "there is no completion for 'tcsh'; shells are bash, zsh, fish" in capsys.readouterr().err
    assert set(SHELLS) == {"bash", "zsh", "fish"}
