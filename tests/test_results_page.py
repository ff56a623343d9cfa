"""docs/results.md against the files of its rows, and the curves in them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
FIRST_LINES = ("Best at", "Not best at", "Not known yet")
HEAD = """
import json, sys, tempfile
from pathlib import Path
sys.path.insert(0, "benchmarks")
import curve_points, results, row_files, row_table
"""
STATE = """
text = results.PAGE.read_text(encoding="utf-8") if results.PAGE.exists() else ""
drawn_from = {name: picture.digest for name, picture in results.all_pictures().items()}
answer = {"same": text == results.page(), "lines": len(text.splitlines()), "drawn_from": drawn_from}
"""
LATE_CURVES = """
answer = []
for name in results.measured(results.ROWS):
    row = results.ROWS[name]
    for side, runs in results.read(name)["sides"].items() if row.target is not None else ():
        steps = row.steps if side == results.LASER else row.peers[side].steps
        for seed, run in runs.items():
            if run["value"] is not None and run["curve"][-1][0] > run["value"] + steps / curve_points.NUM_POINTS:
                answer.append([name, side, seed])
"""
CURVE = """
returns = [(12.0, 1.0), (14.0, 3.0), (33.0, 7.0)]
answer = {at: curve_points.curve(returns, 200, at) for at in (30, 33, 200)}
"""

PEERS = """
seeds = {"LASER": (50_000, 5), "SB3 PPO": (800_000, 5)}
answer = {}
for of_dqn in ((0, 0), (20_000, 2), (60_000, 5)):
    sides = {
        side: {str(seed): {"value": value, "commit": "a", "seconds": 90, "load": num} for seed in range(num)}
        for side, (value, num) in {**seeds, "SB3 DQN": of_dqn}.items()
    }
    answer[of_dqn[1]] = row_table.table_row("", results.ROWS["lunar_lander"], {"sides": sides}).split(" | ")[2:]
"""
MINUTES = """
ours = {"1": {"value": 1.0, "commit": "a", "seconds": 90.0, "load": 2.0}}
peers = {"1": {"value": 1.0, "commit": "a", "seconds": 1200.0, "load": 2.6}}
answer = [
    row_table.table_row("", results.ROWS["minatar_breakout"], {"sides": sides}).split(" | ")[4]
    for sides in ({"LASER": ours, "SB3 PPO": peers}, {"LASER": ours})
]
"""
MACHINES = """
row_files.FOLDER = Path(tempfile.mkdtemp())
for seed, cores in enumerate((2, 2, 16)):
    row_files.measure.describe_machine = lambda: {"processor": "A", "cores": cores, "commit": "a", "load_1min": 0.5}
    row_files.add("row", "side", seed, {"value": 1.0})
results = row_files.read("row")
runs = results["sides"]["side"].values()
answer = {"file": results["machine"], "runs": [run.get("machine") for run in runs], "page": row_files.machines(results)}
"""


def ask(script):
    """Return what a script that may use the modules of `benchmarks` puts into `answer`."""
    words = [sys.executable, "-c", f"{HEAD}{script}\nprint(json.dumps(answer))"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def state():
    return ask(STATE)


def test_the_page_is_what_its_files_say(state):
    assert state["same"], "run: python benchmarks/results.py --page"
    assert 0 < state["lines"] <= 120


def test_the_pictures_are_drawn_from_what_the_files_say(state):
    files = {path.stem: path for path in (ROOT / "docs" / "pictures" / "results").glob("*.png")}
    assert files.keys() == state["drawn_from"].keys()
    old = [name for name, path in files.items() if Image.open(path).text.get("Comment") != state["drawn_from"][name]]
    assert not old, "run: python benchmarks/results.py --page"


def test_the_first_lines_name_every_row_by_its_verdict():
    text = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    best, missed, unknown = (re.search(rf"^\* \*\*{words}\*\*.*$", text, re.MULTILINE)[0] for words in FIRST_LINES)
    for title, steps, verdict in re.findall(r"^\| \[([^,:]+)[^\d\]]*([\d,]*).* \| ([^|]*) \|$", text, re.MULTILINE):
        words = f"{steps} env steps[^;]*: [^;]*" if title.startswith("MinAtar ") else ""
        line = missed if verdict.startswith("not reached") else best if verdict.startswith("reached") else unknown
        assert re.search(words + re.escape(title.removeprefix("MinAtar ")), line), (title, verdict)


def test_files_with_runs_of_an_uncommitted_tree_are_to_be_measured_again():
    again = (ROOT / "docs" / "results.md").read_text(encoding="utf-8").partition("To be measured again")[2]
    files = (ROOT / "benchmarks" / "rows").glob("*.json")
    found = {path.stem for path in files if "+changes" in path.read_text(encoding="utf-8")}
    named = {name.removeprefix("shared_").removeprefix("offline_") for name in found}
    assert named <= set(re.findall(r"\w+", again))


def test_no_curve_goes_on_after_its_run_was_solved():
    assert ask(LATE_CURVES) == []


def test_a_curve_ends_with_the_first_point_at_or_after_the_end_of_its_run():
    curves = ask(CURVE)
    assert curves["30"] == [[20.0, 2.0], [30.0, 3.0]]  # an unchanged return is not recorded again
    assert curves["33"] == [[20.0, 2.0], [30.0, 3.0], [40.0, 7.0]]
    assert curves["200"][-1] == [200.0, 7.0]


def test_a_peer_without_all_seeds_is_named_and_decides_nothing():
    rows = ask(PEERS)
    assert "SB3 DQN not run" in rows["0"][0]
    assert "SB3 DQN 20,000 (20,000 to 20,000, n=2)" in rows["2"][0]
    for num_seeds in "02":
        assert rows[num_seeds][1] == "0.06"
        assert rows[num_seeds][-1] == "reached against SB3 PPO |"
    assert rows["5"][1] == "0.83"
    assert rows["5"][-1] == "not reached |"


def test_minutes_say_where_the_machine_did_other_work():
    assert ask(MINUTES) == ["1.5 / ~20", "1.5"]


def test_a_run_on_another_machine_says_so():
    found = ask(MACHINES)
    assert found["file"] == "A, 2 cores"
    assert found["runs"] == [None, None, "A, 16 cores"]
    assert found["page"] == "A, 2 cores; A, 16 cores"
