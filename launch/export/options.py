"""Options of `laser export`; nothing here imports torch, which help must not wait for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from laser.config import Bounds
from launch.records.trust import TrustFlag

Format = Literal["onnx", "torch"]


@dataclass(frozen=True)
class ExportOptions:
    """Options of `laser export`."""

    format: Annotated[Format, "onnx: for ONNX Runtime and others; torch: a program for torch.export.load"] = "onnx"
    out: Annotated[Path | None, "file to write; none: policy.onnx or policy.pt2 in the run's directory"] = None
    checkpoint: Annotated[
        Literal["newest", "best"], "the run's newest checkpoint, or that with the best training return"
    ] = "newest"
    seed: Annotated[int, Bounds(least=0, most=2**31 - 1), "seed of the episode that the file is checked on"] = 0
    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False
