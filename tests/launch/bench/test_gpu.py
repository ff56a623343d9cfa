"""The GPU check from the command line, and once as a whole on the CPU."""

import json
import math
import signal
import subprocess
import sys
import time

import psutil
import pytest

from launch.__main__ import main
from launch.bench import gpu
from launch.bench.gpu_steps.entries import read_entries
from launch.bench.gpu_steps.plan import PART_S, PARTS, QUICK_PART_S, seconds_of, slots_of
from launch.bench.gpu_steps.runner import Slot, Step

SAYS = """import json; print(json.dumps({"kind": "result", "name": "a", "value": 1.5, "unit": "s"}), flush=True)"""


@pytest.fixture
def one_step(monkeypatch):
    """A check of one step, which says one number."""
    monkeypatch.setattr(gpu, "command", lambda *_: [sys.executable, "-c", SAYS])
    monkeypatch.setattr(gpu, "slots_of", lambda part, quick, name: [Slot(20.0, (Step(f"step of {part}"),), 0.5)])


def test_results_are_printed_at_once_and_as_a_table(one_step, capsys, tmp_path):
    assert main(["bench", "gpu", "--device", "cpu", "--out", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "step of A: a: 1.5 s\n" in out
    assert "| B | step of B | a | 1.5 | s |  |\n" in out
    assert "cores" in out.splitlines()[0]
    kinds = [entry.kind for entry in read_entries(tmp_path / "out")]
    assert kinds == ["machine", "result", "ended", "result", "ended"]


def test_a_part_alone(one_step, capsys):
    assert main(["bench", "gpu", "--device", "cpu", "--part", "B"]) == 0
    out = capsys.readouterr().out
    assert "step of B: a: 1.5 s\n" in out
    assert "step of A" not in out


def test_one_object_is_all_there_is_on_standard_output(one_step, capsys):
    assert main(["bench", "gpu", "--device", "cpu", "--json"]) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert [entry["value"] for entry in result["entries"] if entry["kind"] == "result"] == [1.5, 1.5]
    assert (result["results"], result["skipped"], result["failed"]) == (2, 0, 0)
    assert "cores" in result["machine"]
    assert "step of A: a: 1.5 s\n" in captured.err


def test_what_was_measured_before_is_kept(one_step, tmp_path):
    for _ in range(2):
        assert main(["bench", "gpu", "--device", "cpu", "--part", "A", "--out", str(tmp_path / "out")]) == 0
    assert [entry.kind for entry in read_entries(tmp_path / "out")] == ["machine", "result", "ended"] * 2


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--device", "cpu", "--part", "C"], "error: part: must be one of both, A, B, got 'C'"),
        (["--device", "tpu"], "error: device: must be cuda or cpu, got 'tpu'"),
        (["--device", "cuda"], "error: device: "),
        (
            ["--device", "cpu", "--out", "/no/such/folder/out"],
            "error: out: /no/such/folder/out cannot be written: No such",
        ),
        (
            ["--device", "cpu", "--part", "A", "--step", "swep"],
            "error: step: no step has 'swep' in its name; steps are c",
        ),
        (["--device", "cpu", "--secnods", "1"], "error: secnods: unknown key"),
    ],
)
def test_mistakes_are_one_line(capsys, monkeypatch, arguments, line):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main(["bench", "gpu", *arguments]) == 2
    err = capsys.readouterr().err
    assert err.startswith(line)
    assert len(err.splitlines()) == 1


