"""A million steps of a log into a replay and out again: seconds, and whether every step is the same.

python benchmarks/logs.py [--steps 1000000]
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import measure
import numpy as np

from laser.environments import EnvironmentConfig, describe_environment
from laser.logs.episodes import LoggedEpisode
from laser.logs.minari_log import MinariLog, write_minari

LENGTH = 500  # steps of an episode
ENV = "CartPole-v1"


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of the log")
    options = parser.parse_args()
    steps = 10_000 if options.quick else options.steps
    num_episodes = steps // LENGTH
    with tempfile.TemporaryDirectory() as place:
        os.environ["MINARI_DATASETS_PATH"] = place
        environment = describe_environment(ENV, EnvironmentConfig())
        write_minari("minari:made/one-v0", environment, made(num_episodes), "made")
        run_dir = Path(place) / "run"
        words = f"cartpole --init-replay minari:made/one-v0 --replay.capacity-steps {2 * steps} --steps 64"
        command = [*measure.LASER, "train", *words.split(), "--checkpoint-replay", "--run-dir", run_dir]
        into_s = seconds([*command, "--quiet", "--json"])
        out_s = seconds([*measure.LASER, "replay", "export", run_dir, "minari:made/two-v0", "--json"])
        one, two = (MinariLog(f"minari:made/{name}-v0", environment) for name in ("one", "two"))
        # The replay holds the episodes in the order in which they were read; the run's own are shorter.
        kept = {key(two.episode(number)): number for number in range(len(two))}
        same = sum(equal(one.episode(n), two.episode(kept[key(one.episode(n))])) for n in range(len(one)))
    conclusions = [
        f"in, with a run of 64 env steps and its checkpoint: {into_s:.1f} s for {steps:,} steps",
        f"out: {out_s:.1f} s; both: {into_s + out_s:.1f} s; 60 s to reach at 1,000,000",
        f"episodes whose every observation, action, reward and end is the same: {same} of {num_episodes}",
    ]
    numbers = {"into_s": into_s, "out_s": out_s, "same": same, "episodes": num_episodes}
    measure.save("logs", {"steps": steps, "quick": options.quick}, numbers, conclusions)


def seconds(command: Sequence[str | Path]) -> float:
    """Return how long a command of LASER takes."""
    begun = time.monotonic()
    measure.run_json(command, timeout_s=3600.0)
    return time.monotonic() - begun


def made(num_episodes: int) -> Iterator[LoggedEpisode]:
    """Yield episodes of random numbers, each with its number in its first observation."""
    rng = np.random.default_rng(0)
    for number in range(num_episodes):
        seen = rng.standard_normal((LENGTH + 1, 4)).astype(np.float32)
        seen[0, 0] = number
        actions = rng.integers(0, 2, LENGTH)
        logits = rng.standard_normal((LENGTH, 2)).astype(np.float32)
        yield LoggedEpisode(
            {"observation": seen}, actions, rng.random(LENGTH).astype(np.float32), number % 2 == 0, {"logits": logits}
        )


def key(episode: LoggedEpisode) -> tuple[float, int]:
    """Return what tells an episode from all others."""
    return float(episode.observations["observation"][0, 0]), len(episode)


def equal(one: LoggedEpisode, other: LoggedEpisode) -> bool:
    """Return whether two episodes are the same."""
    return (
        one.terminated == other.terminated
        and np.array_equal(one.observations["observation"], other.observations["observation"])
        and np.array_equal(one.actions, other.actions)
        and np.array_equal(one.rewards, other.rewards)
    )


if __name__ == "__main__":
    main()
