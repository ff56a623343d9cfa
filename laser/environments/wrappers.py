"""Gymnasium wrappers that the user names: `module:Wrapper,module:Wrapper(name=value)`, the innermost first."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium

from laser.config import ConfigError, Problem
from laser.environments.base import RAISED, failure_of
from laser.packages import install_missing
from laser.user_classes import import_object

KEY = "environment.wrappers"
_FORM = "for example gymnasium.wrappers:RescaleAction(min_action=-1,max_action=1)"
_OPENING, _CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class NamedWrapper:
    """A wrapper by its path `module:Name`, with the arguments that follow the environment."""

    path: str
    positional: tuple[Any, ...]
    named: dict[str, Any]


def parse_wrappers(text: str) -> list[NamedWrapper]:
    """Return the wrappers that a text names.

    Arguments are JSON values, or Python literals where JSON has no such value.

    Raises:
        ValueError: "must be ..., got ..."; the message says what to write.
    """
    return [_parse_one(part) for part in split_wrappers(text)]


def wrap(environment: gymnasium.Env, text: str) -> gymnasium.Env:
    """Return an environment inside the wrappers that a text names; the last one is outermost.

    Raises:
        ConfigError: a wrapper is not found or cannot be built; the environment is closed then.
    """
    try:
        for wrapper in parse_wrappers(text):
            environment = _find(wrapper.path)(environment, *wrapper.positional, **wrapper.named)
            if not isinstance(environment, gymnasium.Env):
                raise ValueError(f"{wrapper.path} must return an environment, got {type(environment).__name__}")
    except (gymnasium.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        environment.close()
        wrong = f"{wrapper.path} needs a package that is not installed: {error}"
        raise ConfigError([Problem(KEY, wrong, install_missing(error))]) from error
    except RAISED as error:
        if isinstance(environment, gymnasium.Env):
            environment.close()
        known = isinstance(error, ValueError) and str(error).startswith(("module ", "must be ", wrapper.path))
        wrong = str(error) if known else f"{wrapper.path} cannot be built: {failure_of(error)}"
        raise ConfigError([Problem(KEY, wrong, "" if ";" in wrong else "mend it or its arguments")]) from error
    return environment


def _find(path: str) -> Callable[..., Any]:
    found = import_object(path)
    if not callable(found):
        raise ValueError(f"{path} is no wrapper; name a class or a function of that module")
    return found  # type: ignore[no-any-return]


def split_wrappers(text: str) -> list[str]:
    """Return the wrappers that a text names, each with its arguments: commas in brackets and quotes belong to them."""
    parts, depth, quote, escaped = [""], 0, "", False
    for letter in text:
        if quote:
            escaped = letter == "\\" and not escaped
            quote = quote if letter != quote or escaped else ""
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in _OPENING) - (letter in _CLOSING)
        if letter == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _parse_one(text: str) -> NamedWrapper:
    form = re.fullmatch(r"([\w.]+:[\w.]+)\s*(\(.*\))?", text, re.DOTALL)
    if form is None:
        raise ValueError(f"must be module:Wrapper or module:Wrapper(name=value), got {text!r}; {_FORM}")
    source = f"f{form[2] or '()'}"
    try:
        call = ast.parse(source, mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise ValueError(f"must be arguments with commas between them, got {form[2]!r} for {form[1]}; {_FORM}")
    positional = tuple(_value(source, node, form[1]) for node in call.args)
    named = {str(keyword.arg): _value(source, keyword.value, form[1]) for keyword in call.keywords}
    return NamedWrapper(form[1], positional, named)


def _value(source: str, node: ast.expr, path: str) -> Any:
    text = ast.get_source_segment(source, node) or ""
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return ast.literal_eval(node)
    except ValueError:
        wrong = f"must be JSON values or Python literals as arguments, got {text} for {path}"
        raise ValueError(f"{wrong}; put text in quotes") from None
