"""docs/results.md against the files of its rows."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = """
import sys
sys.path.insert(0, "benchmarks")
import json, results
text = results.PAGE.read_text(encoding="utf-8") if results.PAGE.exists() else ""
rows = results.measured(results.ROWS)
print(json.dumps({"same": text == results.page(), "lines": len(text.splitlines()), "rows": rows}))
"""


def test_the_page_is_what_its_files_say():
    done = subprocess.run([sys.executable, "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["same"], "run: python benchmarks/results.py --page"
    assert 0 < found["lines"] <= 120
    for name in found["rows"]:
        assert (ROOT / "docs" / "pictures" / "results" / f"{name}.png").exists()
