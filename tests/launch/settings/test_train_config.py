import dataclasses
from pathlib import Path

import pytest
import torch

from actors.config import ActorConfig
from laser.algorithms.acer_continuous import AcerContinuousConfig
from laser.algorithms.dqn import DqnConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.ppo import PpoConfig
from laser.algorithms.sac import SacConfig
from laser.config import ConfigError, find_problems
from laser.networks.config import NetworkConfig
from laser.packages import find_missing
from launch.presets import change, find_presets, load_preset
from launch.settings.json_form import config_from_json, config_to_json
from launch.settings.train_config import EvaluationConfig, TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig
from replay_server.samplers.ero import EroConfig
from replay_server.samplers.ners import NersConfig


@pytest.fixture(autouse=True)
def every_package_is_installed(monkeypatch):
    monkeypatch.setattr("launch.settings.train_config.find_missing", lambda key, names, instead: iter(()))


def make(**changes):
    values = {"env": "CartPole-v1", "steps": 1000, "algorithm": LaserConfig(batch_size=8, replay_fraction=0.5)}
    return TrainConfig(**values | changes)


def problems(config):
    return {problem.key: str(problem) for problem in find_problems(config)}


def test_the_default_config_is_right():
    assert problems(make()) == {}
    assert list(make().warnings()) == []


@pytest.mark.parametrize(
    ("changes", "key", "says"),
    [
        ({"steps": 0}, "steps", "in [1, 1e+15], got 0"),
        ({"steps": 10**30}, "steps", "in [1, 1e+15], got 1000"),
        ({"seed": -1}, "seed", "in [0, 2147483647], got -1"),
        ({"runtime": "threads"}, "runtime", "must be one of local, ray, lockstep"),
        ({"env": "  "}, "env", "--env CartPole-v1"),
        ({"device": "gpu"}, "device", "must be auto, cpu, cuda or cuda:N"),
        ({"device": "cuda:x"}, "device", "must be auto"),
        ({"device": "cuda:01"}, "device", "must be auto"),
        ({"actor": ActorConfig(device="banana")}, "actor.device", "must be one of cpu, cuda, got 'banana'"),
        ({"ray_address": "nowhere", "runtime": "ray"}, "ray-address", "must be HOST:PORT, got 'nowhere'"),
        (
            {"ray_address": "10.0.0.1:6379"},
            "ray-address",
            "needs runtime ray, got runtime local; leave runtime out",
        ),
        ({"ray_address": "a:1", "runtime": "ray", "device": "cuda:1"}, "device", "Ray chooses the GPU"),
        ({"algorithm": LaserConfig(learning_rate=float("nan"))}, "algorithm.learning-rate", "finite"),
        ({"algorithm": LaserConfig(discount=1.5)}, "algorithm.discount", "in [0, 1], got 1.5"),
        ({"replay": ReplayConfig(capacity_steps=10)}, "replay.capacity-steps", "hold an unroll of 20"),
        ({"replay": ReplayConfig(capacity_steps=40, num_shards=3)}, "replay.capacity-steps", "each of 3 shards"),
        ({"replay": ReplayConfig(capacity_steps=159, min_steps=0)}, "replay.capacity-steps", "a batch of 8 unrolls"),
        ({"replay": ReplayConfig(capacity_steps=500, min_steps=501)}, "replay.min-steps", "drawing never begins"),
        ({"algorithm": LaserConfig(batch_size=8, replay_fraction=0.05)}, "algorithm.replay-fraction", "0 replayed"),
        ({"algorithm": LaserConfig(batch_size=8, replay_fraction=0.95)}, "algorithm.replay-fraction", "0 fresh"),
        ({"learner": LearnerConfig(publish_interval=0)}, "learner.publish-interval", "at least 1"),
        ({"actor": ActorConfig(env_groups=9), "num_envs": 8}, "actor.env-groups", "a group would be empty"),
        ({"evaluation": EvaluationConfig(episodes=0)}, "evaluation.episodes", "at least 1"),
    ],
)
def test_each_mistake_is_named(changes, key, says):
    found = problems(make(**changes))
    assert list(found) == [key]
    assert says in found[key]
    with pytest.raises(ConfigError):
        make(**changes).check()


