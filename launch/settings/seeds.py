"""Seeds of a run's components, all derived from the run's seed."""

from __future__ import annotations

import numpy as np


def seed_for(seed: int, role: str, index: int = 0) -> int:
    """Return the seed of one component: the same for the same run seed, different between components.

    Args:
        seed: the run's seed.
        role: the component's role, e.g. "learner".
        index: the component's number among those of its role.
    """
    words = [seed, *role.encode(), index]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)
