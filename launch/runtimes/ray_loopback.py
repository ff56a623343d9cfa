"""A Ray of the run's own that only this machine can reach: its start, its health and its end."""

from __future__ import annotations

import math
import os
import secrets
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
import ray
import ray._private.node
import ray.util
from ray._common.utils import get_default_ray_temp_dir

from laser.ports import ReplayPort
from launch.errors import LaunchError, RuntimeFailedError
from launch.planning.needs import Needs
from launch.runtimes.ray_replay import NearestShard, RayReplay
from launch.runtimes.ray_session import Guard, end_processes, remove
from launch.runtimes.runtime import ShardPort
from launch.runtimes.system_limits import check_limits

_VITAL = ("gcs_server", "raylet")
# Measured with four actors and two shards: Ray's processes abort without these, and name no limit.
_RAY_THREADS, _SHARD_THREADS, _OTHER_THREADS = 170, 80, 30
_RAY_FILES, _FILES_PER_PROCESS = 64, 8
_NO_RAY = "--runtime local needs no Ray"
_UNUSED = ("start_api_server", "start_monitor", "start_log_monitor")
"""Methods of Ray's node that start processes of which a run of one machine has no use: the server of Ray's dashboard
(also with `include_dashboard=False`), the autoscaler's monitor, and the reader of logs for the terminal."""


class OwnRay:
    """Starts Ray on loopback. All components go to its only node and reserve nothing there.

    Args:
        needs: the needs of the run.

    Raises:
        LimitError: the system refuses the threads or files that Ray needs; its processes would abort.
        RuntimeFailedError: Ray did not start.
        LaunchError: it did not bind to loopback.
    """

    notes: tuple[str, ...] = ()

    def __init__(self, needs: Needs) -> None:
        _check_limits(needs)
        make_token_private()
        try:
            self._session = Path(_start_ray())
            self._guard = Guard(self._session)
        except Exception as error:  # Ray raises a plain Exception where a process of its does not answer in time
            ray.shutdown()
            for session in Path(get_default_ray_temp_dir()).glob(f"session_*_{os.getpid()}"):
                end_processes(session)
                remove(session)
            line = " ".join(str(error).split())[:300]
            raise RuntimeFailedError("runtime", f"Ray did not start: {line}", _NO_RAY) from error
        address = ray.util.get_node_ip_address()
        if address != "127.0.0.1":
            self.close()
            raise LaunchError(
                "runtime",
                f"Ray listens on {address}, where other machines can reach it",
                "do not import ray before launch.runtimes.ray_settings, which sets Ray's settings",
            )

    def room(self) -> float:
        """Return that any number of members has room: nothing is reserved."""
        return math.inf

    def crowded(self) -> list[str]:
        """Return no actor: nothing is reserved."""
        return []

    def check(self) -> None:
        """Raise `RuntimeFailedError` if one of Ray's own processes has ended.

        Ray itself would notice after a minute, and end this process without a word to the user.
        """
        node: Any = ray._private.worker._global_node
        for name, process in node.dead_processes():
            if name in _VITAL:
                how = f"was ended by signal {-process.returncode}" if process.returncode < 0 else "ended"
                wrong = f"Ray's {name} {how}, perhaps because memory, threads or files ran out"
                raise RuntimeFailedError("runtime", wrong, "start again, or use --runtime local, which needs no Ray")

    def close(self) -> None:
        """End Ray with all its processes, and remove the session's files from Ray's temporary directory."""
        ray.shutdown()
        end_processes(self._session)
        remove(self._session)
        self._guard.close()

    def shards(self, num_shards: int) -> list[dict[str, Any]]:
        """Return Ray's options for each shard."""
        return [{}] * num_shards

    def parameter_store(self) -> dict[str, Any]:
        """Return Ray's options for the parameter store."""
        return {}

    def worker(self, name: str) -> dict[str, Any]:
        """Return Ray's options for a worker."""
        return {"num_cpus": 0}

    def release(self, name: str) -> None:
        """Do nothing: the worker reserved nothing."""

    def shard_for(self, actor: int, shards: Sequence[ShardPort]) -> ReplayPort:
        """Return a port to a living shard: as long as all live, they are assigned to the actors in turn."""
        return NearestShard(cast(Sequence[RayReplay], shards), actor)


def _check_limits(needs: Needs) -> None:
    others = 3 * needs.num_learners + needs.num_actors  # a learner, an evaluator and a store for each member
    num_threads = _RAY_THREADS + _SHARD_THREADS * needs.num_shards + _OTHER_THREADS * others
    check_limits("Ray", num_threads, _RAY_FILES + _FILES_PER_PROCESS * (others + needs.num_shards), _NO_RAY)


def _start_ray() -> str:
    """Start Ray, and return the directory of its session."""
    # Workers must find the same modules as this process, a user's own environments among them.
    os.environ["PYTHONPATH"] = os.pathsep.join(path or os.getcwd() for path in sys.path)
    with _without_unused_processes():
        context: Any = ray.init(
            address="local",
            include_dashboard=False,
            _node_ip_address="127.0.0.1",
            log_to_driver=False,
            configure_logging=False,
        )
    return str(context.address_info["session_dir"])


@contextmanager
def _without_unused_processes() -> Iterator[None]:
    """Let Ray start only the processes that a run needs: there is no option for it.

    The others take 290 MB and some 3 s of processor time, and `ray.init` waits for one of them. A Ray that has no such
    methods starts as it does.
    """
    node: Any = ray._private.node.Node
    found = {name: getattr(node, name) for name in _UNUSED if hasattr(node, name)}
    for name in found:
        setattr(node, name, lambda *_, **__: None)
    try:
        yield
    finally:
        for name, method in found.items():
            setattr(node, name, method)


def make_token_private() -> None:
    """Create the token file before Ray does, since Ray would leave it readable by all users.

    Raises:
        LaunchError: the file cannot be written, or other users may read it and its mode cannot be changed.
    """
    if os.environ.get("RAY_AUTH_TOKEN") or os.environ.get("RAY_AUTH_TOKEN_PATH"):
        return
    path = Path.home() / ".ray" / "auth_token"
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IRUSR | stat.S_IWUSR)
    except FileExistsError:
        _keep_from_others(path)
    except OSError as error:
        raise LaunchError(
            "runtime", f"{path} cannot be written: {error.strerror}", "set RAY_AUTH_TOKEN_PATH"
        ) from error
    else:
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))


def _keep_from_others(path: Path) -> None:
    try:
        # A secret that is mounted read-only cannot be changed, and need not be if other users cannot read it.
        if stat.S_IMODE(path.stat().st_mode) & (stat.S_IRWXG | stat.S_IRWXO):
            path.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError as error:
        raise LaunchError(
            "runtime",
            f"{path} cannot be made private: {error.strerror}",
            "give it mode 0600, or set RAY_AUTH_TOKEN_PATH",
        ) from error
