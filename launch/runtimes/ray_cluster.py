"""A cluster that was started with `ray start`: the connection, checks of its nodes, and the placement on them."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
import grpc
import ray
import ray.exceptions
from ray.core.generated import gcs_service_pb2_grpc
from ray.core.generated.gcs_service_pb2 import CheckAliveRequest  # type: ignore[attr-defined]
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from laser.config import Problem, raise_problems
from laser.ports import ReplayPort
from launch.errors import LaunchError
from launch.planning.needs import Needs
from launch.runtimes.placement import Node, Placement, Seat, find_placement_problems
from launch.runtimes.ray_head import Head, try_connection
from launch.runtimes.ray_replay import NearestShard, RayReplay
from launch.runtimes.ray_side_effects import kept_as_it_was
from launch.runtimes.runtime import ShardPort

_KEY = "ray-address"
_NODE_LABEL = "ray.io/node-id"  # which Ray itself gives to each node
_REACH_DEADLINE_S = 5.0
_PROBE_DEADLINE_S = 60.0
_GUIDE = "see docs/cluster.md"
_PACKAGES = ("laser", "actors", "learner", "replay_server", "launch")


class Cluster:
    """The connection to a cluster, and the placement of a run's components on it. Used from one thread.

    Args:
        address: HOST:PORT of the head.
        needs: the needs of the run.

    Raises:
        LaunchError: the cluster cannot be reached, refuses the token, or asks for none.
        ConfigError: the nodes' software differs from this process's, or the run does not fit on the nodes; the error
            lists all problems.
    """

    def __init__(self, address: str, needs: Needs):
        check_reachable(address)
        _connect(address)
        try:
            self._head = Head(address)
            self._reserved = _reserved_by_others()
            self._nodes = nodes = _living_nodes(self._reserved)
            facts = _probe(nodes)
            raise_problems([*find_differences(_facts_here(), facts), *find_placement_problems(nodes, needs)])
        except BaseException:
            ray.shutdown()
            raise
        self.notes = list(_find_notes(nodes, facts, needs))
        self._placement, self._needs = Placement(nodes, needs), needs
        self._fits = {node.id: True for node in nodes}  # False: its software differs
        self._asked: dict[str, tuple[Any, float]] = {}  # answers of nodes that joined, and when they were asked for

    def room(self) -> int:
        """Return the number of members that the living nodes can train at once.

        It waits for about a second at most, while the head is away. A node that joined counts once it has said that
        its software is ours; what differs is added to `notes`.
        """
        return self._placement.room(self._usable_nodes())

    def crowded(self) -> list[str]:
        """Return the actors that share a CPU since a node was lost, as many as could have one of their own by now.

        It waits as `room` does, and a node that joined counts as it does there.
        """
        return self._placement.crowded(self._usable_nodes())

    def _usable_nodes(self) -> list[Node]:
        """Return the living nodes whose software is known to be ours, and ask those that joined."""
        if not self._head.answers():
            return [node for node in self._nodes if self._fits.get(node.id)]
        self._nodes = nodes = _living_nodes(self._reserved)
        for node in nodes:
            if node.id in self._fits:
                continue
            if node.id not in self._asked:
                self._asked[node.id] = _ask(node), time.monotonic()
                continue
            asked, at = self._asked[node.id]
            if ray.wait([asked], timeout=0)[0] or time.monotonic() - at > _PROBE_DEADLINE_S:
                del self._asked[node.id]
                wrong = list(find_differences(_facts_here(), {node.host: _answered(asked)}))
                self._fits[node.id] = not wrong
                self.notes += [f"{node.host} joined and is not used: {item.wrong}; {item.remedy}" for item in wrong]
        return [node for node in nodes if self._fits.get(node.id)]

    def check(self) -> None:
        """Raise `RuntimeFailedError` if the head has not answered for too long; see `Head.answers`."""
        self._head.answers()

    def close(self) -> None:
        """Leave the cluster, which ends all components that this run has placed there."""
        ray.shutdown()

    def shards(self, num_shards: int) -> list[dict[str, Any]]:
        """Return Ray's options for each shard."""
        return [_options(seat) for seat in self._placement.shards(num_shards)]

    def parameter_store(self) -> dict[str, Any]:
        """Return Ray's options for the parameter store."""
        return _options(self._placement.parameter_store())

    def worker(self, name: str) -> dict[str, Any]:
        """Return Ray's options for a worker, which may have been placed before, on a node that is alive now.

        A node whose software differs, or that has not answered yet, gets none. While the head is away, it waits.

        Raises:
            RuntimeFailedError: see `check`.
        """
        self._head.wait()
        nodes = [
            node
            for node in _living_nodes(self._reserved)
            if node.id not in self._asked and self._fits.get(node.id, True)
        ]
        return _options(self._placement.worker(name, nodes))

    def release(self, name: str) -> None:
        """Give up the seat of a worker that has ended."""
        self._placement.release(name)

    def shard_for(self, actor: int, shards: Sequence[ShardPort]) -> ReplayPort:
        """Return a port that finds the shard nearest to the actor's node."""
        return NearestShard(cast(Sequence[RayReplay], shards), actor)


