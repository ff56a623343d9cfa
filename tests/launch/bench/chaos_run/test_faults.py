"""Faults of `laser bench chaos`: what they leave the run time for."""

from __future__ import annotations

import numpy as np

from launch.bench.chaos_run.faults import Faults


class Saving:
    """A run whose checkpoints come only when somebody waits for one, or from `save`."""

    def __init__(self):
        self.num_saved, self.waited_after = 1, []

    def save(self):
        self.num_saved += 1

    def newest_checkpoint(self):
        return str(self.num_saved)

    def wait_for_checkpoint(self, known):
        self.waited_after.append(known)
        self.save()

    def find(self, part):
        return []


def test_the_main_process_is_killed_three_times_at_most_before_the_run_has_saved_again():
    run = Saving()
    faults = Faults(run, np.random.default_rng(0), None)
    for _ in range(3):
        faults.make("driver")
    assert run.waited_after == []
    faults.make("driver")
    assert run.waited_after == ["1"]
    run.save()  # after the first of three further kills
    for part in ("driver", "learner", "driver", "learner", "driver", "learner"):
        faults.make(part)
    assert run.waited_after == ["1"]
    faults.make("driver")
    assert run.waited_after == ["1", "3"]
