"""A whole learner: what it reports, saves and publishes, and how it is changed while it trains."""

import dataclasses
import itertools
import time

import numpy as np
import pytest
import torch

from actors.actor import Actor
from laser.algorithms.impala import Impala
from laser.algorithms.v_racer import VRacer
from laser.compilation import CompilerImport
from laser.ports import PortClosedError, wait
from launch.planning.member_plan import plan_member, plan_population
from launch.presets import load_preset
from launch.recording.recorder import Recorder
from launch.records.settings_schedule import SettingsChange, write_changes
from launch.runtimes.local_runtime import LocalRuntime
from launch.topology import place_member, place_population
from launch.train import train
from learner.experience.collate import example_batch
from learner.feedback.column_writer import ColumnWriter
from learner.feedback.prioritizer_link import PrioritizerLink
from learner.learner import Learner
from learner.publishing.publisher import Publisher
from learner.updating.eager import EagerUpdater
from learner.updating.train_state import TrainState
from replay_server.serving.shard import Shard


@pytest.fixture
def pair():
    """Two members with learners that have learned a little, and what calls them."""
    config = load_preset("cartpole", {"num_envs": 4, "replay.min_steps": 0, "replay.capacity_steps": 2000})
    runtime = LocalRuntime()
    members = plan_population([dataclasses.replace(config, seed=number) for number in range(2)])
    with Recorder(in_turns=True) as recorder:
        topologies = place_population(members, [recorder, recorder], runtime)

        def call(number, method, *arguments):
            return wait(topologies[number].learner.call(getattr(Learner, method), *arguments), 60, method)

        for number, topology in enumerate(topologies):
            call(number, "warm_up")
            for worker in topology.actors:
                wait(worker.call(Actor.run_unroll), 60, "unroll")
            call(number, "step")
        yield topologies, call
        runtime.close()


def same(one, other):
    return all(torch.equal(value, other[group][name]) for group in one for name, value in one[group].items())


def test_adopting_takes_networks_and_moments_and_publishes_them(pair):
    topologies, call = pair
    weights = call(0, "weights")
    assert not same(weights, call(1, "weights"))
    before = wait(topologies[1].parameters.newest(-1), 5, "parameters")
    call(1, "adopt", weights)
    assert same(weights, call(1, "weights"))
    after = wait(topologies[1].parameters.newest(-1), 5, "parameters")
    assert after.version == before.version + 1
    np.testing.assert_array_equal(after.vector, wait(topologies[0].parameters.newest(-1), 5, "parameters").vector)
    call(1, "step")  # the other's copy is its own
    assert not same(weights, call(1, "weights"))
    assert same(weights, call(0, "weights"))


def test_a_step_ends_when_what_it_sends_has_arrived(pair, monkeypatch):
    _, call = pair
    arrived = []
    for part in (Publisher, ColumnWriter):
        monkeypatch.setattr(part, "settle", lambda self: arrived.append(type(self)))
    call(0, "step", 2)
    assert arrived[-2:] == [Publisher, ColumnWriter]


def test_a_learner_whose_loss_cannot_be_compiled_goes_on_eagerly(monkeypatch):
    loss = Impala.loss

    def looks(self, networks, targets, batch, *rest):
        assert batch.rewards.isfinite().all()  # a look at numbers, which tracing does not know
        return loss(self, networks, targets, batch, *rest)

    monkeypatch.setattr(Impala, "loss", looks)
    config = load_preset("cartpole", {"num_envs": 4, "replay.min_steps": 0, "learner.compile": "on"})
    runtime = LocalRuntime()
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        with pytest.warns(RuntimeWarning, match="the loss cannot be compiled and runs uncompiled: "):
            description = wait(topology.learner.call(Learner.warm_up), 60, "warm_up")
        assert description == "cpu, float32, eager"
        before = wait(topology.learner.call(Learner.weights), 60, "weights")
        for worker in topology.actors:
            wait(worker.call(Actor.run_unroll), 60, "unroll")
        wait(topology.learner.call(Learner.step), 60, "step")
        assert not same(before, wait(topology.learner.call(Learner.weights), 60, "weights"))
        runtime.close()


