"""The rule that says which arrays of an observation are pictures, and where their channels are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from laser.specs import Layout  # NumPy, which help must not wait for

PictureKinds = Literal["by_shape", "auto", "bytes"]
"""Rules that say which arrays are pictures. A recorded value keeps its meaning: a new rule has a new name."""

_MOST_CHANNELS = 64
_MOST_IN_STACK = 16  # the most of environment.frame-stack, too
_MOST_CHANNELS_OF_BYTES = 16  # with kinds "bytes", for uint8


@dataclass(frozen=True)
class PictureRule:
    """Decision about the boxes of an observation.

    Args:
        size: pixels of a picture's shortest side, at least; arrays with fewer are vectors.
        kinds: "by_shape": boxes of three axes are pictures whatever their dtype, those of four are stacks of at most 16
            pictures, and those of two axes are pictures if they hold uint8 or bool; MultiBinary is like a box of bools;
            "auto": the same without stacks, the most channels count for more than equal axes, and MultiBinary is like a
            box of floats; "bytes": only boxes of uint8 and bool, whose axes are (height, width, channels) wherever they
            can be. Older runs had the second and the third rule, and their records say so.
    """

    size: int = 5
    kinds: PictureKinds = "by_shape"

    def layout(self, shape: tuple[int, ...], dtype: str) -> Layout:
        """Return the order of a box's axes if it is a picture, else "".

        The two neighbouring axes of equal length are height and width, however many channels there are. Without such a
        pair, the shorter of the first and the last axis is that of the channels, at most 64. Of four axes, the first
        counts pictures, and the order is that of the others.
        """
        if len(shape) == 4 and self.kinds == "by_shape" and shape[0] <= _MOST_IN_STACK:
            return self.layout(shape[1:], dtype)
        is_bytes = dtype in ("uint8", "bool")
        if len(shape) == 2:
            return "channels_last" if is_bytes and min(shape) >= self.size else ""
        if len(shape) != 3 or not (is_bytes or self.kinds != "bytes"):
            return ""
        if self.kinds == "by_shape" and (shape[0] == shape[1]) != (shape[1] == shape[2]):
            if shape[1] < self.size:
                return ""
            return "channels_last" if shape[0] == shape[1] else "channels_first"
        most = _MOST_CHANNELS_OF_BYTES if self.kinds == "bytes" and dtype == "uint8" else _MOST_CHANNELS
        first, middle, last = shape
        may_be_last = min(first, middle) >= self.size and last <= most
        may_be_first = min(middle, last) >= self.size and first <= most
        if may_be_last and may_be_first and self.kinds != "bytes":
            may_be_last = first == middle or (middle != last and last <= first)
        if may_be_last:
            return "channels_last"
        return "channels_first" if may_be_first else ""
