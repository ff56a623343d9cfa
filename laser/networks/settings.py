"""Settings of LASER's own networks: torso, widths and memory."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds, Problem
from laser.specs import ArraySpec

# Torsos with a last layer of units that `layer_norm` can normalise.
_NORMALISED = ("auto", "atari_cnn", "nature_cnn", "minatar_cnn", "conv", "impala_resnet")

Filters = tuple[tuple[int, int, int], ...]
"""(number, size, stride) of the filters of each layer."""


@dataclass(frozen=True)
class NetworkSettings:
    """Torso and memory of a network; `auto` takes an MLP for vectors, and for pictures a net of their size."""

    torso: Annotated[
        Literal[
            "auto",
            "mlp",
            "atari_cnn",
            "nature_cnn",
            "minatar_cnn",
            "conv",
            "impala_resnet",
            "crelu_cnn",
            "der_cnn",
            "cells_cnn",
        ],
        "mlp for vectors; for pictures atari_cnn (auto), nature_cnn, impala_resnet, crelu_cnn, or conv with filters of "
        "your own; below 20 pixels minatar_cnn (auto); der_cnn and cells_cnn are bare convolutions",
    ] = "auto"
    filters: Annotated[str, "torso conv: (number,size,stride) of the filters of each layer"] = (
        "(32,8,4),(64,4,2),(64,3,1)"
    )
    features: Annotated[int, Bounds(least=0, most=65_536), "torso conv: units behind the filters; 0: none"] = 512
    hidden_sizes: Annotated[tuple[int, ...], Bounds(least=1, most=65_536), "widths of the MLP's layers"] = (64, 64)
    activation: Annotated[Literal["tanh", "relu", "softsign", "crelu"], "activation of the MLP's layers"] = "tanh"
    width: Annotated[int, Bounds(least=1, most=16), "factor on the residual net's channels (16, 32, 32)"] = 1
    layer_norm: Annotated[
        bool,
        "normalise the units behind filters before they are rectified, which keeps them from dying",
    ] = False
    centered_filters: Annotated[
        bool, "start the first filters over frames with a sum of 0, so that an even background adds nothing"
    ] = False
    words: Annotated[
        Literal["side_by_side", "lstm"],
        "arrays of categories, as the words of DeepMind Lab's instructions: their embeddings side by side, or an LSTM "
        "that reads them up to the last one that is not 0",
    ] = "side_by_side"
    separate_critic: Annotated[bool, "give the value function an MLP torso of its own"] = False
    initial_std: Annotated[float, Bounds(above=0.0), "standard deviation of a Gaussian policy at the start"] = 1.0
    core: Annotated[
        Literal["none", "lstm", "lstm_features", "preco"],
        "memory between torso and heads: none, an LSTM that also sees the last action and reward, one that sees the "
        "features alone, or a predictor-corrector pair of LSTMs",
    ] = "none"
    core_size: Annotated[int, Bounds(least=1), "width of the memory"] = 256

    def problems(self) -> list[Problem]:
        """Return mistakes of the filters, and those that concern several fields."""
        found = []
        try:
            read_filters(self.filters)
        except ValueError as error:
            found.append(Problem("filters", str(error)))
        if self.layer_norm and self.torso not in _NORMALISED:
            remedy = f"use false, or network.torso {', '.join(_NORMALISED[1:])}"
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


def read_filters(text: str) -> Filters:
    """Return the filters that a text such as "(32,8,4),(64,4,2)" describes.

    Raises:
        ValueError: "must be ..., got ...".
    """
    wrong = f"must be (number,size,stride) of each layer, as in (32,8,4),(64,4,2), got {text!r}"
    try:
        found = ast.literal_eval(f"({text.strip().rstrip(',')},)")
    except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(wrong) from error
    if not found or not all(_is_layer(layer) for layer in found):
        raise ValueError(wrong)
    return tuple(tuple(layer) for layer in found)


def _is_layer(layer: object) -> bool:
    if not isinstance(layer, tuple | list) or len(layer) != 3:
        return False
    return all(type(number) is int and 1 <= number <= 4096 for number in layer)
