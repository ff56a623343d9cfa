"""Runs that learn from a log alone."""

import dataclasses
import json
import math

import gymnasium
import numpy as np
import pytest

import laser
from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment
from laser.logs.episodes import LoggedEpisode
from laser.logs.minari_log import MinariLog, write_minari
from launch.__main__ import main
from launch.errors import NothingToResumeError
from launch.records.metrics_db import read_names, read_series
from launch.sweeps.pruning import RECORD_NAME

LOG = "minari:tests/carts-v0"


def record(env, name, act, num_episodes):
    """Write a log of `act(observation, rng)` in an environment, and return its mean return."""
    spec, environment = describe_environment(env, EnvironmentConfig()), gymnasium.make(env)
    rng, episodes = np.random.default_rng(0), []
    for seed in range(num_episodes):
        seen, actions, rewards, is_over = [environment.reset(seed=seed)[0]], [], [], False
        while not is_over:
            actions.append(act(seen[-1], rng))
            high = 1 if spec.actions.space == "Discrete" else environment.action_space.high
            observation, reward, terminated, truncated, _ = environment.step(actions[-1] * high)
            seen.append(observation)
            rewards.append(reward)
            is_over = terminated or truncated
        episodes.append(
            LoggedEpisode(
                {"observation": np.asarray(seen, np.float32)},
                np.asarray(actions, spec.actions.array.dtype),
                np.asarray(rewards, np.float32),
                terminated,
            )
        )
    write_minari(name, spec, episodes, "scripted")
    return float(np.mean([episode.rewards.sum() for episode in episodes]))


@pytest.fixture(scope="module")
def carts(tmp_path_factory):
    """A log of CartPole by a policy that balances in seven of ten steps; no statistics of it are logged."""
    with pytest.MonkeyPatch.context() as patch:
        path = tmp_path_factory.mktemp("data")
        patch.setenv("MINARI_DATASETS_PATH", str(path))

        def balance(seen, rng):
            return int(seen[2] + 0.5 * seen[3] > 0) if rng.random() < 0.6 else int(rng.integers(2))

        mean_return = record("CartPole-v1", LOG, balance, 60)
        record("Pendulum-v1", "minari:tests/pendulum-v0", lambda seen, rng: rng.uniform(-1, 1, 1), 4)
        yield mean_return


def config_of(preset, path, **changes):
    values = {"offline": LOG, "quiet": True, "run_dir": path, "env": "CartPole-v1", "evaluation.episodes": 5}
    return laser.load_preset(preset, {**values, **changes})


@pytest.mark.long
@pytest.mark.slow
def test_an_agent_becomes_better_than_its_log(tmp_path, carts):
    result = laser.train(config_of("dqn_cartpole", tmp_path / "run", steps=25_000, **{"evaluation.episodes": 20}))
    assert carts < 300
    assert result.mean_return > 1.2 * carts


@pytest.mark.parametrize("preset", ["cartpole", "acer_cartpole", "reactor_cartpole", "dqn_cartpole", "rainbow"])
def test_each_algorithm_of_discrete_actions_learns_from_a_log(tmp_path, carts, preset):
    atari = {
        "runtime": "lockstep",
        "network.torso": "mlp",
        "replay.min_steps": 500,
        "replay.samples_per_insert": 4.0,
        "environment.life_loss_ends_episode": False,
        "environment.fire_at_reset": True,
    }
    changes = {"stop_at_return": math.inf, **(atari if preset == "rainbow" else {})}
    result = laser.train(config_of(preset, tmp_path / "run", steps=1500, **changes))
    assert 1500 <= result.env_steps < 1500 + 2 * 500
    assert result.learner_steps > 0
    assert math.isfinite(result.mean_return)


@pytest.mark.parametrize("preset", ["sac_pendulum", "td3_pendulum", "racer_pendulum", "ddpg_pendulum"])
def test_each_algorithm_of_real_actions_learns_from_a_log(tmp_path, carts, preset):
    changes = {"env": "Pendulum-v1", "offline": "minari:tests/pendulum-v0", "replay.min_steps": 400}
    result = laser.train(config_of(preset, tmp_path / "run", steps=600, **changes))
    assert result.learner_steps > 0
    assert math.isfinite(result.mean_return)


