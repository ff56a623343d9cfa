import json
import math
import statistics
import threading
import time

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from laser.ports import EpisodeResult, Report
from launch.errors import OutputError
from launch.recording.event_file import EventFile
from launch.recording.recorder import Recorder
from launch.records.exchange_reader import read_course, read_exchange_sums
from launch.records.metrics_db import MetricsDb, read_names, read_series


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def recorder(clock):
    made = Recorder(in_turns=True, clock=clock, interval_s=math.inf)
    made.begin()
    return made


def episodes(*returns):
    return tuple(EpisodeResult(value, 10) for value in returns)


def test_counters_add_up_over_sources_and_restarts(recorder):
    recorder.report(Report("actor/0", {"env_steps": 100, "frames": 400}))
    recorder.report(Report("actor/1", {"env_steps": 50, "frames": 200}))
    recorder.report(Report("actor/0", {"env_steps": 150, "frames": 600}))
    assert recorder.snapshot().env_steps == 200
    recorder.report(Report("actor/0", {"env_steps": 30}))  # counts from 0 again
    assert recorder.snapshot().env_steps == 230
    recorder.start_over("actor/1")
    recorder.report(Report("actor/1", {"env_steps": 70}))  # more than before, so nothing but the announcement tells
    assert recorder.snapshot().env_steps == 300
    recorder.report(Report("learner", {"learner_steps": 7, "rejected/hung": 2}))
    snapshot = recorder.snapshot()
    assert (snapshot.frames, snapshot.learner_steps, snapshot.counters["rejected/hung"]) == (800, 7, 2)


def test_mean_return_is_of_the_last_twenty_training_episodes(recorder):
    assert math.isnan(recorder.snapshot().mean_return)
    recorder.report(Report("actor/0", episodes=episodes(1000.0)))
    recorder.report(Report("actor/0", episodes=episodes(*range(10))))
    recorder.report(Report("evaluator", episodes=episodes(1e6, 3e6), at_env_steps=5))
    recorder.report(Report("actor/1", episodes=episodes(*range(10))))
    snapshot = recorder.snapshot()
    assert snapshot.mean_return == 4.5
    assert snapshot.gauges["evaluation/mean_return"] == 2e6


def test_rates_are_recent_and_seconds_are_all(recorder, clock):
    for second in range(30):
        recorder.report(Report("actor", {"env_steps": 100 * min(second, 15), "learner_steps": second}))
        recorder.flush()
        clock.now += 1.0
    snapshot = recorder.snapshot()
    assert snapshot.seconds == 30.0
    assert snapshot.env_steps_per_second == 0.0
    assert snapshot.learner_steps_per_second == pytest.approx(0.9)  # the newest second has not been reported yet


def test_training_time_begins_when_told(recorder, clock):
    clock.now += 50
    recorder.begin()
    recorder.report(Report("actor", {"env_steps": 100}))
    clock.now += 2
    assert recorder.snapshot().seconds == 2.0
    assert recorder.snapshot().env_steps_per_second == 50.0
    recorder.load_state_dict(recorder.state_dict() | {"seconds": 1000.0}, sources_start_over=True)
    clock.now += 7
    recorder.begin()
    clock.now += 1
    assert recorder.snapshot().seconds == 1001.0


def test_gauges_are_means_over_sources(recorder):
    recorder.report(Report("actor/0", gauges={"lag": 1.0}))
    recorder.report(Report("actor/0", gauges={"lag": 3.0}))
    recorder.report(Report("actor/1", gauges={"lag": 5.0}))
    assert recorder.snapshot().gauges == {"lag": 4.0}


def test_the_bottleneck_comes_from_the_recent_seconds(recorder, clock):
    recorder.report(Report("learner", {"time/learner_step": 500.0}))
    recorder.begin()
    recorder.report(Report("learner", {"time/learner_step": 501.0, "time/learner_wait": 2.0}))
    recorder.report(Report("actor", {"time/environment": 6.0, "time/inference": 1.0}))
    clock.now += 10
    assert recorder.snapshot().bottleneck == "environment (60% of the time at work)"


