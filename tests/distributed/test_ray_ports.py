"""Ports over Ray: nothing is lost, doubled or reordered, and every way a process can end has its own error."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from functools import partial
from pathlib import Path

import numpy as np
import psutil
import pytest
from hosted import Ticker, WithModules, make_small_shard
from replay_helpers import Stream, join, make_spec

from laser.ports import NodeLostError, Parameters, PortClosedError, PortError, PortTimeoutError, SampleRequest, wait
from launch.errors import LaunchError
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.runtimes.runtime import WorkerDiedError
from launch.topology import shard_factories
from learner.publishing.parameter_store import ParameterStore

pytestmark = [pytest.mark.ray]


class Sink:
    def __init__(self):
        self.reports = []

    def report(self, report):
        self.reports.append(report)


def _anything():
    return None


def until(condition, timeout_s=30.0):
    deadline = time.monotonic() + timeout_s
    while not (result := condition()):
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.05)
    return result


def place_shards(runtime, spec, num=1, online_capacity=64):
    return runtime.shards([partial(make_small_shard, spec, index, online_capacity) for index in range(num)])


def test_what_is_inserted_comes_back_bit_by_bit(runtime):
    spec, rng = make_spec(frames=True), np.random.default_rng(0)
    (port,) = place_shards(runtime, spec)
    message = join([Stream(spec, rng, environment=index).next_unroll() for index in range(8)])
    receipt = wait(port.insert(message), 30.0, "an insert")
    assert (receipt.num_inserted, receipt.num_duplicates) == (8, 0)
    sample = wait(port.sample(SampleRequest(0, 8, "online")), 30.0, "fresh unrolls")
    np.testing.assert_array_equal(sample.unrolls.headers, message.headers)
    for name, value in message.fields.items():
        np.testing.assert_array_equal(sample.unrolls.fields[name], value)
    for index in range(8):
        np.testing.assert_array_equal(sample.unrolls.frames["image"][index], message.frames["image"][index])
    os.kill(port.pid, signal.SIGKILL)


def test_inserts_repeated_change_nothing(runtime):
    spec, rng = make_spec(), np.random.default_rng(0)
    (port,) = place_shards(runtime, spec)
    streams = [Stream(spec, rng, environment=index) for index in range(4)]
    messages = [join([stream.next_unroll() for stream in streams]) for _ in range(10)]
    for message in messages:
        assert wait(port.insert(message), 30.0, "an insert").num_inserted == 4
        again = wait(port.insert(message), 30.0, "the same again")
        assert (again.num_inserted, again.num_duplicates) == (0, 4)
    stats = wait(port.stats(), 30.0, "stats")
    assert stats.ledger.inserted == 40
    assert stats.ledger.duplicates == 40
    assert not any(stats.imbalances.values())
    os.kill(port.pid, signal.SIGKILL)


def test_inserts_of_all_sizes_keep_their_order(runtime):
    # A large message goes another way than a small one and would arrive later; the shard would then take the large
    # one's unrolls for repeated ones.
    spec, rng = make_spec(unroll_length=20, vector_size=4000), np.random.default_rng(0)
    (port,) = place_shards(runtime, spec, online_capacity=4000)
    from launch.runtimes.ray_settings import INLINE_BYTES

    streams = [Stream(spec, rng, environment=index, mean_length=None) for index in range(16)]
    sizes = [16, 1, 16, 1, 1, 16, 1]
    messages = [join([stream.next_unroll() for stream in streams[:size]]) for size in sizes]
    assert messages[1].num_bytes < INLINE_BYTES < messages[0].num_bytes
    receipts = [wait(future, 60.0, "an insert") for future in [port.insert(message) for message in messages]]
    assert [receipt.num_inserted for receipt in receipts] == sizes
    assert wait(port.stats(), 30.0, "stats").ledger.lost == 0
    os.kill(port.pid, signal.SIGKILL)


@pytest.mark.usefixtures("runtime")
@pytest.mark.parametrize(("num_bytes", "in_store"), [(2**20, False), (8 * 2**20, True)])
def test_messages_of_a_megabyte_stay_out_of_the_object_store(num_bytes, in_store):
    import ray

    reference = ray.remote(num_cpus=0)(lambda: bytes(num_bytes)).remote()
    ray.wait([reference], timeout=30.0, fetch_local=False)
    until(lambda: bool(ray.experimental.get_object_locations([reference])[reference]["node_ids"]) == in_store)


def test_a_killed_shard_closes_its_port_and_waiting_calls(runtime):
    (port,) = place_shards(runtime, make_spec())
    waiting = port.sample(SampleRequest(0, 4, "online"))
    time.sleep(0.2)
    os.kill(port.pid, signal.SIGKILL)
    with pytest.raises(PortClosedError, match=r"shard 0 of the replay .* has ended"):
        wait(waiting, 30.0, "fresh unrolls")
    with pytest.raises(PortClosedError, match=r"shard 0 of the replay .* has ended"):
        wait(port.stats(), 30.0, "stats")


def test_a_hung_shard_runs_into_the_deadline_and_serves_again(runtime):
    (port,) = place_shards(runtime, make_spec())
    os.kill(port.pid, signal.SIGSTOP)
    try:
        begun = time.monotonic()
        with pytest.raises(PortTimeoutError, match=r"waited 0.5 s for stats"):
            wait(port.stats(), 0.5, "stats")
        assert time.monotonic() - begun < 2.0
    finally:
        os.kill(port.pid, signal.SIGCONT)
    assert wait(port.stats(), 30.0, "stats").num_unrolls == 0
    os.kill(port.pid, signal.SIGKILL)


@pytest.mark.usefixtures("runtime")
def test_learners_that_wait_do_not_stand_in_the_way_of_others():
    from launch.planning.needs import Needs
    from launch.runtimes.ray_replay import serve_shards

    spec, rng = make_spec(), np.random.default_rng(0)
    (port,) = serve_shards([partial(make_small_shard, spec, 0, 64)], [{}], Needs(num_learners=10))
    waiting = [port.sample(SampleRequest(0, 60, "online", timeout_s=60.0)) for _ in range(40)]
    wait(port.insert(join([Stream(spec, rng, environment=index).next_unroll() for index in range(4)])), 30.0, "insert")
    assert len(wait(port.sample(SampleRequest(0, 4)), 15.0, "replayed unrolls").keys) == 4
    assert not any(each.done() for each in waiting)
    os.kill(port.pid, signal.SIGKILL)


def test_errors_of_the_shard_arrive_as_they_are(runtime):
    (port,) = place_shards(runtime, make_spec())
    with pytest.raises(PortError, match="member must be one of"):
        wait(port.sample(SampleRequest(7, 1)), 30.0, "a sample")
    with pytest.raises(PortTimeoutError, match="fresh unrolls for member 0"):
        wait(port.sample(SampleRequest(0, 4, "online", timeout_s=0.2)), 30.0, "a sample")
    os.kill(port.pid, signal.SIGKILL)


@pytest.mark.parametrize("num_numbers", [100, 300_000])
def test_parameters_arrive_whole_and_once(runtime, num_numbers):
    port = runtime.parameter_store(ParameterStore)
    assert wait(port.newest(-1), 30.0, "nothing yet") is None
    for version in range(3):
        vector = np.full(num_numbers, version, np.float32)
        wait(port.publish(Parameters(version, vector)), 30.0, "a publication")
    readers = [wait(port.newest(-1), 30.0, "the newest") for _ in range(2)]
    for newest in readers:
        assert newest.version == 2
        assert newest.vector.shape == (num_numbers,)
        assert (newest.vector == 2.0).all()
        assert not newest.vector.flags.writeable
    # A large vector is mapped, not copied: both readers of this process see the same memory.
    assert np.shares_memory(readers[0].vector, readers[1].vector) == (num_numbers > 100)
    assert wait(port.newest(2), 30.0, "nothing newer") is None


def test_a_worker_ticks_reports_dies_and_is_replaced(runtime):
    sink = Sink()
    worker = runtime.worker("ticker", Ticker, sink)
    seen = wait(worker.call(Ticker.look), 60.0, "the worker")
    pid = worker.pid
    assert seen["pid"] == pid != os.getpid()
    assert (seen["nice"], seen["thread"]) == (0, "ticker")
    worker.start()
    until(lambda: worker.failure() is None and len(sink.reports) > 3)
    os.kill(pid, signal.SIGKILL)
    failure = until(worker.failure)
    assert isinstance(failure, WorkerDiedError)
    assert "ticker has ended" in str(failure)
    worker.replace()
    worker.start()
    until(lambda: worker.failure() is None and any(each.gauges.get("incarnation") == 1.0 for each in sink.reports))
    worker.kill()


def test_a_worker_that_may_never_be_called_has_a_process_once_it_is(runtime):
    sink = Sink()
    workers = [runtime.worker(name, Ticker, sink, when_called=True) for name in ("ticker", "idle")]
    for worker in workers:
        worker.stop()
        worker.pass_on_reports(0.1)
        assert (worker.failure(), worker.waiting_for, worker.silent_s("environment")) == (None, "", 0.0)
        assert not worker.has_begun
    assert wait(workers[0].call(Ticker.look), 60.0, "the worker")["pid"] == workers[0].pid
    until(lambda: workers[0].failure() is None and sink.reports)
    os.kill(workers[0].pid, signal.SIGKILL)
    assert isinstance(until(workers[0].failure), WorkerDiedError)
    workers[0].replace()
    assert wait(workers[0].call(Ticker.look), 60.0, "the worker")["pid"] == workers[0].pid
    assert not runtime.release(workers, runtime.parameter_store(ParameterStore), [])
    assert not workers[1].has_begun


def test_of_many_orders_the_last_one_holds(runtime):
    worker = runtime.worker("ticker", Ticker, Sink())

    def look():
        return wait(worker.call(Ticker.look), 30.0, "the ticker")

    for number in range(100):
        for value in range(10):
            worker.tell(Ticker.set_mark, (number, value))
        until(lambda number=number: look()["mark"] == (number, 9), 5.0)
    for _ in range(100):
        for _ in range(5):
            worker.stop()
            worker.start()
        num_ticks = look()["num_ticks"]
        until(lambda num_ticks=num_ticks: look()["num_ticks"] > num_ticks, 5.0)


def test_a_hung_process_is_silent(runtime):
    worker = runtime.worker("ticker", Ticker, Sink())
    pid = worker.pid
    worker.start()
    until(lambda: worker.failure() is None and worker.silent_s("environment") < 0.5 and worker._status.started)
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: worker.failure() is None and worker.silent_s("environment") > 1.0)
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: worker.failure() is None and worker.silent_s("environment") < 1.0)
    worker.kill()


def test_calls_leave_no_history_in_rays_head(runtime):
    import ray  # with the settings of the runtime

    def called():
        return {event["cat"] for event in ray.timeline() if event["cat"].startswith("task::")}

    spec = make_spec()
    (port,) = place_shards(runtime, spec)
    worker = runtime.worker("ticker", Ticker, Sink())
    wait(port.insert(Stream(spec, np.random.default_rng(0)).next_unroll()), 30.0, "an insert")
    until(lambda: worker.failure() is None and worker.silent_s("environment") < 1.0)
    time.sleep(2.0)  # every process sends its history once a second
    ray.get(ray.remote(num_cpus=0)(_anything).remote())  # whose history is kept
    assert not [name for name in until(lambda: "task::_anything" in called() and called()) if "Host." in name]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("The actor died because its node has died. Node Id: f0", NodeLostError),
        ("The actor died unexpectedly before finishing this task.", PortClosedError),
    ],
)
def test_a_death_with_the_node_is_told_from_one_of_the_process_alone(text, kind):
    from launch.runtimes import ray_calls  # imports Ray with its settings

    error = ray_calls.ray.exceptions.RayActorError("0" * 32, text)
    assert type(ray_calls.port_error(error, "learner")) is kind


def test_an_error_that_cannot_be_pickled_still_says_what_it_was(runtime):
    worker = runtime.worker("ticker", Ticker, Sink())
    wait(worker.call(Ticker.fail_oddly), 60.0, "the worker")
    worker.start()
    failure = until(worker.failure)
    assert type(failure) is PortError
    assert "OddError: salt and pepper" in str(failure)
    worker.kill()


def test_everything_listens_on_loopback_with_a_private_token_and_normal_priority(runtime):
    place_shards(runtime, make_spec())
    processes = psutil.Process().children(recursive=True)
    assert any("raylet" in process.name() for process in processes)
    listening = []
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended since
            if process.status() == psutil.STATUS_ZOMBIE:
                continue
            listening += [item.laddr.ip for item in process.net_connections("inet") if item.status == "LISTEN"]
            if "ray::" in " ".join(process.cmdline()):
                assert process.nice() == 0
    assert listening
    assert set(listening) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    assert os.environ["RAY_AUTH_MODE"] == "token"
    token = Path.home() / ".ray" / "auth_token"
    assert stat.S_IMODE(token.stat().st_mode) == 0o600


@pytest.mark.usefixtures("runtime")
def test_our_own_ray_starts_no_process_that_a_run_has_no_use_for():
    commands = [" ".join(process.cmdline()) for process in psutil.Process().children(recursive=True)]
    assert any("gcs_server" in command for command in commands)
    unused = ("dashboard/dashboard.py", "_private/monitor.py", "log_monitor.py")
    assert not [command for command in commands if any(name in command for name in unused)]


@pytest.mark.usefixtures("runtime")
def test_our_own_ray_refuses_who_does_not_know_its_token(monkeypatch, tmp_path):
    import ray

    from launch.runtimes.ray_cluster import check_reachable

    address = ray.get_runtime_context().gcs_address
    assert address.startswith("127.0.0.1:")
    check_reachable(address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "f" * 64)
    with pytest.raises(LaunchError, match="refuses this token"):
        check_reachable(address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", "")
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(LaunchError, match="refuses calls without a token"):
        check_reachable(address)


def test_lost_answers_neither_lose_nor_double_unrolls(tmp_path):
    script = tmp_path / "lossy.py"
    script.write_text(
        textwrap.dedent(
            """
            from functools import partial
            import numpy as np
            from hosted import make_small_shard
            from replay_helpers import Stream, make_spec
            from laser.ports import wait
            from launch.runtimes.ray_runtime import RayRuntime

            runtime, spec = RayRuntime(), make_spec()
            (port,) = runtime.shards([partial(make_small_shard, spec, 0, 1000)])
            stream = Stream(spec, np.random.default_rng(0))
            receipts = [wait(port.insert(stream.next_unroll()), 60.0, "an insert") for _ in range(200)]
            assert all(item.num_inserted + item.num_duplicates == 1 for item in receipts)
            ledger = wait(port.stats(), 60.0, "stats").ledger
            assert ledger.inserted == 200 and ledger.lost == 0, ledger
            print("repeated", sum(item.num_duplicates for item in receipts))
            runtime.close()
            """
        )
    )
    # Ray takes 2 s to report a lost answer: all three of one call still fit into the time for which it is repeated.
    lossy = (
        '{"CoreWorkerService.grpc_client.PushTask": {"num_failures": 3, "req_failure_prob": 0, '
        '"resp_failure_prob": 5, "in_flight_failure_prob": 0}}'
    )
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "replay_server"), os.getcwd()]
    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(folders),
            "RAY_testing_rpc_failure": lossy,
            "RAY_testing_rpc_failure_avoid_intra_node_failures": "0",
        },
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(done.stdout.split()[-1]) > 0, "no answer was lost, so nothing was tested"


def test_the_process_of_a_shard_has_no_torch(runtime):
    """It inserts, draws and saves before it is looked at, since any of these might import more."""
    member = plan_member(load_preset("cartpole", {"replay.capacity_steps": 4000, "replay.min_steps": 0}))
    spec, rng = make_spec(), np.random.default_rng(0)
    (factory,) = shard_factories([dataclasses.replace(member, unrolls=spec)])
    (port,) = runtime.shards([WithModules(factory)])
    unrolls = join([Stream(spec, rng, environment=index).next_unroll() for index in range(8)])
    assert wait(port.insert(unrolls), 30.0, "an insert").num_inserted == 8
    assert len(wait(port.sample(SampleRequest(0, 4)), 30.0, "a sample").keys) == 4
    assert len(wait(port.sample(SampleRequest(0, 4, "online")), 30.0, "fresh unrolls").keys) == 4
    state, contents = port.partial_state([], 0)
    assert {"numpy", "replay_server.serving.shard"} <= port.accounts()["modules"]
    port.load_state_dict({**state, "contents": contents})
    assert "torch" not in port.accounts()["modules"]
    assert psutil.Process(port.pid).memory_info().rss <= 150 * 2**20  # as planned for
    os.kill(port.pid, signal.SIGKILL)
