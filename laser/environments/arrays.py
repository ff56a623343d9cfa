"""Conversion of one array of an observation: from a Gymnasium space to its spec, and at every step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from gymnasium import spaces

from laser.environments.base import EnvironmentFailedError
from laser.environments.pictures import PictureRule
from laser.specs import CategorySpec, FramesSpec, Layout, MaskSpec, ObservationSpec, VectorSpec

# Networks see up to so many values one-hot; more are embedded, since a one-hot input of that width is slow.
_MOST_ONE_HOT = 1024
_MOST_VALUES = 10_000_000
_SUPPORTED = "Box, Discrete, MultiDiscrete, MultiBinary, Text, and Dict or Tuple of those"


Holds = Literal["numbers", "floats", "integers", "bits"]
"""Kind of a space's numbers: anything real, or what its dtype says; bits are those of MultiBinary and of bools."""


class UnsupportedSpaceError(ValueError):
    """A space that LASER does not support; the message names it and the supported spaces."""


@dataclass(frozen=True)
class FrameStack:
    """A stack of image observations that the environment makes: its depth, and its padding at an episode's start."""

    depth: int
    padding: Literal["zeros", "repeat"]


@dataclass(frozen=True)
class ArrayReader:
    """Reads one array of an observation.

    Args:
        spec: spec of the converted array.
        shape: shape of one item in the environment; of a text: of its one-hot letters.
        dtype: dtype in which items are collected before their conversion.
        holds: what the numbers of a vector may be; "bits" for a picture: 0 and 1 of any real dtype.
    """

    spec: ObservationSpec
    shape: tuple[int, ...]
    dtype: str
    holds: Holds = "numbers"
    _kinds: list[str] = field(default_factory=list, init=False, repr=False, compare=False)
    """The kinds of dtype that a space of floats may have, from its first array on."""

    def array_of(self, name: str, value: Any, num_leading: int) -> np.ndarray:
        """Return a value of the environment as a checked array; a text as its one-hot letters.

        Args:
            name: name of the array, for messages.
            value: one item, or several.
            num_leading: 0 for one item, 1 for several.

        Raises:
            EnvironmentFailedError: the value does not have the shape or a dtype of its space.
        """
        if isinstance(self.spec, VectorSpec) and self.spec.alphabet:
            letters = [self._letters(name, text) for text in (value if num_leading else [value])]
            return np.stack(letters) if num_leading else letters[0]
        array = np.asarray(value)
        self.check(name, array, num_leading)
        return array

    def check(self, name: str, value: np.ndarray, num_leading: int) -> None:
        """Raise EnvironmentFailedError unless the array has the shape and a dtype of its space, and bits are 0 or 1."""
        if value.shape[num_leading:] != self.shape:
            raise EnvironmentFailedError(
                "wrong_shape", f"{name} must have shape {self.shape}, got {value.shape[num_leading:]}"
            )
        kind = value.dtype.kind
        if isinstance(self.spec, FramesSpec) and self.holds != "bits":
            fits, wanted = str(value.dtype) == self.dtype, self.dtype
        elif isinstance(self.spec, MaskSpec):
            fits, wanted = kind in "biu", "bools"
        elif isinstance(self.spec, CategorySpec):
            fits, wanted = kind in "iu", "an integer dtype"
        elif self.holds == "integers":  # reals would be of another scale
            fits, wanted = kind in "iub", "an integer dtype, as its space says"
        elif self.holds == "floats":
            fits = self._fits_floats(kind)
            wanted = "a float dtype, as its space says" if kind in "iub" else "a real dtype"
        else:
            fits, wanted = kind in "fiub", "a real dtype"
        if not fits:
            raise EnvironmentFailedError("wrong_shape", f"{name} must have {wanted}, got {value.dtype}")
        if self.holds == "bits" and kind != "b" and not (fine := (value == 0) | (value == 1)).all():
            # Here, since the memory that processes share has the space's dtype, which makes 0.5 a 0.
            raise EnvironmentFailedError("wrong_shape", f"{name} must hold 0s and 1s, got {value[~fine][0]}")

    def _fits_floats(self, kind: str) -> bool:
        """Return whether a space of floats may have this kind of dtype.

        Integers and bools would be of another scale, unless the environment gives them from its first array on.
        """
        if not self._kinds and kind in "fiub":
            self._kinds.append({"f": "f", "b": "fb"}.get(kind, "fiu"))
        return bool(self._kinds) and kind in self._kinds[0]

    def convert(self, name: str, batch: np.ndarray) -> np.ndarray:
        """Convert checked items [M, *shape] to the form of the spec, in new memory; check the values.

        The environment has checked its action masks: it knows where nothing need be allowed.
        """
        if isinstance(self.spec, MaskSpec):
            masks: np.ndarray = np.array(batch, bool)
            return masks
        if isinstance(self.spec, FramesSpec):
            frames: np.ndarray = np.array(self.spec.as_stored(batch), np.uint8, order="C")
            return frames
        if isinstance(self.spec, CategorySpec):
            if self.spec.counts:
                return self._joined(name, batch, self.spec)
            start, num_values = self.spec.start, self.spec.num_values
            categories: np.ndarray = np.subtract(batch, start, dtype=np.int64, casting="unsafe").astype(np.int32)
            if ((categories < 0) | (categories >= num_values)).any():
                wrong = f"{name} must be in [{start}, {start + num_values - 1}], got {batch}"
                raise EnvironmentFailedError("wrong_shape", wrong)
            return categories.reshape(len(batch), *self.spec.shape)
        with np.errstate(over="ignore"):
            values = np.array(batch, np.float32, order="C")
        if not np.isfinite(values).all():
            if np.isfinite(batch).all():
                raise EnvironmentFailedError("not_finite", f"{name} does not fit float32: {_first_bad(values, batch)}")
            raise EnvironmentFailedError("not_finite", f"{name} is not finite: {_first_bad(batch)}")
        if self.holds == "integers" and (values != batch).any():
            inexact = int(batch[values != batch][0])
            raise EnvironmentFailedError(
                "not_finite", f"{name} holds the integer {inexact}, which float32 cannot hold; scale or split it"
            )
        return values

    def _joined(self, name: str, batch: np.ndarray, spec: CategorySpec) -> np.ndarray:
        """Return choices that have different numbers of values as categories of one range, each choice in its part."""
        counts = np.array(spec.counts)
        values = batch.reshape(len(batch), -1).astype(np.int64) - np.array(spec.starts)
        if ((values < 0) | (values >= counts)).any():
            wrong = f"{name} must be in [{list(spec.starts)}, {(spec.starts + counts - 1).tolist()}], got {batch}"
            raise EnvironmentFailedError("wrong_shape", wrong)
        parts = np.cumsum(counts) - counts
        categories: np.ndarray = (values + parts).astype(np.int32)
        return categories.reshape(len(batch), *spec.shape)

    def _letters(self, name: str, text: Any) -> np.ndarray:
        """Return a text as float32 [longest text, letters]: a 1 in each row of a letter, zeros behind the text."""
        assert isinstance(self.spec, VectorSpec)
        most, alphabet = self.spec.shape[0], self.spec.alphabet
        if not isinstance(text, str) or len(text) > most:
            raise EnvironmentFailedError(
                "wrong_shape", f"{name} must be a text of at most {most} letters, got {text!r}"
            )
        places = [alphabet.find(letter) for letter in text]
        if -1 in places:
            raise EnvironmentFailedError("wrong_shape", f"{name} must have letters among {alphabet!r}, got {text!r}")
        letters = np.zeros(self.spec.shape, np.float32)
        letters[np.arange(len(text)), places] = 1.0
        return letters


