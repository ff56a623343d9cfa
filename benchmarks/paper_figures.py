"""Every figure and table of the five papers on one page: its command, what came out here, and what it costs whole.

laser reproduce all --small --jobs 2                # from any directory
python benchmarks/paper_figures.py --take DIR       # keep its results: DIR is runs/reproduce of that directory
python benchmarks/paper_figures.py --longer DIR     # keep one longer reproduction's beside them: DIR is its --out
python benchmarks/paper_figures.py                  # write docs/figures.md from benchmarks/reproduced/*.json
"""

from __future__ import annotations

import argparse
import io
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import measure
from PIL import Image

from launch.reproductions.catalogue import PAPERS, find_names, load_figure
from launch.reproductions.figure import Figure
from launch.reproductions.listing import cost_of
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.plan import make_plan

PAGE = measure.ROOT / "docs" / "figures.md"
PICTURES = measure.ROOT / "docs" / "pictures" / "reproduced"
KEPT = measure.ROOT / "benchmarks" / "reproduced"
_MOST_NUMBERS = 48
_WIDTH = 900
"""Of a picture, in pixels."""
_OF_A_PAPER = tuple(paper for paper in PAPERS if paper != "claims")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--take", type=Path, help="runs/reproduce, whose finished figures are kept")
    parser.add_argument("--longer", type=Path, help="directory of one reproduction that is longer than --small")
    options = parser.parse_args()
    if options.take:
        for path in sorted(options.take.glob("*-small/*/results.json")):
            take(path.parent)
    if options.longer:
        settings = json.loads((options.longer / "reproduction.json").read_text(encoding="utf-8"))["settings"]
        for path in sorted(options.longer.glob("*/results.json")):
            take(path.parent, settings)
    PAGE.write_text(page(), encoding="utf-8")
    print(f"written: {PAGE.relative_to(measure.ROOT)}")


