"""MiniGrid behind the vector interface: cells, ids, and what is left out."""

import sys

import gymnasium
import numpy as np
import pytest
from minigrid.wrappers import FullyObsWrapper

from laser.config import ConfigError
from laser.environments import describe_environment, make_environment
from laser.environments.config import EnvironmentConfig
from laser.environments.minigrid import GridPlanes
from laser.specs import CategorySpec, DiscreteActions, FramesSpec, VectorSpec

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


WRAPPERS = "minigrid.wrappers:"


@pytest.mark.parametrize(
    ("wrappers", "specs"),
    [
        ("FullyObsWrapper", {"image": FramesSpec((5, 5, 21), high=1), "direction": CategorySpec(4)}),
        ("ViewSizeWrapper(agent_view_size=9)", {"image": FramesSpec((9, 9, 21), high=1), "direction": CategorySpec(4)}),
        ("ImgObsWrapper", {"observation": FramesSpec((7, 7, 21), high=1)}),
        ("FullyObsWrapper,minigrid.wrappers:ImgObsWrapper", {"observation": FramesSpec((5, 5, 21), high=1)}),
        ("RGBImgPartialObsWrapper", {"image": FramesSpec((56, 56, 3)), "direction": CategorySpec(4)}),
        ("RGBImgPartialObsWrapper,minigrid.wrappers:ImgObsWrapper", {"observation": FramesSpec((56, 56, 3))}),
        ("NoDeath(no_death_types=['lava'])", {"image": FramesSpec((7, 7, 21), high=1), "direction": CategorySpec(4)}),
    ],
)
def test_the_packages_wrappers_see_codes_and_the_agent_sees_planes(wrappers, specs):
    config = EnvironmentConfig(wrappers=WRAPPERS + wrappers)
    assert describe_environment(ID, config).observations == specs
    environment = make_environment(ID, 1, config)
    environment.reset(0)
    environment.send(np.zeros(1, np.int64))
    (part,) = environment.recv()
    environment.close()
    for name, spec in specs.items():
        if isinstance(spec, FramesSpec) and spec.high == 1:
            assert (part.observations[name].sum(-1) == 3).all()


def test_the_missions_words_stay_where_a_wrapper_makes_them_numbers():
    specs = describe_environment(ID, EnvironmentConfig(wrappers=WRAPPERS + "DictObservationSpaceWrapper")).observations
    assert isinstance(specs["mission"], CategorySpec)
    assert specs["image"] == FramesSpec((7, 7, 21), high=1)


class Whole(FullyObsWrapper):
    """A user's own form of a wrapper of the package."""


def test_other_wrappers_see_planes_and_own_forms_of_the_packages_see_codes(monkeypatch):
    monkeypatch.setitem(sys.modules, "own_whole", sys.modules[__name__])
    wrappers = "gymnasium.wrappers:TimeLimit(max_episode_steps=3),own_whole:Whole,gymnasium.wrappers:FlattenObservation"
    specs = describe_environment(ID, EnvironmentConfig(wrappers=wrappers)).observations
    assert specs == {"observation": VectorSpec((5 * 5 * 21 + 4,))}


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


def test_an_id_that_names_the_package_too_is_answered_with_its_own():
    wrong = "^env: minigrid:MiniGrid-DoorKey-5x5-v0 names the module minigrid, which LASER imports; use MiniGrid-DoorK"
    with pytest.raises(ConfigError, match=wrong):
        describe_environment(f"minigrid:{ID}", CONFIG)


def test_without_the_package_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("laser.environments.minigrid.is_installed", lambda name: False)
    with pytest.raises(ConfigError, match=r"needs minigrid, which is not installed; .*laser-rl\[minigrid\]"):
        make_environment(ID, 1, CONFIG)
