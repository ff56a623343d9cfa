"""What an supervisor does about workers that end."""

from __future__ import annotations

import dataclasses
import time
from concurrent.futures import Future
from types import SimpleNamespace

import pytest

from actors.evaluator import Evaluator
from laser.environments.base import EnvironmentFailedError
from laser.futures import failed
from laser.ports import Parameters, PortAwayError, PortClosedError, wait
from launch.planning.member_plan import plan_member
from launch.presets import change, load_preset
from launch.recording.recorder import Recorder
from launch.runtimes import hangs
from launch.runtimes.local_runtime import LocalRuntime, LocalWorker
from launch.runtimes.runtime import WorkerDiedError
from launch.supervision.member_supervisor import MemberSupervisor
from launch.topology import place_member
from learner.learner import Learner
from learner.publishing.parameter_store import ParameterStore


@pytest.fixture
def supervisor():
    config = change(load_preset("cartpole"), {"quiet": True, "num_envs": 2, "num_actors": 2, "runtime": "local"})
    config = change(config, {"evaluation.interval": 100})
    config = dataclasses.replace(config, replay=dataclasses.replace(config.replay, capacity_steps=2000))
    runtime = LocalRuntime()
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        yield MemberSupervisor(topology, recorder)
        runtime.close()


def die(worker: LocalWorker, monkeypatch) -> None:
    """Let a worker say once that its process has ended."""
    failure, told = worker.failure, []

    def once():
        if not told:
            told.append(True)
            return WorkerDiedError(f"{worker.name} has ended")
        return failure()

    monkeypatch.setattr(worker, "failure", once)


def test_an_evaluator_that_died_is_replaced_and_evaluates_on(supervisor, monkeypatch):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    evaluator = topology.evaluator
    die(evaluator, monkeypatch)
    supervisor.check_workers()
    assert evaluator.incarnation == 1
    parameters = wait(topology.parameters.newest(-1), 30.0, "parameters")
    assert isinstance(parameters, Parameters)
    report = wait(evaluator.call(Evaluator.evaluate_report, parameters, 1, 0), 60.0, "an evaluation")
    assert report.episodes
    supervisor.check_workers()  # it has not failed meanwhile
    assert supervisor.recorder.snapshot().counters["restarts/died"] == 1


@pytest.mark.parametrize("part", ["evaluator", "actor"])
def test_a_worker_that_dies_too_often_ends_the_run_and_its_budget_is_its_own(supervisor, monkeypatch, part):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    dying, other = topology.evaluator, topology.actors[0]
    if part == "actor":
        dying, other = other, topology.actors[1]
    for number in range(1, topology.config.max_failures + 1):
        die(dying, monkeypatch)
        supervisor.check_workers()
        assert dying.incarnation == number
    die(other, monkeypatch)
    supervisor.check_workers()
    assert other.incarnation == 1
    die(dying, monkeypatch)
    with pytest.raises(WorkerDiedError, match=f"{dying.name} has ended"):
        supervisor.check_workers()


def test_one_of_the_actors_that_have_a_better_place_moves_at_a_time(supervisor):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    names = [actor.name for actor in topology.actors]
    supervisor.parts.move([])
    supervisor.parts.move(["actor/99"])
    assert [actor.incarnation for actor in topology.actors] == [0, 0]
    supervisor.parts.move(names[1:])
    assert [actor.incarnation for actor in topology.actors] == [0, 1]
    supervisor.parts.move(names)
    assert [actor.incarnation for actor in topology.actors] == [1, 1]
    supervisor.parts.replay.report()
    counters = supervisor.recorder.snapshot().counters
    assert counters["restarts/moved"] == 2
    assert {"unrolls_lost/moved", "dropped_rows_at_most/moved"} <= counters.keys()  # nothing died


@pytest.mark.parametrize("is_held", [False, True])
def test_an_actor_that_died_acts_again_unless_it_is_held(supervisor, monkeypatch, is_held):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    supervisor.hold(is_held)
    actor = topology.actors[1]
    die(actor, monkeypatch)
    supervisor.check_workers()
    assert actor.incarnation == 1
    deadline = time.monotonic() + (1.0 if is_held else 30.0)
    while not supervisor.recorder.last(actor.name, "rows") and time.monotonic() < deadline:
        time.sleep(0.05)
    assert bool(supervisor.recorder.last(actor.name, "rows")) is not is_held


def test_evaluations_that_failed_are_counted_under_their_reasons(supervisor, monkeypatch):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    errors = [
        EnvironmentFailedError("raised", "no"),
        PortClosedError("gone"),
        None,
        EnvironmentFailedError("hung", "no"),
        EnvironmentFailedError("raised", "no"),
    ]
    for number, error in enumerate(errors, start=1):
        result: Future = Future()
        monkeypatch.setattr(topology.evaluator, "call", lambda *arguments, result=result: result)
        supervisor.start_evaluation_if_due(SimpleNamespace(env_steps=100 * number))
        assert supervisor.evaluation is result
        if error is not None:
            result.set_exception(error)
        supervisor.collect_evaluation()
        supervisor.give_up_evaluation()
    counters = supervisor.recorder.snapshot().counters
    failed = {name: n for name, n in counters.items() if name.startswith("evaluations_failed/")}
    assert failed == {
        "evaluations_failed/raised": 2,
        "evaluations_failed/evaluator_died": 1,
        "evaluations_failed/late": 1,
        "evaluations_failed/hung": 1,
    }