def array_reader(name: str, space: spaces.Space[Any], stack: FrameStack | None, pictures: PictureRule) -> ArrayReader:
    """Return the reader of one array.

    Args:
        name: name of the array, for messages.
        space: its space.
        stack: frame stack of a wrapper, if there is one.
        pictures: says which boxes are pictures.

    Raises:
        UnsupportedSpaceError: the space has no fixed shape, holds no numbers, or too many values.
    """
    if isinstance(space, spaces.Discrete):
        is_many = bool(space.n > _MOST_ONE_HOT)
        spec = _category(name, int(space.n), (1,) if is_many else (), start=int(space.start), is_number=is_many)
        return ArrayReader(spec, (), "int64")
    if isinstance(space, spaces.MultiDiscrete):
        counts, starts = space.nvec.ravel().tolist(), space.start.ravel().tolist()
        if len({*counts}) == len({*starts}) == 1:
            return ArrayReader(_category(name, counts[0], space.shape, start=starts[0]), space.shape, "int64")
        spec = _category(name, sum(counts), space.shape, starts=tuple(starts), counts=tuple(counts))
        return ArrayReader(spec, space.shape, "int64")
    if isinstance(space, spaces.MultiBinary) and 0 not in space.shape:
        if pictures.kinds == "by_shape" and (layout := pictures.layout(space.shape, "bool")):
            return ArrayReader(_frames(space.shape, layout, high=1), space.shape, "uint8", "bits")
        layout = pictures.layout(space.shape, "float32")
        return ArrayReader(VectorSpec(space.shape, layout=layout, holds="bits"), space.shape, "float32", "bits")
    if isinstance(space, spaces.Text):
        alphabet = "".join(sorted(space.character_set))
        text = VectorSpec((int(space.max_length), len(alphabet)), alphabet)
        return ArrayReader(text, text.shape, "float32")
    if not isinstance(space, spaces.Box) or space.dtype.kind not in "fiub":
        raise UnsupportedSpaceError(f"{name} has the space {space}, which is no array; supported are {_SUPPORTED}")
    shape, dtype = space.shape, str(space.dtype)
    if 0 in shape:
        raise UnsupportedSpaceError(f"{name} has the space {space}, which holds no numbers; leave it out")
    layout = pictures.layout(shape, dtype)
    if dtype in ("uint8", "bool"):
        high = _highest_pixel(space, pictures)
        if stack is not None and len(shape) <= 4 and pictures.layout(shape[1:], dtype) == "channels_last":
            return ArrayReader(FramesSpec(shape[1:], stack.depth, stack.padding, high=high), shape, dtype)
        # Without a stacking wrapper, channels or pictures need not be a rolling stack: keep all of them.
        if layout:
            return ArrayReader(_frames(shape, layout, high), shape, dtype)
    # Narrow floats are widened when they are collected; float64 is cast once, when the batch is converted.
    collected = "float64" if dtype not in ("float32", "float16") else "float32"
    holds: dict[str, Holds] = {"f": "floats", "i": "integers", "u": "integers", "b": "bits"}
    held = holds[space.dtype.kind]
    # A space of floats leaves its kind open, since it depends on the first array that its environment gives.
    vector = VectorSpec(shape, layout=layout, holds="numbers" if held == "floats" else held)
    return ArrayReader(vector, shape, collected, held)


