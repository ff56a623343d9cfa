"""Atomic checkpoints: written to a temporary directory, flushed, hashed in a manifest, renamed into place.

    checkpoints/000007-step-200000/
        manifest.json          schema, step, score, and size and SHA-256 of every file below
        manifest.json.sha256
        state.json             plain values
        networks.safetensors   one file per named group of tensors
        arrays/0.npy           NumPy arrays, large ones compressed (1.npz); the manifest lists their names

Nothing is pickled. A checkpoint is valid only if every file has the size and hash that the manifest lists.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from torch import Tensor

from laser.directories import make_directory, sync_directory
from laser.regular_files import check_regular
from learner.checkpoint_names import checkpoint_name, checkpoint_names, number_of

SCHEMA_VERSION = 2  # 1 had no compressed arrays
_UNFINISHED = ".writing-"
_COMPRESSED_BYTES = 4096
"""Bytes from which on an array is compressed; most large ones are the replay's index, which shrinks to a tenth."""


class NoCheckpointError(RuntimeError):
    """There is no checkpoint, or none that verifies; the message names each bad one and its fault."""


class BadCheckpointError(RuntimeError):
    """One checkpoint is incomplete, damaged or of a newer schema."""


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a checkpoint, as `save_checkpoint` wrote them.

    Args:
        path: the checkpoint's directory.
        step: env steps.
        score: ranks checkpoints, higher is better; or None.
        tensors: on the CPU, by group and name.
        state: plain JSON values.
        arrays: NumPy arrays by name.
    """

    path: Path
    step: int
    score: float | None
    tensors: dict[str, dict[str, Tensor]]
    state: dict[str, Any]
    arrays: dict[str, np.ndarray]


Check = Callable[[Checkpoint], None]


def save_checkpoint(
    root: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    state: Mapping[str, Any],
    arrays: Mapping[str, np.ndarray] | None = None,
    keep_last: int = 3,
    score: float | None = None,
) -> Path:
    """Write a checkpoint, then remove all but the newest `keep_last` and the best. One writer per `root` at a time.

    If the process dies at any point, every earlier checkpoint stays intact.

    Args:
        root: the directory of all checkpoints of a run.
        step: env steps.
        tensors: groups of tensors, from any device; they may be strided views or share memory.
        state: JSON values.
        arrays: NumPy arrays of any dtype but object.
        keep_last: newest checkpoints to keep, at least 1.
        score: higher is better; a checkpoint with None or NaN is never the best.

    Returns:
        The checkpoint's directory.

    Raises:
        OSError: the checkpoint could not be written, e.g. because the disk is full.
        TypeError: `state` holds a value that JSON cannot represent, or an array holds objects.
    """
    if score is not None and math.isnan(score):
        score = None
    encoded_state = json.dumps(state).encode()
    make_directory(root)
    for leftover in root.glob(_UNFINISHED + "*"):
        shutil.rmtree(leftover)
    existing = list_checkpoints(root)
    sequence = number_of(existing[0].name) + 1 if existing else 0
    beside, target = root / f"{_UNFINISHED}{sequence}", root / checkpoint_name(sequence, step)

    try:
        _write_all(beside, target, step, tensors, encoded_state, arrays or {}, score)
    except OSError:
        shutil.rmtree(beside, ignore_errors=True)  # on a full disk its room is needed
        raise
    sync_directory(root)
    _remove_old(root, keep_last)
    return target


def _write_all(
    beside: Path,
    target: Path,
    step: int,
    tensors: Mapping[str, Mapping[str, Tensor]],
    encoded_state: bytes,
    arrays: Mapping[str, np.ndarray],
    score: float | None,
) -> None:
    """Write all files of a checkpoint into `beside`, and rename it to `target`."""
    beside.mkdir()
    files = {"state.json": _write(beside / "state.json", encoded_state)}
    for group, values in tensors.items():
        name = f"{group}.safetensors"
        files[name] = _write(beside / name, safetensors.torch.save(_separate(values)))
    names = list(arrays)
    if names:
        (beside / "arrays").mkdir()
    for index, name in enumerate(names):
        buffer = io.BytesIO()
        array = arrays[name]
        if array.dtype.hasobject:
            raise TypeError(f"array {name} must not hold objects, got dtype {array.dtype}")
        if array.nbytes < _COMPRESSED_BYTES:
            file = f"arrays/{index}.npy"
            np.save(buffer, array, allow_pickle=False)
        else:
            file = f"arrays/{index}.npz"
            np.savez_compressed(buffer, allow_pickle=False, array=array)
        files[file] = _write(beside / file, buffer.getbuffer())
    manifest = {
        "schema_version": SCHEMA_VERSION,
        "step": step,
        "score": score,
        "groups": list(tensors),
        "arrays": names,
        "files": files,
    }
    written = _write(beside / "manifest.json", json.dumps(manifest, indent=1).encode())
    _write(beside / "manifest.json.sha256", written["sha256"].encode())
    if names:
        sync_directory(beside / "arrays")
    sync_directory(beside)
    _rename(beside, target)


def load_newest_checkpoint(root: Path, check: Check | None = None) -> tuple[Checkpoint, list[str]]:
    """Return the newest checkpoint that verifies, and a warning for each newer one that does not.

    Args:
        root: the directory of all checkpoints of a run.
        check: raises `ValueError` for a checkpoint whose contents cannot be used.

    Raises:
        NoCheckpointError: no checkpoint verifies.
    """
    warnings: list[str] = []
    for path in list_checkpoints(root):
        try:
            return _load_checked(path, check), warnings
        except BadCheckpointError as error:
            warnings.append(str(error))
    if warnings:
        raise NoCheckpointError(f"no checkpoint under {root} verifies: " + ", ".join(warnings))
    raise NoCheckpointError(f"there is no checkpoint under {root}")


def load_best_checkpoint(root: Path, check: Check | None = None) -> tuple[Checkpoint, list[str]]:
    """Return the verified checkpoint with the highest score, or the newest one if none has a score, and warnings."""
    warnings: list[str] = []
    for path in sorted(list_checkpoints(root), key=_score, reverse=True):
        try:
            return _load_checked(path, check), warnings
        except BadCheckpointError as error:
            warnings.append(str(error))
    return load_newest_checkpoint(root, check)


def list_checkpoints(root: Path) -> list[Path]:
    """Return the finished checkpoints under `root`, newest first.

    Raises:
        NoCheckpointError: the directory cannot be read.
    """
    try:
        return [root / name for name in checkpoint_names(root)]
    except OSError as error:
        raise NoCheckpointError(f"{root} cannot be read: {error.strerror}") from error


def _load_checked(path: Path, check: Check | None) -> Checkpoint:
    checkpoint = load_checkpoint(path)
    if check is not None:
        try:
            check(checkpoint)
        except ValueError as error:
            raise BadCheckpointError(f"{path} cannot be used: {error}") from error
    return checkpoint


def load_checkpoint(path: Path) -> Checkpoint:
    """Verify and read one checkpoint.

    Raises:
        BadCheckpointError: it does not verify; the message gives the reason.
    """
    try:
        manifest = _read_manifest(path)
        for name, expected in manifest["files"].items():
            file = path / name
            check_regular(file)
            size = file.stat().st_size
            if size != expected["bytes"]:
                raise BadCheckpointError(f"{file} has {size} bytes instead of {expected['bytes']}")
            with file.open("rb") as stream:
                digest = hashlib.file_digest(stream, "sha256").hexdigest()
            if digest != expected["sha256"]:
                raise BadCheckpointError(f"{file} is damaged (its hash differs)")
        if not isinstance(manifest["step"], int):
            raise TypeError(f"its step must be a whole number, got {manifest['step']!r}")
        return Checkpoint(
            path=path,
            step=manifest["step"],
            score=manifest["score"],
            tensors={
                group: safetensors.torch.load((path / f"{group}.safetensors").read_bytes())
                for group in manifest["groups"]
            },
            state=_read_state(path),
            arrays={
                name: _read_array(path / "arrays", index, f"arrays/{index}.npz" in manifest["files"])
                for index, name in enumerate(manifest["arrays"])
            },
        )
    except OSError as error:
        raise BadCheckpointError(
            f"{path} is incomplete ({error.strerror}: {Path(error.filename or path).name})"
        ) from error
    except BadCheckpointError:
        raise
    except Exception as error:  # the files are as they were written, by another program or by hand
        raise BadCheckpointError(f"{path} cannot be read ({type(error).__name__}: {error})") from error


def _read_array(folder: Path, index: int, is_compressed: bool) -> np.ndarray:
    if is_compressed:
        with np.load(folder / f"{index}.npz", allow_pickle=False) as file:
            return np.asarray(file["array"])
    return np.asarray(np.load(folder / f"{index}.npy", allow_pickle=False))


def _read_state(path: Path) -> dict[str, Any]:
    state = json.loads((path / "state.json").read_text())
    if not isinstance(state, dict):
        raise TypeError("state.json must hold an object")
    return state


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        for name in ("manifest.json", "manifest.json.sha256"):
            check_regular(path / name)
        data = (path / "manifest.json").read_bytes()
        if _sha256(data).encode() != (path / "manifest.json.sha256").read_bytes():
            raise BadCheckpointError(f"{path / 'manifest.json'} is damaged (it does not match manifest.json.sha256)")
        manifest: dict[str, Any] = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadCheckpointError(f"{path / 'manifest.json'} is damaged ({error})") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("schema_version"), int):
        raise BadCheckpointError(f"{path / 'manifest.json'} is not that of a checkpoint")
    if manifest["schema_version"] > SCHEMA_VERSION:
        raise BadCheckpointError(f"{path} was written by a newer version (schema {manifest['schema_version']})")
    return manifest


def _remove_old(root: Path, keep_last: int) -> None:
    paths = list_checkpoints(root)
    scored = [path for path in paths if _score(path) > -math.inf]
    best = max(scored, key=_score, default=None)
    for path in paths[max(1, keep_last) :]:
        if path != best:
            # Renamed first: if the process is killed during the removal, no partial checkpoint keeps a valid name.
            doomed = root / f"{_UNFINISHED}{path.name}"
            _rename(path, doomed)
            shutil.rmtree(doomed)


def _score(path: Path) -> float:
    """Return the score of a checkpoint; minus infinity without a score or a readable manifest."""
    try:
        score = _read_manifest(path).get("score")
    except (BadCheckpointError, OSError):
        return -math.inf
    return float(score) if isinstance(score, (int, float)) else -math.inf


def _separate(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies that own their memory: safetensors saves only contiguous tensors that share none."""
    return {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in values.items()
    }


def _sha256(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: Any) -> dict[str, Any]:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": len(data), "sha256": _sha256(data)}


def _rename(source: Path, target: Path) -> None:
    source.rename(target)
