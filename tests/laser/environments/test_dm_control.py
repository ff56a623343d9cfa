import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import make_environment
from laser.environments.config import EnvironmentConfig
from laser.environments.suite import find_suite
from laser.specs import ContinuousActions, VectorSpec

CONFIG = EnvironmentConfig()


def test_observations_keep_their_names_and_actions_their_bounds():
    environment = make_environment("dm_control/humanoid-run-v0", 1, CONFIG)
    spec = environment.spec
    assert isinstance(spec.actions, ContinuousActions)
    assert spec.actions.low == (-1.0,) * 21
    assert spec.observations["joint_angles"] == VectorSpec((21,))
    assert spec.observations["head_height"] == VectorSpec(())
    first = environment.reset(0)
    assert first["joint_angles"].shape == (1, 21)
    assert first["joint_angles"].dtype == np.float32
    environment.close()


def rollout(seed, num_steps=30):
    environment = make_environment("dm_control/pendulum-swingup-v0", 2, CONFIG)
    seen = [environment.reset(seed)["orientation"].copy()]
    for step in range(num_steps):
        environment.send(np.full((2, 1), np.sin(step), np.float32))
        (part,) = environment.recv()
        seen.append(part.observations["orientation"].copy())
    environment.close()
    return np.stack(seen)


def test_a_seed_decides_everything():
    np.testing.assert_array_equal(rollout(3), rollout(3))
    assert (rollout(3) != rollout(4)).any()
    assert (rollout(3)[:, 0] != rollout(3)[:, 1]).any()


def test_ids_are_the_suites_and_others_are_refused_in_one_line():
    suite = find_suite("dm_control/humanoid-run-v0")
    ids = suite.ids()
    assert len(ids) > 40
    assert {"dm_control/humanoid-run-v0", "dm_control/ball_in_cup-catch-v0"} <= set(ids)
    for wrong in ("dm_control/humanoid-fly-v0", "dm_control/humanoid-run", "dm_control/"):
        with pytest.raises(ConfigError, match="unknown environment"):
            make_environment(wrong, 1, CONFIG)


@pytest.mark.slow
def test_every_task_can_be_stepped():
    for id in find_suite("dm_control/humanoid-run-v0").ids():
        if "/lqr-" in id:
            with pytest.raises(
                ConfigError, match=r"finite bounds, got \[-1e\+10, 1e\+10\] in dimension 0; choose another"
            ):
                make_environment(id, 1, CONFIG)
            continue
        environment = make_environment(id, 1, CONFIG)
        environment.reset(0)
        for _ in range(3):
            environment.send(np.zeros((1, len(environment.spec.actions.low)), np.float32))
            (part,) = environment.recv()
            assert np.isfinite(part.rewards).all(), id
        environment.close()
