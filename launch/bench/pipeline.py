"""The whole program for a few seconds, actors, replay and learner together: env steps per second while learning."""

from __future__ import annotations

import dataclasses
import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from laser.config import Bounds, raise_problems
from laser.environments import describe_environment
from laser.ports import wait
from laser.torch_threads import torch_threads
from launch.bench import machine
from launch.presets import load_preset
from launch.program import make_program
from launch.recording.recorder import Recorder, Snapshot
from launch.runtimes.placement import Needs
from launch.sessions.attendant import Attendant
from launch.sessions.schedules import FreeSchedule, LockstepSchedule
from launch.sessions.session import make_runtime

_START_DEADLINE_S = 600.0  # compilation is part of it


@dataclass(frozen=True)
class Options:
    """What to run."""

    preset: Annotated[str, "what to train"] = "pong"
    device: Annotated[str, "where the learner computes: auto, cpu, cuda or cuda:N"] = "auto"
    runtime: Annotated[
        Literal["preset", "local", "lockstep", "ray"], "what the preset says, threads, one thread, or processes"
    ] = "preset"
    num_envs: Annotated[int, Bounds(least=0, most=4096), "environments per actor; 0: the preset's"] = 0
    seconds: Annotated[float, Bounds(above=0.0, most=1e6), "of measuring, from the first updates on"] = 10.0
    json: Annotated[bool, "print one JSON object"] = False


@torch_threads(1)
def run(options: Options) -> dict[str, Any]:
    """Train without leaving anything behind; compilation and the replay's filling are not counted."""
    config = load_preset(options.preset)
    config = dataclasses.replace(
        config,
        device=options.device,
        runtime=config.runtime if options.runtime == "preset" else options.runtime,
        num_envs=options.num_envs or config.num_envs,
        steps=2**62,
        stop_at_return=math.inf,
        evaluation=dataclasses.replace(config.evaluation, interval=0),
        learner=dataclasses.replace(config.learner, checkpoint_interval_s=1e9),
    )
    raise_problems(list(config.single_problems()))
    environment = describe_environment(config.env, config.environment)
    with ExitStack() as stack:
        in_turns = config.runtime == "lockstep"
        recorder = stack.enter_context(Recorder(in_turns=in_turns))
        runtime = make_runtime(config, Needs(num_actors=config.num_actors))
        stack.callback(runtime.close)
        program = make_program(config, environment, runtime, recorder)
        for worker in (program.learner, *program.actors):
            wait(worker.call("warm_up"), _START_DEADLINE_S, f"{worker.name} to start")
        begin: Snapshot | None = None
        give_up = time.monotonic() + _START_DEADLINE_S

        def is_over() -> bool:
            nonlocal begin
            snapshot = recorder.snapshot()
            if begin is not None:
                return snapshot.seconds >= options.seconds
            if snapshot.learner_steps > 0:
                recorder.report(wait(program.learner.call("report"), _START_DEADLINE_S, "the learner's report"))
                recorder.begin()
                begin = recorder.snapshot()
            return time.monotonic() > give_up

        schedule = LockstepSchedule if in_turns else FreeSchedule
        schedule([Attendant(program, recorder)], should_stop=is_over, save=lambda *_: None).run()
        end = recorder.snapshot()
    assert begin is not None, "the learner made no update"
    span_s = end.seconds - begin.seconds
    result = {
        "preset": config.preset,
        "runtime": config.runtime,
        "num_envs": config.num_actors * config.num_envs,
        "env_steps_per_second": (end.env_steps - begin.env_steps) / span_s,
        "frames_per_second": (end.frames - begin.frames) / span_s,
        "updates_per_second": (end.learner_steps - begin.learner_steps) / span_s,
        "seconds": span_s,
    }
    return result | machine() | {"bottleneck": end.bottleneck or "unknown: measure for longer"}
