"""Presets: one file each, with a function of the file's name that returns a full `TrainConfig`.

A file put into this folder is a preset; nothing else has to know.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from laser.config import ConfigError, Problem

if TYPE_CHECKING:
    from launch.config import TrainConfig


def find_presets() -> dict[str, str]:
    """Return the presets' names with one line on each; the files are read, not imported, so that help is fast."""
    presets = {}
    for path in sorted(Path(__file__).parent.glob("*.py")):
        if not path.stem.startswith("_"):
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            presets[path.stem] = text.partition("\n")[0]
    return presets


def load_preset(name: str) -> TrainConfig:
    """Return a preset's config.

    Raises:
        ConfigError: there is no such preset; names the nearest.
    """
    presets = find_presets()
    known = name.replace("-", "_")
    if known not in presets:
        from launch.overrides import nearest

        best = nearest(known, list(presets))
        remedy = f"did you mean {best}?" if best else f"presets are {', '.join(presets)}"
        raise ConfigError([Problem("preset", f"there is no preset {name!r}", remedy)])
    config: TrainConfig = getattr(importlib.import_module(f"launch.presets.{known}"), known)()
    return dataclasses.replace(config, preset=known)
