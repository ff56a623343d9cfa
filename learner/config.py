"""The config of the learner: computation, publishing, prefetching, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds
from laser.specs import ArraySpec

Switch = Literal["auto", "on", "off"]


@dataclass(frozen=True)
class LearnerConfig:
    """Settings of the learner. `auto` chooses the fastest value for the learner's device."""

    compile: Annotated[
        Switch, "compile the update; auto: if the gain exceeds the time to compile, which is never so in lockstep"
    ] = "auto"
    cuda_graphs: Annotated[
        Switch, "replay a compiled update as one CUDA graph; auto: on a GPU. On a CPU the graph is emulated"
    ] = "auto"
    precision: Annotated[
        Literal["auto", "float32", "bfloat16"],
        "autocast of convolutions and matrix products; auto: bfloat16 for frames. Devices on which bfloat16 is slower "
        "always compute in float32",
    ] = "auto"
    publish_interval: Annotated[int, Bounds(least=1), "learner steps between two publications of the parameters"] = 1
    num_prefetch: Annotated[int, Bounds(least=1, most=64), "batches kept decoded ahead of the update"] = 2
    batches_per_draw: Annotated[
        int,
        Bounds(least=1, most=64),
        "batches of single steps that are drawn together and whose column values are written together; a larger number "
        "costs less time per batch, but column values are written later",
    ] = 1
    max_queued: Annotated[
        float, Bounds(above=0.0), "fresh unrolls that may wait for the learner, as a multiple of its batch size"
    ] = 2.0
    torch_threads: Annotated[
        int, Bounds(least=0, most=1024), "threads of the update on the CPU; 0 lets LASER choose"
    ] = 0
    replay_core_state: Annotated[
        Literal["stream", "stored", "zero"],
        "recurrent states of replayed sequences; stream: recompute them along whole episodes; stored: use the actor's "
        "states; zero: start from zeros",
    ] = "stream"
    recompute_core_state: Annotated[
        bool, "with episode streams: one more forward pass after each update, so that states use the newest parameters"
    ] = False
    checkpoint_interval_s: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "seconds between checkpoints; inf: only at the end"
    ] = 300.0
    keep_checkpoints: Annotated[int, Bounds(least=1), "newest checkpoints kept, besides the best"] = 3
    deadline_s: Annotated[
        float, Bounds(above=0.0, most=1e6), "the run ends after this many seconds without a new unroll in the replay"
    ] = 300.0

    def batches_together(self, view: Literal["unrolls", "steps"]) -> int:
        """Return the number of batches drawn at once: `batches_per_draw` for single steps, 1 for unrolls."""
        return self.batches_per_draw if view == "steps" else 1

    def walks_streams(self, core_state: Mapping[str, ArraySpec], num_drawn: int) -> bool:
        """Return whether replayed sequences are episode streams, which needs a recurrent state and a replay."""
        return self.replay_core_state == "stream" and bool(core_state) and num_drawn > 0
