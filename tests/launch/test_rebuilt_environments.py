"""A run whose environments fail one by one: each is rebuilt alone, and no unroll is lost."""

from gymnasium.envs.classic_control import CartPoleEnv

import laser
from launch.records.metrics_db import read_series


class Brittle(CartPoleEnv):
    """Breaks now and then."""

    def step(self, action):
        if self.np_random.random() < 0.01:
            raise RuntimeError("the pole broke")
        return super().step(action)


def test_nothing_is_dropped_and_the_accounts_agree(tmp_path):
    own = {"env": Brittle, "environment.max_restarts": 1000, "environment.deadline_s": 60}
    few = {"steps": 2000, "num_envs": 4, "replay.min_steps": 64, "stop_at_return": float("inf"), "quiet": True}
    run = tmp_path / "run"
    result = laser.train(laser.load_preset("cartpole", {**own, **few, "run_dir": run, "runtime": "lockstep"}))
    assert result.finished == "steps"
    assert set(result.ledger["imbalance"].values()) <= {0}
    assert read_series(run / "metrics.db", "totals/restarts/raised")[-1][1] > 3
    assert not read_series(run / "metrics.db", "totals/dropped_rows/raised")