@pytest.mark.parametrize(("preset", "is_fitted"), [("cartpole", True), ("sac_pendulum", False)])
def test_a_run_says_that_a_policy_is_fitted_to_the_actions_of_its_log(tmp_path, carts, capsys, preset, is_fitted):
    log = LOG if is_fitted else "minari:tests/pendulum-v0"
    words = ["--offline", log, "--steps", "400", "--run-dir", str(tmp_path / "run"), "--replay.min-steps", "256"]
    assert main(["train", preset, *words]) == 0
    said = f"note: {log} does not say how its actions were chosen, which laser needs: a policy is fitted to them first"
    assert (said in capsys.readouterr().err) == is_fitted


def test_returns_are_those_of_evaluations_and_never_the_logs(tmp_path, carts):
    result = laser.train(config_of("dqn_cartpole", tmp_path / "run", steps=1500, **{"evaluation.interval": 500}))
    path = tmp_path / "run" / "metrics.db"
    evaluations = read_series(path, "evaluation/mean_return")
    assert [at >= 500 for at, _ in evaluations] == [True] * len(evaluations)
    assert len(evaluations) >= 3
    assert evaluations[-1][0] == result.env_steps  # the agent as it ends
    assert result.episodes == 5 * len(evaluations)
    means = [value for _, value in evaluations]
    played = [value for _, value in read_series(path, "charts/episodic_return")]
    assert played
    assert min(means) <= min(played) <= max(played) <= max(means) < carts
    assert "replay/memory_bytes" in read_names(path)


@pytest.mark.slow
def test_a_tuned_and_pruned_sweep_compares_what_its_members_play_in_evaluations(tmp_path, carts, capsys):
    space = ["--space", "algorithm.learning-rate=log(1e-4,1e-2)", "--sample", "4", "--tuner", "optuna"]
    pruned = ["--pruner", "asha", "--pruner.first-rung", "500", "--concurrent", "2"]
    evaluated = ["--evaluation.interval", "250", "--evaluation.episodes", "2", "--steps", "1000"]
    words = ["sweep", "cartpole", "--offline", LOG, *space, *pruned, *evaluated, "--run-dir", str(tmp_path / "sweep")]
    assert main([*words, "--quiet", "--json"]) == 0
    members = json.loads(capsys.readouterr().out.splitlines()[-1])["members"]
    assert {member["finished"] for member in members} == {"steps", "pruned"}
    judged = [json.loads(line) for line in (tmp_path / "sweep" / RECORD_NAME).read_text().splitlines()]
    scores = [line for line in judged if "member" in line]
    assert len(scores) >= 4
    for line in scores:
        series = read_series(tmp_path / f"sweep/members/{line['member']}/metrics.db", "evaluation/mean_return")
        assert (line["env_steps"], line["score"]) in [(step, pytest.approx(value)) for step, value in series]


def test_a_run_goes_on_in_its_log_after_a_resume(tmp_path, carts):
    changes = {"checkpoint_replay": True, "stop_at_return": math.inf}
    whole = laser.train(config_of("cartpole", tmp_path / "whole", steps=2000, **changes))
    laser.train(config_of("cartpole", tmp_path / "parts", steps=1000, **changes))
    parts = laser.train(config_of("cartpole", tmp_path / "parts", steps=2000, resume=True, **changes))
    one, other = (laser.load_policy(tmp_path / name) for name in ("whole", "parts"))
    seen = np.array([0.01, 0.2, -0.03, 0.4], np.float32)
    np.testing.assert_array_equal(one.act(seen, greedy=True), other.act(seen, greedy=True))
    assert (whole.env_steps, whole.learner_steps) == (parts.env_steps, parts.learner_steps)


def test_the_environment_is_that_of_the_log(tmp_path, carts, capsys):
    words = ["train", "--offline", LOG, "--steps", "400", "--quiet", "--json", "--run-dir", str(tmp_path / "run")]
    assert main(words) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["env_steps"] >= 400
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert (config["env"], config["preset"]) == ("CartPole-v1", "cartpole")


@pytest.mark.parametrize(
    ("preset", "changes", "wrong"),
    [
        ("cartpole", {"offline": "carts"}, "offline: must be minari:NAMESPACE/NAME-vN, got 'carts'"),
        ("cartpole", {"offline": "minari:mine/carts"}, "offline: must be minari:NAMESPACE/NAME-vN, got 'minari:mine"),
        ("cartpole", {"offline": "minari:../a-v0"}, "offline: must be minari:NAMESPACE/NAME-vN, got 'minari:../a-v0'"),
        ("cartpole", {"offline": "minari:tests/none-v0"}, "offline: there is no data set tests/none-v0"),
        ("cartpole", {"env": "Acrobot-v1"}, "it was recorded in CartPole-v1: --env CartPole-v1"),
        ("cartpole", {"env": "CartPole-v1,CartPole-v0"}, "offline: a log is of one environment, and env names several"),
        ("cartpole", {"num_actors": 61}, "num-actors: 60 episodes cannot be shared out over 61 actors"),
        (
            "ppo_pendulum",
            {"env": "Pendulum-v1", "offline": "minari:tests/pendulum-v0"},
            "offline: ppo learns from the newest policy's own experience only",
        ),
    ],
)
def test_what_cannot_be_learned_from_is_refused_before_anything_starts(tmp_path, carts, preset, changes, wrong):
    with pytest.raises(ConfigError, match=wrong):
        laser.train(config_of(preset, tmp_path / "run", **changes))
    assert not (tmp_path / "run").exists()


