"""docs/figures.md against the figures' files and what is kept of their runs."""

import json
import subprocess
import sys
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import sys
sys.path.insert(0, "benchmarks")
import json, paper_figures
names = [name for name in paper_figures.find_names() if not name.startswith("claims/")]
with_runs = [name for name in names if paper_figures.load_figure(name).has_runs]
kept = {path.stem for path in paper_figures.KEPT.glob("*.json")}
done = [name for name in with_runs if paper_figures.file_of(name) in kept]
text = paper_figures.PAGE.read_text(encoding="utf-8")
kept = {path: json.loads(path.read_text(encoding="utf-8")) for path in paper_figures.KEPT.rglob("*.json")}
rules = {name: [rule.claim for rule in paper_figures.load_figure(name).rules] for name in with_runs}
strange = [
    [str(path), claim]
    for path, content in kept.items()
    for _, claim, _ in content["verdicts"]
    if claim not in rules[content["figure"]]
]
found = {"strange": strange, "same": text == paper_figures.page(), "text": text}
print(json.dumps(found | {"names": names, "all": with_runs, "done": done}))
"""


def test_the_page_names_every_figure_and_says_what_its_files_say():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"], "run: python benchmarks/paper_figures.py"
    assert all(f"\n### {name}: " in found["text"] for name in found["names"])
    assert not found["strange"], "the figure's rules have changed since: run it again, and --take its results"
    assert len(found["done"]) >= 0.8 * len(found["all"]), "run laser reproduce all --small, and --take its results"
    for name in found["done"]:
        assert (ROOT / "docs" / "pictures" / "reproduced" / f"{name.replace('/', '-')}.png").exists()


def test_a_longer_reproduction_stands_beside_the_smallest_with_its_command(tmp_path):
    settings = {"preset": "", "scale": 0.02, "small": False, "env": "MinAtar/Breakout-v1", "seeds": 5}
    figure = tmp_path / "long" / "figure-4"
    figure.mkdir(parents=True)
    (tmp_path / "long" / "reproduction.json").write_text(json.dumps({"settings": settings}))
    verdict = {"verdict": "reproduced", "rule": {"claim": "a larger replay is better"}}
    verdict["numbers"] = "1.23 (no interval from one run, n = 1)"
    result = {
        "figure": "laser/figure-4",
        "commit": "abcdefghij",
        "seconds": 7200.0,
        "failures": {},
        "verdicts": [verdict],
    }
    (figure / "results.json").write_text(json.dumps(result))
    Image.new("RGB", (1800, 400)).save(figure / "figure.png")
    script = f"""
import sys
sys.path.insert(0, "benchmarks")
import paper_figures
from pathlib import Path
here = Path({str(tmp_path)!r})
paper_figures.KEPT, paper_figures.PICTURES, paper_figures.PAGE = here / "kept", here / "pictures", here / "page.md"
paper_figures.measure.ROOT = here
sys.argv[1:] = ["--longer", str(here / "long")]
paper_figures.main()
"""
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, check=True)
    _, _, page = (tmp_path / "page.md").read_text().partition("### laser/figure-4: ")
    page = page.partition("### ")[0]
    assert "* Here: not run yet (`laser reproduce laser/figure-4 --small`)." in page
    command = "laser reproduce laser/figure-4 --scale 0.02 --env MinAtar/Breakout-v1 --seeds 5"
    assert f"* Longer: `{command}`, 120 min of runs on " in page
    assert "    * reproduced: a larger replay is better: 1.23 (no interval from one run, n = 1)." in page
    assert "![laser/figure-4, longer](pictures/reproduced/longer/laser-figure-4.png)" in page
    with Image.open(tmp_path / "pictures" / "longer" / "laser-figure-4.png") as picture:
        assert picture.size == (900, 200)