def test_the_score_is_the_mean_of_a_hundred_episodes_and_goes_on_after_a_resume(tmp_path, clock):
    def score(name, state=None, returns=()):
        with MetricsDb(tmp_path / name) as metrics:
            recorder = Recorder(metrics, [], in_turns=True, clock=clock, interval_s=1.0)
            if state is not None:
                recorder.load_state_dict(state, sources_start_over=True)
            recorder.begin()
            recorder.report(Report("actor", {"env_steps": 64, "episodes": len(returns)}, {}, episodes(*returns)))
            recorder.close()
            return read_series(tmp_path / name, "charts/mean_return_100"), recorder

    (*_, (_, mean)), first = score("first.db", returns=[*map(float, range(150))])
    assert mean == statistics.fmean(range(50, 150))
    assert first.snapshot().mean_return == statistics.fmean(range(130, 150))
    (*_, (_, mean)), _ = score("second.db", first.state_dict(), returns=[1000.0] * 50)
    assert mean == statistics.fmean([*range(100, 150), *[1000.0] * 50])


def test_what_is_written(tmp_path, clock):
    with MetricsDb(tmp_path / "metrics.db") as metrics, EventFile(tmp_path) as events:
        recorder = Recorder(metrics, [events], in_turns=True, clock=clock, interval_s=1.0)
        recorder.begin()
        clock.now += 2
        gauges = {"pg_loss": -1.0, "queue/length": 3.0}
        recorder.report(Report("actor", {"env_steps": 64, "frames": 256, "episodes": 2}, gauges, episodes(1.0, 3.0)))
        recorder.report(Report("evaluator", gauges={"evaluation/x": 9.0}, at_env_steps=32))
        assert read_series(tmp_path / "metrics.db", "pg_loss") == [(64, -1.0)]  # written by itself after 1 s
        recorder.close()
    path = tmp_path / "metrics.db"
    assert read_series(path, "charts/episodic_return") == [(64, 2.0)]
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    tags = {"charts/episodic_return", "charts/SPS", "losses/policy_loss", "queue/length", "evaluation/x"}
    assert tags <= set(accumulator.Tags()["scalars"])
    assert [event.step for event in accumulator.Scalars("losses/policy_loss")] == [64, 64]
    assert read_series(path, "charts/episodic_length") == [(64, 10.0)]
    assert read_series(path, "charts/mean_return", "frames") == [(256, 2.0)]
    assert read_series(path, "charts/SPS")[0] == (64, 32.0)
    assert read_series(path, "evaluation/x") == [(32, 9.0)]
    assert read_series(path, "totals/episodes") == [(64, 2.0)]
    assert "bottleneck" in read_names(path)


def test_state_survives_json_and_a_resumed_run_repeats_nothing(tmp_path, clock):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        recorder = Recorder(metrics, in_turns=True, clock=clock)
        recorder.begin()
        recorder.report(Report("actor", {"env_steps": 100}, {"g": 1.0}, episodes(5.0)))
        clock.now += 10
        recorder.flush()
        state = json.loads(json.dumps(recorder.state_dict()))
        recorder.report(Report("actor", {"env_steps": 200}, {"g": 2.0}, episodes(7.0)))
        recorder.flush()
        resumed = Recorder(metrics, in_turns=True, clock=clock)
        resumed.load_state_dict(state, sources_start_over=True)
        assert read_series(path, "g") == [(100, 1.0)]
        resumed.report(Report("actor", {"env_steps": 120}))
        snapshot = resumed.snapshot()
        assert (snapshot.env_steps, snapshot.mean_return, snapshot.seconds) == (220, 5.0, 10.0)
        continued = Recorder(in_turns=True, clock=clock)
        continued.load_state_dict(state, sources_start_over=False)
        continued.report(Report("actor", {"env_steps": 120}))
        assert continued.snapshot().env_steps == 120


@pytest.mark.parametrize("fails", [False, True])
def test_a_resumed_run_writes_nothing_before_its_state_is_there(tmp_path, fails):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        with Recorder(metrics, interval_s=0.01) as first:
            first.begin()
            first.report(Report("actor", {"env_steps": 100}, {"g": 1.0}))
            first.flush()
            state = first.state_dict()
        before = read_series(path, "charts/SPS")
        with Recorder(metrics, interval_s=0.01) as resumed:
            resumed.report(Report("learner", gauges={"g": 9.0}))  # as while it warms up
            time.sleep(0.1)
            if not fails:
                resumed.load_state_dict(state, sources_start_over=True)
                resumed.begin()
        after = read_series(path, "charts/SPS")
    assert after[: len(before)] == before
    assert {env_steps for env_steps, _ in after} == {100}
    assert (len(after) > len(before)) is not fails


