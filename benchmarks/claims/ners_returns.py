"""NERS against uniform draws, PER, ERO, and a NERS whose scores do not learn, with SAC and TD3.

Tasks are those of the paper that two cores can run: the pendulum with sparse rewards, and LunarLanderContinuous (needs
Box2D: the `box2d` extra). Arms share every setting; nothing is tuned. Intervals are of means over seeds, and
differences are seed by seed: if an interval contains 0, these runs show no difference.
Source: Oh et al. 2021 (NERS), figure 3.
"""

from __future__ import annotations

from samplers_compared import NOT_LEARNED, SAMPLERS, UNIFORM, compare_samplers


def main() -> None:
    compare_samplers(
        "ners_returns",
        "Samplers with SAC and TD3",
        __doc__,
        [*SAMPLERS, NOT_LEARNED],
        {"SAC": "sac_sparse_pendulum", "TD3": "td3_sparse_pendulum"},
        [UNIFORM.label, NOT_LEARNED.label],
    )


if __name__ == "__main__":
    main()
