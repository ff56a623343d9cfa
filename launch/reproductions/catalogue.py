"""The figures and tables of all papers, and claims on small tasks, found by their files: a folder per paper."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from laser.config import ConfigError, Problem
from launch.reproductions.figure import Figure
from launch.reproductions.reading import read_figure
from launch.settings.values import nearest

CLAIMS = "claims"
PAPERS = {
    "laser": "Schmitt, Hessel, Simonyan 2019: Off-policy actor-critic with shared experience replay",
    "acer": "Wang et al. 2017: Sample efficient actor-critic with experience replay",
    "reactor": "Gruslys et al. 2017: The Reactor, a sample-efficient actor-critic architecture",
    "refer": "Novati, Koumoutsakos 2019: Remember and forget for experience replay",
    "ners": "Oh et al. 2021: Learning to sample with local and global contexts in experience replay buffers",
    CLAIMS: "The papers' claims on small tasks, at full size in minutes (docs/claims.md)",
}
_HERE = Path(__file__).parent
ALL = "all"


def find_names() -> list[str]:
    """Return the names of all figures and tables: by paper, figures before tables, in the order of their numbers."""
    return sorted(
        (f"{path.parent.name}/{path.name.removesuffix('.toml')}" for path in _HERE.glob("*/*.toml")), key=_place
    )


@cache
def load_figure(name: str) -> Figure:
    """Return a figure by its name.

    Raises:
        ConfigError: there is no such figure, or its file has mistakes; the error lists all of them.
    """
    names = find_names()
    if name not in names:
        raise ConfigError([_unknown(name, names)])
    text = (_HERE / f"{name}.toml").read_text(encoding="utf-8")
    figure = read_figure(name, text) if "\nruns-of" not in f"\n{text}" else None
    if figure is not None:
        return figure
    owner = re.search(r'^runs-of\s*=\s*"([^"]*)"', text, re.MULTILINE)
    others = [other for other in names if other != name]
    if owner is None or owner[1] not in others:
        raise ConfigError([Problem(f"{name}.runs-of", "must name another figure", f"there are {', '.join(others)}")])
    base = load_figure(owner[1])
    if base.runs_of:
        raise ConfigError([Problem(f"{name}.runs-of", f"{base.name} has no runs of its own", f"name {base.runs_of}")])
    return read_figure(name, text, base)


def choose(name: str) -> list[Figure]:
    """Return the figures that a name stands for: itself, those of a paper, or those of all papers.

    Raises:
        ConfigError: there is no such name, or files have mistakes.
    """
    if name == ALL:
        return [load_figure(each) for each in find_names() if not each.startswith(f"{CLAIMS}/")]
    if name in PAPERS:
        return [load_figure(each) for each in find_names() if each.startswith(f"{name}/")]
    return [load_figure(name)]


def _unknown(name: str, names: list[str]) -> Problem:
    best = nearest(name, [*names, *PAPERS, ALL])
    remedy = f"did you mean {best}?" if best else "laser reproduce list names all of them"
    return Problem("figure", f"there is no figure or table {name!r}", remedy)


def _place(name: str) -> tuple[int, bool, str, list[int], str]:
    paper, _, item = name.partition("/")
    kind, _, number = item.partition("-")
    letter = re.match(r"[a-z]?", number)
    numbers = [int(part) for part in re.findall(r"\d+", number)]
    return list(PAPERS).index(paper), kind != "figure", letter[0] if letter and numbers else "", numbers, name
