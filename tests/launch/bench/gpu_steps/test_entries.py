"""Lines that are valid whatever happens to who writes them."""

import json
import math
import subprocess
import sys
import time

import pytest

from laser.config import ConfigError
from launch.bench.gpu_steps.entries import EntriesFile, Entry, entry_from_json, read_entries, readable

WRITES = """
import sys
from pathlib import Path
from launch.bench.gpu_steps.entries import EntriesFile, Entry
with EntriesFile(Path(sys.argv[1])) as file:
    number = 0
    while True:
        file.append(Entry("result", "A", "step", f"number {number}", float(number), "s", details={"x": [number] * 200}))
        number += 1
"""


def test_an_entry_comes_back_as_it_was(tmp_path):
    entries = [
        Entry("machine", details={"GPU": "H100"}),
        Entry("result", "A", "ceilings", "peak", 7e2, "TFLOP/s", "beside", "note", True, {"n": 3}),
        Entry("skipped", "B", "grid", note="its time is spent"),
    ]
    with EntriesFile(tmp_path / "out") as file:
        for entry in entries:
            file.append(entry)
    assert list(read_entries(tmp_path / "out")) == entries


def test_every_line_is_a_json_object_even_if_the_writer_is_killed(tmp_path):
    out = tmp_path / "out"
    writer = subprocess.Popen([sys.executable, "-c", WRITES, str(out)])
    until = time.monotonic() + 30.0
    while (not out.exists() or out.stat().st_size < 50_000) and time.monotonic() < until:
        time.sleep(0.01)
    writer.kill()
    writer.wait()
    lines = out.read_text().splitlines()
    assert len(lines) > 10
    assert [json.loads(line)["value"] for line in lines] == list(range(len(lines)))


def test_after_a_line_that_was_cut_off_the_next_begins_anew(tmp_path):
    out = tmp_path / "out"
    out.write_text('{"kind": "result", "na')
    with EntriesFile(out) as file:
        file.append(Entry("result", "A", "step", "a", 1.0))
    assert [entry.name for entry in read_entries(out)] == ["a"]
    assert json.loads(out.read_text().splitlines()[1])["name"] == "a"


def test_an_entry_is_there_before_the_next_is_taken(tmp_path):
    with EntriesFile(tmp_path / "out") as file:
        file.append(Entry("result", name="a", value=math.nan))
        assert json.loads((tmp_path / "out").read_text()) == {"kind": "result", "name": "a", "value": None}


def test_nothing_is_kept_without_a_file():
    with EntriesFile(None) as file:
        file.append(Entry("result", name="a"))


def test_a_file_that_cannot_be_written_is_one_line(tmp_path):
    with pytest.raises(
        ConfigError, match=r"out: .*/none/out cannot be written: No such file or directory; give a file"
    ):
        EntriesFile(tmp_path / "none" / "out")


def test_keys_of_newer_versions_are_passed_over():
    assert entry_from_json({"kind": "result", "name": "a", "colour": "red"}) == Entry("result", name="a")
    with pytest.raises(ValueError, match="not an entry"):
        entry_from_json({"name": "a"})


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (3.0, "3"), (1234567.8, "1,234,568"), (0.12346, "0.1235"), (1.2345e-7, "1.23e-07"), (None, "unknown")],
)
def test_numbers_are_said_with_what_counts(value, text):
    assert readable(value) == text


def test_stand_ins_and_published_numbers_are_marked():
    line = str(Entry("result", "A", "update", "graphs", 2.0, "ms", "3 ms elsewhere", "a note", True))
    assert line == "update: graphs: 2 ms [stand-in; beside: 3 ms elsewhere] (a note)"