def test_remedies_work():
    small = make(replay=ReplayConfig(capacity_steps=159, min_steps=0))
    assert "use at least 160" in problems(small)["replay.capacity-steps"]
    assert problems(dataclasses.replace(small, replay=ReplayConfig(capacity_steps=160, min_steps=0))) == {}
    fraction = make(algorithm=LaserConfig(batch_size=8, replay_fraction=0.05))
    assert "at least 11" in problems(fraction)["algorithm.replay-fraction"]
    assert problems(make(algorithm=LaserConfig(batch_size=11, replay_fraction=0.05))) == {}


def test_all_mistakes_come_at_once():
    wrong = make(
        steps=0,
        device="gpu",
        algorithm=LaserConfig(discount=2.0, learning_rate=-1.0),
        replay=ReplayConfig(capacity_steps=10),
    )
    # `steps` is wrong by itself, so rules that join fields wait.
    assert set(problems(wrong)) == {"steps", "device", "algorithm.discount", "algorithm.learning-rate"}
    assert set(problems(dataclasses.replace(wrong, steps=1))) == {
        "device",
        "algorithm.discount",
        "algorithm.learning-rate",
        "replay.capacity-steps",
    }


def test_cuda_devices_that_are_not_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    nothing = "{0}: no CUDA device was found; use --{0} cpu; nvidia-smi -L lists what the driver sees"
    assert problems(make(device="cuda")) == {"device": nothing.format("device")}
    on_a_gpu = ActorConfig(device="cuda")
    assert problems(make(actor=on_a_gpu)) == {"actor.device": nothing.format("actor.device")}
    # A cluster may have what this machine has not.
    assert problems(make(actor=on_a_gpu, device="cuda", ray_address="a:1", runtime="ray")) == {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_80", "sm_90"])
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda index: (9, 0) if index else (7, 0))
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda index: "Tesla V100")
    assert problems(make(device="cuda:1")) == {}
    assert "must be below cuda:2" in problems(make(device="cuda:2"))["device"]
    assert "Tesla V100 has compute capability 7.0" in problems(make(device="cuda:0"))["device"]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"replay": ReplayConfig(samples_per_insert=4.0)}, "replay.samples-per-insert"),
        ({"checkpoint_replay": True, "algorithm": LaserConfig(replay_fraction=0.0)}, "checkpoint-replay"),
        ({"runtime": "lockstep", "device": "cuda"}, "device"),
        ({"runtime": "lockstep", "algorithm": LaserConfig(replay_fraction=1.0)}, "replay.samples-per-insert"),
        ({"steps": 10}, "steps"),
        ({"replay": ReplayConfig(min_steps=2_000)}, "steps"),
        ({"evaluation": EvaluationConfig(interval=2_000)}, "evaluation.interval"),
        ({"runtime": "lockstep", "learner": LearnerConfig(publish_interval=4)}, "learner.publish-interval"),
        ({"algorithm": PpoConfig()}, "algorithm.baseline-rate"),
        ({"algorithm": LaserConfig(popart_step_size=0.5)}, "algorithm.popart-step-size"),
        ({"algorithm": LaserConfig(pixel_control_cell=2)}, "algorithm.pixel-control-cell"),
        ({"network": NetworkConfig(core_size=2)}, "network.core-size"),
        ({"network": NetworkConfig(features=64)}, "network.features"),
        ({"network": NetworkConfig(torso="nature_cnn", filters="(8,3,1)")}, "network.filters"),
        ({"network": NetworkConfig(torso="conv", width=2)}, "network.width"),
        ({"algorithm": AcerContinuousConfig(entropy_cost=0.1, replay_fraction=0.5)}, "algorithm.entropy-cost"),
        ({"learner": LearnerConfig(replay_core_state="stored")}, "learner.replay-core-state"),
        ({"learner": LearnerConfig(compile="off", cuda_graphs="on")}, "learner.cuda-graphs"),
        ({"replay": ReplayConfig(priority_exponent=1.0)}, "replay.priority-exponent"),
        ({"replay": ReplayConfig(importance_exponent=1.0)}, "replay.importance-exponent"),
        ({"replay": ReplayConfig(ners=NersConfig(batch_size=7))}, "replay.ners.batch-size"),
        ({"replay": ReplayConfig(ero=EroConfig(batch_size=7))}, "replay.ero.batch-size"),
        ({"algorithm": SacConfig(learn_temperature=False, temperature_rate=2.0)}, "algorithm.temperature-rate"),
        ({"algorithm": DqnConfig(num_atoms=5)}, "algorithm.num-atoms"),
        ({"algorithm": DqnConfig(distributional=True, error_loss="squared")}, "algorithm.error-loss"),
        ({"algorithm": DqnConfig(noisy_std=0.1)}, "algorithm.noisy-std"),
    ],
)
def test_settings_without_effect_warn(changes, key):
    assert [warning.key for warning in make(**changes).warnings()] == [key]


