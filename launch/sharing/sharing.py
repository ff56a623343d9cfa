"""`laser push` and `laser pull`: an agent to the Hugging Face Hub or to a folder, and back as a run directory."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from laser.config import Problem, raise_problems
from laser.packages import find_missing, is_installed
from launch.errors import CannotCreateError, LaunchError, NothingToResumeError
from launch.evaluation.evaluate import evaluate, read_agent
from launch.evaluation.evaluation_result import EvaluationResult
from launch.records.inside import is_inside
from launch.records.run_record import read_record
from launch.records.trust import trust_run
from launch.records.videos import find_video_problems
from launch.report.recorded import Recorded
from launch.report.run_report import write_run
from launch.sharing.card import CURVE, VIDEO, write_card
from launch.sharing.options import PullOptions, PushOptions
from launch.standard_output import finite
from learner.checkpoint import NoCheckpointError, load_newest_checkpoint

RESULTS = "results.json"
_RETURNS = "return.png"
_HUB_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def push(run_dir: Path, repo: str, options: PushOptions, hub: Any = None) -> str:
    """Share a run's agent: config, checkpoint, metrics, results, a model card with the curve, and a video.

    Args:
        run_dir: of the run.
        repo: OWNER/NAME of the Hub, or a folder: a path that begins with "." or "/".
        options: see `PushOptions`.
        hub: a `huggingface_hub.HfApi`, for tests.

    Returns:
        the address or the folder.

    Raises:
        ConfigError: the package or the name is wrong.
        CannotCreateError: the folder holds something already.
        NothingToResumeError: there is no run or no valid checkpoint.
        LaunchError: the environment failed, or the Hub refused the upload.
    """
    raise_problems([*find_missing("push", ["huggingface-hub"]), *_name_problems(repo)])
    place = Path(repo)
    if _is_folder(repo) and place.exists() and not (place.is_dir() and not any(place.iterdir())):
        raise CannotCreateError("push", f"{place} is no empty folder", "name a new one")
    with tempfile.TemporaryDirectory(prefix="laser-push-") as made:
        folder = Path(made)
        write_shared(run_dir, folder, repo, options)
        if _is_folder(repo):
            shutil.copytree(folder, place, dirs_exist_ok=True)
            return str(place)
        return _upload(folder, repo, options, hub)


def pull(repo: str, options: PullOptions, download: Any = None) -> Path:
    """Fetch a shared agent, and return its run directory; `laser eval`, `play` and `train --resume` work with it.

    Args:
        repo: OWNER/NAME of the Hub, or a folder that `push` made.
        options: see `PullOptions`.
        download: `huggingface_hub.snapshot_download`, for tests.

    Raises:
        ConfigError: the package or the name is wrong.
        CannotCreateError: the run directory exists already.
        NothingToResumeError: what was fetched is no run of LASER, or its checkpoint is damaged. Nothing is kept.
        LaunchError: the Hub has no such repository, or cannot be reached.
    """
    needed = [] if _is_folder(repo) else [*find_missing("pull", ["huggingface-hub"])]
    raise_problems([*needed, *_name_problems(repo)])
    target = options.run_dir or Path("runs") / re.sub(r"[^\w.-]+", "-", repo.strip("./"))
    if target.exists():
        raise CannotCreateError("run-dir", f"{target} exists", "choose another --run-dir")
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".laser-pull-", dir=target.parent) as made:
        folder = Path(made) / "run"
        if _is_folder(repo):
            if not Path(repo).is_dir():
                raise NothingToResumeError("pull", f"{repo} is not a folder", "name the one that laser push made")
            _refuse_links("pull", Path(repo), Path(repo).rglob("*"))
            shutil.copytree(repo, folder)
        else:
            _download(repo, options.revision, folder, download)
        try:
            read_record(folder)
        except NothingToResumeError as error:
            wrong = error.problem.wrong.replace(str(folder), repo)
            raise NothingToResumeError("pull", wrong, "name one that laser push made") from error
        try:  # no more: reading the config may import code that the run names
            load_newest_checkpoint(folder / "checkpoints")
        except NoCheckpointError as error:
            raise NothingToResumeError("pull", f"{repo}: {error}", "ask its owner to push it again") from error
        folder.rename(target)
    return target


def write_shared(run_dir: Path, folder: Path, repo: str, options: PushOptions) -> None:
    """Write everything that is shared of a run into an empty folder."""
    if options.trust:
        trust_run(run_dir)
    recorded = Recorded(run_dir)
    agent = read_agent(run_dir, options.checkpoint)
    result = evaluate(
        run_dir,
        options.episodes,
        checkpoint=options.checkpoint,
        quiet=True,
        video=options.video and not list(find_video_problems("video", agent.config.env, agent.config.environment)),
    )
    assert isinstance(result, EvaluationResult)
    chosen = agent.checkpoint.path
    _refuse_links("push", run_dir, [run_dir / "config.json", run_dir / "metrics.db", chosen, *chosen.rglob("*")])
    for name in ("config.json", "metrics.db"):
        shutil.copyfile(run_dir / name, folder / name)
    shutil.copytree(chosen, folder / "checkpoints" / chosen.name)
    (folder / RESULTS).write_text(json.dumps(finite(result.to_json()), indent=1) + "\n", encoding="utf-8")
    if is_installed("matplotlib"):
        curve = write_run(recorded, None)[1].get(_RETURNS)
        if curve is not None:
            (folder / CURVE).write_bytes(curve)
    films = [task.video for task in result.tasks if task.video is not None]
    if films:
        shutil.copyfile(films[0], folder / VIDEO)
    names = [path.name for path in folder.iterdir()]
    (folder / "README.md").write_text(write_card(recorded, result, repo, names), encoding="utf-8")


def _refuse_links(key: str, directory: Path, paths: Iterable[Path]) -> None:
    """Raise `LaunchError` if a file of somebody else's run is a link to one of this user's own files."""
    for path in paths:
        if not is_inside(path, directory):
            raise LaunchError(key, f"{path} is a link out of the directory", "remove it")


def _upload(folder: Path, repo: str, options: PushOptions, hub: Any) -> str:
    if hub is None:
        from huggingface_hub import HfApi

        hub = HfApi()
    try:
        address = hub.create_repo(repo, private=options.private, exist_ok=True)
        hub.upload_folder(repo_id=repo, folder_path=folder, commit_message="An agent trained with LASER")
    except Exception as error:  # the client has many kinds, and passes on those of its transport
        raise _refused("push", repo, error) from error
    return str(address)


def _download(repo: str, revision: str, folder: Path, download: Any) -> None:
    if download is None:
        from huggingface_hub import snapshot_download as download
    try:
        download(repo, revision=revision or None, local_dir=folder)
    except Exception as error:  # as above
        raise _refused("pull", repo, error) from error
    shutil.rmtree(folder / ".cache", ignore_errors=True)  # the client's notes on what it fetched


def _refused(key: str, repo: str, error: Exception) -> LaunchError:
    why = " ".join(str(error).split())[:200] or type(error).__name__
    return LaunchError(key, f"{repo}: {why}", "check the name and the network; hf auth login signs in")


def _is_folder(repo: str) -> bool:
    return repo.startswith((".", "/"))


def _name_problems(repo: str) -> Iterator[Problem]:
    if not _is_folder(repo) and not _HUB_NAME.fullmatch(repo):
        yield Problem("repo", f"must be OWNER/NAME, or a folder such as ./NAME, got {repo!r}", "write it so")
