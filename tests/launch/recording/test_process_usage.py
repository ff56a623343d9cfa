import subprocess
import sys
import time

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
