"""Specs of observations and actions in words, for messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from laser.specs import (
    ActionSpec,
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    FramesSpec,
    MaskSpec,
    MultiDiscreteActions,
    ObservationSpec,
    VectorSpec,
)


def differences(one: Any, other: Any, both: str = "{}, not {}") -> str:
    """Return in words how two action specs, or observation specs by name, differ.

    Args:
        one: the first; anything else that has a `str` may be compared as well.
        other: the second.
        both: the place of the words for the first and the second.
    """
    if isinstance(one, Mapping):
        differing = [name for name in {**other, **one} if one.get(name) != other.get(name)]
        return ", ".join(f"{name} is {differences(one.get(name), other.get(name), both)}" for name in differing)
    words = _in_words(one), _in_words(other)
    return both.format(*words if words[0] != words[1] else (one, other))


def _in_words(spec: ObservationSpec | ActionSpec | None) -> str:
    match spec:
        case FramesSpec():
            return f"pictures of {_shape(spec.frame_shape)}" + (f", {spec.stack} in a stack" if spec.stack > 1 else "")
        case MaskSpec():
            return f"a mask of {_shape(spec.shape)} actions"
        case CategorySpec() | DiscreteActions() | MultiDiscreteActions():
            sizes = spec.num_values if isinstance(spec, CategorySpec) else spec.num_actions
            each = f"one of {sizes}" if isinstance(sizes, int) else f"one of each of {', '.join(map(str, sizes))}"
            return f"{_shape(spec.shape)} times {each}" if isinstance(spec, CategorySpec) and spec.shape else each
        case VectorSpec():
            return f"{_shape(spec.shape)} numbers" if spec.shape else "a number"
        case ContinuousActions():
            low, high = (", ".join(f"{bound:g}" for bound in bounds) for bounds in (spec.low, spec.high))
            return f"numbers from ({low}) to ({high})"
    return "missing"


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
