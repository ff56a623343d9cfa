"""The trackers of a run: TensorBoard's if it is installed, others on request."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from laser.packages import install_command, is_installed
from launch.recording.tracker import Tracker
from launch.recording.wandb_tracker import WandbTracker
from launch.records.run_directory import RunDirectory
from launch.records.run_record import read_record
from launch.settings.json_form import config_to_json
from launch.settings.train_config import TrainConfig
from launch.settings.values import find_leaves, show


def open_trackers(
    stack: ExitStack, runs: Sequence[RunDirectory], configs: Sequence[TrainConfig]
) -> list[list[Tracker]]:
    """Return every member's trackers; the stack closes the slow ones at the same time.

    Raises:
        OutputError: TensorBoard's file cannot be written.
    """
    slow: list[WandbTracker] = []
    stack.callback(_close_all, slow)
    opened: list[list[Tracker]] = []
    for run, config in zip(runs, configs, strict=True):
        trackers: list[Tracker] = []
        if is_installed("tensorboard"):
            from launch.recording.event_file import EventFile

            trackers.append(stack.enter_context(EventFile(run.events_path, settings_of(config), texts_of(run))))
        if config.track == "wandb":
            slow.append(WandbTracker(run.place, wandb_settings(run, config), run.log))
            trackers.append(slow[-1])
        opened.append(trackers)
    return opened


def note_missing_tensorboard() -> str | None:
    """Return the warning that runs write no event files, or None if they do."""
    if is_installed("tensorboard"):
        return None
    return (
        "TensorBoard events are not written, since tensorboard is not installed; metrics.db holds every number: "
        + install_command("tensorboard")
    )


def settings_of(config: TrainConfig) -> dict[str, float | str]:
    """Return every setting by its key, for TensorBoard's table of hyper-parameters, which knows finite numbers only."""
    settings: dict[str, float | str] = {}
    for leaf in find_leaves(config):
        is_number = type(leaf.value) in (int, float) and math.isfinite(leaf.value)
        settings[leaf.key] = leaf.value if is_number else show(leaf.value)
    return settings


def texts_of(run: RunDirectory) -> dict[str, str]:
    """Return the texts about a run for TensorBoard, by their titles, as Markdown."""
    record = read_record(run.place)
    changes = record.get("changes", {})
    lines = ["| setting | preset | this run |", "|---|---|---|"]
    lines += [f"| {key} | {values['preset']} | {values['run']} |" for key, values in changes.items()]
    texts = {"command": f"    {record['command']}\n\ncommit {record['commit']}"}
    return texts | ({"changed settings": "\n".join(lines)} if changes else {})


def wandb_settings(run: RunDirectory, config: TrainConfig) -> dict[str, Any]:
    """Return the arguments of `wandb.init` for a run; the members of a sweep form a group with the sweep's name."""
    record = read_record(run.place)
    settings = {
        "project": os.environ.get("WANDB_PROJECT", "laser"),
        "name": run.path.name,
        "config": config_to_json(config) | {"commit": record["commit"], "command": record["command"]},
        "tags": [tag[:64] for tag in (config.preset, config.env, config.algorithm.name, *config.tags) if tag],
    }
    if "member" in record:
        sweep = run.path.parent.parent.name
        settings |= {"name": f"{sweep}/{run.path.name}", "group": sweep, "job_type": "member"}
    return settings


def _close_all(trackers: Sequence[WandbTracker]) -> None:
    threads = [threading.Thread(target=tracker.close) for tracker in trackers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
