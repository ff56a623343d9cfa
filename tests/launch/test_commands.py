"""Commands that messages tell the user to run."""

import shlex
from pathlib import Path

from launch.commands import path_argument, program_path, resume_command


def test_a_run_is_continued_by_train_and_a_member_by_its_sweep(tmp_path):
    sweep, run = tmp_path / "my sweep", tmp_path / "my run"
    member = sweep / "members" / "3"
    member.mkdir(parents=True)
    run.mkdir()
    laser = program_path("laser")
    assert resume_command(run, "cartpole") == f"{laser} train cartpole --resume --run-dir '{run}'"
    assert resume_command(sweep) == resume_command(member) == f"{laser} sweep --resume --run-dir '{sweep}'"
    assert shlex.split(resume_command(run))[-1] == str(run)


def test_a_directory_whose_name_begins_with_a_dash_is_no_option():
    assert path_argument(Path("-y")) == "./-y"
    assert path_argument(Path("my runs/-y")) == "'my runs/-y'"
    assert resume_command(Path("-y")).endswith(" train --resume --run-dir ./-y")
