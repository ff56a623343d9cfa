"""docs/figures.md against the figures' files and what is kept of their runs."""

import json
import subprocess
import sys
from pathlib import Path

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
print(json.dumps({"same": text == paper_figures.page(), "text": text, "names": names, "all": with_runs, "done": done}))
"""


def test_the_page_names_every_figure_and_says_what_its_files_say():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"], "run: python benchmarks/paper_figures.py"
    assert all(f"\n### {name}: " in found["text"] for name in found["names"])
    assert len(found["done"]) >= 0.8 * len(found["all"]), "run laser reproduce all --small, and --take its results"
    for name in found["done"]:
        assert (ROOT / "docs" / "pictures" / "reproduced" / f"{name.replace('/', '-')}.png").exists()
