"""The page of claims: puts the newest results into docs/claims.md, between its marks; other text is hand-written."""

from __future__ import annotations

import re

import experiment
import numpy as np
from experiment import measure

PAGE = measure.ROOT / "docs" / "claims.md"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = re.findall(r"<!-- results of (\w+) -->", text)
    for name in names:
        if (measure.RESULTS / "claims" / f"{name}.json").exists():
            begin, end = f"<!-- results of {name} -->", f"<!-- end of {name} -->"
            before, _, rest = text.partition(begin)
            _, _, after = rest.partition(end)
            text = f"{before}{begin}\n{results_of(name)}\n{end}{after}"
        else:
            print(f"{name}: no results yet")
    PAGE.write_text(text, encoding="utf-8")
    print(f"written: {PAGE.relative_to(measure.ROOT)}")


def results_of(name: str) -> str:
    """Return the Markdown of one claim: its settings, its picture, a table per task."""
    content = experiment.load(name)
    machine, settings = content["machine"], content["settings"]
    command = settings.get("command", f"python benchmarks/claims/{name}.py")
    lines = [
        f"`{command}`, commit {machine['commit'].removesuffix('+changes')}, {machine['processor']}, "
        f"{machine['cores']} cores" + (f", {settings['minutes']:g} minutes." if "minutes" in settings else "."),
        "",
    ]
    if (experiment.PICTURES / f"{name}.png").exists():
        lines += [f"![{name.replace('_', ' ')}](pictures/claims/{name}.png)", ""]
    if "arms" not in next(iter(content["results"].values())):
        return "\n".join([*lines, *(f"* {line}" for line in content["conclusions"])])
    for task, result in content["results"].items():
        # Of agents with a trust region.
        accepts = any(name.startswith("accept_fraction") for arm in result["arms"].values() for name in arm["numbers"])
        accepted = ("accepted: fresh, own, foreign | ", "---|") if accepts else ("", "")
        lines += [
            f"`{task}`, {result['env_steps']:,} env steps per run, {settings['seeds']} seeds; "
            "median (lower to upper quartile):",
            "",
            f"| arm | final return | area under the curve | {accepted[0]}tuned to |",
            f"|---|---|---|{accepted[1]}---|",
            *(row_of(label, arm, accepts) for label, arm in result["arms"].items()),
            "",
        ]
    tables = len(lines)
    described = {f"{task}: {label}: final " for task, result in content["results"].items() for label in result["arms"]}
    lines += [f"* {line}" for line in content["conclusions"] if not line.startswith(tuple(described))]
    return "\n".join(lines if len(lines) > tables else lines[:-1])


def row_of(label: str, arm: dict, accepts: bool) -> str:
    """Return one arm's row; with `accepts`, it includes the trust region's acceptance."""
    numbers = arm["numbers"]
    cells = [label, *(experiment.spread(np.array(arm[key])) for key in ("final", "area"))]
    if accepts:
        accepted = [numbers.get(f"accept_fraction_{source}") for source in ("online", "own_replay", "foreign_replay")]
        cells.append(", ".join("-" if values is None else f"{np.median(values):.0%}" for values in accepted))
    cells.append(", ".join(f"{key.rpartition('.')[2]} {value:g}" for key, value in arm["settings"].items()) or "-")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
