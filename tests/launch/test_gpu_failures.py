"""A GPU that fails at some stage of a run, as a user sees it: one line, the exit code, and what is left on disk."""

import functools
import json

import pytest
import torch

from launch.__main__ import main
from launch.records.metrics_db import read_names
from learner.checkpoint import load_newest_checkpoint
from learner.learner import Learner

OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.83 GiB. GPU 0 has a total capacity of 79.25 GiB of which 8.94 MiB is "
    "free. Including non-PyTorch memory, this process has 79.23 GiB memory in use."
)
ILLEGAL_ACCESS = (
    "CUDA error: an illegal memory access was encountered\n"
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
    "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n"
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n"
)
SMALL = ["--runtime", "local", "--steps", "4000", "--num-envs", "4", "--replay.min-steps", "64", "--device", "cpu"]


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run a command in an empty directory; return its exit code and the lines on standard error."""
    monkeypatch.chdir(tmp_path)

    def run(*arguments):
        code = main(arguments)
        return code, capsys.readouterr().err.splitlines()

    return run


def fail_after(monkeypatch, num_steps, error):
    """Let the learner fail once it has made so many updates; -1: while it warms up."""
    tick = Learner.tick

    def failing(self):
        if self.num_updates >= num_steps:
            raise error
        return tick(self)

    @functools.wraps(Learner.warm_up)
    def warming_up(self):
        raise error

    if num_steps < 0:
        monkeypatch.setattr(Learner, "warm_up", warming_up)
    else:
        monkeypatch.setattr(Learner, "tick", failing)


def errors(lines):
    return [line for line in lines if line.startswith("error:")]


@pytest.mark.parametrize("num_steps", [-1, 3])
@pytest.mark.parametrize("kind", [torch.OutOfMemoryError, RuntimeError])
def test_a_full_memory_names_the_batch_and_what_to_lower(run, monkeypatch, tmp_path, num_steps, kind):
    fail_after(monkeypatch, num_steps, kind(OUT_OF_MEMORY))
    code, lines = run("train", "cartpole", *SMALL, "--run-dir", "run")
    assert code == 1
    (line,) = errors(lines)
    assert line == (
        "error: algorithm.batch-size: the GPU has no memory left for batches of 16 unrolls of 16 steps through the "
        "default network (2.83 GiB more were asked for, 8.94 MiB of 79.25 GiB were free); lower it, unroll-length, "
        "or learner.num-prefetch, or end other programs on the GPU"
    )
    assert not any("Traceback" in each for each in lines)
    left = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert not [name for name in left if name.endswith(".tmp")]
    assert json.loads((tmp_path / "run" / "config.json").read_text())
    assert read_names(tmp_path / "run" / "metrics.db") is not None
    log = (tmp_path / "run" / "log.txt").read_text()
    assert "failed: " in log
    assert "Traceback" in log


def test_the_width_of_a_residual_net_is_named(run, monkeypatch):
    fail_after(monkeypatch, -1, torch.OutOfMemoryError(OUT_OF_MEMORY))
    network = ["--network.torso", "impala_resnet", "--network.width", "2"]
    code, lines = run("train", "pong", *SMALL, *network)
    assert code == 1
    assert "through network.torso impala_resnet of width 2 (2.83 GiB" in errors(lines)[0]
    assert "lower it, unroll-length, network.width, or learner.num-prefetch" in errors(lines)[0]


def test_an_asynchronous_error_names_itself_and_how_to_find_it(run, monkeypatch, tmp_path):
    fail_after(monkeypatch, 3, RuntimeError(ILLEGAL_ACCESS))
    code, lines = run("train", "cartpole", *SMALL, "--run-dir", "run")
    assert code == 1
    assert errors(lines) == [
        "error: device: the GPU stopped with an error: an illegal memory access was encountered; run again with "
        "CUDA_LAUNCH_BLOCKING=1, and the traceback in log.txt names what failed"
    ]
    assert "in failing" in (tmp_path / "run" / "log.txt").read_text()


def test_the_last_checkpoint_is_named_where_there_is_one(run, monkeypatch, tmp_path):
    with monkeypatch.context() as patches:
        fail_after(patches, 40, RuntimeError(ILLEGAL_ACCESS))
        code, lines = run("train", "cartpole", *SMALL, "--run-dir", "a run", "--learner.checkpoint-interval-s", "0.05")
    assert code == 1
    assert errors(lines)[0].endswith("train --resume --run-dir 'a run'")
    checkpoint, _ = load_newest_checkpoint(tmp_path / "a run" / "checkpoints")
    assert 0 < checkpoint.step < 4000
    code, lines = run("train", "cartpole", *SMALL, "--run-dir", "a run", "--resume")
    assert code == 0


def test_a_member_whose_gpu_memory_is_full_fails_alone_in_one_line(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    tick = Learner.tick

    def failing(self):
        if self._member == 1:
            raise torch.OutOfMemoryError(OUT_OF_MEMORY)
        return tick(self)

    monkeypatch.setattr(Learner, "tick", failing)
    code = main(["sweep", "cartpole", *SMALL, "--seeds", "2", "--no-share-replay", "--run-dir", "run", "--json"])
    assert code == 0
    members = json.loads(capsys.readouterr().out.splitlines()[-1])["members"]
    assert [member["finished"] for member in members] == ["steps", "failed"]
    assert members[1]["error"].startswith("algorithm.batch-size: the GPU has no memory left for batches of 16 unrolls")
    assert "use fewer members" in members[1]["error"]


def test_a_gpu_that_is_not_there_is_refused_before_anything_is_written(run, monkeypatch, tmp_path):
    def init():
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update your GPU")

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "init", init)
    code, lines = run("train", "pong", "--device", "cuda")
    assert code == 2
    assert lines == [
        f"error: device: the NVIDIA driver supports CUDA up to 11.4, and this torch ({torch.__version__}) needs "
        "CUDA 13.0; install a newer driver; or use --device cpu"
    ]
    assert list(tmp_path.iterdir()) == []


def test_moving_the_networks_to_a_gpu_that_is_full_is_one_line(run, monkeypatch):
    def failing(*arguments, **options):
        raise RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")

    monkeypatch.setattr(Learner, "__init__", failing)
    code, lines = run("train", "cartpole", *SMALL)
    assert code == 1
    assert errors(lines)[0].startswith("error: algorithm.batch-size: the GPU has no memory left for batches of 16 ")
