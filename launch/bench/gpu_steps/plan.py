"""The plan of the GPU check: the steps of each part, their order, and their shares of its time.

Steps of one slot run at the same time, since compilation takes most of a short check and would leave cores idle.
They then measure one at a time (`turns.py`).
"""

from __future__ import annotations

from dataclasses import replace

from launch.bench.gpu_steps.runner import Slot, Step

PART_S, QUICK_PART_S = 300.0, 85.0
# Numbers of processes that divide steps which mostly compile, for 16 cores.
_NUM_TESTS, _NUM_GOLDEN, _NUM_QUICK = 10, 6, 1

PARTS: dict[str, tuple[Slot, ...]] = {
    "A": (
        Slot(25.0, (Step("ceilings", "ceilings:measure"),)),
        Slot(
            110.0,
            (
                *(Step("gpu tests", "gpu_tests:run", (index, _NUM_TESTS)) for index in range(_NUM_TESTS)),
                *(Step("golden losses", "golden:compare", (index, _NUM_GOLDEN)) for index in range(_NUM_GOLDEN)),
            ),
        ),
        Slot(
            165.0,
            (
                Step("update, small net", "updates:small"),
                Step("update, residual net", "updates:residual"),
                Step("update, residual net x4", "updates:residual_4x"),
                Step("update, SAC", "updates:sac"),
                Step("update, TD3", "updates:td3"),
            ),
            least_s=20.0,
        ),
    ),
    "B": (
        Slot(165.0, (Step("learning", "training:learning"),), least_s=20.0),
        Slot(
            135.0,
            (
                Step("grid of 64", "training:grid_64"),
                Step("grid of 16", "training:grid_16"),
                Step("preset", "training:preset"),
                Step("residual net", "training:residual"),
                Step("inference", "training:inference"),
                Step("sweep", "training:sweep"),
            ),
            least_s=20.0,
        ),
        # This slot has only the time that the others left over.
        Slot(0.0, (Step("few threads", "training:few_threads"), Step("grid of 8 x 64", "training:grid_8x64")), 30.0),
    ),
}
"""The slots of each part; their seconds add up to `PART_S`."""

_QUICK_S = {"A": (10.0, 35.0, 40.0), "B": (25.0, 60.0, 0.0)}


def steps_of(part: str) -> list[Step]:
    """Return all steps of a part."""
    return [step for slot in PARTS[part] for step in slot.steps]


def slots_of(part: str, quick: bool, name: str = "") -> list[Slot]:
    """Return a part's slots, with the times of a quick check if it is one.

    Args:
        part: A or B.
        quick: a quick check.
        name: only steps with this text in their names; they share the part's time.
    """
    slots = _quick_slots(part) if quick else list(PARTS[part])
    if not name:
        return slots
    chosen = [replace(slot, steps=tuple(step for step in slot.steps if name in step.name)) for slot in slots]
    chosen = [slot for slot in chosen if slot.steps]
    return [replace(slot, seconds=seconds_of(quick) / len(chosen)) for slot in chosen]


def _quick_slots(part: str) -> list[Slot]:
    slots = []
    for slot, seconds in zip(PARTS[part], _QUICK_S[part], strict=True):
        steps = [step for step in slot.steps if step.share[0] < _NUM_QUICK]
        steps = [replace(step, share=(0, _NUM_QUICK)) if step.share[1] > 1 else step for step in steps]
        slots.append(replace(slot, seconds=seconds, steps=tuple(steps), least_s=min(slot.least_s, 15.0)))
    return slots


def seconds_of(quick: bool) -> float:
    """Return the most seconds that a part takes."""
    return QUICK_PART_S if quick else PART_S
