"""The images hold what is installed, and nothing else; linters look at the rest (`make images`)."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = (ROOT / "docker" / "Dockerfile").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = set(PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"])


def test_the_installed_packages_are_copied_and_nothing_else_can_be():
    copied = set(re.findall(r"^COPY (\w+) \1$", DOCKERFILE, re.MULTILINE))
    allowed = set(re.findall(r"^!(\S+)$", (ROOT / "docker" / "Dockerfile.dockerignore").read_text(), re.MULTILINE))
    assert copied == PACKAGES
    assert allowed == PACKAGES | {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]}


def test_the_python_of_the_images_is_one_that_is_supported():
    versions = set(re.findall(r"^FROM python:(\d+\.\d+)\.\d+-slim", DOCKERFILE, re.MULTILINE))
    assert len(versions) == 1
    least = re.fullmatch(r">=3\.(\d+)", PROJECT["project"]["requires-python"])
    assert int(versions.pop().split(".")[1]) >= int(least[1])
    assert re.findall(r"^USER (\w+)$", DOCKERFILE, re.MULTILINE)[-1] != "root"
