"""The encoder of named observations into one feature vector: torsos for frames, one MLP for everything else."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypeGuard

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from laser.networks.conv_net import CONV_NETS, SMALLEST_ATARI, ConvNet, ConvNetSpec
from laser.networks.crelu_cnn import CReLUCNN
from laser.networks.impala_resnet import ImpalaResNet
from laser.networks.mlp import MLP
from laser.networks.pixels import center_first_filters
from laser.networks.settings import NetworkSettings, read_filters
from laser.networks.word_lstm import WORD_STATE, WordLSTM
from laser.specs import CategorySpec, FramesSpec, MaskSpec, ObservationSpec, VectorSpec, picture_of

_EMBEDDING_SIZE = 20
SMALLEST_PICTURE = 5
"""Pixels of the shortest side of a matrix that a torso for pictures sees."""


class ObservationEncoder(nn.Module):
    """Encode observations by name.

    Vectors are flattened, categories become one-hot, and arrays of categories (words) are embedded, with 20 features
    per value, or read by an LSTM; all are concatenated. Without pictures, an MLP follows. With pictures, every one has
    a torso of its own, whose features are concatenated with the others. An action mask is left out.

    Args:
        observations: specs by name; their order is the order of concatenation.
        config: settings of torso and MLP.

    Raises:
        ValueError: the torso does not support such observations, or there are no words for an LSTM.
    """

    num_features: int

    def __init__(self, observations: Mapping[str, ObservationSpec], config: NetworkSettings):
        super().__init__()
        observations = {name: spec for name, spec in observations.items() if not isinstance(spec, MaskSpec)}
        pictures = pictures_of(observations, config)
        categories = {name: spec for name, spec in observations.items() if isinstance(spec, CategorySpec)}
        self._categories = {name: spec.num_values for name, spec in categories.items() if not spec.shape}
        arrays = {name: spec for name, spec in categories.items() if spec.shape}
        self._embedded_names = list(arrays)
        self._reads_words = config.words == "lstm"
        if self._reads_words and not arrays:
            raise ValueError("network.words: lstm reads arrays of categories, and there are none; use side_by_side")
        reader = WordLSTM if self._reads_words else nn.Embedding
        self.embeddings = nn.ModuleList(reader(spec.num_values, _EMBEDDING_SIZE) for spec in arrays.values())
        self._flat_names = [name for name in observations if name not in pictures]
        widths = {name: _width(observations[name]) for name in self._flat_names}
        if self._reads_words:
            widths |= dict.fromkeys(arrays, WORD_STATE)
        num_flat = sum(widths.values())
        _check_torso(config, pictures, observations)
        # Indexed in the order of `_picture_names`: a ModuleDict would forbid names with a dot.
        self._picture_names = list(pictures)
        self._layouts = {name: _layout(observations[name]) for name in pictures}
        torsos = [_make_torso(spec, config) for spec in pictures.values()]
        if config.centered_filters:
            center_first_filters(torsos)
        self.torsos = nn.ModuleList(torsos)
        self.mlp = None if pictures else MLP(num_flat, config.hidden_sizes, config.activation)
        self.num_features = num_flat if self.mlp is None else self.mlp.num_features
        self.num_features += sum(torso.num_features for torso in torsos)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        """Map observations [N, ...] by name to [N, num_features]."""
        flat = [self._flatten(name, observations[name]) for name in self._flat_names]
        if self.mlp is not None:
            features: Tensor = self.mlp(flat[0] if len(flat) == 1 else torch.cat(flat, -1))
            return features
        parts = [
            *(
                torso(self._turned(name, observations[name]))
                for name, torso in zip(self._picture_names, self.torsos, strict=True)
            ),
            *flat,
        ]
        # In the widest precision: autocast rounds the features of frames, but the vectors must not be rounded.
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def _turned(self, name: str, value: Tensor) -> Tensor:
        """Return a picture as [N, channels, height, width]."""
        if value.ndim == 3:
            return value.unsqueeze(1)
        channels_first = value if self._layouts[name] == "channels_first" else value.movedim(-1, -3)
        return channels_first.flatten(1, -3)  # of a stack: the channels of all its pictures

    def _flatten(self, name: str, value: Tensor) -> Tensor:
        if name in self._categories:
            return F.one_hot(value.long(), self._categories[name]).float()
        if name in self._embedded_names:
            embedded: Tensor = self.embeddings[self._embedded_names.index(name)](value.long())
            return embedded.flatten(1)
        return value.flatten(1) if value.ndim > 1 else value.unsqueeze(-1)


def describe_observations(observations: Mapping[str, ObservationSpec], config: NetworkSettings) -> str:
    """Return what each observation counts as, and the torso that sees it, for the user."""
    pictures = pictures_of(observations, config)
    mlp = "" if pictures else " (mlp)"
    parts = []
    for name, spec in observations.items():
        if name in pictures:
            picture = pictures[name]
            height, width = picture.frame_shape[:2]
            channels = f"{picture.channels} channel{'s' if picture.channels > 1 else ''}"
            numbers = "" if isinstance(spec, FramesSpec) else ", its numbers as they are"
            torso = torso_name(picture, config)
            parts.append(f"{name} is a picture of {height}x{width} with {channels}{numbers} ({torso})")
        elif isinstance(spec, MaskSpec):
            parts.append(f"{name} says which of {sum(spec.num_actions)} actions are allowed")
        elif isinstance(spec, CategorySpec):
            what = f"{math.prod(spec.shape)} values" if spec.shape else "one value"
            read = " (lstm)" if spec.shape and config.words == "lstm" else mlp
            parts.append(f"{name} is {what} of {spec.num_values}{read}")
        else:
            assert isinstance(spec, VectorSpec)
            size = math.prod(spec.shape)
            parts.append(f"{name} is {size} number{'s' if size > 1 else ''}{mlp}")
    return ", ".join(parts)


def pictures_of(observations: Mapping[str, ObservationSpec], config: NetworkSettings) -> dict[str, FramesSpec]:
    """Return the observations that a torso for pictures sees, each as its frames.

    These are frames and arrays of numbers that the environment's reader took for a picture. Where there are none and
    the config names a torso, they are the matrices of numbers that are large enough.
    """
    pictures = {name: picture for name, spec in observations.items() if (picture := picture_of(spec))}
    if pictures or config.torso in ("auto", "mlp"):
        return pictures
    return {name: FramesSpec(spec.shape, high=1) for name, spec in observations.items() if _is_large_matrix(spec)}


def _is_large_matrix(spec: ObservationSpec) -> TypeGuard[VectorSpec]:
    if not isinstance(spec, VectorSpec) or spec.alphabet:
        return False
    return len(spec.shape) == 2 and min(spec.shape) >= SMALLEST_PICTURE


def _layout(spec: ObservationSpec) -> str:
    """Return where a picture's channels are in memory; frames come with theirs in front of rows and columns."""
    if isinstance(spec, VectorSpec):
        return spec.layout or "channels_last"
    return "channels_first"