def test_a_learner_that_takes_over_updates_at_once_and_compiles_when_the_compiler_is_there():
    config = load_preset("cartpole", {"num_envs": 4, "replay.min_steps": 0, "learner.compile": "on"})
    runtime = LocalRuntime()
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        (actor,) = topology.actors

        def call(method, *arguments):
            return wait(topology.learner.call(getattr(Learner, method), *arguments), 60, method)

        def tick():
            wait(actor.call(Actor.run_unroll), 60, "unroll")
            learner = topology.learner._host._component
            num_before = learner.num_updates
            while learner.num_updates == num_before:
                call("tick")
            return learner.updater.description

        with pytest.MonkeyPatch.context() as importing:
            importing.setattr(CompilerImport, "is_over", False)
            assert call("take_over", 7, None) == "cpu, float32, eager"
            call("change_settings", {"entropy_cost": 0.02})
            weights = [call("weights")]
            assert [tick(), tick()] == ["cpu, float32, eager"] * 2
            weights.append(call("weights"))
        topology.learner._host._component.updater._compiler.wait()
        assert [tick(), tick()] == ["cpu, float32, compiled"] * 2
        weights.append(call("weights"))
        updater = topology.learner._host._component.updater._compiled
        assert len(updater._update._compiled) == updater.state.cycle, "an update compiled once more"
        assert not any(same(one, other) for one, other in itertools.combinations(weights, 2))
        assert call("report").gauges["parameter_version"] >= 8
        runtime.close()


def test_settings_hold_from_the_next_update_on_and_are_saved(pair):
    _, call = pair
    start = call(0, "weights")
    call(0, "change_settings", {"learning_rate": 1e-30, "entropy_cost": 0.5, "discount": 0.5})
    call(0, "step")
    moved = call(0, "weights")
    assert all(torch.equal(value, moved["networks"][name]) for name, value in start["networks"].items())
    state = call(0, "state_dict")
    assert state["numbers"]["settings"] == {"learning_rate": 1e-30, "entropy_cost": 0.5, "discount": 0.5}
    call(1, "adopt", call(0, "weights"))
    call(1, "change_settings", state["numbers"]["settings"])
    call(1, "change_settings", {"learning_rate": 1e-3})
    call(1, "step")
    assert not same(moved, call(1, "weights"))


def test_an_entropy_cost_that_falls_reaches_the_loss_at_every_update(monkeypatch):
    seen, loss = [], Impala.loss

    def watched(self, networks, targets, batch, schedule, generator):
        seen.append(schedule.get("entropy_cost"))
        return loss(self, networks, targets, batch, schedule, generator)

    monkeypatch.setattr(Impala, "loss", watched)
    settings = {"algorithm.entropy_cost": 0.4, "algorithm.entropy_cost_final": 0.25, "num_envs": 4}
    config = load_preset("cartpole", {**settings, "replay.min_steps": 0})
    runtime = LocalRuntime()
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), runtime, recorder)

        def call(method, *arguments):
            return wait(topology.learner.call(getattr(Learner, method), *arguments), 60, method)

        def learn():
            for worker in topology.actors:
                wait(worker.call(Actor.run_unroll), 60, "unroll")
            call("step")

        call("warm_up")
        for progress in (0.0, 0.5, 1.0, 1.5):
            call("set_progress", progress)
            learn()
        call("change_settings", {"entropy_cost": 0.8})
        learn()
        runtime.close()
    assert seen == pytest.approx([0.4, 0.2, 0.1, 0.1, 0.2])


def test_what_the_replay_derives_follows_the_discount(tmp_path, monkeypatch):
    told, write_options = [], VRacer.write_options

    def watched(self, num_updates, discount):
        told.append(discount)
        return write_options(self, num_updates, discount)

    monkeypatch.setattr(VRacer, "write_options", watched)
    write_changes(tmp_path / "schedule.json", [SettingsChange(300, {"algorithm.discount": 0.5})])
    values = {"run_dir": tmp_path / "run", "settings-schedule": tmp_path / "schedule.json", "steps": 320, "quiet": True}
    train(load_preset("v_racer_pendulum", values | {"replay.min_steps": 256}))
    assert (told[0], told[-1]) == (0.98, 0.5)


