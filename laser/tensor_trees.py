"""Trees of tensors (mappings, sequences, dataclasses) as lists of tensors, and back."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

T = TypeVar("T")


class Place(NamedTuple):
    """A tensor's place in a tree: the properties that compiled code assumes."""

    shape: torch.Size
    dtype: torch.dtype
    strides: tuple[int, ...] | None  # None: contiguous


def flatten(value: Any, tensors: list[Tensor]) -> Any:
    """Append the tensors of a tree to a list, in order; return the tree's structure without them, which is hashable.

    A tensor whose elements do not lie side by side is replaced by a contiguous copy.
    """
    made_of: Any = type(value)
    kind = _kind_of(made_of)
    if kind == "tensor":
        if value.is_contiguous():
            tensors.append(value)
            return Place(value.shape, value.dtype, None)
        if not _is_dense(value):
            value = value.contiguous()
        tensors.append(value)
        return Place(value.shape, value.dtype, None if value.is_contiguous() else value.stride())
    if kind == "mapping":
        return (dict, tuple(value), _flatten_all(value.values(), tensors))
    if kind == "sequence":
        return (list, (), _flatten_all(value, tensors))
    if kind == "dataclass":
        names = _field_names(made_of)
        return (made_of, names, _flatten_all([getattr(value, name) for name in names], tensors))
    return value


def unflatten(structure: Any, tensors: Iterator[Tensor]) -> Any:
    """Return a tree of a structure from `flatten`, filled with other tensors."""
    if isinstance(structure, Place):
        return next(tensors)
    if not isinstance(structure, tuple):
        return structure
    kind, names, parts = structure
    values = [next(tensors) if type(part) is Place else unflatten(part, tensors) for part in parts]
    if kind is list:
        return values
    named = dict(zip(names, values, strict=True))
    return named if kind is dict else kind(**named)


def map_tensors(tree: T, function: Callable[[Tensor], Tensor]) -> T:
    """Return a tree (a tensor, or a mapping or dataclass of trees) with `function` applied to each tensor."""
    if isinstance(tree, Tensor):
        return cast(T, function(tree))
    if isinstance(tree, Mapping):
        return cast(T, {name: map_tensors(value, function) for name, value in tree.items()})
    made_of: Any = type(tree)
    values = {name: map_tensors(getattr(tree, name), function) for name in _field_names(made_of)}
    return cast(T, made_of(**values))


def _flatten_all(values: Iterable[Any], tensors: list[Tensor]) -> tuple[Any, ...]:
    parts: list[Any] = []
    for value in values:
        if type(value) is Tensor and value.is_contiguous():  # nearly all are: a call for each would take twice as long
            tensors.append(value)
            parts.append(Place(value.shape, value.dtype, None))
        else:
            parts.append(flatten(value, tensors))
    return tuple(parts)


@functools.cache
def _kind_of(kind: type) -> Literal["tensor", "mapping", "sequence", "dataclass", "constant"]:
    """Return the kind of tree node that values of a type are; cached, since each call needs it for every node."""
    if issubclass(kind, Tensor):
        return "tensor"
    if issubclass(kind, Mapping):
        return "mapping"
    if issubclass(kind, list | tuple):
        return "sequence"
    return "dataclass" if dataclasses.is_dataclass(kind) else "constant"


def _is_dense(value: Tensor) -> bool:
    """Return whether a tensor's elements lie side by side, so that a copy has the same strides."""
    return torch.empty_like(value, device="meta").stride() == value.stride()


@functools.cache
def _field_names(kind: Any) -> tuple[str, ...]:
    return tuple(item.name for item in dataclasses.fields(kind))
