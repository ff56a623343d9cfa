"""`laser eval --log`: the episodes that were played, as a data set."""

import json
import shutil

import gymnasium
import numpy as np
import pytest

from laser.environments import EnvironmentConfig, describe_environment
from laser.logs.minari_log import MinariLog, env_of
from launch.__main__ import main
from launch.presets import load_preset
from launch.train import train

NAME = "minari:tests/played-v0"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a run's directory; data sets lie beside it."""
    root = tmp_path_factory.mktemp("runs")
    values = {"steps": 1500, "quiet": True, "run_dir": root / "run", "replay.min_steps": 128}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(root / "data"))
        yield train(load_preset("cartpole", values)).run_dir


@pytest.mark.parametrize("greedy", [False, True])
def test_the_episodes_of_an_evaluation_are_a_data_set(run, capsys, greedy):
    name = f"minari:tests/{'greedy' if greedy else 'sampled'}-v0"
    words = ["eval", str(run), "--episodes", "5", "--log", name, "--json", *(["--greedy"] if greedy else [])]
    assert main(words) == 0
    said = capsys.readouterr()
    result = json.loads(said.out.splitlines()[-1])
    assert result["log"] == name
    log = MinariLog(name, describe_environment("CartPole-v1", EnvironmentConfig()))
    episodes = [log.episode(number) for number in range(len(log))]
    assert [episode.rewards.sum() for episode in episodes] == result["returns"]
    assert f"{name}: 5 episodes, {sum(map(len, episodes)):,} env steps" in said.err.splitlines()
    for episode in episodes:
        assert bool(episode.mu) != greedy
        moves = np.diff(episode.observations["observation"][:, 1])  # a push to the right makes the cart faster
        np.testing.assert_array_equal(moves > 0, episode.actions == 1)


def test_agents_learn_from_it(run, capsys):
    assert main(["eval", str(run), "--episodes", "12", "--log", NAME, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    learned = train(
        load_preset("dqn_cartpole", {"offline": NAME, "steps": 600, "quiet": True, "run_dir": run.parent / "on"})
    )
    assert learned.env_steps >= 600


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        (["--log", "mine"], "log: must be minari:NAMESPACE/NAME-vN, got 'mine'"),
        (["--log", "minari:mine"], "log: 'mine' is no name for a data set; write NAMESPACE/NAME-v0"),
        (["--log", "minari:tests/taken-v0"], "log: there is a data set tests/taken-v0 already; choose another name"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anybody_plays(run, capsys, words, mistake, monkeypatch):
    if "taken" in words[1]:
        assert main(["eval", str(run), "--episodes", "1", *words]) == 0
    monkeypatch.setattr("launch.evaluation.evaluate.Evaluator", None)
    assert main(["eval", str(run), "--episodes", "1", *words]) == 2
    assert f"error: {mistake}" in capsys.readouterr().err


class Kinds(gymnasium.Env):
    """An environment whose observation is an array of categories, which a data set cannot hold."""

    observation_space = gymnasium.spaces.MultiDiscrete([3, 3, 3])
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return np.zeros(3, np.int64), {}

    def step(self, action):
        self.left -= 1
        return np.zeros(3, np.int64), 1.0, self.left == 0, False, {}


def test_observations_that_cannot_be_written_are_refused_before_anybody_plays(run, capsys, monkeypatch):
    gymnasium.register("Kinds-v0", entry_point=Kinds)
    values = {"env": "Kinds-v0", "steps": 300, "quiet": True, "run_dir": run.parent / "kinds", "replay.min_steps": 128}
    kinds = train(load_preset("cartpole", values)).run_dir
    monkeypatch.setattr("launch.evaluation.evaluate.Evaluator", None)
    assert main(["eval", str(kinds), "--episodes", "1", "--log", "minari:tests/kinds-v0"]) == 2
    assert "error: log: observations of several categories cannot be written" in capsys.readouterr().err


def test_a_disk_that_refuses_the_data_set_is_one_line(run, capsys, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", "/proc/nowhere")
    assert main(["eval", str(run), "--episodes", "1", "--log", "minari:tests/some-v0"]) == 2
    said = capsys.readouterr().err.splitlines()
    assert [line for line in said if "minari:tests/some-v0 cannot be written: " in line and "/proc/nowhere" in line]
    assert not any(line.startswith("Traceback") for line in said)


def test_a_data_set_names_the_environment_that_was_played(run):
    name = "minari:tests/other-v0"
    assert main(["eval", str(run), "--episodes", "1", "--env", "CartPole-v0", "--log", name, "--quiet"]) == 0
    assert env_of(name) == "CartPole-v0"


def test_one_agent_plays_the_episodes_of_a_data_set(run, capsys):
    other = shutil.copytree(run, run.parent / "other")
    assert main(["eval", str(run), str(other), "--log", NAME]) == 2
    assert "error: log: one agent plays the episodes of a data set, and several" in capsys.readouterr().err