@pytest.mark.parametrize(
    ("preset", "events"),
    [("td3_pendulum", ["learn from 2"]), ("v_racer_pendulum", ["hear", "learn from 1", "hear", "learn from 1"])],
)
def test_batches_drawn_together_are_learned_from_together_unless_the_networks_hear_of_the_replay_before_each(
    preset, events, tmp_path, monkeypatch
):
    happened = []
    in_turn, observe = EagerUpdater.in_turn, TrainState.observe

    def watched_in_turn(self, batches, rates, schedule):
        happened.append(f"learn from {len(batches)}")
        return in_turn(self, batches, rates, schedule)

    def watched_observe(self, statistics, num_updates):
        happened.append("hear")
        observe(self, statistics, num_updates)

    monkeypatch.setattr(EagerUpdater, "in_turn", watched_in_turn)
    monkeypatch.setattr(TrainState, "observe", watched_observe)
    values = {"runtime": "lockstep", "steps": 300, "num_envs": 1, "num_actors": 1, "quiet": True}
    values |= {"unroll_length": 4, "replay.min_steps": 256, "learner.batches_per_draw": 2, "learner.compile": "off"}
    train(load_preset(preset, values | {"run_dir": tmp_path / "run"}))
    assert happened[-len(events) :] == events


def test_a_round_of_updates_is_published_once_and_single_ones_add_up_to_the_interval(pair):
    topologies, _ = pair
    learner = topologies[0].learner._host._component
    learner._mixer.next = lambda most: [mix]
    learner._mixer.num_replays_due = 0
    (mix,) = learner._mixer.poll(5.0) or [None]
    before = learner.version
    learner.step(3)
    assert learner.version == before + 1
    learner._config = dataclasses.replace(learner._config, publish_interval=2)
    versions = []
    for _ in range(4):
        learner.step()
        versions.append(learner.version - before)
    assert versions == [1, 2, 2, 3]


def test_updates_go_on_while_the_store_has_not_taken_the_last_version(pair, monkeypatch):
    topologies, call = pair

    def update():
        before = call(0, "report").counters["learner_steps"]
        wait(topologies[0].actors[0].call(Actor.run_unroll), 60, "unroll")
        call(0, "tick")
        assert call(0, "report").counters["learner_steps"] == before + 1
        return wait(topologies[0].parameters.newest(-1), 5, "parameters").version

    before = update()
    monkeypatch.setattr(Publisher, "is_free", lambda self: False)
    assert [update(), update()] == [before, before]
    monkeypatch.undo()
    assert update() == before + 1


def test_what_cannot_change_is_refused(pair):
    _, call = pair
    with pytest.raises(ValueError, match="batch_size, rho_clip cannot change while training"):
        call(0, "change_settings", {"rho_clip": 2.0, "batch_size": 3, "learning_rate": 1.0})
    assert call(0, "state_dict")["numbers"]["settings"] == {}


def test_random_numbers_begin_anew_where_their_state_is_of_another_kind_of_device(pair):
    _, call = pair
    state = call(0, "state_dict")
    state["arrays"]["generator"] = np.zeros(16, np.uint8)  # as large as a CUDA generator's
    found = []
    for num_steps in (3, 3, 4):
        state["numbers"]["num_steps"] = num_steps
        call(0, "load_state_dict", state)
        found.append(call(0, "state_dict")["arrays"]["generator"])
    assert np.array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2])


def test_a_target_that_a_checkpoint_lacks_begins_as_its_networks():
    config = load_preset("acer_cartpole", {"num_envs": 2})
    runtime = LocalRuntime()
    with Recorder(in_turns=True) as recorder:
        learner = place_member(plan_member(config), runtime, recorder).learner
        state = wait(learner.call(Learner.state_dict), 60, "the state")
        vector = state["tensors"].pop("target_average")["vector"]
        with torch.no_grad():
            for value in state["tensors"]["networks"].values():
                value += 1.0
        wait(learner.call(Learner.load_state_dict, state), 60, "the learner to take it")
        after = wait(learner.call(Learner.state_dict), 60, "the state")["tensors"]["target_average"]["vector"]
        runtime.close()
    torch.testing.assert_close(after, vector + 1.0)


def test_weights_of_other_networks_are_refused(pair):
    _, call = pair
    weights = call(0, "weights")
    name = next(iter(weights["networks"]))
    wrong = {**weights, "networks": weights["networks"] | {name: torch.zeros(3, 3)}}
    with pytest.raises(ValueError, match="other networks"):
        call(1, "adopt", wrong)


def test_batches_are_laid_out_like_the_one_that_is_compiled_for(pair):
    """Another shape, type or stride of any tensor would compile the loss a second time, amid training."""
    topologies, call = pair
    learner = topologies[0].learner._host._component
    seen = []
    in_turn = learner.updater.in_turn
    learner.updater.in_turn = lambda batches, *rest: (seen.extend(batches), in_turn(batches, *rest))[1]
    call(0, "step")
    example = example_batch(learner._spec, learner._algorithm.config.batch_size, ())
    for item in dataclasses.fields(example):
        one, other = getattr(seen[0], item.name), getattr(example, item.name)
        pairs = [(one[name], other[name]) for name in other] if isinstance(other, dict) else [(one, other)]
        for given, wanted in pairs:
            assert given.shape == wanted.shape, item.name
            assert given.dtype == wanted.dtype, item.name
            assert given.stride() == wanted.stride(), item.name


