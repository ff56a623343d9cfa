"""Building of unrolls: the only place where an actor's steps become records of `laser.unroll`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.frames import compress_frames
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec


@dataclass(frozen=True)
class Identity:
    """Identity of an actor.

    Args:
        run: number of the run, the same for all its processes.
        actor: index of the actor in the run.
        member: index of the sweep's member that it acts for.
    """

    run: int
    actor: int
    member: int = 0


class UnrollBuilder:
    """Collects rows of `num_envs` environments, each with its own cursor, and cuts unrolls of T rows.

    Buffers are environment-major, as shipped unrolls are. When all environments finish together (the usual case) the
    buffers themselves are shipped and replaced by new ones. Frames are compressed here.

    Args:
        spec: layout of the unrolls.
        num_envs: number of environments.
        identity: identity of the actor, for every header.
        incarnation: number of restarts of this actor; each begins new sequence numbers.
        first_environment: index of the first environment within the actor.
        tasks: int [num_envs], each environment's index into the spec's tasks; None: all have task 0.
    """

    def __init__(
        self,
        spec: UnrollSpec,
        num_envs: int,
        identity: Identity,
        incarnation: int,
        first_environment: int = 0,
        tasks: np.ndarray | None = None,
    ):
        self.spec = spec
        self.num_envs = num_envs
        self._cursor = np.zeros(num_envs, np.int64)
        self._headers = np.zeros(num_envs, HEADER_DTYPE)
        for name in ("run", "actor", "member"):
            self._headers[name] = getattr(identity, name)
        self._headers["task"] = 0 if tasks is None else tasks
        self._headers["incarnation"] = incarnation
        self._headers["environment"] = first_environment + np.arange(num_envs)
        self._episode = np.zeros(num_envs, np.int64)
        self._step_in_episode = np.zeros(num_envs, np.int64)
        self._fields = self._new_buffers()
        self._frames = {
            name: np.zeros((num_envs, spec.num_frames(name), *item.frame_shape), np.uint8)
            for name, item in spec.frames.items()
        }

    @property
    def num_pending_rows(self) -> int:
        """Number of rows collected and not shipped yet, which are lost if the actor fails now."""
        return int(self._cursor.sum())

    @property
    def without_rows(self) -> np.ndarray:
        """The environments, int64 [M], that need a `begin` before the policy acts for them or a row is appended."""
        return np.flatnonzero(self._cursor == 0)

    def policy_changed(self, parameter_version: int) -> None:
        """Set the version that acts from now on, also for unrolls that hold only a reset and no action yet."""
        untouched = (self._cursor == 1) & ~self._fields["valid"][:, 0]
        self._headers["parameter_version"][untouched] = parameter_version

    def begin(
        self,
        environments: np.ndarray,
        observations: dict[str, np.ndarray],
        first: np.ndarray,
        last_action: np.ndarray,
        last_reward: np.ndarray,
        core_state: dict[str, np.ndarray],
        parameter_version: int,
    ) -> None:
        """Write row 0 of new unrolls: the next input of the policy (arrays are [M, ...] for `environments`)."""
        self._cursor[environments] = 0
        header = self._headers
        header["episode"][environments] = self._episode[environments]
        header["step_in_episode"][environments] = self._step_in_episode[environments]
        header["parameter_version"][environments] = parameter_version
        self._fields["last_action"][environments] = last_action
        self._fields["last_reward"][environments] = last_reward
        for name in self.spec.core_state.keys() & core_state.keys():  # core states of other kinds of agents stay 0
            self._fields[f"core_state/{name}"][environments] = core_state[name]
        for name, item in self.spec.frames.items():
            self._frames[name][environments, : item.stack] = observations[name]
        self._write_observation(environments, observations, first)

    def append(
        self,
        environments: np.ndarray,
        actions: np.ndarray,
        mu: dict[str, np.ndarray],
        rewards: np.ndarray,
        terminated: np.ndarray,
        valid: np.ndarray,
        next_observations: dict[str, np.ndarray],
        next_first: np.ndarray,
    ) -> np.ndarray:
        """Complete the current row of `environments` and write the observation of the next row.

        Returns:
            the environments whose unroll is complete, ascending: `take` them, then `begin` again.
        """
        rows = self._cursor[environments]
        fields = self._fields
        fields["actions"][environments, rows] = actions
        fields["rewards"][environments, rows] = rewards
        fields["terminated"][environments, rows] = terminated
        fields["valid"][environments, rows] = valid
        for name, value in mu.items():
            fields[f"mu/{name}"][environments, rows] = value
        self._cursor[environments] += 1
        self._episode[environments] += next_first
        self._step_in_episode[environments] = np.where(next_first, 0, self._step_in_episode[environments] + 1)
        for name, item in self.spec.frames.items():
            newest = next_observations[name][:, -1]
            self._frames[name][environments, item.stack - 1 + self._cursor[environments]] = newest
        self._write_observation(environments, next_observations, next_first)
        # Environments may come in any order, but `take` ships whole buffers in ascending order.
        return np.sort(environments[self._cursor[environments] == self.spec.unroll_length])

    def take(self, environments: np.ndarray) -> Unrolls:
        """Return the finished unrolls of `environments`; the receiver owns them."""
        frames = {
            name: compress_frames(array if len(environments) == self.num_envs else array[environments])
            for name, array in self._frames.items()
        }
        headers = self._headers[environments]
        if len(environments) == self.num_envs:
            fields, self._fields = self._fields, self._new_buffers()
        else:
            fields = {name: array[environments] for name, array in self._fields.items()}
        self._headers["sequence"][environments] += 1
        self._cursor[environments] = 0
        return Unrolls(headers, fields, frames)

    def state_dict(self) -> dict[str, Any]:
        """Return the state that continues the numbering of unrolls and episodes at an unroll boundary."""
        return {
            "headers": {name: self._headers[name].copy() for name in ("sequence", "incarnation")},
            "episode": self._episode.copy(),
            "step_in_episode": self._step_in_episode.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`; call before `begin`."""
        for name, value in state["headers"].items():
            self._headers[name] = value
        self._episode, self._step_in_episode = state["episode"].copy(), state["step_in_episode"].copy()

    def _write_observation(
        self, environments: np.ndarray, observations: dict[str, np.ndarray], first: np.ndarray
    ) -> None:
        rows = self._cursor[environments]
        self._fields["first"][environments, rows] = first
        for name, value in observations.items():
            if name not in self.spec.frames:
                self._fields[f"observations/{name}"][environments, rows] = value

    def _new_buffers(self) -> dict[str, np.ndarray]:
        return {
            name: np.zeros((self.num_envs, *self.spec.shape(name)), item.array.dtype)
            for name, item in self.spec.fields.items()
        }