def check_cluster(address: str, needs: Needs) -> int:
    """Check that a run could begin on a cluster, leave the cluster, and return the members for which it has room.

    Raises:
        LaunchError: see `Cluster`.
        ConfigError: see `Cluster`.
    """
    with kept_as_it_was():
        cluster = Cluster(address, needs)
        room = cluster.room()
        cluster.close()
    return room


def check_reachable(address: str) -> None:
    """Check, within seconds and without Ray's own long retries, that a head answers and accepts our token.

    Raises:
        LaunchError: no head answers, it refuses the token, or it asks for none.
    """
    try:
        try_connection(address, _REACH_DEADLINE_S)
    except OSError as error:
        raise LaunchError(
            _KEY,
            f"{address} cannot be reached: {error.strerror or error}",
            f"start the head there with ray start --head, and open its port; {_GUIDE}",
        ) from error
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return  # Ray itself has the certificates
    token = read_token()
    if _answer(address, token) == grpc.StatusCode.UNAUTHENTICATED:
        raise LaunchError(
            _KEY,
            f"the cluster at {address} refuses {'this token' if token else 'calls without a token'}",
            "put the head's token into ~/.ray/auth_token (mode 0600) or RAY_AUTH_TOKEN; laser does not make one here",
        )
    if _answer(address, "") == grpc.StatusCode.OK:
        raise LaunchError(
            _KEY,
            f"the cluster at {address} asks for no token: anyone who reaches it can run any program there",
            f"start every node with RAY_AUTH_MODE=token; {_GUIDE}",
        )


def read_token() -> str:
    """Return the token that Ray would send; "" if there is none."""
    if token := os.environ.get("RAY_AUTH_TOKEN", "").strip():
        return token
    path = Path(os.environ.get("RAY_AUTH_TOKEN_PATH") or Path.home() / ".ray" / "auth_token")
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def find_differences(here: Mapping[str, str], nodes: Mapping[str, Mapping[str, str]]) -> Iterator[Problem]:
    """Yield a problem for each difference between a node's software and this process's.

    Args:
        here: versions by name, as `_make_probe` returns them.
        nodes: the same of each node, by host; a node whose probe failed has only an "error".
    """
    for host, facts in nodes.items():
        if "error" in facts:
            yield Problem(_KEY, f"node {host} cannot run LASER: {facts['error']}", f"install it there; {_GUIDE}")
            continue
        for name, ours in here.items():
            if (theirs := facts[name]) == ours:
                continue
            if name == "LASER sources":
                text = f"node {host} has other LASER sources, though both have version {facts['LASER']}"
                if facts["LASER"] == here["LASER"]:
                    yield Problem(_KEY, text, "install the same commit on every node")
            else:
                yield Problem(
                    _KEY, f"node {host} has {name} {theirs}, this machine has {ours}", "install the same everywhere"
                )


def _answer(address: str, token: str) -> grpc.StatusCode:
    """Return the status code of a call that asks the head whether it is alive."""
    headers = (("authorization", f"Bearer {token}"),) if token else ()
    with grpc.insecure_channel(address) as channel:
        try:
            gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel).CheckAlive(
                CheckAliveRequest(), timeout=_REACH_DEADLINE_S, metadata=headers
            )
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            if code != grpc.StatusCode.UNAUTHENTICATED:
                raise LaunchError(
                    _KEY, f"the server at {address} is not a Ray head ({code.name.lower()})", "give the head's port"
                ) from error
            return code
    return grpc.StatusCode.OK


