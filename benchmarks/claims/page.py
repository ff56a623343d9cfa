"""The page of claims: puts the newest results into docs/claims.md, between its marks; other text is hand-written.

Results are those of `laser reproduce claims/NAME` below runs/reproduce/, and of the scripts beside this one. A mark
without new results keeps its old ones.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

from parts import measure

PAGE = measure.ROOT / "docs" / "claims.md"
PICTURES = measure.ROOT / "docs" / "pictures" / "claims"
REPRODUCED = measure.ROOT / "runs" / "reproduce"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"<!-- results of (\w+) -->", text):
        found = results_of(name)
        if found is None:
            print(f"{name}: no new results")
            continue
        begin, end = f"<!-- results of {name} -->", f"<!-- end of {name} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n{found}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")
    print(f"written: {PAGE.relative_to(measure.ROOT)}")


def results_of(name: str) -> str | None:
    """Return the Markdown of one claim, or None without new results; the picture of a reproduction is copied."""
    claim = name.replace("_", "-")
    directory = REPRODUCED / f"claims-{claim}" / claim
    script = measure.RESULTS / "claims" / f"{name}.json"
    if (directory / "results.json").exists():
        PICTURES.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(directory / "figure.png", PICTURES / f"{name}.png")
        return "\n".join(of_reproduction(name, read(directory / "results.json")))
    return "\n".join(of_script(name, read(script))) if script.exists() else None


def of_reproduction(name: str, content: dict[str, Any]) -> list[str]:
    """Return the lines of a reproduction: where it ran, its picture, its table and its verdicts."""
    machine = measure.describe_machine()
    header = list(content["table"][0])
    return [
        f"`laser reproduce {content['figure']}`, commit {(content['commit'] or 'unknown')[:7]}, "
        f"{machine['processor']}, {machine['cores']} cores, {content['seconds'] / 60.0:.1f} minutes of runs."
        + (f" {content['note']}." if content["note"] else ""),
        "",
        f"![{name.replace('_', ' ')}](pictures/claims/{name}.png)",
        "",
        f"| {' | '.join(header)} |",
        f"|{'---|' * len(header)}",
        *(f"| {' | '.join(row.values())} |" for row in content["table"]),
        "",
        *(f"* {line}" for line in content["words"]),
    ]


def of_script(name: str, content: dict[str, Any]) -> list[str]:
    """Return the lines of a script: where it ran, and its conclusions."""
    machine, settings = content["machine"], content["settings"]
    minutes = f", {settings['minutes']:g} minutes" if "minutes" in settings else ""
    where = f"commit {machine['commit'].removesuffix('+changes')}, {machine['processor']}, {machine['cores']} cores"
    return [
        f"`python benchmarks/claims/{name}.py`, {where}{minutes}.",
        "",
        *(f"* {line}" for line in content["conclusions"]),
    ]


def read(path: Path) -> dict[str, Any]:
    return dict(json.loads(path.read_text(encoding="utf-8")))


if __name__ == "__main__":
    main()