def _frames(shape: tuple[int, ...], layout: Layout, high: int) -> FramesSpec:
    """Return the frames in which all the channels of a box of bytes or bools are kept."""
    if layout == "channels_first":
        shape = (*shape[:-3], *shape[-2:], shape[-3])
    if len(shape) < 4:
        return FramesSpec(shape, channels_first=layout == "channels_first", high=high)
    joined, height, width, channels = shape
    frame = (height, width, joined * channels)
    return FramesSpec(frame, channels_first=layout == "channels_first", high=high, joined=joined)


def _category(name: str, num_values: int, shape: tuple[int, ...], **facts: Any) -> CategorySpec:
    if num_values > _MOST_VALUES:
        wrong = f"{name} has {num_values:,} values, and at most {_MOST_VALUES:,} can be embedded"
        raise UnsupportedSpaceError(f"{wrong}; give its number as a Box, or split it")
    return CategorySpec(num_values, shape, **facts)


def _highest_pixel(space: spaces.Box, pictures: PictureRule) -> int:
    """Return the largest value of a pixel, as the space declares it."""
    if space.dtype.kind == "b":
        return 1
    return max(1, int(space.high.max())) if pictures.kinds != "bytes" else 255


def _first_bad(values: np.ndarray, original: np.ndarray | None = None) -> str:
    index = tuple(int(i) for i in np.argwhere(~np.isfinite(values))[0])
    value = (values if original is None else original)[index]
    return f"{value} at index {list(index[1:])} of environment {index[0]}"
