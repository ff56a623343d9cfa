"""Returns by task while a run trains: means of the newest episodes, and curves in buckets as in papers."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from laser.ports import EpisodeResult
from laser.scoring.protocols import ATARI_BUCKET, DMLAB_BUCKET
from laser.scoring.scores import find_reference, summarise
from launch.recording.return_curve import NUM_RETURNS
from launch.recording.thinned_returns import ThinnedReturns

_BUCKETS_OF_A_SHORT_RUN = 20


def bucket_frames(tasks: Sequence[str], total_frames: int) -> int:
    """Return the width of a bucket in frames: 1M on Atari, 10M on DeepMind Lab, elsewhere a twentieth of the run."""
    for prefix, width in (("ALE/", ATARI_BUCKET), ("dmlab/", DMLAB_BUCKET)):
        if all(task.startswith(prefix) for task in tasks):
            return width
    return max(1, total_frames // _BUCKETS_OF_A_SHORT_RUN)


def task_metrics(tasks: Sequence[str], returns: Mapping[int, float], prefix: str) -> dict[str, float]:
    """Return mean returns by task, if there are several tasks, and the normalised scores over all tasks.

    Args:
        tasks: ids of the tasks.
        returns: mean return of each task that has one, by index.
        prefix: prefix of the metrics' names.

    Returns:
        values by name. Normalised scores are included only once every task has a return, since the median of some tasks
        is no measure of all.
    """
    metrics = {}
    if len(tasks) > 1:
        metrics = {f"{prefix}/{tasks[index]}/mean_return": value for index, value in returns.items()}
    references = [find_reference(task) for task in tasks]
    normalised = {
        tasks[index]: reference.normalise(returns[index])
        for index, reference in enumerate(references)
        if reference is not None and index in returns
    }
    if len(normalised) == len(tasks):
        summary = summarise(normalised)
        metrics |= {f"{prefix}/normalised_{name}": value for name, value in vars(summary).items()}
    return metrics


def has_capped_score(tasks: Sequence[str]) -> bool:
    """Return whether the mean capped normalised score applies: there are several tasks, all with reference scores."""
    return len(tasks) > 1 and all(find_reference(task) is not None for task in tasks)


class TaskReturns:
    """Keeps the newest returns of each task, and the sums of the current bucket. Guarded by its owner's lock.

    Args:
        tasks: ids of the tasks, in the order of the environment's spec.
        width: frames per bucket.
    """

    def __init__(self, tasks: Sequence[str], width: int):
        self._tasks = tuple(tasks)
        self._width = width
        self._newest: list[deque[float]] = [deque(maxlen=NUM_RETURNS) for _ in tasks]
        self._bucket = 0
        self._sums, self._counts = [0.0] * len(tasks), [0] * len(tasks)
        self._means: dict[int, float] = {}
        self._numbers: dict[int, int] = {}  # of episodes behind each mean
        self._returns = ThinnedReturns()  # of the current bucket, if there is one task
        self._percentiles: list[float] = []
        self._closed: list[tuple[int, dict[str, float]]] = []

    def add(self, episodes: Iterable[EpisodeResult], frames: int) -> None:
        """Add episodes that ended when the run was at `frames`."""
        self._close(math.ceil(frames / self._width) - 1)  # an episode that ends at a bucket's end belongs to the bucket
        for episode in episodes:
            self._newest[episode.task].append(episode.episode_return)
            self._sums[episode.task] += episode.episode_return
            self._counts[episode.task] += 1
            if len(self._tasks) == 1:  # returns of different tasks have no common percentiles
                self._returns.add(episode.episode_return)

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the newest 20 episodes of each task and of the last complete bucket."""
        return task_metrics(self._tasks, self._newest_means(), "tasks") | self._bucket_metrics()

    def finish(self, frames: int) -> None:
        """Close the last bucket too if the finished run ended exactly at the bucket's end."""
        self._close(frames // self._width)

    def take_closed(self) -> list[tuple[int, dict[str, float]]]:
        """Return each bucket that was completed since the last call: the frames at its end, and its metrics."""
        closed, self._closed = self._closed, []
        return closed

    def newest_means(self) -> dict[str, float]:
        """Return the mean return of the newest 20 episodes of each task that has any, by task id."""
        return {self._tasks[index]: mean for index, mean in self._newest_means().items()}

    def fitness(self) -> float | None:
        """Return the agent's fitness from the newest 20 episodes of each task, or None while it is unknown.

        Fitness is the mean capped normalised score of several tasks with reference scores, else the mean return.
        """
        newest = self._newest_means()
        if len(newest) < len(self._tasks) or sum(map(len, self._newest)) < NUM_RETURNS:
            return None
        if has_capped_score(self._tasks):
            return task_metrics(self._tasks, newest, "")["/normalised_mean_capped"]
        return math.fsum(newest.values()) / len(newest)

    def normalised_score(self) -> float | None:
        """Return the median normalised score over all tasks from their newest 20 episodes; None if one has no score."""
        return task_metrics(self._tasks, self._newest_means(), "").get("/normalised_median")

    def _newest_means(self) -> dict[int, float]:
        return {index: math.fsum(values) / len(values) for index, values in enumerate(self._newest) if values}

    def state_dict(self) -> dict[str, Any]:
        """Return everything needed to continue, as JSON values."""
        return {
            "newest": [list(values) for values in self._newest],
            "bucket": self._bucket,
            "width": self._width,
            "sums": list(self._sums),
            "counts": list(self._counts),
            "means": {str(index): value for index, value in self._means.items()},
            "numbers": {str(index): number for index, number in self._numbers.items()},
            "returns": self._returns.state_dict(),
            "percentiles": list(self._percentiles),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from `state_dict`, with the saved width of buckets, so that a prolonged run keeps its curve."""
        self._width = int(state.get("width", self._width))
        self._newest = [deque(values, maxlen=NUM_RETURNS) for values in state["newest"]]
        self._bucket, self._sums, self._counts = state["bucket"], list(state["sums"]), list(state["counts"])
        self._means = {int(index): value for index, value in state["means"].items()}
        self._numbers = {int(index): int(number) for index, number in state.get("numbers", {}).items()}
        if "returns" in state:
            self._returns.load_state_dict(state["returns"])
            self._percentiles = list(state["percentiles"])

    def _bucket_metrics(self) -> dict[str, float]:
        metrics = task_metrics(self._tasks, self._means, "buckets")
        if len(self._means) == len(self._tasks):
            metrics["buckets/mean_return"] = math.fsum(self._means.values()) / len(self._means)
            metrics["buckets/ends_at"] = float(self._bucket * self._width)
            if len(self._numbers) == len(self._tasks):  # a run that was begun before they were counted has some later
                metrics["buckets/fewest_episodes"] = float(min(self._numbers.values()))
        if self._percentiles:
            metrics["buckets/return_p20"], metrics["buckets/return_p80"] = self._percentiles
        return metrics

    def _close(self, num_buckets: int) -> None:
        """Close buckets up to `num_buckets`; a task without an episode in one keeps its mean of the previous bucket."""
        if num_buckets <= self._bucket:
            return
        for index, count in enumerate(self._counts):
            if count:
                self._means[index], self._numbers[index] = self._sums[index] / count, count
        self._sums, self._counts = [0.0] * len(self._tasks), [0] * len(self._tasks)
        if self._returns.num:
            self._percentiles, self._returns = self._returns.percentiles(20.0, 80.0), ThinnedReturns()
        while self._bucket < num_buckets:
            self._bucket += 1
            if metrics := self._bucket_metrics():
                self._closed.append((self._bucket * self._width, metrics))
