"""Rows in, unrolls out: the only place where an actor's steps become the record of `laser.unroll`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.frames import compress_frames
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec


@dataclass(frozen=True)
class Identity:
    """Who an actor is.

    Args:
        run: number of the run, the same for all its processes.
        actor: index of the actor in the run.
        member: which agent of a sweep it acts for.
    """

    run: int
    actor: int
    member: int = 0


class UnrollBuilder:
    """Collects rows of `num_envs` environments, each with its own cursor, and cuts unrolls of T rows.

    Buffers are environment-major, as unrolls are shipped. When all environments finish together (the usual case) the
    buffers themselves are shipped and new ones taken; frames are compressed here.

    Args:
        spec: layout of the unrolls.
        num_envs: environments.
        identity: goes into every header.
        incarnation: counts restarts of this actor; sequence numbers start over with it.
        first_environment: index of the first environment within the actor.
        tasks: int [num_envs], each environment's index into the spec's tasks; None: all have the first.
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
        """Rows collected and not shipped yet; what is lost if the actor dies now."""
        return int(self._cursor.sum())

    @property
    def without_rows(self) -> np.ndarray:
        """The environments, int64 [M], that must `begin` before anyone acts for them or a row is appended."""
        return np.flatnonzero(self._cursor == 0)

    def policy_changed(self, parameter_version: int) -> None:
        """Tell which version acts from now on; unrolls that hold a reset and no action yet are that version's."""
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
        """Write row 0 of new unrolls: what the policy will see next (arrays are [M, ...] for `environments`)."""
        self._cursor[environments] = 0
        header = self._headers
        header["episode"][environments] = self._episode[environments]
        header["step_in_episode"][environments] = self._step_in_episode[environments]
        header["parameter_version"][environments] = parameter_version
        self._fields["last_action"][environments] = last_action
        self._fields["last_reward"][environments] = last_reward
        for name in self.spec.core_state.keys() & core_state.keys():  # states of other kinds of agents stay 0
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
        """Complete the current row of `environments` and write the observation of the next.

        Returns:
            the environments whose unroll is complete, ascending: `take` them, then `begin` anew.
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
        # Environments may come in any order; `take` ships whole buffers, which have theirs.
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
        """Return what continues the streams at an unroll boundary."""
        return {
            "headers": {name: self._headers[name].copy() for name in ("sequence", "incarnation")},
            "episode": self._episode.copy(),
            "step_in_episode": self._step_in_episode.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave; call before `begin`."""
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