def test_sigterm_ends_the_check_with_its_processes_and_keeps_what_it_has(tmp_path):
    out, pid = tmp_path / "out", tmp_path / "pid"
    step = f"import os, time; open({str(pid)!r}, 'w').write(str(os.getpid())); {SAYS}; time.sleep(600)"
    script = f"""
import sys
from launch.__main__ import main
from launch.bench import gpu
from launch.bench.gpu_steps.runner import Slot, Step
gpu.command = lambda *_: [sys.executable, "-c", {step!r}]
gpu.slots_of = lambda part, quick, name: [Slot(60.0, (Step("waits"),))]
sys.exit(main(["bench", "gpu", "--device", "cpu", "--out", {str(out)!r}]))
"""
    check = subprocess.Popen([sys.executable, "-c", script], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60.0
    while not (out.exists() and len(out.read_text().splitlines()) == 2) and time.monotonic() < until:
        time.sleep(0.05)
    check.send_signal(signal.SIGTERM)
    _, err = check.communicate(timeout=30)
    assert check.returncode == 128 + signal.SIGTERM
    assert err.decode().splitlines()[-1] == f"stopped: by SIGTERM; the results so far are in {out}"
    assert [entry.kind for entry in read_entries(out)] == ["machine", "result"]
    assert not psutil.pid_exists(int(pid.read_text()))


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("part", PARTS)
def test_a_parts_steps_fit_its_time_and_can_be_found(part, quick):
    slots = slots_of(part, quick)
    assert sum(slot.seconds for slot in slots) <= seconds_of(quick) <= (QUICK_PART_S if quick else PART_S) <= 300.0
    for slot in slots:
        assert slot.least_s <= slot.seconds or slot.seconds == 0.0
        for step in slot.steps:
            module, _, function = step.where.partition(":")
            assert callable(getattr(__import__(f"launch.bench.gpu_steps.{module}", fromlist=[function]), function))
            assert step.share[0] < step.share[1]


@pytest.mark.parametrize("quick", [False, True])
def test_a_step_alone_has_the_parts_time(quick):
    (slot,) = slots_of("B", quick, "8 x 64")
    assert [step.name for step in slot.steps] == ["grid of 8 x 64"]
    assert slot.seconds == seconds_of(quick)
    assert len(slots_of("A", quick, "update")[0].steps) == 5
    assert slots_of("A", quick, "sweep") == []


def test_both_parts_of_a_quick_check_take_less_than_three_minutes():
    assert len(PARTS) * QUICK_PART_S < 180.0


# Of these a CPU has none, or a step says so by itself.
STOOD_IN = ("peak", "graphs", "device", "memory", "tests collected")
NEEDS_A_GPU = {"inference"}


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_whole_check_on_a_cpu(tmp_path):
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "launch",
        "bench",
        "gpu",
        "--device",
        "cpu",
        "--quick",
        "--out",
        str(out),
        "--json",
    ]
    begun = time.monotonic()
    check = subprocess.run(command, capture_output=True, text=True, timeout=230, check=False)
    seconds = time.monotonic() - begun
    assert check.returncode == 0, check.stderr
    assert seconds < 180.0
    assert json.loads(check.stdout)["results"] > 50
    entries = list(read_entries(out))
    assert len(entries) == len(out.read_text().splitlines())

    results = [entry for entry in entries if entry.kind == "result"]
    assert all(math.isfinite(entry.value) and entry.unit for entry in results)
    for entry in results:
        assert entry.stand_in == any(word in entry.name for word in STOOD_IN), entry
    for part in PARTS:
        for step in {step.name for slot in slots_of(part, True) for step in slot.steps}:
            own = [entry for entry in entries if (entry.part, entry.step) == (part, step)]
            assert any(
                entry.kind in ("ended", "failed") or (entry.kind == "skipped" and not entry.name) for entry in own
            )
            said = [entry for entry in own if entry.kind == "result"]
            late = any("time is spent" in entry.note or "deadline" in entry.note for entry in own)
            assert said or step in NEEDS_A_GPU or late, own
    # A machine that is busy with other work may be too slow for a step, and for nothing else.
    failures = [entry for entry in entries if entry.kind == "failed"]
    assert all("deadline" in entry.note for entry in failures), failures
    golden = [entry for entry in results if entry.unit == "relative difference"]
    assert len(golden) >= 19
    assert all(entry.value < 1e-4 for entry in golden)