def test_a_shard_that_is_lost_amid_column_writes_costs_numbers_and_not_the_learner():
    values = {"replay.num_shards": 2, "num_actors": 2, "replay.min_steps": 512, "replay.capacity_steps": 4000}
    config = load_preset("v_racer_pendulum", values | {"replay.samples_per_insert": float("inf"), "runtime": "local"})
    runtime = LocalRuntime()
    with Recorder() as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        wait(topology.learner.call(Learner.warm_up), 60, "warm_up")
        learner = topology.learner._host._component
        for _ in range(40):
            for worker in topology.actors:
                wait(worker.call(Actor.run_unroll), 60, "unroll")

        def update(num_updates):
            goal, deadline = learner.num_updates + num_updates, time.monotonic() + 60.0
            while learner.num_updates < goal:
                assert time.monotonic() < deadline, learner.waiting_for
                learner.tick()
            return learner.report().counters

        assert update(20)["column_writes_failed"] == 0
        topology.shards[1].close()
        assert update(40)["column_writes_failed"] > 0
        before = learner.report()
        after = update(40)
        # Steps of the lost shard are drawn no more: only what is told to all shards fails, and is told to the other.
        written = after["learner_steps"] - before.counters["learner_steps"]
        assert after["column_writes_failed"] - before.counters["column_writes_failed"] < written
        stats = wait(topology.replay.stats(), 5.0, "stats")
        assert stats.shards[1] is None
        runtime.close()


def test_a_report_counts_from_the_start_and_averages_since_the_last(pair):
    _, call = pair
    first = call(0, "report")
    assert first.source == "learner"
    assert first.counters["learner_steps"] == 1
    assert {"loss", "charts/learning_rate", "parameter_version"} <= set(first.gauges)
    again = call(0, "report")
    assert again.counters["learner_steps"] == 1
    assert "loss" not in again.gauges  # there was no update since
    call(0, "step", 2)
    assert call(0, "report").counters["learner_steps"] == 3
    assert call(0, "report").counters.keys() >= {"time/learner_wait", "time/learner_step", "column_writes_failed"}


def test_the_learning_rate_falls_to_zero_as_the_run_goes_on():
    config = load_preset("cartpole", {"num_envs": 4, "replay.min_steps": 0, "algorithm.learning_rate": 0.01})
    found = {}
    settings = {"linear": {}, "constant": {}, "cosine": {"learning_rate_final": 0.5, "learning_rate_warmup": 0.5}}
    for schedule, others in settings.items():
        algorithm = dataclasses.replace(config.algorithm, learning_rate_schedule=schedule, **others)
        runtime = LocalRuntime()
        with Recorder(in_turns=True) as recorder:
            topology = place_member(plan_member(dataclasses.replace(config, algorithm=algorithm)), runtime, recorder)

            def call(method, *arguments, learner=topology.learner):
                return wait(learner.call(method, *arguments), 60, "the learner")

            call(Learner.warm_up)
            for worker in topology.actors:
                wait(worker.call(Actor.run_unroll), 60, "unroll")
            rates = []
            for progress in (0.0, 0.25, 1.0, 1.5):
                call(Learner.set_progress, progress)
                call(Learner.step)
                rates.append(call(Learner.report).gauges["charts/learning_rate"])
            found[schedule] = rates
            runtime.close()
    assert found["linear"] == pytest.approx([0.01, 0.0075, 0.0, 0.0])
    assert found["constant"] == pytest.approx([0.01] * 4)
    assert found["cosine"] == pytest.approx([0.0001, 0.005, 0.005, 0.005])


