"""Export of a run's policy to one file, after a check over a whole episode (`laser export`)."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from actors.evaluator import Evaluator
from actors.policy import Policy, PolicyState
from laser.algorithms.base import Algorithm
from laser.config import ConfigError, Problem, raise_problems
from laser.environments import task_ids
from laser.packages import find_missing
from laser.specs import EnvironmentSpec
from launch.errors import LaunchError, OutputError
from launch.evaluation.evaluate import Agent, read_agent
from launch.export.options import ExportOptions, Format
from launch.export.policy_step import PolicyStep, input_name
from launch.records.trust import trust_run

Run = Callable[[Sequence[np.ndarray]], list[np.ndarray]]
"""A loaded file: the inputs of its signature to its outputs."""

SUFFIXES = {"onnx": ".onnx", "torch": ".pt2"}
_ONNX_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
_TIE = 1e-5  # actions may differ where all numbers so far agree this well: two were equally likely
_TOLERANCE = 1e-3  # of numbers: another order of the same sums, over a whole network


@dataclass(frozen=True)
class ExportResult:
    """The file that was written, its signature, and the check over an episode."""

    file: Path
    format: str
    signature: dict[str, Any]
    checked_steps: int
    largest_difference: float

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `laser export --json` prints."""
        return {**vars(self), "file": str(self.file)}


class ExportError(LaunchError):
    """The file does not compute what the policy computes; nothing was written."""


def export(run_dir: str | Path, options: ExportOptions | None = None) -> ExportResult:
    """Write a run's policy to a file that needs no LASER.

    The file holds one step of the policy with everything that belongs to it: normalisation of observations, memory,
    scaling of actions. It is written beside its final name, loaded, and played a whole episode next to the policy
    itself; only if both agree at every step does it get its name.

    Args:
        run_dir: directory of a run.
        options: format and file.

    Raises:
        ConfigError: packages are missing, or the file's name does not end as its format's do.
        NothingToResumeError: there is no run or no valid checkpoint.
        UntrustedError: the run names code that this user has not named before, and `options.trust` is not set.
        ExportError: the policy cannot be exported, or the file computes something else.
        OutputError: the file cannot be written.
    """
    options = options or ExportOptions()
    suffix = SUFFIXES[options.format]
    if options.out is not None and options.out.suffix != suffix:
        wrong = f"must end in {suffix} with format {options.format}, got {options.out}"
        raise ConfigError([Problem("out", wrong, f"choose a name such as policy{suffix}")])
    if options.format == "onnx":
        raise_problems(list(find_missing("format", _ONNX_PACKAGES, "use --format torch")))
    if options.trust:
        trust_run(Path(run_dir))
    agent = read_agent(Path(run_dir), options.checkpoint)
    file = options.out or Path(run_dir) / f"policy{suffix}"
    unchecked = file.with_name(f".writing-{file.name}")
    policy = agent.make_policy(options.seed, "cpu", greedy=True, loaded=True)
    step = PolicyStep(policy.algorithm, policy.networks, agent.environment).eval()
    signature = step.signature.to_json() | {"wrappers": _wrappers_of(agent)}
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        run = _write(options.format, step, signature, unchecked)
        checked = _play(agent, run, options.seed)
        unchecked.rename(file)
    except OSError as error:
        remedy = "choose another --out"
        raise OutputError("out", f"{file} cannot be written: {error.strerror or error}", remedy) from error
    finally:
        with contextlib.suppress(OSError):  # the folder may be what cannot be written
            unchecked.unlink(missing_ok=True)
    return ExportResult(file, options.format, signature, checked.num_steps, checked.largest)


def _wrappers_of(agent: Agent) -> list[dict[str, Any]]:
    """Return the statistics of the wrappers around the environment, which the file does not hold, as JSON values."""
    moments = agent.statistics.get(0, [])
    return [{"name": each.name, "mean": each.mean.tolist(), "var": each.var.tolist()} for each in moments]


