"""Updates that a GPU replays as one CUDA graph each."""

from __future__ import annotations

from laser.graphed_program import GraphedProgram
from learner.updating.compiled import CompiledUpdater


class GraphedUpdater(CompiledUpdater):
    """A `CompiledUpdater` whose code is recorded as a CUDA graph; a CPU calls the code where a GPU replays the graph.

    Args:
        state: what updates change.
        loss: of the state's networks.
        precision: of the networks, for the log.
    """

    program = GraphedProgram

    @property
    def description(self) -> str:
        """See `Updater`."""
        graph = "one CUDA graph an update" if self.state.device.type == "cuda" else "as a CUDA graph would be"
        return f"{super().description}, {graph}"
