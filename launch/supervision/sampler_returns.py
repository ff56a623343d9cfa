"""Returns for the sampler: mean returns of the agent that a learned sampler is trained with."""

from __future__ import annotations

import math

from laser.ports import Report, wait
from launch.recording.recorder import Recorder, Snapshot
from launch.topology import Topology
from learner.learner import Learner

_CALL_DEADLINE_S = 120.0

_NUM_TOLD = "episodes_told_to_the_sampler"


class SamplerReturns:
    """Sends mean returns to the learner: of each evaluation or of training episodes, by `replay.<sampler>.reward`.

    Returns of training episodes are sent every `evaluation.interval` env steps, or if that is 0, whenever some have
    ended.

    Args:
        topology: the member's components.
        recorder: the member's recorder, which keeps the returns of training episodes.
    """

    def __init__(self, topology: Topology, recorder: Recorder):
        self._learner = topology.learner
        self._recorder = recorder
        learned = topology.config.replay.learned if topology.config.algorithm.num_drawn else None
        self._reward = "" if learned is None else learned.reward
        self._interval = topology.config.evaluation.interval
        snapshot = recorder.snapshot()
        self._told_at = last_multiple(snapshot.env_steps, self._interval)
        self._copied_at = -1
        self._num_under_way = topology.config.num_actors * topology.config.num_envs
        recorder.marks.setdefault(_NUM_TOLD, snapshot.episodes)

    def evaluating(self) -> None:
        """Note that an evaluation begins."""
        if self._reward == "evaluation":
            wait(self._learner.call(Learner.mark_evaluation), _CALL_DEADLINE_S, "the sampler to note an evaluation")

    def evaluated(self, report: Report) -> None:
        """Send the mean return of an evaluation that has ended."""
        is_ours = (report.at_env_steps or 0) > self._copied_at
        if self._reward == "evaluation" and report.episodes and is_ours:
            self._tell([episode.episode_return for episode in report.episodes])

    def copied(self, snapshot: Snapshot) -> None:
        """Note that another agent's weights have replaced this one's, whose further returns must not be sent."""
        self._copied_at = snapshot.env_steps
        # Episodes that the old agent began count as the old agent's.
        self._recorder.marks[_NUM_TOLD] = snapshot.episodes + self._num_under_way

    def look(self, snapshot: Snapshot) -> None:
        """Send the mean return of new training episodes if it is due."""
        if self._reward != "training" or snapshot.env_steps - self._told_at < self._interval:
            return
        self._told_at = last_multiple(snapshot.env_steps, self._interval)
        num_new = snapshot.episodes - self._recorder.marks[_NUM_TOLD]
        if num_new > 0:
            self._recorder.marks[_NUM_TOLD] = snapshot.episodes
            self._tell(self._recorder.newest_returns(num_new))

    def _tell(self, returns: list[float]) -> None:
        mean = math.fsum(returns) / len(returns)
        wait(self._learner.call(Learner.hear_return, mean), _CALL_DEADLINE_S, "the sampler to learn from a return")


def last_multiple(env_steps: int, interval: int) -> int:
    """Return the last multiple of an interval up to `env_steps`; `env_steps` itself if the interval is 0."""
    return env_steps // interval * interval if interval else env_steps
