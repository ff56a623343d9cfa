"""Checks of action masks: from what an environment gives to bools, one per action."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.environments.base import EnvironmentFailedError
from laser.specs import ACTION_MASK, MaskSpec


def read_masks(spec: MaskSpec, value: Any, over: np.ndarray) -> np.ndarray:
    """Return the masks of N environments, bool [N, actions of all choices], in new memory.

    Args:
        spec: spec of one mask.
        value: [N, actions of all choices], or for several choices a tuple with [N, actions] of each.
        over: bool [N], where an episode has terminated: nothing need be allowed there, and then everything is.

    Raises:
        EnvironmentFailedError: the masks have a wrong shape or dtype ("wrong_shape"), or hold something other than 0
            and 1 or allow nothing ("wrong_mask").
    """
    masks = _joined(spec, value)
    if masks.dtype.kind not in "biuf":
        wrong = f"{ACTION_MASK} must hold True or False, or 1 or 0, got dtype {masks.dtype}"
        raise EnvironmentFailedError("wrong_shape", wrong)
    if masks.shape != (len(over), *spec.shape):
        got = masks.shape[1:] if masks.ndim and len(masks) == len(over) else masks.shape
        raise EnvironmentFailedError("wrong_shape", f"{ACTION_MASK} must have shape {spec.shape}, got {got}")
    allowed: np.ndarray = np.array(masks, bool)
    if masks.dtype.kind != "b" and (masks != allowed).any():
        strange = masks[masks != allowed][0]
        raise EnvironmentFailedError("wrong_mask", f"{ACTION_MASK} must hold 1 where allowed, else 0, got {strange}")
    starts = np.cumsum((0, *spec.num_actions[:-1]), dtype=np.int64)
    has_any = np.logical_or.reduceat(allowed, starts, axis=-1)
    allowed[over & ~has_any.all(-1)] = True
    bad = np.argwhere(~has_any & ~over[:, None])
    if len(bad):
        where = f" for choice {bad[0, 1]}" if len(spec.num_actions) > 1 else ""
        wrong = f"{ACTION_MASK} allows no action{where}; allow one, or terminate the episode"
        raise EnvironmentFailedError("wrong_mask", wrong)
    return allowed


def read_mask(spec: MaskSpec, value: Any, *, over: bool) -> np.ndarray:
    """Return the mask of one environment, bool [actions of all choices]; see `read_masks`."""
    parts = tuple(np.asarray(part)[None] for part in value) if _is_tuple(spec, value, 1) else _array(value)[None]
    masks: np.ndarray = read_masks(spec, parts, np.array([over]))[0]
    return masks


def _joined(spec: MaskSpec, value: Any) -> np.ndarray:
    if _is_tuple(spec, value, 2):
        return np.concatenate([_array(part) for part in value], -1)
    return _array(value)


def _is_tuple(spec: MaskSpec, value: Any, num_axes: int) -> bool:
    """Return whether a value has an array of so many axes for each of several choices."""
    if not isinstance(value, tuple | list) or len(value) != len(spec.num_actions):
        return False
    return all(np.ndim(part) == num_axes for part in value) and len(value) > 1


def _array(value: Any) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:
        wrong = f"{ACTION_MASK} must have one shape for all, got {error}"
        raise EnvironmentFailedError("wrong_shape", wrong) from error
