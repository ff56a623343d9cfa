"""Environments that Gymnasium can make, including those registered by a module of the user."""

from __future__ import annotations

import ctypes.util
import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FrameStackObservation

from laser.config import ConfigError, Problem
from laser.environments.arrays import FrameStack, UnsupportedSpaceError
from laser.environments.base import RAISED, EnvironmentFailedError, VectorEnvironment, failure_of
from laser.environments.config import EnvironmentConfig
from laser.environments.masked import MaskedEnvironment, MaskedVector, Place, find_masks, mask_spec
from laser.environments.own import find_own, is_only_here, takes
from laser.environments.processes import ProcessEnvironments
from laser.environments.spaces import ActionWriter, ObservationReader, action_writer, observation_reader
from laser.environments.statistics import name_statistics
from laser.environments.suite import Suite, env_error, prepared_atari, unknown_id
from laser.environments.sync import SyncEnvironments
from laser.environments.vector import GymnasiumVector
from laser.environments.wrappers import KEY as WRAPPERS
from laser.environments.wrappers import wrap
from laser.packages import install_command, install_missing, is_installed
from laser.specs import EnvironmentSpec
from laser.user_classes import import_module, is_running_script

_ALE = "ale_py.env:AtariEnv"


class GymnasiumSuite(Suite):
    """All ids that no other suite claims."""

    name = "Gymnasium"
    flags = frozenset({"vectorization", "kwargs", "wrappers", "action_masks"})
    rank = 100

    def claims(self, id: str) -> bool:
        """Return True: this suite is asked last, and explains best why an id is wrong."""
        return True

    def ids(self) -> list[str]:
        """Return the registered ids that do not belong to another suite."""
        return [name for name, spec in gymnasium.registry.items() if spec.entry_point != _ALE]

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return the environment's own vector form, or environments one after the other, or in processes."""
        # A reset that hangs stops other processes only, and must not stop this one when it looks for masks.
        return _make(id, num_envs, config, config.deadline_s if config.vectorization == "async" else None)

    def make_one(self, id: str, config: EnvironmentConfig) -> VectorEnvironment:
        """Return one environment in this process; with a deadline for its first reset if others will have one."""
        deadline_s = config.deadline_s if config.vectorization == "async" else None
        return _make(id, 1, replace(config, vectorization="auto"), deadline_s)


def _make(id: str, num_envs: int, config: EnvironmentConfig, deadline_s: float | None) -> VectorEnvironment:
    registered = _find(id)
    if registered.entry_point == _ALE and not config.wrappers:
        # Agents would see 210 x 160 colour frames, one after the other, where every Atari result is of prepared ones.
        wrong = f"{id} is an Atari game as it comes, without frame skip, small grey pictures and a stack of them"
        raise env_error(wrong, f"did you mean {prepared_atari(id)}? Or name your own with --environment.wrappers")
    if registered.entry_point is None and config.wrappers:
        wrong = f"{id} exists only as a vector, and wrappers are for single environments"
        raise ConfigError([Problem(WRAPPERS, wrong, "leave them out")])
    has_own_vector = registered.vector_entry_point is not None and not registered.additional_wrappers
    if (config.vectorization == "auto" and has_own_vector and not config.wrappers) or not registered.entry_point:
        return _make_own_vector(id, registered, num_envs, config, deadline_s)
    makers = _makers(id, registered, num_envs, config)
    first = makers[0]()
    described = describe_spaces(id, first, first.observation_space, first.action_space, config)
    place = _find_masks(id, registered, first, first.observation_space, first.action_space, config, deadline_s)
    if place:
        first = MaskedEnvironment(first, place)
        makers = [functools.partial(_build_masked, make, place) for make in makers]
        described = describe_spaces(id, first, first.observation_space, first.action_space, config)
    spec, reader, writer = described
    if config.vectorization == "async":
        first.close()
        return ProcessEnvironments(spec, makers, reader, writer, config.deadline_s)
    return SyncEnvironments(spec, makers, reader, writer, first)


def _makers(
    id: str, registered: EnvSpec, num_envs: int, config: EnvironmentConfig
) -> list[Callable[[], gymnasium.Env]]:
    # Only the first environment is ever drawn, so the others need no render mode.
    modes = [_render_mode(registered.entry_point)] + [None] * (num_envs - 1)
    return [functools.partial(_build, id, registered, mode, config) for mode in modes]


