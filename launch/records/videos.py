"""Videos of a run: the check that its environment can be rendered, and the writing of video files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from actors.film import draw_without_a_display
from laser.config import Problem
from laser.environments import EnvironmentConfig, EnvironmentFailedError, make_environment, task_ids
from laser.packages import find_missing
from launch.records.atomic_files import output_error, replace_file


def find_video_problems(key: str, env: str, config: EnvironmentConfig) -> Iterator[Problem]:
    """Yield why no video can be made: a missing package, or tasks that fail or cannot be rendered.

    One environment of each task is made for the check.

    Args:
        key: the flag that asked for a video.
        env: environment id or ids.
        config: settings of the environments.
    """
    missing = list(find_missing(key, ["imageio-ffmpeg"], f"leave --{key} out"))
    if missing:
        yield from missing
        return
    draw_without_a_display()
    for task in task_ids(env):
        try:
            picture = _draw_beginning(task, config)
        except EnvironmentFailedError as error:
            yield Problem("env", f"{task}: {error}", "fix the environment")  # without a video it would fail as well
            continue
        if picture is None:
            yield Problem(key, f"{task} cannot be rendered here", f"leave --{key} out")


def _draw_beginning(task: str, config: EnvironmentConfig) -> np.ndarray | None:
    with closing(make_environment(task, 1, config.for_evaluation())) as environment:
        environment.reset(0)
        return environment.render()


def save_video(path: Path, video: bytes) -> None:
    """Write a video atomically, so that the newest video is never half a file.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        path.parent.mkdir(exist_ok=True)
    except OSError as error:
        raise output_error(path, error) from error
    replace_file(path, video)
