"""Logs in Minari's format (https://minari.farama.org): reading data sets of anybody, and writing LASER's own.

LASER's own data sets hold more in each step's `infos`: `laser_action`, the action on the scale of policies;
`laser_mu_NAME`, the statistics of the behaviour; `laser_version` and `laser_member`, the policy that acted. As
everywhere in Minari, the infos of a step stand one place later, after those of the reset.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces

from laser.environments.arrays import FrameStack, UnsupportedSpaceError
from laser.environments.base import EnvironmentFailedError
from laser.environments.pictures import PictureRule
from laser.environments.spaces import action_writer, observation_reader
from laser.logs.episodes import LogError, LoggedEpisode
from laser.logs.names import PREFIX, is_data_set
from laser.packages import install_command, is_installed
from laser.spec_words import differences
from laser.specs import (
    ACTION_MASK,
    ActionSpec,
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    EnvironmentSpec,
    FramesSpec,
    MaskSpec,
    ObservationSpec,
)

_ACTION, _MU, _VERSION, _MEMBER = "laser_action", "laser_mu_", "laser_version", "laser_member"
_UNFINISHED = ".writing-"  # Minari passes over directories whose names begin with a point
_ROOT = "MINARI_DATASETS_PATH"
_EPISODES_AT_ONCE = 200
_LEAVE_OUT = "leave the episode out (minari's filter_episodes), or choose another data set"


class MinariLog:
    """A data set, read episode by episode.

    Args:
        name: with or without `minari:`.
        environment: that the agent is to learn for; its spaces must be those of the data set.
        pictures: `environment.picture_rule` of the run.

    Raises:
        LogError: there is no such data set, it cannot be read, or it has other spaces.
    """

    def __init__(self, name: str, environment: EnvironmentSpec, pictures: PictureRule = PictureRule()):
        self.name = name.removeprefix(PREFIX)
        self.environment = environment
        self._dataset = _load(self.name)
        try:
            masks = environment.observations.get(ACTION_MASK)
            self._reader = observation_reader(
                self._dataset.observation_space,
                _stack_of(environment),
                pictures,
                masks if isinstance(masks, MaskSpec) else None,
            )
            bounds = environment.actions.bounds if isinstance(environment.actions, ContinuousActions) else "clip"
            self._writer = action_writer(self._dataset.action_space, bounds)
        except UnsupportedSpaceError as error:
            raise LogError(f"{self.name}: {error}") from error
        for what, found, wanted in (
            ("observations", self._reader.specs, environment.observations),
            ("actions", self._writer.spec, environment.actions),
        ):
            if found != wanted:
                raise LogError(f"{self.name} has other {what} than {environment.id}: {differences(found, wanted)}")
        self._numbers = [int(number) for number in self._dataset.episode_indices]
        if not self._numbers:
            raise LogError(f"{self.name} holds no episode; choose another data set")

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._numbers)

    def episode(self, number: int) -> LoggedEpisode:
        """See `Log.episode`."""
        where = f"{self.name}, episode {number}"
        try:
            (data,) = self._dataset.iterate_episodes([self._numbers[number]])
        except Exception as error:
            raise LogError(f"{where} cannot be read: {type(error).__name__}: {error}") from error
        length = len(data.rewards)
        ends = np.asarray(data.terminations, bool) | np.asarray(data.truncations, bool)
        if length == 0 or not ends[-1]:
            raise LogError(f"{where} has no end in its last step; {_LEAVE_OUT}")
        if ends[:-1].any():
            raise LogError(f"{where} has an end in step {ends.argmax()} of {length}, before its last one; {_LEAVE_OUT}")
        rewards = np.asarray(data.rewards, np.float32)
        if not np.isfinite(rewards).all():
            raise LogError(f"{where} has rewards that are not finite; {_LEAVE_OUT}")
        try:
            seen = _with_bools(self._dataset.observation_space, data.observations)
            observations = self._reader.read_batch(seen, length + 1)
        except EnvironmentFailedError as error:
            raise LogError(f"{where}: {error}") from error
        infos = data.infos or {}
        own = infos.get(_ACTION)
        actions = self._writer.read(np.asarray(data.actions)) if own is None else np.asarray(own)[1:]
        mu = {key.removeprefix(_MU): np.asarray(value)[1:] for key, value in infos.items() if key.startswith(_MU)}
        _check_actions(actions, self._writer.spec, length, where)
        for name, value in mu.items():
            if np.isnan(value).any():  # infinite ones are those of actions that were masked
                raise LogError(f"{where}: its behaviour's {name} are not all numbers; {_LEAVE_OUT}")
        return LoggedEpisode(
            observations,
            np.ascontiguousarray(actions, self._writer.spec.array.dtype),
            rewards,
            bool(data.terminations[-1]),
            {name: np.ascontiguousarray(value, np.float32) for name, value in mu.items()},
            np.asarray(infos[_VERSION], np.int64)[1:] if _VERSION in infos else None,
            int(np.asarray(infos[_MEMBER])[-1]) if _MEMBER in infos else 0,
        )


def _check_actions(actions: np.ndarray, spec: ActionSpec, length: int, where: str) -> None:
    """Raise `LogError` unless there is an action of the spec for each step."""
    if actions.shape != (length, *spec.array.shape):
        found, wanted = (" x ".join(map(str, shape)) for shape in (actions.shape, (length, *spec.array.shape)))
        raise LogError(f"{where} has {found} numbers as actions, not {wanted}; {_LEAVE_OUT}")
    if isinstance(spec, ContinuousActions):
        if not np.isfinite(actions).all():
            raise LogError(f"{where} has actions that are not finite; {_LEAVE_OUT}")
    elif not ((actions >= 0) & (actions < np.asarray(spec.num_actions))).all():
        raise LogError(f"{where} has actions outside of its own space; {_LEAVE_OUT}")


def env_of(name: str) -> str:
    """Return the id of the environment that a data set was recorded in, or "" if it does not say."""
    spec = _load(name.removeprefix(PREFIX)).env_spec
    return "" if spec is None else str(spec.id)


def check_new_name(name: str) -> None:
    """Raise `LogError` if no data set can be written under a name: it is malformed or taken, or Minari is missing."""
    with _disk_errors(name):
        _check_new_name(_import(), name.removeprefix(PREFIX))


def check_writable(environment: EnvironmentSpec) -> None:
    """Raise `LogError` if the observations of an environment cannot be written."""
    _observation_space(environment)


@contextmanager
def _disk_errors(name: str) -> Iterator[None]:
    """Raise `LogError` for what the disk refuses inside the block."""
    try:
        yield
    except OSError as error:
        raise LogError(
            f"{name} cannot be written: {error}; free space, or name another directory with {_ROOT}"
        ) from error


def _check_new_name(minari: Any, name: str) -> None:
    if not is_data_set(name):
        how = "write NAMESPACE/NAME-v0, with at least two letters, digits, _ or - in NAMESPACE"
        raise LogError(f"{name!r} is no name for a data set; {how}")
    if Path(minari.storage.get_dataset_path(name)).exists():
        raise LogError(f"there is a data set {name} already; choose another name, or delete it with minari")


def write_minari(name: str, environment: EnvironmentSpec, episodes: Iterable[LoggedEpisode], algorithm: str) -> int:
    """Write a data set, and return its number of episodes.

    Observations are written as agents see them: vectors as float32, images as stacks of uint8.

    Args:
        name: NAMESPACE/NAME-vN, with or without `minari:`.
        environment: that they were played in.
        episodes: at least one.
        algorithm: its name, for the data set's description.

    Raises:
        LogError: the name is malformed or taken, Minari is not installed, there is no episode, or the disk refuses it.
    """
    check_new_name(name)
    with _disk_errors(name):
        return _write_beside(_import(), name.removeprefix(PREFIX), environment, episodes, algorithm)


def _write_beside(
    minari: Any, name: str, environment: EnvironmentSpec, episodes: Iterable[LoggedEpisode], algorithm: str
) -> int:
    path = Path(minari.storage.get_dataset_path(name))
    # Half a data set would be taken for a whole one, so it gets its name when it is whole.
    beside = Path(minari.storage.get_dataset_path()) / f"{_UNFINISHED}{name.replace('/', '-')}"
    shutil.rmtree(beside, ignore_errors=True)  # of an export that was killed
    try:
        with _data_sets_in(beside):
            num_episodes = _write(minari, name, environment, episodes, algorithm)
        namespace = name.rpartition("/")[0]
        if namespace and namespace not in minari.namespace.list_local_namespaces():
            minari.namespace.create_namespace(namespace)
        (beside / name).rename(path)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return num_episodes


@contextmanager
def _data_sets_in(root: Path) -> Iterator[None]:
    """Let Minari keep its data sets in another directory inside the block."""
    before = os.environ.get(_ROOT)
    os.environ[_ROOT] = str(root)
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ROOT]
        else:
            os.environ[_ROOT] = before


def _write(
    minari: Any, name: str, environment: EnvironmentSpec, episodes: Iterable[LoggedEpisode], algorithm: str
) -> int:
    waiting = iter(episodes)
    dataset, total = None, 0
    while buffers := [_buffer(minari, environment, episode) for episode in islice(waiting, _EPISODES_AT_ONCE)]:
        total += len(buffers)
        if dataset is not None:
            dataset.update_dataset_from_buffer(buffers)
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about authors and links that a private data set has not
            dataset = minari.create_dataset_from_buffers(
                name,
                buffers,
                env=_registered(environment.id),
                observation_space=_observation_space(environment),
                action_space=_action_space(environment.actions),
                algorithm_name=algorithm,
                jpeg_encoding=False,  # which would change the pictures
                description="Whole episodes of agents of LASER; infos hold the statistics of the behaviour.",
            )
    if dataset is None:
        raise LogError("there is no whole episode to write")
    return total


def _buffer(minari: Any, environment: EnvironmentSpec, episode: LoggedEpisode) -> Any:
    length = len(episode)
    ends = np.arange(length) == length - 1
    none = np.zeros(length, bool)
    observations: Any = {
        name: spec.as_given(value) if isinstance(spec, FramesSpec) else value
        for (name, value), spec in zip(episode.observations.items(), environment.observations.values(), strict=True)
    }
    if list(environment.observations) == ["observation"]:
        observations = observations["observation"]
    versions = np.full(length, -1) if episode.versions is None else episode.versions
    numbers = {_ACTION: episode.actions, **{_MU + key: value for key, value in episode.mu.items()}, _VERSION: versions}
    infos = {key: np.concatenate([np.zeros_like(value[:1]), value]) for key, value in numbers.items()}
    return minari.data_collector.EpisodeBuffer(
        observations=observations,
        actions=_written(environment.actions, episode.actions),
        rewards=list(episode.rewards),
        terminations=list(ends if episode.terminated else none),
        truncations=list(none if episode.terminated else ends),
        infos=infos | {_MEMBER: np.full(length + 1, episode.member)},
    )


def _written(actions: ActionSpec, values: np.ndarray) -> np.ndarray:
    bounds = actions.bounds if isinstance(actions, ContinuousActions) else "clip"
    return action_writer(_action_space(actions), bounds).write(values)


def _observation_space(environment: EnvironmentSpec) -> spaces.Space[Any]:
    parts = {name: _space_of(spec) for name, spec in environment.observations.items()}
    return parts["observation"] if list(parts) == ["observation"] else spaces.Dict(parts)


def _space_of(spec: ObservationSpec) -> spaces.Space[Any]:
    if isinstance(spec, FramesSpec):
        return spaces.Box(0, spec.high, spec.given_shape, np.bool_ if spec.high == 1 else np.uint8)
    if isinstance(spec, CategorySpec) and not spec.shape:
        return spaces.Discrete(spec.num_values)
    if isinstance(spec, MaskSpec):
        return spaces.Box(0, 1, spec.shape, np.int8)
    if isinstance(spec, CategorySpec):
        raise LogError("observations of several categories cannot be written; one-hot vectors can")
    return spaces.Box(-np.inf, np.inf, spec.shape, np.float32)


def _action_space(actions: ActionSpec) -> spaces.Space[Any]:
    if isinstance(actions, DiscreteActions):
        return spaces.Discrete(actions.num_actions, start=actions.start)
    if isinstance(actions, ContinuousActions):
        shape = actions.shape or (len(actions.low),)
        low, high = (np.asarray(bound, np.float32).reshape(shape) for bound in (actions.low, actions.high))
        return spaces.Box(low, high, shape, np.float32)
    nvec, start = list(actions.num_actions), list(actions.start) or None
    choices: spaces.Space[Any] = spaces.MultiDiscrete(nvec, start=start)
    return choices


def _with_bools(space: spaces.Space[Any], values: Any) -> Any:
    """Return observations with bools where the space says so: HDF5 files hold them as small integers."""
    if isinstance(space, spaces.Dict):
        return {name: _with_bools(part, values[name]) for name, part in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(_with_bools(part, value) for part, value in zip(space.spaces, values, strict=True))
    return np.asarray(values, bool) if space.dtype == np.bool_ else values


def _stack_of(environment: EnvironmentSpec) -> FrameStack | None:
    for spec in environment.observations.values():
        if isinstance(spec, FramesSpec) and spec.stack > 1:
            return FrameStack(spec.stack, spec.padding)
    return None


def _registered(id: str) -> str | None:
    """Return an id that Minari can make its environment from."""
    import gymnasium

    return id if id in gymnasium.registry else None


def _load(name: str) -> Any:
    minari = _import()
    try:
        return minari.load_dataset(name)
    except FileNotFoundError:
        known = ", ".join(_local(minari)) or "none"
        raise LogError(
            f"there is no data set {name} on this machine; minari download {name} may fetch it; here are: {known}"
        ) from None
    except KeyError as error:
        wrong = f"{error} is missing in its metadata, or is no format that Minari knows"
        raise LogError(f"{name} cannot be read: {wrong}") from error
    except Exception as error:
        raise LogError(f"{name} cannot be read: {type(error).__name__}: {error}") from error


def _local(minari: Any) -> list[str]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about other data sets that are damaged
            return list(minari.list_local_datasets())
    except ValueError:  # a directory there has a name that is none of a data set
        return []


def _import() -> Any:
    if not is_installed("minari"):
        raise LogError(f"Minari is not installed; {install_command('minari')}")
    import minari

    return minari