def test_an_evaluation_that_is_due_when_the_run_ends_is_made(supervisor, monkeypatch):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    interval, done = topology.config.evaluation.interval, Future()
    done.set_exception(EnvironmentFailedError("raised", "no"))
    monkeypatch.setattr(topology.evaluator, "call", lambda *arguments: done)
    supervisor.start_last_evaluation(SimpleNamespace(env_steps=interval - 1))
    assert supervisor.evaluation is None
    supervisor.start_last_evaluation(SimpleNamespace(env_steps=interval + 1))
    assert supervisor.evaluation is done


def test_an_evaluation_that_is_due_while_the_store_is_away_is_made_later(supervisor, monkeypatch):
    wait(supervisor.topology.learner.call(Learner.warm_up), 60.0, "the learner")
    with monkeypatch.context() as away:
        away.setattr(ParameterStore, "newest", lambda *_: failed(PortAwayError("out of reach")))
        supervisor.start_evaluation_if_due(SimpleNamespace(env_steps=150))
        assert supervisor.evaluation is None
    supervisor.start_evaluation_if_due(SimpleNamespace(env_steps=150))
    assert supervisor.evaluation is not None


def test_the_last_evaluation_takes_no_earlier_ones_place(supervisor, monkeypatch):
    topology = supervisor.topology
    wait(topology.learner.call(Learner.warm_up), 60.0, "the learner")
    topology.member = dataclasses.replace(topology.member, config=change(topology.config, {"capture_video": True}))
    earlier, last = Future(), Future()
    results = iter([earlier, last])
    monkeypatch.setattr(topology.evaluator, "call", lambda *arguments: next(results))
    supervisor.start_evaluation_if_due(SimpleNamespace(env_steps=100))
    for _ in range(2):  # it is asked for once
        supervisor.start_last_evaluation(SimpleNamespace(env_steps=150))
    assert supervisor.evaluation is last  # queued behind the other one
    supervisor.collect_evaluation()
    assert supervisor.evaluation is last
    for number, result in enumerate((earlier, last), 1):
        result.set_exception(EnvironmentFailedError("raised", "no"))
        supervisor.collect_evaluation()
        assert supervisor.recorder.snapshot().counters["evaluations_failed/raised"] == number
    assert supervisor.evaluation is None


@pytest.mark.parametrize(
    ("answer", "silent_s", "counted"), [("error", 0, "raised"), ("", 0, "late"), ("", 1e9, "hung")]
)
def test_who_waits_for_an_evaluation_outlasts_it(supervisor, monkeypatch, answer, silent_s, counted):
    evaluator = supervisor.topology.evaluator
    wait(supervisor.topology.learner.call(Learner.warm_up), 60.0, "the learner")
    result: Future = Future()
    if answer:
        result.set_exception(EnvironmentFailedError("raised", "no"))
    monkeypatch.setattr(hangs, "_CHECK_S", 0.01)
    monkeypatch.setattr(evaluator, "call", lambda *arguments: result)
    monkeypatch.setattr(evaluator, "silent_s", lambda waiting_for: silent_s)
    supervisor.start_evaluation_if_due(SimpleNamespace(env_steps=100))
    supervisor.await_evaluation(0.05, lambda: False)
    assert supervisor.evaluation is None
    assert supervisor.recorder.snapshot().counters[f"evaluations_failed/{counted}"] == 1
    assert evaluator.incarnation == (0 if answer else 1), "one that still plays would hold up the next"


def test_a_learner_hears_how_far_the_run_is_once(supervisor, monkeypatch):
    heard = []
    monkeypatch.setattr(supervisor.topology.learner, "tell", lambda method, value: heard.append((method, value)))
    steps = supervisor.topology.config.steps
    for env_steps in (0, 0, steps // 2, steps // 2, 2 * steps):
        snapshot = dataclasses.replace(supervisor.recorder.snapshot(), env_steps=env_steps)
        supervisor.prepare_learner(snapshot)
    assert heard == [(Learner.set_progress, share) for share in (0.0, 0.5, 1.0)]


def test_who_waits_for_a_part_lets_those_look_after_it_to_whom_it_belongs(supervisor):
    looks, calls = [], []

    def save():
        calls.append(len(looks))
        if len(looks) < 2:
            raise PortAwayError("shard 0 lost its contents and has not begun again")
        return "saved"

    waiting = MemberSupervisor(supervisor.topology, supervisor.recorder, meanwhile=lambda: looks.append("looked"))
    assert waiting.despite_deaths(save) == "saved"
    assert calls == [0, 1, 2]
