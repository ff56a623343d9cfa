"""The config of the learner: how it computes, how often it publishes, what it keeps ready."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds
from laser.specs import ArraySpec

Switch = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class LearnerConfig:
    """How the learner runs. `auto` chooses what is fastest where the learner is placed."""

    compile: Annotated[
        Switch, "compile the train step; auto: where it pays for its start-up time, which is never in lockstep"
    ] = "auto"
    cuda_graphs: Annotated[
        Switch, "replay a compiled update as one CUDA graph; auto: on a GPU. On a CPU the recording is stood in for"
    ] = "auto"
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        "autocast of convolutions and matrix products; auto: bfloat16 for frames. Devices that are slower in bfloat16 "
        "compute in float32 all the same",
    ] = "auto"
    publish_interval: Annotated[int, Bounds(least=1), "learner steps between two publications of the parameters"] = 1
    num_prefetch: Annotated[int, Bounds(least=1, most=64), "batches kept decoded ahead of the train step"] = 2
    batches_per_draw: Annotated[
        int,
        Bounds(least=1, most=64),
        "batches of single steps that are drawn, and whose numbers go back to the replay, together; more cost less "
        "each, and what is written follows so much later",
    ] = 1
    max_queued: Annotated[
        float, Bounds(above=0.0), "fresh unrolls that may wait for the learner, as a multiple of its batch"
    ] = 2.0
    torch_threads: Annotated[
        int, Bounds(least=0, most=1024), "threads of the train step on the CPU; 0 lets LASER choose"
    ] = 0
    replay_core_state: Annotated[
        Literal["stream", "stored", "zero"],
        "recurrent states of replayed columns; stream: walk whole episodes and compute them anew; stored: as the actor "
        "had them; zero: none",
    ] = "stream"
    recompute_core_state: Annotated[
        bool, "streams: one more forward after each update, so that states come from the newest parameters of all"
    ] = False
    checkpoint_interval_s: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "seconds between checkpoints; inf: only at the end"
    ] = 300.0
    keep_checkpoints: Annotated[int, Bounds(least=1), "newest checkpoints kept, besides the best"] = 3
    deadline_s: Annotated[
        float, Bounds(above=0.0, most=1e6), "seconds without anything arriving in the replay after which the run ends"
    ] = 300.0

    def batches_together(self, view: Literal["unrolls", "steps"]) -> int:
        """Return how many batches are drawn at once: of single steps as many as are set, of unrolls one."""
        return self.batches_per_draw if view == "steps" else 1

    def walks_streams(self, core_state: Mapping[str, ArraySpec], num_drawn: int) -> bool:
        """Return whether replayed columns are episode streams: of agents that have a recurrent state and replay."""
        return self.replay_core_state == "stream" and bool(core_state) and num_drawn > 0
