"""Settings of LASER's own networks: torso, widths and memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds, Problem
from laser.specs import ArraySpec

# Torsos with a last layer of units that `layer_norm` can normalise.
_NORMALISED = ("auto", "atari_cnn", "impala_resnet")


@dataclass(frozen=True)
class NetworkSettings:
    """Torso and memory of a network; `auto` takes an MLP for vectors and the small Atari net for frames."""

    torso: Annotated[
        Literal["auto", "mlp", "atari_cnn", "impala_resnet", "crelu_cnn", "der_cnn", "cells_cnn"],
        "mlp for vectors; for frames atari_cnn, crelu_cnn, impala_resnet or bare convolutions: der_cnn, tiny cells_cnn",
    ] = "auto"
    hidden_sizes: Annotated[tuple[int, ...], Bounds(least=1, most=65_536), "widths of the MLP's layers"] = (64, 64)
    activation: Annotated[Literal["tanh", "relu", "softsign", "crelu"], "activation of the MLP's layers"] = "tanh"
    width: Annotated[int, Bounds(least=1, most=16), "factor on the residual net's channels (16, 32, 32)"] = 1
    layer_norm: Annotated[
        bool, "normalise the 256 units of atari_cnn or impala_resnet before they are rectified; keeps them from dying"
    ] = False
    centered_filters: Annotated[
        bool, "start the first filters over frames with a sum of 0, so that an even background adds nothing"
    ] = False
    separate_critic: Annotated[bool, "give the value function an MLP torso of its own"] = False
    initial_std: Annotated[float, Bounds(above=0.0), "standard deviation of a Gaussian policy at the start"] = 1.0
    core: Annotated[
        Literal["none", "lstm", "preco"],
        "memory between torso and heads: none, an LSTM, or a predictor-corrector pair of LSTMs",
    ] = "none"
    core_size: Annotated[int, Bounds(least=1), "width of the memory"] = 256

    def problems(self) -> list[Problem]:
        """Return mistakes that concern several fields."""
        found = []
        if self.layer_norm and self.torso not in _NORMALISED:
            remedy = f"use false, or network.torso {' or '.join(_NORMALISED[1:])}"
            found.append(Problem("layer-norm", f"network.torso {self.torso} has no units to normalise", remedy))
        if self.separate_critic and self.core != "none":
            remedy = "use network.separate-critic false, or network.core none"
            problem = f"has no memory of its own beside network.core {self.core}"
            found.append(Problem("separate-critic", problem, remedy))
        return found

    @property
    def core_state(self) -> dict[str, ArraySpec]:
        """The recurrent state of one environment by name; empty for feed-forward networks."""
        if self.core == "none":
            return {}
        return {"hidden": ArraySpec((self.core_size,)), "cell": ArraySpec((self.core_size,))}
