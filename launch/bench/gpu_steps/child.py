"""The process of one step: its command line, and its main function."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from launch.bench.gpu_steps.context import Context
from launch.bench.gpu_steps.runner import Step
from launch.bench.gpu_steps.turns import Turns

_PR_SET_PDEATHSIG = 1
_PATIENCE = 0.55  # of a step's time
_MARGIN_S = 2.0


def command(step: Step, seconds: float, folder: str, device: str, quick: bool, known: Mapping[str, float]) -> list[str]:
    """Return the command of a step's process.

    Args:
        step: the step to run.
        seconds: until the process is killed.
        folder: of the steps that run at the same time (see `Turns`).
        device: torch device of the networks.
        quick: see `Context`.
        known: see `Context`.
    """
    task = {
        "where": step.where,
        "device": device,
        "quick": quick,
        "seconds": seconds,
        "folder": folder,
        "share": step.share,
        "known": dict(known),
    }
    # The same sources as this process, from any working directory.
    root = str(Path(__file__).resolve().parents[3])
    program = (
        f"import sys; sys.path.insert(0, {root!r}); from launch.bench.gpu_steps.child import main; main(sys.argv[1])"
    )
    return [sys.executable, "-c", program, json.dumps(task)]


def main(task: str) -> None:
    """Run a step, and end the process without waiting for threads or for a driver that hangs.

    Args:
        task: JSON object from `command`.
    """
    # Printed text goes to standard error. Processes that this one starts do not inherit `output`.
    output = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # as soon as the runner is killed
    code = 0
    try:
        values: dict[str, Any] = json.loads(task)
        if values["device"] == "cpu" and values["quick"]:  # threads of several steps would wait for each other
            os.environ["OMP_NUM_THREADS"] = "1"
        if values["share"][1] > 1:  # other processes compile at the same time
            os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "2")
        module, _, function = values.pop("where").partition(":")
        turns = Turns(Path(values.pop("folder")), _PATIENCE * values["seconds"], values["seconds"] - _MARGIN_S)
        context = Context(output, share=tuple(values.pop("share")), turns=turns, **values)
        warnings.showwarning = context.warn
        getattr(importlib.import_module(f"launch.bench.gpu_steps.{module}"), function)(context)
    except BaseException:  # noqa: BLE001 - the runner shows the traceback's last line
        traceback.print_exc()
        code = 1
    for stream in (output, sys.stdout, sys.stderr):
        stream.flush()
    os._exit(code)
