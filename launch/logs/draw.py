"""`laser replay draw`: what a run's sampler draws from its saved replay, as arrays."""

from __future__ import annotations

import dataclasses
import io
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from laser.config import ConfigError, Problem, raise_problems
from laser.ports import Sample, SampleRequest, wait
from laser.specs import environment_spec_from_json
from laser.unroll import UnrollSpec
from launch.errors import CannotCreateError, NothingToResumeError
from launch.logs.options import DrawOptions
from launch.planning.replay_rules import drawn_view, draws_by_sampler, find_sampler_problems, member_settings
from launch.records.atomic_files import replace_file
from launch.records.replay_segments import SavedShards
from launch.records.run_record import read_record, saved_config
from launch.records.trust import trust_run
from launch.supervision.checkpointing import check_saved_run
from learner.checkpoint import NoCheckpointError, load_newest_checkpoint
from learner.experience.collate import collate
from learner.experience.mixing import Mix
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.member_settings import RateLimit
from replay_server.serving.shard import Shard

_DEADLINE_S = 60.0


@dataclass(frozen=True)
class DrawnItems:
    """A written file: its path, the number of items, their view, their sampler, and the number of items stored."""

    file: Path
    items: int
    view: str
    sampler: str
    num_stored: int

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return asdict(self) | {"file": str(self.file)}


def draw_replay(run_dir: Path, file: Path, options: DrawOptions) -> DrawnItems:
    """Draw items from the newest saved replay of a run, and write them into a new file (NumPy's npz).

    Args:
        run_dir: of the run.
        file: of the arrays, which docs/logs.md describes.
        options: see there.

    Raises:
        ConfigError: the file's name does not end in .npz, or the run draws nothing by a sampler, or draws no single
            steps that could be drawn uniformly.
        CannotCreateError: the file exists.
        NothingToResumeError: the run has no checkpoint, its replay was not saved, or it is a sweep's member whose
            replay is shared.
        UntrustedError: the run names code that this user has not named before.
    """
    if file.suffix != ".npz":
        raise ConfigError([Problem("file", f"must end in .npz, got {file}", "choose a name such as draws.npz")])
    if file.exists():
        raise CannotCreateError("file", f"{file} exists", "choose another name")
    if options.trust:
        trust_run(run_dir)
    record = read_record(run_dir)
    if "sweep" in record:
        wrong, member = f"{run_dir} holds a sweep, and draws are of one agent", run_dir / "members" / "0"
        raise NothingToResumeError("run-dir", wrong, f"choose a member that has a replay of its own, e.g. {member}")
    config = saved_config(run_dir)
    try:
        checkpoint, warnings = load_newest_checkpoint(run_dir / "checkpoints", check_saved_run)
    except NoCheckpointError as error:
        raise NothingToResumeError("run-dir", str(error), "train it first") from error
    states = SavedShards(checkpoint, warnings).replay()
    if not states:
        raise NothingToResumeError("run-dir", f"{run_dir} saved no replay of its own", "train with --checkpoint-replay")
    environment = environment_spec_from_json(checkpoint.state["environment"])
    algorithm = config.algorithm.build(environment, config.network)
    if not draws_by_sampler(config, algorithm):
        why = "episode streams, which no sampler draws" if config.algorithm.num_drawn else "nothing from its replay"
        raise ConfigError([Problem("run-dir", f"{run_dir} learns from {why}")])
    raise_problems(list(find_sampler_problems(config, algorithm)))
    view = drawn_view(config)
    if options.uniform and view != "steps":
        raise ConfigError([Problem("uniform", f"is for agents that draw single steps, and this one draws {view}")])
    # Without its rate limit: nothing is inserted any more that draws would have to wait for.
    settings = dataclasses.replace(member_settings(config, algorithm), rate=RateLimit())
    spec = UnrollSpec(config.unroll_length, environment, algorithm.behaviour, dict(algorithm.core_state))
    shards = []
    for number, state in enumerate(states):
        # Each takes its share of the capacity, as when it was saved.
        replay = dataclasses.replace(config.replay, num_shards=len(states))
        shards.append(Shard(spec, replay, [settings], shard=number, seed=options.seed))
        try:
            shards[-1].load_state_dict({**state, "rng": np.random.PCG64([options.seed, number]).state})
        except ValueError as error:
            raise NothingToResumeError("run-dir", str(error)) from error
    share = None if options.uniform else config.replay.log_share_at(checkpoint.state["tree"]["numbers"]["progress"])
    request = SampleRequest(
        settings.member,
        options.items,
        view=view,
        n_step=config.algorithm.steps_per_item,
        discount=config.algorithm.discount,
        reward_clip=config.algorithm.step_reward_clip,
        uniform=options.uniform,
        num_from_log=None if share is None else round(share * options.items),
        timeout_s=_DEADLINE_S,
    )
    replay_port = ShardedReplay(shards, seed=options.seed)
    try:
        sample = wait(replay_port.sample(request), _DEADLINE_S, f"{options.items} {view} of {run_dir}")
    finally:
        replay_port.close()
        for shard in shards:
            shard.close()
    item_spec = dataclasses.replace(spec, unroll_length=config.algorithm.rows_per_item(spec.unroll_length))
    content = io.BytesIO()
    np.savez_compressed(content, allow_pickle=False, **_arrays_of(sample, item_spec, config.algorithm.discount))
    replace_file(file, content.getvalue())
    sampler = "uniform" if options.uniform else config.replay.sampler
    return DrawnItems(file, len(sample.unrolls), view, sampler, sample.num_stored)


def _arrays_of(sample: Sample, spec: UnrollSpec, discount: float) -> dict[str, np.ndarray]:
    """Return the items' arrays by name, items first."""
    (batch,) = collate([Mix(None, sample)], spec, 0, discount, 0)
    named: dict[str, Tensor] = {f"observations/{name}": value for name, value in batch.observations.items()}
    single = {name for name in spec.frames if batch.observations[name].shape[0] == len(sample.unrolls)}
    named |= {name: getattr(batch, name) for name in ("actions", "rewards", "discounts", "valid")}
    named |= {f"columns/{name}": value for name, value in batch.columns.items()}
    arrays = {
        # Frames of sequences are single ones, with items first already.
        name: (value if name.removeprefix("observations/") in single else value.transpose(0, 1)).numpy()
        for name, value in named.items()
    }
    headers = sample.unrolls.headers
    arrays |= {name: headers[name] for name in ("episode", "step_in_episode")}
    return arrays | {"probabilities": sample.probabilities}
