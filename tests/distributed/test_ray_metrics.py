"""A run's numbers reach Prometheus: the node's exporter shows them while the run goes on."""

import time
import urllib.request

import pytest

from launch.recording.recorder import Recorder
from launch.recording.tracker import prometheus_name

pytestmark = pytest.mark.ray


def test_the_node_exports_what_a_recorder_writes():
    from launch.runtimes.ray_runtime import RayRuntime  # reads Ray's settings first

    # isort: split
    import ray

    runtime, name = RayRuntime(), prometheus_name("charts/SPS")
    try:
        recorder = Recorder(in_turns=True)
        for tracker in runtime.trackers("runs/<img src=x>"):
            recorder.track(tracker)
        recorder.begin()
        (node,) = ray.nodes()
        address = f"http://127.0.0.1:{node['MetricsExportPort']}/metrics"
        deadline, found = time.monotonic() + 60.0, ""
        while name not in found and time.monotonic() < deadline:
            recorder.flush()
            with urllib.request.urlopen(address, timeout=10) as answer:
                found = answer.read().decode()
            time.sleep(1.0)
    finally:
        runtime.close()
    line = next(line for line in found.splitlines() if line.startswith(name + "{"))
    assert 'run="runs/<img src=x>"' in line
