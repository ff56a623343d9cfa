"""Updates that begin uncompiled: importing torch's compiler takes longer than all else of a start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from torch import Tensor

from laser.algorithms.base import Schedule
from laser.batch import Batch
from laser.compilation import CompilerImport
from learner.updating.updater import Updated, Updater


class LateUpdater(Updater):
    """Computes updates like the eager updater, and like the compiled one from the first update after the import on.

    Call `in_turn` only while no other thread runs networks: it compiles once.

    Args:
        compiled: of which nothing is compiled yet, on a CPU: on a GPU uncompiled updates need more memory than planned.
    """

    def __init__(self, compiled: Updater):
        super().__init__(compiled.state)
        self.is_compiled = compiled.is_compiled
        self._compiled = compiled
        self._present = compiled.uncompiled()
        self._compiler: CompilerImport | None = None
        self._has_core_state = False

    @property
    def description(self) -> str:
        """See `Updater`."""
        return self._present.description

    def warm_up(self, batch: Batch, inputs: Schedule, *, core_state: bool = False) -> Updater:
        """Begin to import the compiler, and return this updater; see `Updater`."""
        self._compiler, self._has_core_state = CompilerImport(), core_state
        return self

    def in_turn(self, batches: Sequence[Batch], learning_rates: Sequence[float], inputs: Schedule) -> Iterator[Updated]:
        """See `Updater`."""
        if self._compiler is not None and self._compiler.is_over:
            self._compiler = None
            self._present = self._compiled.warm_up(batches[0], inputs, core_state=self._has_core_state)
        return self._present.in_turn(batches, learning_rates, inputs)

    def update(self, batch: Batch, learning_rate: float, inputs: Schedule) -> Updated:
        """See `Updater`."""
        return self._present.update(batch, learning_rate, inputs)

    def next_core_state(self, batch: Batch, inputs: Schedule) -> dict[str, Tensor]:
        """See `Updater`."""
        return self._present.next_core_state(batch, inputs)

    def uncompiled(self) -> Updater:
        """See `Updater`."""
        return self._present.uncompiled()

    def scalar(self, value: float) -> float | Tensor:
        """See `Updater`; uncompiled updates take the numbers of compiled ones."""
        return self._compiled.scalar(value)

    def close(self) -> None:
        """See `Updater`; a process must not end while the import goes on."""
        if self._compiler is not None:
            self._compiler.wait()
        self._present.close()