@pytest.mark.parametrize("key", ["sampler", "remover"])
def test_strategies_that_are_not_there_are_named_before_anything_starts(key):
    (problem,) = find_problems(make(replay=ReplayConfig(**{key: "nope"})))
    assert problem.key == f"replay.{key}"
    assert "must be one of" in problem.wrong
    assert "got 'nope'" in problem.wrong


def test_a_replay_must_take_what_an_actor_sends_at_once():
    replay = ReplayConfig(capacity_steps=2_048, min_steps=100)
    assert problems(make(num_envs=64, unroll_length=16, replay=replay)) == {}
    found = problems(make(num_envs=129, unroll_length=16, replay=replay))["replay.capacity-steps"]
    assert "must hold the 129 unrolls of 16 env steps that an actor sends at once in each of 1 shards" in found
    assert problems(make(num_envs=129, unroll_length=16, replay=replay, actor=ActorConfig(env_groups=2))) == {}


LOCKSTEP = (
    *("box2d", "minatar", "minigrid", "vectors"),
    *("acer_cartpole", "acer_continuous", "acer_pendulum", "cartpole", "ddpg", "ddpg_pendulum", "dqn_cartpole"),
    *("dqn_mini", "halfcheetah", "hopper", "mini", "naf", "naf_pendulum", "ners_sac", "ners_td3"),
    *("ppo", "ppo_pendulum", "racer"),
    *(
        "mujoco",
        "racer_pendulum",
        "reactor_cartpole",
        "reactor_mini",
        "sac",
        "sac_pendulum",
        "sac_sparse_pendulum",
        "td3",
        "td3_pendulum",
    ),
    *("td3_sparse_pendulum", "v_racer", "v_racer_pendulum"),
)


@pytest.mark.parametrize("preset", find_presets())
def test_a_runtime_that_is_named_runs_freely_unless_a_schedule_is_named_too(preset):
    own = load_preset(preset)
    assert own.takes_turns == (preset in LOCKSTEP)
    for runtime in ("local", "ray"):
        config = change(own, {"runtime": runtime})
        assert (config.takes_turns, config.has_processes) == (False, runtime == "ray")
        config = change(own, {"runtime": runtime, "schedule": "lockstep"})
        assert (config.takes_turns, config.has_processes) == (True, runtime == "ray")
    short = change(own, {"runtime": "lockstep"})
    assert (short.takes_turns, short.has_processes) == (True, False)
    assert not change(own, {"schedule": "free"}).takes_turns
    kept = change(own, {"schedule": "lockstep"})
    assert (kept.takes_turns, kept.has_processes) == (True, False)


def test_a_file_given_as_the_schedule_is_a_settings_schedule():
    with pytest.warns(UserWarning, match=r"schedule: a file of settings over time is settings-schedule now; way\.json"):
        config = change(load_preset("cartpole"), {"schedule": "way.json"})
    assert config.settings_schedule == Path("way.json")
    assert config.takes_turns
    assert change(config, {"schedule": "FREE"}).settings_schedule == Path("way.json")
    assert change(config, {"settings_schedule": "none"}).settings_schedule is None


def test_records_of_earlier_versions_are_read():
    record = config_to_json(load_preset("cartpole"))
    del record["settings_schedule"]
    for value, wanted in (("way.json", Path("way.json")), (None, None)):
        config = config_from_json({**record, "runtime": "lockstep", "schedule": value})
        assert config.settings_schedule == wanted
        assert config.takes_turns


def test_a_tracker_whose_package_is_missing_is_one_line(monkeypatch):
    monkeypatch.setattr("launch.settings.train_config.find_missing", find_missing)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    problem = problems(make(track="wandb"))["track"]
    assert "pip install 'wandb" in problem
