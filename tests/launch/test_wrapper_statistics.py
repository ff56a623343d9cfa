"""Statistics of wrappers belong to the policy: every command that goes on with a checkpoint goes on with them."""

from __future__ import annotations

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from gymnasium.wrappers import NormalizeObservation, NormalizeReward

import laser
from actors.evaluator import Evaluator
from laser.environments import EnvironmentConfig
from laser.environments.statistics import read_statistics, read_wrappers
from launch.evaluation import evaluate
from launch.export.export import export
from launch.export.options import ExportOptions
from launch.records.saved_state import saved_statistics
from learner.checkpoint import load_newest_checkpoint

WRAPPERS = "gymnasium.wrappers:NormalizeObservation,gymnasium.wrappers:NormalizeReward"
STEPS = 320


class Fragile(CartPoleEnv):
    """Fails once, in the process that made it."""

    has_failed = False
    num_steps = 0

    def step(self, action):
        Fragile.num_steps += 1
        if Fragile.num_steps > 200 and not Fragile.has_failed:
            Fragile.has_failed = True
            raise RuntimeError("the wheel came off")
        return super().step(action)


def config_for(path, wrappers=WRAPPERS, **changes):
    config = laser.load_preset("cartpole")
    environment = EnvironmentConfig(wrappers=wrappers, vectorization="sync")
    learner = dataclasses.replace(config.learner, compile="off")
    replay = dataclasses.replace(config.replay, min_steps=64)
    values = {"steps": STEPS, "quiet": True, "run_dir": path, "runtime": "lockstep", "num_envs": 4, "num_actors": 2}
    values |= {"environment": environment, "learner": learner, "replay": replay, "stop_at_return": float("inf")}
    return dataclasses.replace(config, **values | changes)


def saved(path):
    checkpoint, _ = load_newest_checkpoint(path / "checkpoints")
    return saved_statistics(checkpoint)[0]


def env_steps(path):
    return load_newest_checkpoint(path / "checkpoints")[0].step


def same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        assert mine.name == theirs.name
        np.testing.assert_allclose(mine.mean, theirs.mean, rtol=1e-5)
        np.testing.assert_allclose(mine.var, theirs.var, rtol=1e-5)
    return True


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "run"
    laser.train(config_for(path))
    return path


def test_a_checkpoint_holds_the_union_over_all_environments_of_all_actors(run_dir):
    reward, observation = saved(run_dir)
    assert (reward.name, observation.name) == ("NormalizeReward.return_rms", "NormalizeObservation.obs_rms")
    assert reward.num == observation.num == 8
    assert reward.count == pytest.approx(env_steps(run_dir), abs=0.1), "one for each step"
    assert np.abs(observation.mean).max() > 1e-3


class OwnMoments:
    """Running statistics that are not Gymnasium's."""

    def __init__(self):
        self.mean, self.std, self.count = np.zeros(4), np.ones(4), 0


class OwnNormalizer(gymnasium.ObservationWrapper):
    """A wrapper with statistics that only it knows how to save."""

    def __init__(self, env):
        super().__init__(env)
        self.moments, self.seen, self.scale = OwnMoments(), np.zeros(3), 1.0

    def observation(self, observation):
        return observation


def normalized_cart_pole(render_mode=None):
    return NormalizeReward(OwnNormalizer(NormalizeObservation(CartPoleEnv(render_mode))))


def test_a_fresh_run_says_which_statistics_checkpoints_hold_and_which_not(tmp_path):
    config = config_for(tmp_path / "run", wrappers="", env=normalized_cart_pole, num_actors=1, quiet=True)
    laser.train(config)
    first = (tmp_path / "run" / "log.txt").read_text()
    held = "NormalizeReward.return_rms, NormalizeObservation.obs_rms"
    assert f"checkpoints hold the statistics {held}: --resume goes on with them" in first
    assert "warning: checkpoints leave out the statistics OwnNormalizer.moments, which begin anew" in first
    laser.train(dataclasses.replace(config, resume=True, steps=STEPS + 20))
    assert "checkpoints" not in (tmp_path / "run" / "log.txt").read_text().removeprefix(first)


def test_a_run_without_statistics_says_nothing_of_them(tmp_path):
    laser.train(config_for(tmp_path / "run", wrappers="", num_actors=1, steps=64))
    assert "statistics" not in (tmp_path / "run" / "log.txt").read_text()


@pytest.mark.parametrize("schedule", ["lockstep", "free"])
def test_a_resumed_run_goes_on_with_them(tmp_path, schedule):
    changes = {"runtime": "local", "schedule": schedule}
    laser.train(config_for(tmp_path / "run", **changes))
    before = saved(tmp_path / "run")
    laser.train(config_for(tmp_path / "run", resume=True, steps=2 * STEPS, **changes))
    after = saved(tmp_path / "run")
    # In a free run actors go on for an unroll while they are stopped, and its steps may be reported or not.
    tolerance = 0.1 if schedule == "lockstep" else 500.0
    assert after[0].count == pytest.approx(env_steps(tmp_path / "run"), abs=tolerance), "each step counts once"
    assert after[0].count > before[0].count