def _connect(address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except (RuntimeError, ConnectionError, TimeoutError, OSError, ValueError) as error:
        ray.shutdown()
        causes = f"{error}: {error.__cause__ or ''}".partition("Last connection error")[0]
        line = " ".join(causes.split())[:400].rstrip(" :.")
        mismatch = re.search(r"[Vv]ersion mismatch", line)
        remedy = "install the same versions everywhere" if mismatch else "start a node on this machine with ray start"
        raise LaunchError(_KEY, f"{address}: {line}", f"{remedy}; {_GUIDE}") from error


def _living_nodes(reserved: Mapping[str, Mapping[str, float]]) -> list[Node]:
    """Return the living nodes, with the CPUs and GPUs that others had not reserved when the run began."""
    ours = ray.get_runtime_context().get_node_id()

    def left(node: dict[str, Any], resource: str) -> float:
        total: float = node["Resources"].get(resource, 0.0)
        return total - reserved.get(node["NodeID"], {}).get(resource, 0.0)

    return [
        Node(
            id=node["NodeID"],
            host=node["NodeManagerAddress"],
            num_cpus=left(node, "CPU"),
            num_gpus=left(node, "GPU"),
            num_bytes=int(node["Resources"].get("memory", 0)),
            is_ours=node["NodeID"] == ours,
        )
        for node in ray.nodes()
        if node["Alive"]
    ]


def _reserved_by_others() -> dict[str, dict[str, float]]:
    """Return the CPUs and GPUs that are reserved now, by node id."""
    available = ray._private.state.available_resources_per_node()
    return {
        node["NodeID"]: {
            name: node["Resources"].get(name, 0.0) - available[node["NodeID"]].get(name, 0.0) for name in ("CPU", "GPU")
        }
        for node in ray.nodes()
        if node["Alive"] and node["NodeID"] in available
    }


def _options(seat: Seat) -> dict[str, Any]:
    reserved = {"num_cpus": seat.num_cpus, "num_gpus": seat.num_gpus}
    if not seat.others:
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=seat.node, soft=False), **reserved}
    # Ray does not keep a soft affinity, even while the node lives; it keeps a label.
    others = {_NODE_LABEL: f"in({','.join(seat.others)})"}
    return {"label_selector": {_NODE_LABEL: seat.node}, "fallback_strategy": [{"label_selector": others}], **reserved}


def _probe(nodes: Sequence[Node]) -> dict[str, dict[str, str]]:
    """Return every node's installed versions by host, read on all nodes at once and with a deadline."""
    asked = {node.id: _ask(node) for node in nodes}
    ray.wait(list(asked.values()), num_returns=len(asked), timeout=_PROBE_DEADLINE_S)
    facts = {}
    for node in nodes:
        # Several nodes may share a machine, in tests for example.
        name = node.host if node.host not in facts else f"{node.host} ({node.id[:8]})"
        facts[name] = _answered(asked[node.id])
    return facts


def _ask(node: Node) -> Any:
    """Ask a node for its installed versions, and return Ray's reference to the answer."""
    task = cast(Any, ray.remote)(_make_probe())
    return task.options(**_options(Seat(node.id)), max_retries=0).remote(_PACKAGES)


def _answered(asked: Any) -> dict[str, str]:
    """Return what a node has answered until now; what went wrong is under "error"."""
    try:
        answer: dict[str, str] = ray.get(asked, timeout=0.1)
    except ray.exceptions.GetTimeoutError:
        ray.cancel(asked, force=True)
        return {"error": f"it did not answer within {_PROBE_DEADLINE_S:g} s"}
    except ray.exceptions.RayError as error:
        return {"error": str(error).strip().splitlines()[-1]}
    return answer


def _facts_here() -> dict[str, str]:
    return {name: value for name, value in _make_probe()(_PACKAGES).items() if name not in ("nice", "error")}


def _make_probe() -> Callable[[Sequence[str]], dict[str, str]]:
    """Return a function that Ray sends by value, since LASER may not be installed on the node it probes."""

    def probe(packages: Sequence[str]) -> dict[str, str]:
        import hashlib
        import importlib.metadata
        import importlib.util
        import os
        import pathlib
        import platform

        facts = {"Python": ".".join(platform.python_version_tuple()[:2]), "nice": str(os.nice(0))}
        for name, distribution in (("LASER", "laser-rl"), ("ray", "ray"), ("torch", "torch")):
            try:
                # Builds for different devices are compatible: 2.13.0+cpu, 2.13.0+cu130.
                facts[name] = importlib.metadata.version(distribution).partition("+")[0]
            except importlib.metadata.PackageNotFoundError:
                facts["error"] = f"{name} is not installed"
        sources = hashlib.sha256()
        for package in packages:
            found = importlib.util.find_spec(package)
            if found is None or not found.submodule_search_locations:
                facts["error"] = f"the package {package} of LASER is not installed"
                continue
            folder = pathlib.Path(next(iter(found.submodule_search_locations)))
            for path in sorted(folder.rglob("*.py")):
                sources.update(str(path.relative_to(folder)).encode() + path.read_bytes())
        facts["LASER sources"] = sources.hexdigest()
        return facts

    return probe


def _find_notes(nodes: Sequence[Node], facts: Mapping[str, Mapping[str, str]], needs: Needs) -> Iterator[str]:
    if needs.num_shards < len(nodes):
        yield (
            f"the replay has fewer shards ({needs.num_shards}) than the cluster has nodes ({len(nodes)}), so that "
            f"actors send unrolls over the network; --replay.num-shards {len(nodes)} gives each node one"
        )
    slow = [host for host, values in facts.items() if int(values.get("nice", "0")) > 0]
    if slow:
        yield (
            f"Ray runs at low priority on {', '.join(slow)} and gets little CPU time beside other load; "
            "start its nodes with RAY_worker_niceness=0"
        )
