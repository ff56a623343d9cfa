import subprocess
import sys
import time

import pytest
import torch

from launch.recording.gpu_usage import gpu_usage
from launch.recording.process_usage import ProcessUsage


def test_a_busy_process_and_its_children_are_seen_and_looks_are_rare():
    now = [0.0]
    usage = ProcessUsage(clock=lambda: now[0])
    assert usage.newest() == {}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        until = time.process_time() + 0.1
        while time.process_time() < until:
            pass
        now[0] = 5.0
        seen = usage.gauges("main")
        assert seen["process/main/cpu_percent"] > 1.0
        assert seen["process/main/memory_bytes"] > 1e7
        assert seen["process/main/children/memory_bytes"] > 1e5
        now[0] = 9.0
        assert usage.gauges("main") == seen
        child.communicate(b"\n")
    now[0] = 10.0
    # Others that this process started may still be there.
    left = usage.gauges("main").get("process/main/children/memory_bytes", 0.0)
    assert left < seen["process/main/children/memory_bytes"]


def as_on_a_gpu(monkeypatch, utilization):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 2**30)
    monkeypatch.setattr(torch.cuda, "utilization", utilization)


def test_the_use_of_a_gpu_is_seen(monkeypatch):
    as_on_a_gpu(monkeypatch, lambda: 40)
    now = [0.0]
    usage = ProcessUsage(with_children=False, clock=lambda: now[0])
    now[0] = 5.0
    seen = usage.gauges("learner/0")
    assert seen["process/learner/0/gpu_percent"] == 40
    assert seen["process/learner/0/gpu_memory_bytes"] == 2**30


def test_a_process_without_a_gpu_reports_none():
    assert gpu_usage() == {}


def test_a_driver_that_does_not_measure_leaves_only_the_memory(monkeypatch):
    from pynvml import NVML_ERROR_NOT_SUPPORTED, NVMLError

    def refuse():
        raise NVMLError(NVML_ERROR_NOT_SUPPORTED)

    as_on_a_gpu(monkeypatch, refuse)
    assert gpu_usage() == {"gpu_memory_bytes": 2**30}


def test_without_the_package_only_the_memory_is_known(monkeypatch):
    as_on_a_gpu(monkeypatch, lambda: pytest.fail("asked without the package"))
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert gpu_usage() == {"gpu_memory_bytes": 2**30}


@pytest.mark.gpu
def test_a_real_gpu_is_seen():
    torch.zeros(1, device="cuda")
    assert gpu_usage()["gpu_memory_bytes"] > 0
