import os
import sys
import warnings

import gymnasium
import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment, make_environment
from laser.environments.gymnasium import let_mujoco_draw_without_a_display, say_mujoco_warnings_once
from laser.environments.processes import ProcessEnvironments
from laser.environments.suite import Suite, find_suite, find_suites, split_seed
from laser.environments.sync import SyncEnvironments
from laser.environments.vector import GymnasiumVector
from laser.specs import CategorySpec, FramesSpec

CONFIG = EnvironmentConfig()


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("CartPole", "unknown environment 'CartPole'; did you mean CartPole-v1"),
        ("PongNoFrameskip-v4", r"PongNoFrameskip-v4 is an Atari game as it comes, .*; did you mean ALE/Pong-v5\?"),
        ("SpaceInvadersDeterministic-v0", r"did you mean ALE/SpaceInvaders-v5\?"),
        ("Breakout-v4", r"did you mean ALE/Breakout-v5\?"),
        ("ale_py:ALE/Pong-v5", r"did you mean ALE/Pong-v5\?"),
        ("CartPole-v7", "did you mean CartPole-v1"),
        ("cartpole-v1", "did you mean CartPole-v1"),
        ("Hoper-v5", "did you mean Hopper-v5"),
        ("Pong-v5", "did you mean ALE/Pong-v5"),
        ("ALE/Pog-v5", "did you mean ALE/Pong-v5"),
        ("dmlab/foo", "unknown environment 'dmlab/foo'; there are [0-9]+, such as dmlab/"),
        ("", "use a Gymnasium id such as CartPole-v1"),
        ("no_such_module:Env-v0", "module 'no_such_module' cannot be imported.*run from the folder that holds"),
        ("custom_environments:Wlk-v0", "registers no environment 'Wlk-v0'; it registers .*Walk-v0"),
        ("custom_environments:Needs-v0", "needs a package .*; .*pip install a_package_that_is_not_there"),
        ("custom_environments:Silent-v0", "does not say how it resets"),
        (
            "custom_environments:Bad-raise-at-reset-v0",
            "cannot be reset: KeyError: 'the door is locked'; mend its reset",
        ),
    ],
)
def test_mistakes_name_the_remedy(id, words):
    with pytest.raises(ConfigError, match=f"^env: .*{words}"):
        describe_environment(id, CONFIG)


def test_a_module_in_place_of_its_environment_is_recognised(tmp_path, monkeypatch):
    (tmp_path / "rooms.py").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        ConfigError, match="env: 'rooms' is a module; name an environment of it: rooms:CLASS, or rooms:ID"
    ):
        describe_environment("rooms", CONFIG)


def test_a_tuple_of_categories_is_supported():
    spec = describe_environment("Blackjack-v1", CONFIG)
    assert spec.observations == {"0": CategorySpec(32), "1": CategorySpec(11), "2": CategorySpec(2)}


def test_a_module_that_breaks_is_quoted(tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("raise ValueError('half written')")
    (tmp_path / "needy_module.py").write_text("import a_package_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="'broken_module' cannot be imported: ValueError: half written"):
        describe_environment("broken_module:Env-v0", CONFIG)
    with pytest.raises(ConfigError, match="pip install a_package_that_is_not_there"):
        describe_environment("needy_module:Env-v0", CONFIG)


def test_a_module_in_the_current_folder_is_found(tmp_path, monkeypatch):
    (tmp_path / "module_in_folder.py").write_text(
        "import gymnasium\ngymnasium.register('InFolder-v0', 'gymnasium.envs.classic_control.cartpole:CartPoleEnv')"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    assert describe_environment("module_in_folder:InFolder-v0", CONFIG).id == "module_in_folder:InFolder-v0"


def test_an_extra_that_is_not_installed_comes_with_its_command(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[0] == "Box2D" or "envs.box2d" in name]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "Box2D", None)
    with pytest.raises(ConfigError, match=r"LunarLander-v3 needs a package.*; .*pip install 'gymnasium\[box2d\]"):
        describe_environment("LunarLander-v3", CONFIG)


def test_a_module_of_another_name_than_its_package_comes_with_the_packages_command(monkeypatch, tmp_path):
    (tmp_path / "sees_cv2.py").write_text("import cv2")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "cv2", None)
    flat = "gymnasium.wrappers:ReshapeObservation(shape=(96,60))"
    config = EnvironmentConfig(wrappers=f"{flat},gymnasium.wrappers:ResizeObservation(shape=(40,40))")
    needs = "ResizeObservation needs a package that is not installed: opencv.*pip install opencv-python$"
    with pytest.raises(ConfigError, match=f"^environment.wrappers: .*{needs}"):
        describe_environment("custom_environments:Stacked-v0", config)
    with pytest.raises(ConfigError, match=r"pip install opencv-python$"):
        describe_environment("sees_cv2:Env-v0", CONFIG)


def test_spaces_that_are_not_supported_are_the_users_to_change(monkeypatch):
    class Unbounded(gymnasium.Env):
        observation_space = gymnasium.spaces.Box(-1, 1, (2,))
        action_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,))

    monkeypatch.setitem(
        gymnasium.registry, "Unbounded-v0", gymnasium.envs.registration.EnvSpec("Unbounded-v0", Unbounded)
    )
    with pytest.raises(
        ConfigError, match=r"env: Unbounded-v0: the action Box must have finite bounds.*; declare the bounds"
    ):
        describe_environment("Unbounded-v0", CONFIG)


