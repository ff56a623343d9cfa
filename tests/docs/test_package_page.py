"""The text on the package index: its links need no repository, and its commands exist."""

import re
import tomllib
from pathlib import Path

from launch.command_line.cli import COMMANDS
from launch.presets import load_preset

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_stands_alone():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (ROOT / project["readme"]).read_text()
    assert not re.findall(r"\]\((?!https://)", page)  # relative links lead nowhere there
    assert page.index("pip install") < page.index("laser train")
    used = re.findall(r"(?<![\w-])laser (\w+)(?: (\w+))?", page)
    assert len(used) >= 4
    for command, preset in used:
        assert command in COMMANDS
        if command in ("train", "sweep") and preset:
            load_preset(preset)
