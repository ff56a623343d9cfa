"""A recurrent agent through a whole run: trained, evaluated, loaded into a program of one's own, resumed."""

import gymnasium
import pytest
import torch

import laser

QUICK = {
    "steps": 600,
    "quiet": True,
    "runtime": "lockstep",
    "num_envs": 2,
    "replay.min_steps": 64,
    "network.separate_critic": False,
    "network.core_size": 8,
}


@pytest.fixture(scope="module", params=["lstm", "preco"])
def run(request, tmp_path_factory):
    values = {**QUICK, "network.core": request.param, "run_dir": str(tmp_path_factory.mktemp("run") / "run")}
    return values, laser.train(laser.load_preset("cartpole", values))


def episodes_by_hand(run_dir, num_episodes, reset=True):
    """Lengths of greedy episodes, played as a user's program does."""
    policy, environment, lengths = laser.load_policy(run_dir, greedy=True), gymnasium.make("CartPole-v1"), []
    for episode in range(num_episodes):
        observation, _ = environment.reset(seed=0 if episode == 0 else None)
        if reset:
            policy.reset()
        reward, length, over = 0.0, 0, False
        while not over:
            observation, reward, terminated, truncated, _ = environment.step(policy.act(observation, reward))
            length, over = length + 1, terminated or truncated
        lengths.append(length)
    return lengths


def test_evaluator_and_loaded_policy_play_the_same_episodes(run):
    _, result = run
    assert result.learner_steps > 3
    played = laser.evaluate(result.run_dir, episodes=3, num_envs=1, greedy=True, quiet=True)
    assert played.lengths == episodes_by_hand(result.run_dir, 3)


def test_a_loaded_policy_remembers_and_forgets_when_told(run):
    _, result = run
    policy, observation = laser.load_policy(result.run_dir, greedy=True), [0.01, 0.02, 0.03, 0.04]
    memories = []
    for _ in range(3):
        policy.act(observation, 1.0)
        memories.append(torch.tensor(policy._state.core_state["hidden"]))
    assert not torch.allclose(memories[0], memories[2])
    policy.reset()
    policy.act(observation, 1.0)
    assert torch.equal(torch.tensor(policy._state.core_state["hidden"]), memories[0])


def test_it_resumes(run):
    values, result = run
    resumed = laser.train(laser.load_preset("cartpole", {**values, "steps": 900, "resume": True}))
    assert resumed.env_steps >= 900
    assert resumed.learner_steps > result.learner_steps


@pytest.mark.slow
@pytest.mark.parametrize(("core", "learns"), [("lstm", True), ("preco", True), ("none", False)])
def test_what_was_shown_at_the_beginning_is_remembered_at_the_end(core, learns, tmp_path):
    values = {
        "env": "mini/TMaze3-v0",
        "steps": 30_000,
        "unroll_length": 10,
        "quiet": True,
        "run_dir": str(tmp_path / "run"),
        "network.core": core,
        "network.core_size": 32,
        "algorithm.learning_rate": 3e-3,
        "algorithm.replay_fraction": 0.5,
        "algorithm.batch_size": 8,
        "algorithm.entropy_cost": 0.02,
    }
    result = laser.train(laser.load_preset("mini", values))
    # The best without a memory is 0, the best is 1.
    assert (result.mean_return > 0.9) == learns
    assert learns or result.mean_return < 0.6