def _width(spec: ObservationSpec) -> int:
    if isinstance(spec, CategorySpec):
        return torch.Size(spec.shape).numel() * _EMBEDDING_SIZE if spec.shape else spec.num_values
    assert isinstance(spec, VectorSpec)
    return torch.Size(spec.shape).numel()


def _check_torso(
    config: NetworkSettings, frames: Mapping[str, FramesSpec], observations: Mapping[str, ObservationSpec]
) -> None:
    torso = config.torso
    if config.layer_norm and not frames:
        raise ValueError("network.layer-norm: normalises the units behind frames, and there are none; use false")
    if config.centered_filters and not frames:
        raise ValueError("network.centered-filters: are filters over frames, and there are none; use false")
    if torso == "mlp" and frames:
        raise ValueError(
            f"network.torso: mlp cannot see frames ({', '.join(frames)}); use auto, or another torso for frames"
        )
    if torso not in ("mlp", "auto") and not frames:
        arrays = [
            f"{name} is {'x'.join(map(str, spec.shape))}"
            for name, spec in observations.items()
            if isinstance(spec, VectorSpec) and len(spec.shape) > 1 and not spec.alphabet
        ]
        rule = f"a picture's sides are at least {SMALLEST_PICTURE}, or environment.picture-size"
        why = f" ({', '.join(arrays)}, and {rule})" if arrays else ""
        raise ValueError(f"network.torso: {torso} sees frames only, and there are none{why}; use mlp or auto")


def _make_torso(spec: FramesSpec, config: NetworkSettings) -> ConvNet | CReLUCNN | ImpalaResNet:
    if config.torso == "crelu_cnn":
        return CReLUCNN(spec)
    if config.torso == "impala_resnet":
        return ImpalaResNet(spec, config.width, layer_norm=config.layer_norm)
    name = torso_name(spec, config)
    layers = CONV_NETS.get(name) or ConvNetSpec(read_filters(config.filters), config.features)
    return ConvNet(name, layers, spec, layer_norm=config.layer_norm)


def torso_name(spec: FramesSpec, config: NetworkSettings) -> str:
    """Return the name of a picture's torso: the config's, or the one that `auto` takes for its size."""
    if config.torso != "auto":
        return config.torso
    return "atari_cnn" if min(spec.frame_shape[:2]) >= SMALLEST_ATARI else "minatar_cnn"
