"""Our own claim: members that run different algorithms on one replay do as well as the best of them alone, or better.

LASER, ACER and Reactor (if available) train alone, each with its own replay, and then as members of one sweep that
share a replay, with the same env steps per member. "The best of them" is the best member at each point of the sweep
without sharing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import experiment
import numpy as np

from launch.presets import find_presets

TASKS = {"CartPole-v1": 20_000}
PRESETS = [name for name in ("cartpole", "acer_cartpole", "reactor_cartpole") if name in find_presets()]
ARMS = [
    experiment.Arm("each with its own replay", {"sweep/share": False}),
    experiment.Arm("one replay for all", {"sweep/share": True}),
]


def main() -> None:
    parser = experiment.parser(__doc__)
    parser.set_defaults(preset="cartpole", tuning_seeds=0)
    experiment.run_claim(
        "mixed_sweep",
        f"{len(PRESETS)} algorithms, one replay or one each",
        parser.parse_args(),
        TASKS,
        ARMS,
        {},
        # A policy that has finished would stop adding experience for the others.
        shared={"sweep/grid": {"preset": PRESETS}, "stop-at-return": float("inf")},
        run=experiment.run_sweep,
        conclude=best_alone,
    )


def best_alone(task: str, num_steps: int, outcomes: Sequence[experiment.Outcome]) -> list[str]:
    """Return conclusions on the best member, shared and alone: area, final return, env steps to half of the rise."""
    alone, shared = (outcome.best for outcome in outcomes)
    assert alone is not None
    assert shared is not None
    tail = max(1, experiment.NUM_POINTS // 10)
    low, high = np.median(alone[:, 0]), np.median(alone[:, -tail:])
    goal = low + 0.5 * (high - low)
    rows: Mapping[str, np.ndarray] = {"alone": alone, "shared": shared}
    lines = []
    for label, row in rows.items():
        needed = np.median(experiment.steps_to(row, goal, num_steps))
        reached = f"{needed:,.0f} env steps" if np.isfinite(needed) else "never"
        lines.append(
            f"{task}: best member {label}: final {experiment.spread(row[:, -tail:].mean(1))}, "
            f"area {experiment.spread(row.mean(1))}, return {goal:.0f} after {reached}"
        )
    return lines


if __name__ == "__main__":
    main()