def test_the_share_of_a_log_follows_the_run_and_goes_on_where_it_was(monkeypatch):
    asked, sample = [], Shard.sample
    monkeypatch.setattr(Shard, "sample", lambda self, request: asked.append(request) or sample(self, request))
    changes = {"num_envs": 4, "replay.min_steps": 0, "algorithm.batch_size": 8, "algorithm.replay_fraction": 0.5}
    config = load_preset("cartpole", {**changes, "init_replay": "minari:no/where-v0", "schedule": "lockstep"})
    shares = {"falling": (1.0, 0.5), "constant": (0.25, None), "unset": (None, None), "odd": (0.1, None)}
    found = {}
    for name, (first, final) in shares.items():
        replay = dataclasses.replace(config.replay, log_share=first, log_share_final=final)
        runtime = LocalRuntime()
        with Recorder(in_turns=True) as recorder:
            topology = place_member(plan_member(dataclasses.replace(config, replay=replay)), runtime, recorder)

            def call(method, *arguments, learner=topology.learner):
                return wait(learner.call(method, *arguments), 60, "the learner")

            call(Learner.warm_up)
            asked.clear()
            for progress in (0.0, 0.5, 1.0):
                wait(topology.actors[0].call(Actor.run_unroll), 60, "unroll")
                call(Learner.set_progress, progress)
                call(Learner.step)
            found[name] = [request.num_from_log for request in asked if request.table == "replay"]
            state, report = call(Learner.state_dict), call(Learner.report)
            assert state["numbers"].get("owed_of_log") == pytest.approx({"odd": 0.2, "unset": None}.get(name, 0.0))
            call(Learner.load_state_dict, state)
            assert call(Learner.state_dict)["numbers"].get("owed_of_log") == state["numbers"].get("owed_of_log")
            # Nothing of a log is here: what comes is not what is asked for, and the report says both.
            assert report.gauges["replay/log_share"] == 0.0
            assert report.gauges.get("replay/log_share_set") == (final if final is not None else first)
            runtime.close()
    assert found == {"falling": [4, 3, 2], "constant": [1, 1, 1], "unset": [None] * 3, "odd": [0, 1, 0]}


def test_the_first_parameters_are_out_before_anything_is_learned_and_a_second_warm_up_publishes_none():
    config = load_preset("cartpole", {"num_envs": 4, "replay.min_steps": 0})
    runtime = LocalRuntime()
    with Recorder(in_turns=True) as recorder:
        topology = place_member(plan_member(config), runtime, recorder)
        assert wait(topology.parameters.newest(-1), 5, "parameters") is None
        for _ in range(2):
            assert "cpu" in wait(topology.learner.call(Learner.warm_up), 60, "warm_up")
            assert wait(topology.parameters.newest(-1), 5, "parameters").version == 0
        assert wait(topology.learner.call(Learner.report), 60, "report").gauges["parameter_version"] == 0.0
        runtime.close()


def test_the_current_parameters_can_be_seen_without_publishing_them(pair):
    topologies, call = pair
    call(0, "change_settings", {"learning_rate": 0.1})
    published = wait(topologies[0].parameters.newest(-1), 5, "parameters")
    seen = call(0, "newest")
    np.testing.assert_array_equal(seen.vector, published.vector)
    assert wait(topologies[0].parameters.newest(published.version), 5, "parameters") is None


def test_a_restored_learner_learns_the_same_from_the_same(pair):
    """Weights, moments, random numbers and counters: then one more step on the same batch cannot differ."""
    topologies, call = pair
    state = call(0, "state_dict")
    call(1, "load_state_dict", state)
    assert same(call(0, "weights"), call(1, "weights"))
    restored = call(1, "state_dict")
    assert restored["numbers"]["num_steps"] == state["numbers"]["num_steps"] == 1
    assert restored["numbers"]["version"] == state["numbers"]["version"]
    np.testing.assert_array_equal(restored["arrays"]["generator"], state["arrays"]["generator"])
    newest = [wait(topology.parameters.newest(-1), 5, "parameters") for topology in topologies]
    assert newest[0].version == newest[1].version
    np.testing.assert_array_equal(newest[0].vector, newest[1].vector)
    # What is saved is a copy: learning on does not reach into it.
    weights = {name: value.clone() for name, value in state["tensors"]["networks"].items()}
    call(0, "step")
    assert all(torch.equal(value, state["tensors"]["networks"][name]) for name, value in weights.items())


def test_a_lesson_that_cannot_be_read_from_the_replay_is_counted_and_costs_no_run(pair, monkeypatch):
    _, call = pair

    def hear(self, mean_return):
        raise PortClosedError("shard 0 is closed")

    call(0, "hear_return", 3.0)
    assert "sampler_lessons_failed" not in call(0, "report").counters
    monkeypatch.setattr(PrioritizerLink, "hear", hear)
    for count in (1.0, 2.0):
        call(0, "hear_return", 3.0)
        assert call(0, "report").counters["sampler_lessons_failed"] == count
