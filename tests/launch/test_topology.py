import dataclasses
import math

import pytest
import torch

from actors.actor import Actor
from launch.factories import make_actor, make_evaluator
from launch.planning.member_plan import plan_member
from launch.planning.replay_rules import online_capacity
from launch.presets import change, load_preset
from launch.supervision.session import run_session as run
from launch.train import train
from learner.experience.batch_loader import BatchLoader
from learner.learner import Learner

SMALL = {
    "steps": 1500,
    "quiet": True,
    "replay.min_steps": 64,
    "algorithm.batch_size": 16,
    "actor.insert_deadline_s": 30.0,  # of a deadlock; a busy machine may compile for longer than 5 s
}


@pytest.mark.parametrize(
    "values",
    [
        # Seven unrolls a round, two per batch: one is left over, and the next round must fit beside it.
        {"runtime": "lockstep", "num_envs": 7, "algorithm.replay_fraction": 0.875},
        # Warm-up ends amid a round, with all of it still in the queue.
        {"runtime": "lockstep", "num_envs": 4, "num_actors": 2, "replay.min_steps": 128},
        # A whole message goes to one shard.
        {"runtime": "lockstep", "num_envs": 8, "num_actors": 3, "replay.num_shards": 3},
        {"runtime": "local", "num_envs": 7, "num_actors": 3, "replay.num_shards": 2},
    ],
)
def test_the_online_queue_never_holds_up_a_run(tmp_path, values):
    config = change(load_preset("cartpole", SMALL), values)
    result = train(dataclasses.replace(config, run_dir=tmp_path / "run"))
    assert result.env_steps >= 1500
    assert result.learner_steps > 10


@pytest.mark.parametrize("rate", [math.inf, 0.5, 4.0])
def test_lockstep_keeps_the_pace_where_nothing_fresh_is_drawn(tmp_path, rate):
    values = {"runtime": "lockstep", "algorithm.replay_fraction": 1.0, "replay.samples_per_insert": rate}
    config = change(load_preset("cartpole", SMALL), values | {"num_actors": 3})
    result = train(dataclasses.replace(config, run_dir=tmp_path / "run"))
    replayed = result.learner_steps * config.algorithm.batch_size * config.unroll_length
    wanted = (result.env_steps - config.replay.min_steps) * (1.0 if math.isinf(rate) else rate)
    assert 0.9 * wanted <= replayed <= 1.3 * wanted  # draws hold some rows without a transition


def test_every_shard_takes_the_messages_of_its_actors():
    config = load_preset("cartpole", {"num_actors": 5, "num_envs": 8, "replay.num_shards": 2})
    assert online_capacity(config) // 2 >= 3 * 8


def test_a_replaced_actor_shares_no_incarnation_with_the_rebuilds_of_the_one_before():
    config = load_preset("cartpole", {"environment.max_restarts": 2})
    member = dataclasses.replace(plan_member(config), first_incarnation=10)
    used: set[int] = set()
    for incarnation in range(3):
        actor = make_actor(member, None, None, 0, incarnation)
        own = set(range(actor._incarnation, actor._incarnation + 3))
        assert not own & used
        used |= own
    assert min(used) == 10


def test_evaluation_plays_whole_games(monkeypatch):
    config = change(load_preset("pong"), {"environment.life_loss_ends_episode": True})
    asked = []

    def note(id, num_envs, environment_config):
        asked.append(environment_config)
        raise StopIteration

    member = plan_member(config)
    monkeypatch.setattr("launch.factories.make_environment", note)
    evaluator = make_evaluator(member, 0)
    with pytest.raises(StopIteration):
        evaluator.evaluate(None, 1)
    assert asked == [dataclasses.replace(config.environment, life_loss_ends_episode=False)]


def test_only_the_learner_computes_with_several_threads_and_without_denormals(monkeypatch, tmp_path):
    seen, flushing = {}, set()

    def spied(method, role):
        def call(component, *arguments):
            seen[role] = torch.get_num_threads()
            flushing.update({role} if float(torch.tensor(1.5e-38) * 0.5) == 0.0 else ())
            return method(component, *arguments)

        return call

    for owner, name, role in (
        (Learner, "tick", "learner"),
        (Actor, "tick", "actor"),
        (BatchLoader, "load", "prefetcher"),
    ):
        monkeypatch.setattr(owner, name, spied(getattr(owner, name), role))
    monkeypatch.setattr(
        "launch.train.run_session",
        lambda *given, **named: seen.update(main=torch.get_num_threads()) or run(*given, **named),
    )
    config = load_preset("cartpole", {**SMALL, "learner.torch_threads": 2})
    train(dataclasses.replace(config, runtime="local", run_dir=tmp_path / "run"))
    assert seen == {"learner": 2, "actor": 1, "prefetcher": 1, "main": 1}
    assert flushing >= {"learner"}
    assert "actor" not in flushing
