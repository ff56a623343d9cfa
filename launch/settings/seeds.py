"""Seeds of a run's components, all from the run's own."""

from __future__ import annotations

import numpy as np


def seed_for(seed: int, role: str, index: int = 0) -> int:
    """Return the seed of one component: the same for the same run, different between components.

    Args:
        seed: of the run.
        role: of the component, e.g. "learner".
        index: tells components of one role apart.
    """
    words = [seed, *role.encode(), index]
    return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)
