"""MiniGrid behind the vector interface: cells, ids, and what is left out."""

import gymnasium
import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import describe_environment, make_environment
from laser.environments.config import EnvironmentConfig
from laser.environments.minigrid import GridPlanes
from laser.specs import CategorySpec, DiscreteActions, FramesSpec

ID = "MiniGrid-DoorKey-5x5-v0"
CONFIG = EnvironmentConfig()


def test_a_grid_is_a_picture_of_bools_without_the_text():
    spec = describe_environment(ID, CONFIG)
    assert spec.observations["image"] == FramesSpec((7, 7, 21), high=1)
    assert set(spec.observations) == {"image", "direction"}
    assert isinstance(spec.observations["direction"], CategorySpec)
    assert spec.actions == DiscreteActions(7)


def test_the_planes_say_what_the_codes_say():
    import minigrid  # noqa: F401 - registers the ids

    plain = gymnasium.make(ID)
    planes = GridPlanes(gymnasium.make(ID))
    codes, _ = plain.reset(seed=3)
    seen, _ = planes.reset(seed=3)
    for action in (2, 1, 2, 3, 2, 5, 0, 2):
        image = seen["image"]
        decoded = np.stack([image[..., begin:end].argmax(-1) for begin, end in ((0, 11), (11, 17), (17, 21))], -1)
        np.testing.assert_array_equal(decoded, codes["image"])
        assert (image.sum(-1) == 3).all()
        assert "mission" not in seen
        codes, seen = plain.step(action)[0], planes.step(action)[0]


def test_the_users_wrappers_stand_outside(tmp_path):
    config = EnvironmentConfig(wrappers="gymnasium.wrappers:TimeLimit(max_episode_steps=3)")
    environment = make_environment(ID, 2, config)
    environment.reset(0)
    for _ in range(3):
        environment.send(np.full(2, 6))
        (part,) = environment.recv()
    assert part.truncated.all()
    environment.close()


def test_a_mistyped_id_is_suggested():
    with pytest.raises(ConfigError, match="did you mean MiniGrid-DoorKey-5x5-v0"):
        make_environment("MiniGrid-DorKey-5x5-v0", 1, CONFIG)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("laser.environments.minigrid.is_installed", lambda name: False)
    with pytest.raises(ConfigError, match=r"needs minigrid, which is not installed; .*laser-rl\[minigrid\]"):
        make_environment(ID, 1, CONFIG)
