"""The places that documentation, examples and benchmarks name: modules, their names, files, commands."""

import ast
import importlib.util
import re
from pathlib import Path

import pytest

import laser

ROOT = Path(__file__).parents[2]
PACKAGES = ("actors", "laser", "launch", "learner", "replay_server")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "benchmarks/README.md", *sorted(ROOT.glob("docs/*.md"))]
SCRIPTS = sorted([*ROOT.glob("docs/examples/*.py"), *ROOT.glob("benchmarks/**/*.py")])

ANY = "|".join(PACKAGES)
IMPORT = re.compile(rf"^ +((?:from|import) (?:{ANY})\b.*)$", re.MULTILINE)
NAME_OF_LASER = re.compile(r"(?<![\w./-])laser\.(\w+)\(")
COMMAND = re.compile(rf"-m ((?:{ANY})(?:\.\w+)*)")
FILE = re.compile(rf"(?<![\w./-])((?:{ANY})/[\w/]+(?:\.py|/))(?!\w)")


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def imports_of(text):
    """Return (module, name or None) of each import of ours in a program, wherever it stands."""
    found = []
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found += [(item.name, None) for item in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module, item.name) for item in node.names]
    return [(module, name) for module, name in found if module.split(".")[0] in PACKAGES]


def find_missing(places):
    """Return what cannot be imported of (module, name or None)."""
    missing = []
    for module, name in places:
        try:
            found = importlib.import_module(module)
            if name is not None and not hasattr(found, name):
                importlib.import_module(f"{module}.{name}")
        except ModuleNotFoundError as error:
            if error.name.split(".")[0] not in PACKAGES:
                pytest.skip(f"needs {error.name}, which is not installed")
            missing.append(f"{module}: {name}" if name else module)
    return missing


@pytest.mark.parametrize("path", SCRIPTS, ids=name_of)
def test_what_examples_and_benchmarks_import_is_there(path):
    assert not find_missing(imports_of(path.read_text()))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_what_pages_name_is_there(path):
    text = path.read_text()
    assert not find_missing(imports_of("\n".join(IMPORT.findall(text))))
    assert not find_missing([("laser", name) for name in NAME_OF_LASER.findall(text)])
    assert [module for module in COMMAND.findall(text) if importlib.util.find_spec(module) is None] == []
    files = [file for file in FILE.findall(text) if "NAME" not in file]
    assert [file for file in files if not (ROOT / file).exists()] == []


@pytest.mark.parametrize("name", sorted(set(dir(laser)) - set(vars(laser))))
def test_every_name_of_laser_is_there(name):
    assert callable(getattr(laser, name))


def test_the_patterns_find_what_they_look_for():
    """Pages would pass as well if nothing was found in them."""
    pages = "\n".join(path.read_text() for path in PAGES)
    assert "train" in NAME_OF_LASER.findall(pages)
    assert "launch.offline.collect" in COMMAND.findall("python -m launch.offline.collect x")
    assert {"laser/unroll.py", "replay_server/samplers/"} <= set(FILE.findall(pages))
    assert set(imports_of("\n".join(IMPORT.findall(pages)))) == {("laser", None)}
    assert FILE.findall("tests/laser/ops/test_scan.py and https://x.y/laser/runs/") == []
    wrong = imports_of("import laser.opss\nfrom laser.ops import scan, scam\nimport numpy")
    assert find_missing(wrong) == ["laser.opss", "laser.ops: scam"]
    assert find_missing([("laser", "trian")]) == ["laser: trian"]
    assert len(SCRIPTS) > 20