def _build_masked(make: Callable[[], gymnasium.Env], place: Place) -> gymnasium.Env:
    return MaskedEnvironment(make(), place)


def _find_masks(
    id: str,
    registered: EnvSpec,
    environment: gymnasium.Env | VectorEnv,
    observations: gymnasium.Space[Any],
    actions: gymnasium.Space[Any],
    config: EnvironmentConfig,
    deadline_s: float | None,
) -> Place | None:
    """Return where an environment gives action masks; the environment is closed if that is an error."""
    if config.action_masks == "off":
        return None
    makers = (registered.entry_point, registered.vector_entry_point)
    made_by = [maker if isinstance(maker, Hashable) else hash(repr(maker)) for maker in makers]
    key = (id, *made_by, type(environment), config.kwargs, config.wrappers)
    try:
        return find_masks(id, key, environment, observations, actions, deadline_s)
    except EnvironmentFailedError as error:
        if error.reason != "hung":
            environment.close()
        raise
    except ConfigError:
        environment.close()
        raise


def _find(id: str) -> EnvSpec:
    """Return the description of an id; import the module if the id names one.

    What a module registers goes before its class or function of the same name.
    """
    module, _, name = id.rpartition(":")
    own = None
    if module and not is_only_here(id) and not is_running_script(module):
        _import(module)
    if module and name not in gymnasium.registry:
        own = find_own(module, name)
    registered = gymnasium.registry.get(name) or own
    if registered is not None:
        return registered
    if is_only_here(id):
        remedy = "define it at the top level of a module, or make it in this process"
        raise env_error(f"{id} belongs to the process that made it, and cannot be imported here", remedy)
    if module:
        listed = [other for other, spec in gymnasium.registry.items() if str(spec.entry_point).startswith(module)]
        remedy = f"it registers {', '.join(listed)}" if listed else "name a class or a function, or register the id"
        raise env_error(
            f"module {module!r} has no class or function {name!r} and registers no environment {name!r}", remedy
        )
    raise unknown_id(id)


def _import(module: str) -> None:
    try:
        import_module(module)
    except ValueError as error:
        wrong, _, remedy = str(error).rpartition("; ")
        raise env_error(wrong, remedy) from error


def _build(id: str, registered: EnvSpec, render_mode: str | None, config: EnvironmentConfig) -> gymnasium.Env:
    """Build one environment in its wrappers; an error of its constructor becomes a ConfigError of the same message."""
    arguments: dict[str, Any] = {} if render_mode is None else {"render_mode": render_mode}
    arguments |= config.kwargs
    if "mujoco" in str(registered.entry_point):
        if not is_installed("mujoco"):
            raise env_error(f"{id} needs mujoco, which is not installed", install_command("mujoco"))
        let_mujoco_draw_without_a_display()
        say_mujoco_warnings_once()
    # Our own checks are stricter than the passive checker's warnings, and cheaper.
    environment: gymnasium.Env = _explained(
        id, functools.partial(gymnasium.make, registered, disable_env_checker=True, **arguments)
    )
    return wrap(environment, config.wrappers)


@functools.cache
def let_mujoco_draw_without_a_display() -> None:
    """Choose a renderer that needs no display before MuJoCo is imported, if there is no display."""
    # MuJoCo reads MUJOCO_GL when it is imported, and cannot be imported if the library it names is missing.
    headless = sys.platform == "linux" and not os.environ.get("DISPLAY")
    if headless and "MUJOCO_GL" not in os.environ and ctypes.util.find_library("EGL"):
        os.environ["MUJOCO_GL"] = "egl"


@functools.cache
def say_mujoco_warnings_once() -> None:
    """Print each text of MuJoCo's warnings once in this process, and not into a file of the working directory."""
    import mujoco

    say = functools.cache(lambda text: print(f"warning: MuJoCo: {text}", file=sys.stderr))
    mujoco.set_mju_user_warning(say)


def _explained(id: str, build: Callable[[], Any]) -> Any:
    try:
        return build()
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        raise env_error(f"{id} needs a package that is not installed: {error}", install_missing(error)) from error
    except RAISED as error:
        wrong = f"{id} cannot be built: {failure_of(error)}"
        raise env_error(wrong, "mend its constructor or its arguments") from error


