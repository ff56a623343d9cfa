"""Hosts: threads that each own a component, tick it, and run calls between two ticks."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from laser.error_words import words_of
from laser.foreign_threads import ForeignThread
from laser.futures import fail, give
from laser.ports import PortClosedError, Report, ReportPort

C = TypeVar("C")
P = ParamSpec("P")
R = TypeVar("R")


CLOSE_DEADLINE_S = 5.0
"""Seconds that a component has to close."""


class Component(Protocol):
    """An object that a host can own. Only `tick` is required.

    `heartbeat` and `waiting_for` reveal a hung component. An optional method `interrupt`, called from another thread,
    should make a long call fail soon.
    """

    heartbeat: float
    waiting_for: str

    def tick(self) -> Report | None:
        """Do a small piece of work (well under a second of waiting), and return a report if there is one."""


class Host(Generic[C]):
    """Runs one component in one thread. All methods may be called from any thread.

    Args:
        factory: makes the component, inside the thread.
        reports: receiver of the component's reports; None for a component without reports.
        name: name of the thread.
    """

    def __init__(self, factory: Callable[[], C], reports: ReportPort | None, name: str):
        self._factory = factory
        self._reports = reports
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._ticking = threading.Event()
        self._closed = threading.Event()
        self._component: Any = None
        self._failure: Exception | None = None
        self._thread = ForeignThread(self._run, name)
        self._thread.start()

    def call(self, method: Callable[Concatenate[C, P], R], *arguments: P.args, **options: P.kwargs) -> Future[R]:
        """Call a method of the component, given as a function of its class, between two ticks."""
        return self.call_named(method.__name__, arguments, options)

    def call_named(self, method: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> Future[Any]:
        """Call a method by its name, as it comes from another process."""
        future: Future[Any] = Future()
        self._calls.put(_Call(future, method, arguments, options))
        if self._closed.is_set():
            self._refuse_calls()  # the thread may have read its queue for the last time before this call
        return future

    def start(self) -> None:
        """Start ticking."""
        self._ticking.set()
        self._calls.put(None)  # wakes the thread

    def stop(self) -> None:
        """Stop ticking after the current tick; calls still run."""
        self._ticking.clear()

    def tell(self, method: str, arguments: tuple[Any, ...], options: Mapping[str, Any]) -> None:
        """Call a method of the component at once, in the calling thread; do nothing before the component exists."""
        if self._component is not None:
            getattr(self._component, method)(*arguments, **options)

    def failure(self) -> BaseException | None:
        """Return the error that ended the ticking, or None."""
        return self._failure

    @property
    def waiting_for(self) -> str:
        """The component's own `waiting_for`, "" for nothing."""
        return str(getattr(self._component, "waiting_for", ""))

    def silent_s(self, waiting_for: str) -> float:
        """Return the seconds for which the component has been waiting for `waiting_for`; 0 if it is not."""
        component = self._component
        if component is None or getattr(component, "waiting_for", None) != waiting_for:
            return 0.0
        return time.monotonic() - float(component.heartbeat)

    def close(self, timeout_s: float = CLOSE_DEADLINE_S) -> bool:
        """End the thread and close the component; return False if the thread is stuck and so left behind."""
        self._closed.set()
        self._ticking.clear()
        self._calls.put(None)
        interrupt = getattr(self._component, "interrupt", None)
        if interrupt is not None:
            interrupt()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._component = self._factory()
            while not self._closed.is_set():
                self._serve_calls()
                if self._ticking.is_set() and not self._closed.is_set():
                    report = self._component.tick()
                    if report is not None and self._reports is not None and not self._closed.is_set():
                        self._reports.report(report)
        except BaseException as error:  # noqa: BLE001 - kept for the supervisor, which ends the run with it
            self._failure = _as_failure(error)
        finally:
            self._closed.set()
            self._refuse_calls()
            close = getattr(self._component, "close", None)
            if close is not None:
                try:
                    close()
                except BaseException as error:  # noqa: BLE001 - as above; the first failure explains more
                    self._failure = self._failure or _as_failure(error)
            self._component = None  # a worker may be known for longer than its networks should take memory

    def _serve_calls(self) -> None:
        while not self._closed.is_set():
            try:
                item = self._calls.get(block=not self._ticking.is_set(), timeout=1.0)
            except queue.Empty:
                if self._ticking.is_set():
                    return
                continue
            if item is not None:
                give(item.future, partial(self._call_component, item), _as_failure)
            elif self._ticking.is_set():
                return

    def _call_component(self, call: _Call) -> Any:
        return getattr(self._component, call.method)(*call.arguments, **call.options)

    def _refuse_calls(self) -> None:
        while True:
            try:
                item = self._calls.get_nowait()
            except queue.Empty:
                return
            if item is not None:
                fail(item.future, self._failure or PortClosedError(f"{self._thread.name} has ended"))


@dataclass(frozen=True)
class _Call:
    """A queued call of a component's method."""

    future: Future[Any]
    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]


def _as_failure(error: BaseException) -> Exception:
    """Return an error that ends the run with a message, also for an environment's `sys.exit()`."""
    return error if isinstance(error, Exception) else RuntimeError(f"component was ended by {words_of(error)}")