class Spoiled(CartPoleEnv):
    """Returns NaN once, in the process that made it."""

    nan = ""
    num_steps = 0

    def step(self, action):
        observation, reward, *rest = super().step(action)
        Spoiled.num_steps += 1
        if Spoiled.num_steps == 50:
            return (observation * np.nan, reward, *rest) if self.nan == "observation" else (observation, np.nan, *rest)
        return observation, reward, *rest


@pytest.mark.parametrize(("nan", "num_envs"), [("observation", 4), ("reward", 4), ("observation", 1)])
def test_one_nan_spoils_the_statistics_of_neither_the_run_nor_its_checkpoint(tmp_path, monkeypatch, nan, num_envs):
    monkeypatch.setattr(Spoiled, "nan", nan)
    monkeypatch.setattr(Spoiled, "num_steps", 0)
    environment = EnvironmentConfig(wrappers=WRAPPERS, max_restarts=1)
    changes = {"env": Spoiled, "environment": environment, "num_actors": 1, "num_envs": num_envs}
    result = laser.train(config_for(tmp_path / "run", **changes))
    assert (result.finished, Spoiled.num_steps >= STEPS) == ("steps", True)
    assert all(np.isfinite([*each.mean.flat, *each.var.flat]).all() for each in saved(tmp_path / "run"))


def test_an_environment_that_is_made_again_goes_on_with_them(tmp_path):
    Fragile.has_failed, Fragile.num_steps = False, 0
    environment = EnvironmentConfig(wrappers=WRAPPERS, max_restarts=3)
    result = laser.train(config_for(tmp_path / "run", env=Fragile, environment=environment, num_actors=1))
    assert Fragile.has_failed
    assert saved(tmp_path / "run")[0].count > 0.9 * result.env_steps


@pytest.mark.parametrize("command", ["evaluate", "export"])
def test_commands_play_with_the_saved_ones_and_leave_them(run_dir, monkeypatch, command):
    made, make = [], evaluate.make_environment
    monkeypatch.setattr(evaluate, "make_environment", lambda *arguments: made.append(make(*arguments)) or made[-1])
    if command == "evaluate":
        laser.evaluate(run_dir, 2, quiet=True)
    else:
        wrappers = export(run_dir, ExportOptions(format="torch")).to_json()["signature"]["wrappers"]
        assert [each["name"] for each in wrappers] == [each.name for each in saved(run_dir)]
        assert wrappers[1]["mean"] == saved(run_dir)[1].mean.tolist()
    assert same(read_statistics(made[0])[0], saved(run_dir))


def test_evaluations_during_training_play_with_those_of_the_actors(tmp_path, monkeypatch):
    seen, play = [], Evaluator._play

    def watched(self, environment, *arguments):
        before = read_statistics(environment)[0]
        results = play(self, environment, *arguments)
        assert same(read_statistics(environment)[0], before), "they stay as they are during the episodes"
        seen.append(before[0].count * 8 / before[0].num)
        return results

    monkeypatch.setattr(Evaluator, "_play", watched)
    config = laser.load_preset("cartpole")
    evaluation = dataclasses.replace(config.evaluation, interval=STEPS // 4, episodes=2)
    laser.train(config_for(tmp_path / "run", evaluation=evaluation))
    assert len(seen) >= 2
    assert seen[1] > seen[0] > 1.0


def test_a_loaded_policy_prepares_an_environment_of_the_users_own(run_dir):
    policy = laser.load_policy(run_dir)
    environment = NormalizeReward(NormalizeObservation(gymnasium.make("CartPole-v1")))
    policy.prepare(environment)
    environment.reset(seed=0)
    assert same(read_wrappers(environment), saved(run_dir))
    with pytest.raises(ValueError, match=r"outermost first: NormalizeReward.*, NormalizeObservation"):
        policy.prepare(gymnasium.make("CartPole-v1"))


def test_a_run_from_the_weights_of_another_one_begins_with_its_statistics(run_dir, tmp_path, capsys):
    laser.train(config_for(tmp_path / "run", init_from=str(run_dir)))
    assert saved(tmp_path / "run")[0].count == pytest.approx(env_steps(run_dir) + env_steps(tmp_path / "run"), abs=0.1)
    reward = "gymnasium.wrappers:NormalizeReward"
    laser.train(config_for(tmp_path / "other", wrappers=reward, init_from=str(run_dir), quiet=False))
    assert "NormalizeObservation.obs_rms fit none of the environment's wrappers" in capsys.readouterr().err
    assert saved(tmp_path / "other")[0].count == pytest.approx(env_steps(tmp_path / "other"), abs=0.1)
