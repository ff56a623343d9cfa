"""The context of a step: its task, its time, and the output for its results."""

from __future__ import annotations

import json
import math
import sys
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TextIO

from launch.bench.gpu_steps.entries import Entry
from launch.bench.gpu_steps.turns import Turns
from launch.standard_output import finite

_MOST_WORDS = 300
_MOST_REPORT = 8000
_REST_S = 0.5


class Context:
    """The task of a step, and the output for its results. Used from one thread.

    Args:
        output: gets a line of JSON for every entry.
        device: torch device of the networks.
        quick: use tiny sizes: the numbers are no measurement.
        seconds: until the step is killed.
        share: (index, count) among the processes that divide the step's work.
        known: results of earlier steps, by "STEP: NAME".
        turns: of the steps that run at the same time; None: there are no others.
    """

    def __init__(
        self,
        output: TextIO,
        device: str,
        quick: bool,
        seconds: float,
        share: tuple[int, int] = (0, 1),
        known: Mapping[str, float] | None = None,
        turns: Turns | None = None,
    ):
        self.device, self.quick, self.share, self.known = device, quick, share, dict(known or {})
        self._output, self._turns = output, turns
        self._beside = ""
        self._deadline = time.monotonic() + seconds
        self._warned: set[str] = set()

    @property
    def on_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.device.startswith("cuda")

    @property
    def left_s(self) -> float:
        """Seconds until the step is killed."""
        return self._deadline - time.monotonic()

    def result(
        self,
        name: str,
        value: float,
        unit: str,
        *,
        beside: str = "",
        note: str = "",
        stand_in: bool = False,
        details: Mapping[str, object] | None = None,
    ) -> None:
        """Report a number; a number that is not finite counts as failed."""
        if not math.isfinite(value):
            self.fail(name, f"{value} {unit} is not a finite number")
            return
        note = "; ".join(filter(None, (note, self._beside)))
        self._say(Entry("result", "", "", name, float(value), unit, beside, note, stand_in, dict(details or {})))

    def skip(self, name: str, why: str) -> None:
        """Report that a measurement is left out, and why."""
        self._say(Entry("skipped", name=name, note=why))

    def fail(self, name: str, why: str, report: str = "") -> None:
        """Report that a measurement failed, and why; the end of `report`, a traceback, is kept in the details."""
        details = {"report": report[-_MOST_REPORT:]} if report else {}
        self._say(Entry("failed", name=name, note=" ".join(why.split())[:_MOST_WORDS], details=details))

    def warn(
        self,
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        """Report each RuntimeWarning once: LASER runs otherwise than configured. Replaces `warnings.showwarning`."""
        text = " ".join(str(message).split())[:_MOST_WORDS]
        print(f"{category.__name__}: {text}", file=sys.stderr)
        if issubclass(category, RuntimeWarning) and text not in self._warned:
            self._warned.add(text)
            self._say(Entry("warned", note=text))

    @contextmanager
    def measuring(self, name: str) -> Iterator[None]:
        """Report an error inside as the failure of one measurement, and continue."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - reported in one line; the traceback goes to standard error
            traceback.print_exc(file=sys.stderr)
            self.fail(name, f"{type(error).__name__}: {error}", traceback.format_exc())

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Wait for this step's turn; inside, no other step measures."""
        if self._turns is None:
            yield
            return
        with self._turns.alone() as is_quiet:
            self._beside = "" if is_quiet else "while other steps still prepared"
            yield
            self._beside = ""
            time.sleep(_REST_S)  # actors finish their unrolls after a run has ended

    def has_time(self, name: str, least_s: float) -> bool:
        """Return whether `least_s` seconds are left; if not, report `name` as skipped."""
        if self.left_s >= least_s:
            return True
        self.skip(name, f"the step's time is spent: {max(0.0, self.left_s):.0f} s were left")
        return False

    def _say(self, entry: Entry) -> None:
        self._output.write(json.dumps(finite(entry.to_json())) + "\n")
        self._output.flush()
