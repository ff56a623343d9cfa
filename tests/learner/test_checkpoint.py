"""Checkpoints survive being killed, truncated and flipped at every point; each test knows the earlier one is whole."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from learner import checkpoint as module
from learner.checkpoint import (
    BadCheckpointError,
    NoCheckpointError,
    list_checkpoints,
    load_best_checkpoint,
    load_checkpoint,
    load_newest_checkpoint,
    save_checkpoint,
)


class Killed(BaseException):
    """Not an Exception, like a signal: nothing may clean up after it."""


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch):
    monkeypatch.setattr(module.os, "fsync", lambda descriptor: None)


def save(root: Path, step: int, **options: object) -> Path:
    weight = torch.full((3, 2), float(step))
    tensors = {"networks": {"w": weight, "tied": weight, "view": weight.t()[:, 1:]}, "optimizer": {"m": weight + 1}}
    arrays = {"a/b c": np.arange(step, dtype=np.int32), "records": np.zeros(2, [("x", "i8"), ("y", "f4")])}
    return save_checkpoint(root, step, tensors, {"step": step, "big": 2**100}, arrays, **options)


def assert_is(checkpoint: module.Checkpoint, step: int) -> None:
    assert checkpoint.step == step
    assert checkpoint.state == {"step": step, "big": 2**100}
    networks = checkpoint.tensors["networks"]
    for name, shape in (("w", (3, 2)), ("tied", (3, 2)), ("view", (2, 2))):
        assert torch.equal(networks[name], torch.full(shape, float(step)))
    assert torch.equal(checkpoint.tensors["optimizer"]["m"], torch.full((3, 2), step + 1.0))
    np.testing.assert_array_equal(checkpoint.arrays["a/b c"], np.arange(step, dtype=np.int32))
    assert checkpoint.arrays["records"].dtype.names == ("x", "y")


def test_what_is_saved_comes_back(tmp_path):
    save(tmp_path, 5)
    checkpoint, warnings = load_newest_checkpoint(tmp_path)
    assert_is(checkpoint, 5)
    assert warnings == []


def test_large_arrays_are_compressed_and_those_of_earlier_versions_are_read(tmp_path, monkeypatch):
    array = np.repeat(np.arange(100, dtype=np.int32), 100)
    new = save_checkpoint(tmp_path, 1, {}, {}, {"large": array, "small": array[:3]})
    assert sorted(path.name for path in (new / "arrays").iterdir()) == ["0.npz", "1.npy"]
    assert (new / "arrays" / "0.npz").stat().st_size < array.nbytes / 10
    monkeypatch.setattr(module, "_COMPRESSED_BYTES", 10**9)
    monkeypatch.setattr(module, "SCHEMA_VERSION", 1)
    old = save_checkpoint(tmp_path, 2, {}, {}, {"large": array})
    monkeypatch.undo()
    for path in (new, old):
        read = load_checkpoint(path).arrays["large"]
        assert read.dtype == array.dtype
        np.testing.assert_array_equal(read, array)


def test_strange_tensors_come_back_bitwise(tmp_path):
    values = {
        "scalar": torch.tensor(3.0),
        "bfloat16": torch.randn(4).bfloat16(),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 3),
        "nan": torch.tensor([float("nan"), float("inf")]),
        "channels_last": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),
        "grad": torch.ones(2, requires_grad=True),
    }
    save_checkpoint(tmp_path, 1, {"all": values}, {})
    loaded = load_newest_checkpoint(tmp_path)[0].tensors["all"]
    for name, value in values.items():
        assert loaded[name].dtype == value.dtype
        assert loaded[name].shape == value.shape
        np.testing.assert_array_equal(loaded[name].float().numpy(), value.detach().float().numpy())


def operations(monkeypatch, fail_at: int, error: BaseException) -> list[str]:
    """Let the checkpoint's file operations fail at number `fail_at`; return the list they are recorded in."""
    done: list[str] = []

    def failing(name):
        original = getattr(module, name)

        def wrapper(*arguments):
            if len(done) == fail_at:
                if name == "_write":  # half of the file is there
                    arguments[0].write_bytes(bytes(arguments[1])[: len(arguments[1]) // 2])
                raise error
            done.append(name)
            return original(*arguments)

        return wrapper

    for name in ("_write", "_rename", "sync_directory"):
        monkeypatch.setattr(module, name, failing(name))
    return done


def count_operations(tmp_path, monkeypatch) -> int:
    with monkeypatch.context() as patch:
        done = operations(patch, -1, Killed())
        for step in (1, 2, 3):
            save(tmp_path / "count", step, keep_last=2)
            if step == 2:
                done.clear()
    return len(done)


@pytest.mark.parametrize("error", [Killed(), OSError(28, "No space left on device")])
def test_killed_or_out_of_space_at_every_operation(tmp_path, monkeypatch, error):
    total = count_operations(tmp_path, monkeypatch)
    assert total >= 9  # six files, three directories, two renames: the loop below visits each
    for point in range(total):
        root = tmp_path / str(point)
        save(root, 1, keep_last=2)
        save(root, 2, keep_last=2)
        with monkeypatch.context() as patch:
            operations(patch, point, error)
            with pytest.raises(type(error)):
                save(root, 3, keep_last=2)
        checkpoint, warnings = load_newest_checkpoint(root)
        assert warnings == []
        assert_is(checkpoint, checkpoint.step)
        assert checkpoint.step in (2, 3)
        save(root, 4, keep_last=2)  # and the next save works, and tidies up
        assert_is(load_newest_checkpoint(root)[0], 4)
        assert not list(root.glob(".writing-*"))


def test_a_full_disk_keeps_no_room_for_half_a_checkpoint(tmp_path, monkeypatch):
    save(tmp_path, 1)
    monkeypatch.setattr(module.safetensors.torch, "save", lambda values: module.os.stat("/nowhere"))
    with pytest.raises(OSError, match="No such file"):
        save(tmp_path, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["000000-step-1"]


def rewrite(path: Path, name: str, content: bytes) -> None:
    """Replace a file of a checkpoint, with all hashes right."""
    manifest = json.loads((path / "manifest.json").read_text())
    if name == "manifest.json":
        manifest_bytes = content
    else:
        (path / name).write_bytes(content)
        manifest["files"][name] = {"bytes": len(content), "sha256": module._sha256(content)}
        manifest_bytes = json.dumps(manifest).encode()
    (path / "manifest.json").write_bytes(manifest_bytes)
    (path / "manifest.json.sha256").write_text(module._sha256(manifest_bytes))


VALID = {"schema_version": 1, "step": 2, "score": None, "groups": [], "arrays": [], "files": {}}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("manifest.json", b"[]"),
        ("manifest.json", b"{}"),
        ("manifest.json", b"[" * 100_000 + b"]" * 100_000),
        ("manifest.json", json.dumps(VALID | {"schema_version": "1"}).encode()),
        ("manifest.json", json.dumps(VALID | {"step": "two"}).encode()),
        ("manifest.json", json.dumps(VALID | {"files": ["state.json"]}).encode()),
        ("manifest.json", json.dumps(VALID | {"files": {"state.json": 3}}).encode()),
        ("manifest.json", json.dumps(VALID | {"groups": 7}).encode()),
        ("manifest.json", json.dumps({name: value for name, value in VALID.items() if name != "arrays"}).encode()),
        ("state.json", b"{"),
        ("state.json", b"[]"),
        ("state.json", b"\xff"),
        ("networks.safetensors", b"x"),
        ("networks.safetensors", b""),
        ("arrays/0.npy", b"x"),
        ("arrays/0.npy", b""),
    ],
)
def test_contents_that_cannot_be_read_give_way_to_the_older_checkpoint(tmp_path, name, content):
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    rewrite(newest, name, content)
    checkpoint, (warning,) = load_newest_checkpoint(tmp_path)
    assert_is(checkpoint, 1)
    assert newest.name in warning
    assert_is(module.load_best_checkpoint(tmp_path)[0], 1)


def all_files(path: Path) -> list[Path]:
    return sorted(file for file in path.rglob("*") if file.is_file())


@pytest.mark.timeout(60)  # a pipe that is opened waits for ever
@pytest.mark.parametrize("damage", ["flip", "truncate", "empty", "remove", "grow", "pipe"])
def test_a_damaged_file_is_noticed_and_named(tmp_path, damage):
    save(tmp_path, 1)
    newest = save(tmp_path, 2)
    files = all_files(newest)
    assert len(files) == 7
    for file in files:
        data = file.read_bytes()
        for position in (0, len(data) // 2, len(data) - 1) if damage == "flip" else (0,):
            flipped = bytearray(data)
            flipped[position] ^= 0x04
            content = {"flip": bytes(flipped), "truncate": data[:-1], "empty": b"", "grow": data + b"\0"}.get(damage)
            if content is None:
                file.unlink()
                if damage == "pipe":
                    os.mkfifo(file)
            else:
                file.write_bytes(content)
            checkpoint, warnings = load_newest_checkpoint(tmp_path)
            assert_is(checkpoint, 1)
            assert len(warnings) == 1
            assert newest.name in warnings[0]
            assert file.name in warnings[0]
            if damage == "truncate" and not file.name.startswith("manifest"):
                assert f"has {len(data) - 1} bytes instead of {len(data)}" in warnings[0]
            with pytest.raises(BadCheckpointError):
                load_checkpoint(newest)
        file.unlink(missing_ok=True)  # a pipe would take the bytes and wait for a reader
        file.write_bytes(data)
        assert_is(load_newest_checkpoint(tmp_path)[0], 2)


def test_no_checkpoint_and_none_that_verifies_are_errors(tmp_path):
    with pytest.raises(NoCheckpointError, match="there is no checkpoint"):
        load_newest_checkpoint(tmp_path / "missing")
    paths = [save(tmp_path, step) for step in (1, 2)]
    for path in paths:
        (path / "state.json").write_text("{}")
    with pytest.raises(NoCheckpointError, match=r"000001-step-2.*000000-step-1"):
        load_newest_checkpoint(tmp_path)


def test_a_directory_that_cannot_be_looked_at_has_no_checkpoint():
    with pytest.raises(NoCheckpointError, match="cannot be read: File name too long"):
        load_newest_checkpoint(Path("a" * 300))


def test_the_last_few_and_the_best_are_kept(tmp_path):
    scores = [None, 5.0, 1.0, float("nan"), 2.0, 3.0]
    for step, score in enumerate(scores):
        save(tmp_path, step, keep_last=2, score=score)
    assert [path.name for path in list_checkpoints(tmp_path)] == ["000005-step-5", "000004-step-4", "000001-step-1"]
    assert load_best_checkpoint(tmp_path)[0].step == 1
    (tmp_path / "000001-step-1" / "state.json").write_text("{}")
    best, warnings = load_best_checkpoint(tmp_path)
    assert best.step == 5
    assert len(warnings) == 1


def test_after_going_back_the_newly_written_one_is_the_newest(tmp_path):
    save(tmp_path, 100)
    bad = save(tmp_path, 200)
    (bad / "state.json").write_text("{}")
    save(tmp_path, 150)
    checkpoint, warnings = load_newest_checkpoint(tmp_path)
    assert (checkpoint.step, warnings) == (150, [])


def test_a_newer_schema_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "SCHEMA_VERSION", 3)
    path = save(tmp_path, 1)
    monkeypatch.setattr(module, "SCHEMA_VERSION", 2)
    with pytest.raises(BadCheckpointError, match="newer version"):
        load_checkpoint(path)


def test_what_json_or_npy_cannot_hold_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(TypeError):
        save_checkpoint(tmp_path, 1, {}, {"x": object()})
    with pytest.raises(TypeError, match="must not hold objects"):
        save_checkpoint(tmp_path, 1, {}, {}, {"x": np.array([object()])})
    assert list_checkpoints(tmp_path) == []


def test_the_manifest_can_be_read_by_a_person(tmp_path):
    manifest = json.loads((save(tmp_path, 7, score=1.5) / "manifest.json").read_text())
    assert manifest["step"] == 7
    assert manifest["score"] == 1.5
    assert set(manifest["groups"]) == {"networks", "optimizer"}
