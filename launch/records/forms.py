"""The form of plain values that come from a file: a description of it, and a check that names the value at fault."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

# A type, an `AtLeast`, an `Either`, or one of these with forms inside: {"key": ..., "key that may be missing?": ...,
# and `...` for the values of all other keys}, [of every item], (of the first item, of the second, ...).
Form = Any

_WORDS = {
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "an object",
    list: "a list",
    np.ndarray: "an array",
    type(None): "null",
}


_LIMIT = 2**63


@dataclass(frozen=True)
class AtLeast:
    """A form of finite numbers from `least` to below 2^63, which is what a file of numbers and an array can hold."""

    kind: type
    least: float = 0


COUNT = AtLeast(int)
FINITE = AtLeast(float, -float(_LIMIT))


@dataclass(frozen=True)
class Either:
    """A form of two, for values that may be of either."""

    one: Form
    other: Form


def check_form(value: Any, form: Form, name: str) -> None:
    """Check that a value has a form.

    Args:
        value: JSON values, with NumPy arrays among them.
        form: see `Form`; a whole number is a number, too, but neither is a truth value.
        name: the value's name in the message.

    Raises:
        ValueError: it has not; the message names the value at fault.
    """
    if isinstance(form, Either):
        try:
            check_form(value, form.one, name)
        except ValueError:
            check_form(value, form.other, name)
    elif isinstance(form, AtLeast):
        check_form(value, form.kind, name)
        if not form.least <= value < _LIMIT:
            raise ValueError(f"{name} must be a finite number{_from(form.least)} below 2^63, got {value!r:.40}")
    elif isinstance(form, type):
        kinds = (int, float) if form is float else (form,)
        if not isinstance(value, kinds) or isinstance(value, bool):
            raise _wrong(value, form, name)
    elif isinstance(form, dict):
        _check_object(value, form, name)
    elif not isinstance(value, list):
        raise _wrong(value, list, name)
    else:
        if isinstance(form, tuple) and len(value) != len(form):
            raise ValueError(f"{name} must have {len(form)} items, got {len(value)}")
        forms = form if isinstance(form, tuple) else form * len(value)
        for index, (item, inside) in enumerate(zip(value, forms, strict=True)):
            check_form(item, inside, f"{name}[{index}]")


def _check_object(value: Any, form: dict[Any, Form], name: str) -> None:
    if not isinstance(value, dict):
        raise _wrong(value, dict, name)
    named = {key.rstrip("?"): inside for key, inside in form.items() if key is not ...}
    for key, inside in named.items():
        if key in value or f"{key}?" not in form:
            check_form(value.get(key), inside, f"{name}.{key}")
    if ... in form:
        for key, item in value.items():
            if key not in named:
                check_form(item, form[...], f"{name}.{key}")


def _from(least: float) -> str:
    return f" from {least} to" if least > -_LIMIT else ""


def _wrong(value: Any, kind: type, name: str) -> ValueError:
    return ValueError(f"{name} must be {_WORDS[kind]}, got {value!r:.40}")