def _write(format: Format, step: PolicyStep, signature: dict[str, Any], file: Path) -> Run:
    """Write a policy's step, and return what the written file computes."""
    example = step.signature.example()
    num_envs = torch.export.Dim("num_envs", min=1)
    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the exporters' own code, and about weights that are views
            program = torch.export.export(step, example, dynamic_shapes=(tuple({0: num_envs} for _ in example),))
            if format == "torch":
                metadata = {"signature.json": json.dumps(signature)}
                torch.export.save(program, file, extra_files=metadata)
                return _torch_run(file)
            inputs, outputs = list(step.signature.inputs), list(step.signature.outputs)
            # It names every part of torchvision that is not installed, and policies have none.
            logging.getLogger("torch.onnx._internal.exporter._registration").setLevel(logging.ERROR)
            exported = torch.onnx.export(program, example, input_names=inputs, output_names=outputs, verbose=False)
            assert exported is not None
            _rename_inner_values(exported, {*inputs, *outputs})
            exported.save(file)
            return _onnx_run(file, inputs)
    except OSError:
        raise
    except Exception as error:  # exporters raise whatever their compilers do
        lines = [line for line in str(error).splitlines() if "Error" in line] or str(error).splitlines()
        wrong = f"{format} cannot hold this policy: {(lines or [repr(error)])[0].strip()}"
        raise ExportError("format", wrong, "try the other format") from error


def _rename_inner_values(program: torch.onnx.ONNXProgram, names: Collection[str]) -> None:
    """Rename the values of an ONNX graph that have the name of an input or output, such as an observation `cat`."""
    graph = program.model.graph
    own = {id(value) for value in (*graph.inputs, *graph.outputs)}
    for node in graph:
        for value in node.outputs:
            if value.name in names and id(value) not in own:
                value.name = f"inner/{value.name}"


def _torch_run(file: Path) -> Run:
    module = torch.export.load(file).module()

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        with torch.no_grad():
            return [output.numpy() for output in module(*map(torch.from_numpy, inputs))]

    return run


def _onnx_run(file: Path, names: Sequence[str]) -> Run:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    read = {item.name for item in session.get_inputs()}  # what the networks ignore may be left out

    def run(inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        named = zip(names, inputs, strict=True)
        return list(session.run(None, {name: value for name, value in named if name in read}))

    return run


def _play(agent: Agent, run: Run, seed: int) -> _Compared:
    """Play an episode with the policy, and what the file computes beside it at every step."""
    algorithm = agent.config.algorithm.build(agent.environment, agent.config.network)
    policy = _Compared(algorithm, agent.environment, seed, run)
    protocol = agent.config.environment.for_evaluation()
    evaluator = Evaluator(
        lambda: agent.make_environment(task_ids(agent.config.env)[0], 1, protocol), lambda: policy, seed
    )
    try:
        evaluator.evaluate(agent.parameters(), 1)
    finally:
        evaluator.close()
    return policy


class _Compared(Policy):
    """The greedy policy; at every step it compares itself with a file.

    Args:
        algorithm: see `Policy`.
        environment: see `Policy`.
        seed: see `Policy`.
        run: computes what the file computes.
    """

    def __init__(self, algorithm: Algorithm, environment: EnvironmentSpec, seed: int, run: Run):
        super().__init__(algorithm, environment, seed, greedy=True)
        self._step = PolicyStep(algorithm, self.networks, environment).eval()
        self._run = run
        self.num_steps = 0
        self.largest = 0.0

    def act(self, observations: dict[str, np.ndarray], state: PolicyState) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Act as `Policy.act` does.

        Raises:
            ExportError: the file computes something else.
        """
        past = {"last_action": state.last_action, "last_reward": state.last_reward, "first": state.first}
        memory = {f"state/{name}": value for name, value in state.core_state.items()}
        seen = {input_name(name): value for name, value in observations.items()}
        named = {**seen, **past, **memory}
        inputs = [np.array(named[name]) for name in self._step.signature.inputs]
        actions, mu = super().act(observations, state)
        with torch.no_grad():
            expected = [output.numpy() for output in self._step(*map(torch.from_numpy, inputs))]
        names = self._step.signature.outputs
        if not self._autocast:  # in bfloat16 the policy itself is less exact than the file
            for name, value in mu.items():
                self._compare(name, expected[names.index(f"policy/{name}")], value)
        for name, right, found in zip(names, expected, self._run(inputs), strict=True):
            self._compare(name, right, found)
        self.num_steps += 1
        return actions, mu

    def _compare(self, name: str, right: np.ndarray, found: np.ndarray) -> None:
        if right.shape != found.shape or right.dtype != found.dtype:
            what = f"{found.dtype} {list(found.shape)}, not {right.dtype} {list(right.shape)}"
            raise ExportError("format", f"the file's {name} is {what}", "try the other format")
        difference = float(np.max(np.abs(right.astype(np.float64) - found), initial=0.0))
        is_tie = right.dtype.kind == "i" and self.largest < _TIE
        if difference > _TOLERANCE and not is_tie:
            what = f"at step {self.num_steps} of an episode the file's {name} differs by {difference:.3g}"
            raise ExportError("format", what, "try the other format")
        if right.dtype.kind == "f":
            self.largest = max(self.largest, difference)
