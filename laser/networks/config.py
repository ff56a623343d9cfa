"""The config of the networks: which torso, how wide, which recurrent core."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds


@dataclass(frozen=True)
class NetworkConfig:
    """Which networks an agent uses; `auto` takes an MLP for vectors and the small Atari net for frames."""

    torso: Annotated[
        Literal["auto", "mlp", "atari_cnn", "impala_resnet"], "mlp for vectors; atari_cnn or impala_resnet for frames"
    ] = "auto"
    hidden_sizes: Annotated[tuple[int, ...], Bounds(least=1), "widths of the MLP's layers"] = (64, 64)
    activation: Annotated[Literal["tanh", "relu", "softsign"], "between the MLP's layers"] = "tanh"
    width: Annotated[int, Bounds(least=1, most=16), "factor on the residual net's channels (16, 32, 32)"] = 1
    separate_critic: Annotated[bool, "give the value function an MLP torso of its own"] = False
    initial_std: Annotated[float, Bounds(above=0.0), "standard deviation of a Gaussian policy at the start"] = 1.0
