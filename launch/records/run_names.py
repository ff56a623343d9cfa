"""Names of run directories, made of what a run is."""

from __future__ import annotations

import re
import time

from launch.records.preset_changes import changes_in_words
from launch.settings.train_config import TrainConfig


def run_name(config: TrainConfig, now: float | None = None) -> str:
    """Return a directory name from the run's name, or its preset, environment and changed settings; and seed and time.

    Safe for any environment id and any name.
    """
    parts = [config.preset, *([] if slug(config.env).startswith(config.preset or "\0") else [slug(config.env)])]
    if changes := changes_in_words(config):
        parts.append(_slug_of_changes(changes))
    if config.name:
        parts = [slug(config.name)]
    stamp = time.strftime("%Y%m%d-%H%M%S", time.localtime(now))
    return "-".join([part for part in parts if part] + [f"seed{config.seed}", stamp])


def slug(text: str) -> str:
    """Return text as part of a file name: lower-case letters, digits and single hyphens."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "run"


def _slug_of_changes(text: str) -> str:
    """Return text as part of a file name that keeps the points of numbers."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-.")[:60]