def with_statistics(name, num_with, width=2):
    """Write a copy of the carts of which the first episodes have the statistics of their behaviour."""
    spec = describe_environment("CartPole-v1", EnvironmentConfig())
    log = MinariLog(LOG, spec)
    episodes = [log.episode(number) for number in range(8)]
    logits = [np.full((len(episode), width), -3.0 * number, np.float32) for number, episode in enumerate(episodes)]
    for number in range(num_with):
        episodes[number] = dataclasses.replace(episodes[number], mu={"logits": logits[number]})
    write_minari(name, spec, episodes, "scripted")


@pytest.mark.parametrize("num_with", [1, 7])
def test_a_log_of_which_some_episodes_have_statistics_is_learned_from(tmp_path, carts, num_with):
    """Its first episode has them, and a later one has not: what is missing is fitted."""
    name = f"minari:tests/mixed{num_with}-v0"
    with_statistics(name, num_with)
    result = laser.train(config_of("cartpole", tmp_path / "run", offline=name, steps=800))
    assert result.learner_steps > 0


@pytest.mark.parametrize("preset", ["cartpole", "acer_cartpole", "reactor_cartpole", "racer_pendulum", "acer_pendulum"])
def test_statistics_that_a_log_holds_are_what_the_learner_gets(tmp_path, carts, monkeypatch, preset):
    """The export of a run is learned from without a fitted policy, and the replay of that run holds its numbers."""
    kept = {"checkpoint_replay": True, "stop_at_return": math.inf, "replay.min_steps": 400, "evaluation.episodes": 1}
    kept["env"] = "Pendulum-v1" if preset.endswith("pendulum") else "CartPole-v1"
    names = [f"minari:tests/{which}-{preset.replace('_', '-')}-v0" for which in ("acted", "learned")]
    for run_dir, offline, name in [(tmp_path / "acts", "", names[0]), (tmp_path / "learns", names[0], names[1])]:
        laser.train(config_of(preset, run_dir, steps=1000, **kept, offline=offline))
        assert main(["replay", "export", str(run_dir), name]) == 0
        monkeypatch.setattr("launch.factories.clone_behaviour", None)  # a log without statistics would call it
    spec = describe_environment(kept["env"], EnvironmentConfig())
    acted, learned = (MinariLog(name, spec) for name in names)
    behaviour = {acted.episode(number).actions.tobytes(): acted.episode(number).mu for number in range(len(acted))}
    assert len(learned) >= 2
    for episode in map(learned.episode, range(len(learned))):
        expected = behaviour[episode.actions.tobytes()]
        assert expected.keys() == episode.mu.keys() != set()
        for name, numbers in expected.items():
            np.testing.assert_array_equal(episode.mu[name], numbers)


def test_statistics_of_other_actions_are_refused(tmp_path, carts):
    with_statistics("minari:tests/wide-v0", 8, width=3)
    with pytest.raises(
        ConfigError, match=r"offline: .*episode 0: its behaviour's logits are \d+ x 3 numbers, not \d+ x 2"
    ):
        laser.train(config_of("cartpole", tmp_path / "run", offline="minari:tests/wide-v0"))


def test_a_resume_with_another_log_is_refused(tmp_path, carts):
    with_statistics("minari:tests/second-v0", 0)
    laser.train(config_of("cartpole", tmp_path / "run", steps=400))
    with pytest.raises(NothingToResumeError, match=f"was trained with {LOG}, not minari:tests/second-v0"):
        laser.train(config_of("cartpole", tmp_path / "run", steps=800, resume=True, offline="minari:tests/second-v0"))
    with pytest.raises(NothingToResumeError, match=f"was trained with {LOG}, not none"):
        laser.train(config_of("cartpole", tmp_path / "run", steps=800, resume=True, offline=""))
