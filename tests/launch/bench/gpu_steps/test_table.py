"""The table for docs/gpu.md."""

import subprocess
import sys

from launch.bench.gpu_steps.entries import EntriesFile, Entry
from launch.bench.gpu_steps.table import table

ENTRIES = [
    Entry("machine", details={"GPU": "H100", "cores": 16}),
    Entry("result", "A", "update", "eager", 1.0, "ms"),
    Entry("result", "A", "update", "graphs", 0.5, "ms", "0.4 elsewhere", "a | b", True),
    Entry("result", "A", "update", "eager", 2.0, "ms"),
    Entry("failed", "A", "tests", note="exit code 3"),
    Entry("ended", "A", "update"),
]


def test_a_row_for_each_number_the_newest_of_each_and_what_is_missing():
    assert table(ENTRIES).splitlines() == [
        "GPU H100, cores 16.",
        "",
        "| Part | Step | What | Value | Unit | Beside it, or to know |",
        "|---|---|---|---|---|---|",
        "| A | update | eager | 2 | ms |  |",
        "| A | update | graphs | 0.5 | ms | stand-in: no GPU; 0.4 elsewhere; a / b |",
        "",
        "Missing, or to know:",
        "",
        "* A: tests: failed: exit code 3",
    ]


def test_machines_have_a_table_each():
    text = table([*ENTRIES, Entry("machine", details={"GPU": "H200"}), ENTRIES[1]])
    assert text.count("| Part |") == 2
    assert "GPU H200." in text


def test_nothing_measured_is_said():
    assert table([]) == "nothing has been measured"


def test_the_command_prints_it(tmp_path):
    with EntriesFile(tmp_path / "out") as file:
        for entry in ENTRIES:
            file.append(entry)
    command = [sys.executable, "-m", "launch.bench.gpu_steps.table", str(tmp_path / "out")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert printed.stdout.strip() == table(ENTRIES)