class Failing:
    """A tracker whose program is broken."""

    num_dropped = 0

    def write(self, step, values):
        raise RuntimeError("no such actor")

    video = write


@pytest.mark.parametrize("tell", [lambda recorder: recorder.flush(), lambda recorder: recorder.video(0, None)])
def test_a_tracker_that_fails_is_told_no_more_and_the_rest_goes_on(tmp_path, clock, tell):
    lines = []
    with MetricsDb(tmp_path / "metrics.db") as metrics, EventFile(tmp_path) as events:
        recorder = Recorder(metrics, [Failing(), events], in_turns=True, clock=clock, log=lines.append)
        recorder.begin()
        recorder.report(Report("actor", {"env_steps": 5}, {"g": 1.0}))
        tell(recorder)
        recorder.flush()
        recorder.close()
    assert lines == ["Failing failed and is not used again: RuntimeError: no such actor"]
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    assert "losses/g" in accumulator.Tags()["scalars"]


class Broken:
    """Stands in for a MetricsDb with a mistake in it."""

    def write_all(self, moments, drawn):
        raise ZeroDivisionError("a mistake")


def test_whatever_ends_writing_in_the_background_is_told():
    recorder = Recorder(Broken(), interval_s=0.01)
    recorder.begin()
    recorder._thread.join(timeout=5)
    with pytest.raises(ZeroDivisionError):
        recorder.check()


def test_the_first_error_wins_over_whatever_ended_writing():
    def run():
        with Recorder(Broken(), in_turns=True) as recorder:
            recorder.begin()
            raise KeyError("the real reason")

    with pytest.raises(KeyError, match="the real reason"):
        run()


