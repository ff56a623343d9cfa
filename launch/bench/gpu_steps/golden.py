"""Golden losses: ten updates of every algorithm on the device, compared with the CPU's recorded losses."""

from __future__ import annotations

import importlib
import json
from typing import Any

from launch.bench.gpu_steps.checkout import find_tests, import_from_tests
from launch.bench.gpu_steps.context import Context
from launch.bench.gpu_steps.modes import as_asked, settings_of

_LEAST_S = {"eager": 2.0, "compiled": 15.0, "graphs": 15.0}
# The step's time may not be enough to compile all of them.
_FIRST = ("laser", "impala", "sac", "td3", "ppo", "dqn")
_QUICK: dict[str, list[str]] = {"graphs": ["dqn"], "compiled": []}
_BESIDE = "1e-4 is the tolerance of the CPU's test between processors"


def compare(context: Context) -> None:
    """Compare this process's share of the algorithms: first all of them eagerly, which takes moments."""
    tests = find_tests()
    if tests is None:
        context.skip("golden losses", "needs a checkout")
        return
    import_from_tests(tests)
    golden: Any = importlib.import_module("golden_losses")
    kept = json.loads(golden.KEPT.read_text(encoding="utf-8"))
    index, count = context.share
    names = sorted(golden.GOLDEN, key=lambda name: name not in _FIRST)[index::count]
    for mode in ("eager", "graphs", "compiled"):
        chosen = _QUICK[mode] if context.quick and mode in _QUICK else names
        for number, name in enumerate(chosen):
            if not context.has_time(f"{', '.join(chosen[number:])}, {mode}", _LEAST_S[mode]):
                break
            with context.measuring(f"{name}, {mode}"):
                _compare_one(context, golden, name, mode, kept[name])


def _compare_one(context: Context, golden: Any, name: str, mode: str, kept: dict[str, list[float]]) -> None:
    settings = settings_of(mode)
    with as_asked():
        results = golden.follow(name, context.device, **settings)
    difference = golden.largest_difference(results, kept)
    if golden.draws_as_on_cpu(name, context.device, **settings):
        stand_in = mode == "graphs" and not context.on_gpu
        context.result(f"{name}, {mode}", difference, "relative difference", beside=_BESIDE, stand_in=stand_in)
    else:
        note = "draws other random numbers than the CPU, so only a finite difference counts"
        context.result(f"{name}, {mode}", difference, "relative difference", note=note, details={"draws_its_own": True})
