"""Graphed updates: a GPU replays each as one CUDA graph."""

from __future__ import annotations

from laser.graphed_program import GraphedProgram
from learner.updating.compiled import CompiledUpdater


class GraphedUpdater(CompiledUpdater):
    """A `CompiledUpdater` that replays its code as a CUDA graph; on a CPU it calls the code instead.

    Args:
        state: the training state that updates change.
        loss: of the state's networks.
        precision: of the networks, for the log.
    """

    program = GraphedProgram

    @property
    def description(self) -> str:
        """See `Updater`."""
        graph = "one CUDA graph an update" if self.state.device.type == "cuda" else "as a CUDA graph would be"
        return f"{super().description}, {graph}"