def test_the_thread_writes_by_itself(tmp_path):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics, Recorder(metrics, interval_s=0.02) as recorder:
        recorder.begin()
        recorder.report(Report("actor", {"env_steps": 5}, {"g": 1.0}))
        deadline = time.monotonic() + 5
        while not read_names(path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert read_series(path, "g") == [(5, 1.0)]


def test_reports_from_many_threads_lose_nothing(tmp_path):
    with MetricsDb(tmp_path / "metrics.db") as metrics, Recorder(metrics, interval_s=0.001) as recorder:
        recorder.begin()

        def send(name):
            for step in range(1, 501):
                recorder.report(Report(name, {"env_steps": step}, episodes=episodes(1.0)))

        threads = [threading.Thread(target=send, args=(f"actor/{index}",)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert recorder.snapshot().env_steps == 4000


class FullDisk:
    """Stands in for MetricsDb on a disk that is full."""

    def write_all(self, moments, drawn):
        raise OutputError("run-dir", "metrics.db: No space left on device")


def test_a_failed_write_ends_the_run_at_the_next_call():
    recorder = Recorder(FullDisk(), interval_s=0.01)
    recorder.begin()
    recorder._thread.join(timeout=5)
    with pytest.raises(OutputError, match="No space left"):
        recorder.report(Report("actor", {"env_steps": 1}))
    with pytest.raises(OutputError):
        recorder.check()
    with pytest.raises(OutputError):
        recorder.close()


def test_the_first_error_wins_when_the_disk_is_full_as_well():
    def run():
        with Recorder(FullDisk(), in_turns=True) as recorder:
            recorder.begin()
            raise KeyError("the real reason")

    with pytest.raises(KeyError, match="the real reason"):
        run()


def test_reporting_costs_microseconds(recorder):
    gauges = {f"losses/{index}": 1.0 for index in range(20)}
    report = Report("learner", {"env_steps": 1.0}, gauges)
    start = time.perf_counter()
    for _ in range(1000):
        recorder.report(report)
    assert time.perf_counter() - start < 0.5  # 20 microseconds here; 500 allowed on a busy machine


def test_every_bucket_is_written_however_many_are_over_by_then(tmp_path, clock):
    path = tmp_path / "metrics.db"
    with MetricsDb(path) as metrics:
        recorder = Recorder(metrics, in_turns=True, clock=clock, interval_s=math.inf, bucket_frames=400)
        recorder.begin()
        for env_steps in range(50, 1050, 50):
            counters = {"env_steps": env_steps, "frames": 4 * env_steps}
            recorder.report(Report("actor", counters, episodes=episodes(float(env_steps))))
            if env_steps == 350:
                recorder.flush()
        recorder.close()
    assert read_series(path, "buckets/ends_at") == [(end / 4, end) for end in range(400, 4400, 400)]
    # An episode that ends with its bucket belongs to it: 50 and 100 to the first.
    assert read_series(path, "buckets/mean_return")[0] == (100, 75.0)
    assert read_series(path, "buckets/mean_return", "frames")[-1] == (4000, 975.0)


def test_in_lockstep_a_curve_does_not_depend_on_the_clock(tmp_path, clock):
    found = []
    for pace in (0.01, 0.7):
        path = tmp_path / f"{pace}.db"
        with MetricsDb(path) as metrics:
            recorder = Recorder(metrics, in_turns=True, clock=clock, interval_s=1.0, curve_steps=100)
            recorder.begin()
            for number in range(1, 40):
                clock.now += pace
                returns = (float(number),) if number % 2 == 0 else ()
                recorder.report(
                    Report("actor", {"env_steps": 30 * number, "frames": 60 * number}, episodes=episodes(*returns))
                )
            recorder.close()
        found.append(read_series(path, "charts/mean_return"))
    assert found[0] == found[1]
    steps = [step for step, _ in found[0]]
    assert steps[:3] == [120, 210, 300], "the first reports past each hundredth"
    assert steps[-1] == 1170, "and the end"
    assert found[0][0][1] == 3.0


def test_a_new_learner_counts_on_from_the_state_that_it_continues_from(recorder, clock):
    recorder.report(Report("actor/0", {"env_steps": 100}))
    recorder.report(Report("learner", {"learner_steps": 7}))
    earlier = recorder.counters_of("learner")
    recorder.report(Report("actor/0", {"env_steps": 200}))
    recorder.report(Report("learner", {"learner_steps": 20, "time/publish": 1.5}))
    recorder.rewind_learner(earlier)
    assert recorder.last("learner", "learner_steps") == 7
    snapshot = recorder.snapshot()
    assert (snapshot.env_steps, snapshot.learner_steps, snapshot.counters["time/publish"]) == (200, 7, 0.0)
    recorder.report(Report("learner", {"learner_steps": 9}))
    clock.now += 1.0
    assert recorder.snapshot().learner_steps == 9
    assert recorder.snapshot().learner_steps_per_second >= 0.0
    recorder.rewind_learner({})
    recorder.report(Report("learner", {"learner_steps": 3}))
    assert recorder.snapshot().learner_steps == 3


def test_what_was_drawn_of_each_member_has_rows_of_its_own_and_no_tracker_hears_of_it(tmp_path, clock):
    path, heard = tmp_path / "metrics.db", []

    class Tracker:
        num_dropped = 0

        def write(self, step, values):
            heard.extend(values)

    def counters(num_makers, seconds):
        return {f"learned_from/{maker}/steps": 10.0 * seconds for maker in range(num_makers)}

    def spans(num_makers):
        """Return after how many seconds each of 10 seconds' counts was written."""
        path.unlink(missing_ok=True)
        clock.now = 0.0
        with MetricsDb(path) as metrics, Recorder(metrics, [Tracker()], in_turns=True, clock=clock) as recorder:
            recorder.begin()
            for second in range(1, 11):
                clock.now = float(second)
                recorder.report(Report("learner", {"learner_steps": second, **counters(num_makers, second)}))
        assert {maker: by["steps"] for maker, by in read_exchange_sums(path).items()} == dict.fromkeys(
            range(num_makers), 100.0
        ), "the last of it is written when the run ends"
        return read_course(path, 100).axes["seconds"].tolist()

    assert spans(8) == [*range(1, 11)]
    assert spans(100) == [1.0, 6.0, 10.0]  # 20 rows a second
    assert not [name for name in (*heard, *read_names(path)) if "learned_from" in name]
    assert "charts/SPS" in heard