def _render_mode(entry_point: Any) -> str | None:
    """Return "rgb_array" if the environment's class supports this render mode, or its function takes one; else None."""
    try:
        creator = load_env_creator(entry_point) if isinstance(entry_point, str) else entry_point
    except Exception:  # noqa: BLE001 - building the environment raises the same error and explains it
        return None
    if not takes(creator, "render_mode"):
        return None
    if not isinstance(creator, type) and not hasattr(creator, "metadata"):
        return "rgb_array" if "render_mode" in inspect.signature(creator).parameters else None
    modes = getattr(creator, "metadata", {}).get("render_modes", ())
    return "rgb_array" if "rgb_array" in modes else None


def _make_own_vector(
    id: str, registered: EnvSpec, num_envs: int, config: EnvironmentConfig, deadline_s: float | None
) -> VectorEnvironment:
    mode = _render_mode(registered.vector_entry_point)
    arguments: dict[str, Any] = {} if mode is None else {"render_mode": mode}
    arguments |= config.kwargs
    build = functools.partial(
        gymnasium.make_vec, registered, num_envs=num_envs, vectorization_mode="vector_entry_point", **arguments
    )
    with warnings.catch_warnings():
        # Refused below, with a message that says what to do.
        warnings.filterwarnings("ignore", message=".*missing AutoresetMode metadata")
        environments: VectorEnv = _explained(id, build)
    if "autoreset_mode" not in environments.metadata:
        environments.close()
        raise env_error(
            f"the vector form of {id} does not say how it resets",
            'put "autoreset_mode": gymnasium.vector.AutoresetMode.NEXT_STEP into its metadata',
        )
    spaces = environments.single_observation_space, environments.single_action_space
    described = describe_spaces(id, environments, *spaces, config)
    place = _find_masks(id, registered, environments, *spaces, config, deadline_s)
    if place:
        environments = MaskedVector(environments, place)
        described = describe_spaces(
            id, environments, environments.single_observation_space, environments.single_action_space, config
        )
    spec, reader, writer = described
    return GymnasiumVector(spec, environments, reader, writer)


def describe_spaces(
    id: str,
    environment: gymnasium.Env | VectorEnv,
    observations: gymnasium.Space[Any],
    actions: gymnasium.Space[Any],
    config: EnvironmentConfig,
    remedy: str = "",
) -> tuple[EnvironmentSpec, ObservationReader, ActionWriter]:
    """Return the spec of an environment, the reader of its observations and the writer of its actions.

    Args:
        id: the environment's id.
        environment: one environment, or a vector of them.
        observations: observation space of one environment.
        actions: action space of one environment.
        config: least size of pictures, and bounds of actions.
        remedy: advice for unsupported spaces, where the user cannot change the environment.

    Raises:
        ConfigError: LASER does not support one of the spaces; the environment is closed then.
    """
    try:
        is_masked = isinstance(environment, MaskedEnvironment | MaskedVector)
        masks = mask_spec(actions) if is_masked else None
        reader = observation_reader(observations, _frame_stack(environment), config.picture_rule, masks)
        writer = action_writer(actions, config.action_bounds)
    except UnsupportedSpaceError as error:
        environment.close()
        wrong, _, general = str(error).partition("; ")
        raise env_error(f"{id}: {wrong}", remedy or general) from error
    saved, unsaved = name_statistics(environment)
    spec = EnvironmentSpec(id, reader.specs, writer.spec, saved_statistics=saved, unsaved_statistics=unsaved)
    return spec, reader, writer


def _frame_stack(environment: Any) -> FrameStack | None:
    """Return the frame stack of a wrapper, if no wrapper outside it changes observations again."""
    while isinstance(environment, gymnasium.Wrapper):
        if isinstance(environment, FrameStackObservation):
            padding = {"reset": "repeat", "zero": "zeros"}.get(environment.padding_type)
            # A stack padded with a picture of the user's own is kept whole, as channels.
            return FrameStack(environment.stack_size, padding) if padding else None  # type: ignore[arg-type]
        if isinstance(environment, gymnasium.ObservationWrapper):
            return None
        environment = environment.env
    return None