def take(directory: Path, longer: dict[str, Any] | None = None) -> None:
    """Keep a figure's picture, smaller, and of its results what the page says; `longer`: settings of a longer one."""
    content = json.loads((directory / "results.json").read_text(encoding="utf-8"))
    name = file_of(content["figure"], longer is not None)
    machine = measure.describe_machine()
    kept = {key: content[key] for key in ("figure", "commit", "seconds", "failures")} | {
        "machine": f"{machine['processor']}, {machine['cores']} cores",
        "verdicts": [[item["verdict"], item["rule"]["claim"], item["numbers"]] for item in content["verdicts"]],
        "command": command_of(content["figure"], longer or {"small": True}),
    }
    for folder in (KEPT, PICTURES):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (KEPT / f"{name}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    picture = Image.open(io.BytesIO((directory / "figure.png").read_bytes())).convert("RGB")
    if picture.width > _WIDTH:
        picture = picture.resize((_WIDTH, round(picture.height * _WIDTH / picture.width)), Image.Resampling.LANCZOS)
    picture.save(PICTURES / f"{name}.png", optimize=True)


def command_of(name: str, settings: dict[str, Any]) -> str:
    """Return the command of a reproduction, with the settings that are not the paper's."""
    defaults = ReproduceOptions()
    words = ["laser", "reproduce", name]
    for key, value in settings.items():
        if value != getattr(defaults, key):
            words += [f"--{key}"] if value is True else [f"--{key}", str(value)]
    return shlex.join(words)


def page() -> str:
    """Return the page's text."""
    figures = [load_figure(name) for name in find_names() if name.partition("/")[0] in _OF_A_PAPER]
    with_runs = [figure for figure in figures if figure.has_runs]
    done = [figure for figure in with_runs if _kept(figure) and not _kept(figure)["failures"]]
    whole = [figure.name for figure in with_runs if _is_whole(figure)]
    lines = [
        "# Every figure and table of the five papers",
        "",
        "Written by `python benchmarks/paper_figures.py`; do not edit. How a reproduction works, and what its verdicts",
        "mean, stands in [reproduce.md](reproduce.md).",
        "",
        f"Of {len(figures)} figures and tables {len(with_runs)} have something to run, and {len(done)} of these were",
        "run here to their end at their smallest size (`--small`): short runs, small nets, other games. That shows",
        "that they run, and cannot show whether a paper is right. Longer runs stand beside them where there are some,",
        f"at the paper's own size for {' and '.join(whole) or 'none yet'}; others are in [claims.md](claims.md) and",
        "[results.md](results.md).",
        "",
    ]
    return "\n".join([*lines, *(line for paper in _OF_A_PAPER for line in _of_paper(paper, figures))])


def _of_paper(paper: str, figures: list[Figure]) -> Iterator[str]:
    its = [figure for figure in figures if figure.paper == paper]
    yield f"## {PAPERS[paper]}"
    yield ""
    for figure in its:
        yield f"### {figure.name}: {figure.title}"
        yield ""
        yield from _of_figure(figure)


def _of_figure(figure: Figure) -> Iterator[str]:
    yield figure.shows
    yield ""
    if figure.nothing:
        yield f"* Nothing to run: {figure.nothing}."
    if figure.has_runs:
        full = make_plan(figure, ReproduceOptions())
        whose = f" (those of {figure.runs_of})" if figure.runs_of else ""
        yield f"* Whole: `laser reproduce {figure.name}`, {len(full):,} runs{whose}, {cost_of(full)}."
        yield from _printed(figure)
        yield from _what_came_out(figure)
    for line in figure.missing:
        yield f"* Not here: {line}."
    yield ""
    for longer, size in ((False, "smallest size"), (True, "the paper's size" if _is_whole(figure) else "longer")):
        if _kept(figure, longer):
            yield f"![{figure.name}, {size}](pictures/reproduced/{file_of(figure.name, longer)}.png)"
            yield ""


def _printed(figure: Figure) -> Iterator[str]:
    """Yield the paper's numbers of a figure; those of single games of many only as how many there are."""
    if len(figure.numbers) > _MOST_NUMBERS:
        yield f"* The paper prints {len(figure.numbers)} numbers, which stand beside ours in the results."
        return
    by_arm: dict[str, list[str]] = {}
    titles = {curve.metric: curve.title for curve in figure.curves}
    has_games = len({number.game for number in figure.numbers}) > 1
    for number in figure.numbers:
        metric = f" ({titles[number.metric]})" if number.metric else ""
        by_arm.setdefault(number.arm, []).append(str(number) + metric + (f" on {number.game}" if has_games else ""))
    if by_arm:
        said = "; ".join(f"{arm} {', '.join(values)}" for arm, values in by_arm.items())
        yield f"* The paper: {said}."


def _what_came_out(figure: Figure) -> Iterator[str]:
    small = f"laser reproduce {figure.name} --small"
    if not _kept(figure):
        yield f"* Here: not run yet (`{small}`)."
    for kept, words in (
        (_kept(figure), "Here"),
        (_kept(figure, longer=True), "Here, at the paper's size" if _is_whole(figure) else "Longer"),
    ):
        if not kept:
            continue
        minutes = max(1, round(kept["seconds"] / 60.0))
        where = f"{kept['machine']}, commit {(kept['commit'] or 'unknown')[:7]}"
        judged = ":" if kept["verdicts"] or kept["failures"] else "; the rules are about the paper's size."
        yield f"* {words}: `{kept.get('command', small)}`, {minutes} min of runs on {where}{judged}"
        for verdict, claim, numbers in kept["verdicts"]:
            yield f"    * {verdict}: {claim}" + (f": {numbers}." if numbers else ".")
        for name, line in kept["failures"].items():
            yield f"    * failed: {name}: {line}"


def _is_whole(figure: Figure) -> bool:
    """Whether the longer reproduction that is kept has the size of the paper's."""
    return _kept(figure, longer=True).get("command") == command_of(figure.name, {})


def _kept(figure: Figure, longer: bool = False) -> dict[str, Any]:
    path = KEPT / f"{file_of(figure.name, longer)}.json"
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.exists() else {}


def file_of(name: str, longer: bool = False) -> str:
    """Return the place of a figure's files: `laser/figure-1` becomes `laser-figure-1`, or `longer/laser-figure-1`."""
    return ("longer/" if longer else "") + name.replace("/", "-")


if __name__ == "__main__":
    main()