@pytest.mark.parametrize(
    ("id", "vectorization", "kind"),
    [
        ("CartPole-v1", "auto", GymnasiumVector),
        ("CartPole-v1", "sync", SyncEnvironments),
        ("Pendulum-v1", "auto", SyncEnvironments),
        ("Pendulum-v1", "async", ProcessEnvironments),
    ],
)
def test_vectorization_decides_what_steps_them(id, vectorization, kind):
    environment = make_environment(id, 2, EnvironmentConfig(vectorization=vectorization))
    assert type(environment) is kind
    assert environment.num_envs == 2
    environment.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_environment_zero_can_be_drawn(vectorization):
    environment = make_environment("custom_environments:Walk-v0", 2, EnvironmentConfig(vectorization=vectorization))
    observations = environment.reset(0)
    picture = environment.render()
    environment.close()
    np.testing.assert_array_equal(picture, observations["picture"][0, 0])


def test_what_cannot_be_drawn_is_none():
    environment = make_environment("custom_environments:Bad-nothing-v0", 2, CONFIG)
    environment.reset(0)
    assert environment.render() is None
    environment.close()


def test_a_failing_renderer_warns_and_ends_nothing():
    environment = make_environment("custom_environments:Walk-v0", 2, EnvironmentConfig(vectorization="sync"))
    with pytest.warns(RuntimeWarning, match="cannot be drawn here"):
        assert environment.render() is None  # never reset
    environment.close()


@pytest.mark.parametrize(
    ("picture", "got"),
    [
        (np.full((24, 20, 3), 0.5), r"float64 \[24, 20, 3\]"),
        (np.full((24, 20, 3), 200), r"int64 \[24, 20, 3\]"),
        (np.zeros((24, 20), np.uint8), r"uint8 \[24, 20\]"),
        (np.zeros((24, 20, 4), np.uint8), r"uint8 \[24, 20, 4\]"),
        (np.zeros((0, 20, 3), np.uint8), r"uint8 \[0, 20, 3\]"),
        (None, "no numbers"),
    ],
)
def test_a_picture_of_another_form_is_not_drawn(picture, got, monkeypatch):
    monkeypatch.setattr("custom_environments.Walk.render", lambda self: picture)
    environment = make_environment("custom_environments:Walk-v0", 2, EnvironmentConfig(vectorization="sync"))
    environment.reset(0)
    words = rf"Walk-v0 cannot be drawn here: render\(\) must return uint8 \[height, width, 3\], got {got}"
    with pytest.warns(RuntimeWarning, match=words):
        assert environment.render() is None
    environment.close()


@pytest.mark.parametrize(("library", "chosen"), [("libEGL.so.1", "egl"), (None, None)])
def test_mujoco_is_told_to_draw_without_a_display_only_where_it_can(library, chosen, monkeypatch):
    monkeypatch.setattr("os.environ", {})
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("ctypes.util.find_library", lambda name: library)
    let_mujoco_draw_without_a_display.__wrapped__()
    assert os.environ.get("MUJOCO_GL") == chosen


def test_mujocos_warnings_are_printed_once_and_into_no_file(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    say_mujoco_warnings_once.__wrapped__()  # another test may have had the warnings printed
    for _ in range(2):
        make_environment("HalfCheetah-v5", 2, EnvironmentConfig(vectorization="sync")).close()
    lines = [line for line in capfd.readouterr().err.splitlines() if line]
    assert len(set(lines)) == len(lines) == 1
    assert lines[0].startswith("warning: MuJoCo: compiler attribute 'settotalmass' is deprecated")
    assert list(tmp_path.iterdir()) == []


def test_a_stack_made_by_a_wrapper_is_kept_as_single_frames():
    spec = describe_environment("custom_environments:Stacked-v0", CONFIG)
    assert spec.observations == {"observation": FramesSpec((24, 20, 3), 4, "repeat")}


def test_flags_without_effect_are_named_once():
    config = EnvironmentConfig(sticky_actions=0.25, frame_skip=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        describe_environment("CartPole-v1", config)
    (warning,) = caught
    assert "--environment.sticky-actions, --environment.frame-skip: no effect on Gymnasium" in str(warning.message)
    with warnings.catch_warnings(action="error"):
        describe_environment("CartPole-v1", EnvironmentConfig(fire_at_reset=False))  # asks for nothing
    with pytest.warns(UserWarning, match="--environment.vectorization: no effect on Atari"):
        make_environment("ALE/Pong-v5", 1, EnvironmentConfig(vectorization="async")).close()


def test_suites_are_found_by_their_files():
    assert {"Gymnasium", "Atari"} <= {suite.name for suite in find_suites()}
    assert find_suite("ALE/Pong-v5").name == "Atari"
    assert find_suite("anything").name == "Gymnasium"
    assert all(isinstance(suite, Suite) for suite in find_suites())


def test_neighbouring_seeds_share_no_environment():
    assert not set(split_seed(0, 64)) & set(split_seed(1, 64))
    assert split_seed(0, 64)[:8] == split_seed(0, 8)
    assert split_seed(None, 2) == [None, None]
