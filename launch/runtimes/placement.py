"""The placement of components on the nodes of a cluster, decided without Ray from the list of nodes."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from laser.config import Problem
from laser.ports import NoPlaceError
from launch.planning.needs import Needs
from launch.words import size


@dataclass(frozen=True)
class Node:
    """A living node of the cluster.

    Args:
        id: Ray's id of the node.
        host: the node's address, for messages.
        num_cpus: CPUs that no other program has reserved.
        num_gpus: GPUs that no other program has reserved.
        num_bytes: memory that Ray counts for the node.
        is_ours: whether this process runs on the node.
    """

    id: str
    host: str
    num_cpus: float
    num_gpus: float = 0.0
    num_bytes: int = 0
    is_ours: bool = False


@dataclass(frozen=True)
class Seat:
    """The node of a component, and the CPUs and GPUs that the component reserves there.

    Args:
        node: id of the node.
        num_cpus: reserved CPUs.
        num_gpus: reserved GPUs.
        others: ids of nodes on which the component may start anew once its node is lost; (): it ends with its node.
    """

    node: str
    num_cpus: float = 0.0
    num_gpus: float = 0.0
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Part:
    """The components of one kind on a node: their number and their bytes together."""

    kind: str
    num: int
    num_bytes: int


class Placement:
    """Assigns seats to components; a component that is placed again gives its old seat up. Used from one thread.

    A learner and each actor reserve a CPU. Learners go to nodes with GPUs, which they share equally if there are fewer
    GPUs than learners; without GPUs they go to this process's node. Actors go to the node with most free CPUs. Shards,
    the parameter store and evaluators reserve nothing. Shards go to the actors' nodes, in proportion to the actors; the
    parameter store and evaluators go to this process's node.

    Args:
        nodes: living nodes at the beginning.
        needs: the needs of the run.
    """

    def __init__(self, nodes: Sequence[Node], needs: Needs):
        self._nodes, self._needs = list(nodes), needs
        self._seats: dict[str, Seat] = {}
        gpus = sum(math.floor(node.num_gpus) for node in nodes) if needs.device != "cpu" else 0
        self._gpus_each = 1.0 / math.ceil(needs.num_learners / gpus) if gpus else 0.0

    def shards(self, num_shards: int) -> list[Seat]:
        """Return a node for each shard, in proportion to the actors that will be there, since each fills the nearest.

        A shard on a node without actors would stay empty, and its share of the replay's capacity unused. Without any
        actors, shards go to all nodes in turn, first to those with most free CPUs.

        A shard may start anew on another node that has memory for everything that the shard's node holds.
        """
        by_room = sorted(self._nodes, key=lambda node: (-node.num_cpus, not node.is_ours, node.host, node.id))
        actors, shards = self.expected("actor"), Counter[str]()
        chosen = []
        for _ in range(num_shards):
            best = max(by_room, key=lambda node: (actors[node.id] / (shards[node.id] + 1), -shards[node.id]))
            shards[best.id] += 1
            chosen.append(best)
        held = {id: sum(part.num_bytes for part in parts) for id, parts in self.parts(shards).items()}

        def has_room(node: Node, lost: Node) -> bool:
            return node is not lost and held[node.id] + held[lost.id] <= node.num_bytes

        return [Seat(lost.id, others=tuple(node.id for node in self._nodes if has_room(node, lost))) for lost in chosen]

    def parts(self, shards: Counter[str]) -> dict[str, list[Part]]:
        """Return what each node will hold, by node id; `shards` is the number of shards on each."""
        needs = self._needs
        kinds = (
            ("shard", shards, needs.shard_bytes),
            ("learner", self.expected("learner"), needs.learner_bytes),
            ("actor", self.expected("actor"), needs.actor_bytes),
        )
        return {
            node.id: [Part(kind, nums[node.id], nums[node.id] * num_bytes) for kind, nums, num_bytes in kinds]
            for node in self._nodes
        }

    def expected(self, role: str) -> Counter[str]:
        """Return the number of the run's learners or actors on each node, by node id, if all nodes stay alive."""
        trial, needs = Placement(self._nodes, self._needs), self._needs
        for member in range(needs.num_learners):
            trial.worker(f"learner/{member}")
            for actor in range(member, needs.num_actors, needs.num_learners):
                trial.worker(f"actor/{actor}")
        return Counter(seat.node for name, seat in trial._seats.items() if name.startswith(role))

    def parameter_store(self) -> Seat:
        """Return the seat of the parameter store, on this process's node."""
        return Seat(self._ours.id)

    def worker(self, name: str, nodes: Sequence[Node] | None = None) -> Seat:
        """Return the seat of a worker; its role is the first part of its name, as in "actor/3".

        Args:
            name: the worker's name; if it had a seat, it gives the seat up.
            nodes: the nodes that are alive now; None: the same as before.

        Raises:
            NoPlaceError: learners have GPUs, and there is none for this one on these nodes.
        """
        if nodes is not None:
            self._nodes = list(nodes)
        self._seats.pop(name, None)
        role = name.partition("/")[0]
        if role == "learner":
            self._seats[name] = self._seat_learner()
        elif role == "actor":
            self._seats[name] = self._seat_actor()
        else:
            return Seat(self._ours.id)
        return self._seats[name]

    def room(self, nodes: Sequence[Node]) -> int:
        """Return the number of members that these nodes, alive now, can train at once: by CPUs, and by GPUs if used."""
        by_cpus = room_for(nodes, self._needs)
        if not self._gpus_each:
            return by_cpus
        learners_each = round(1.0 / self._gpus_each)
        return min(by_cpus, sum(learners_each * max(0, math.floor(node.num_gpus)) for node in nodes))

    def crowded(self, nodes: Sequence[Node]) -> list[str]:
        """Return the actors without a CPU of their own, at most as many as now have a free one on these nodes.

        Args:
            nodes: the nodes that are alive now and may be used.
        """
        num_free = sum(max(0, math.floor(self._free_cpus(node))) for node in nodes)
        actors = (name for name, seat in self._seats.items() if name.startswith("actor/") and not seat.num_cpus)
        return list(itertools.islice(actors, num_free))

    def release(self, name: str) -> None:
        """Give up the seat of a worker, if it has one."""
        self._seats.pop(name, None)

    @property
    def _ours(self) -> Node:
        return next(node for node in self._nodes if node.is_ours)

    def _seat_learner(self) -> Seat:
        # A free GPU counts most, then a free CPU, then being this process's node.
        best = max(
            self._nodes,
            key=lambda node: (
                self._free_gpus(node) + 1e-9 >= self._gpus_each,
                self._free_cpus(node) >= 1,
                node.is_ours and not self._gpus_each,
                self._free_gpus(node),
            ),
        )
        if self._free_gpus(best) + 1e-9 < self._gpus_each:
            raise NoPlaceError("no node of the cluster has a free GPU for the learner")
        return Seat(best.id, min(1.0, max(0.0, math.floor(self._free_cpus(best)))), self._gpus_each)

    def _seat_actor(self) -> Seat:
        best = max(self._nodes, key=lambda node: (self._free_cpus(node), not node.is_ours))
        # After the loss of a node there may be no free CPU; the actor then reserves none, so that the run continues.
        return Seat(best.id, 1.0 if self._free_cpus(best) >= 1 else 0.0)

    def _free_cpus(self, node: Node) -> float:
        return node.num_cpus - sum(seat.num_cpus or 1.0 for seat in self._seats.values() if seat.node == node.id)

    def _free_gpus(self, node: Node) -> float:
        return node.num_gpus - sum(seat.num_gpus for seat in self._seats.values() if seat.node == node.id)


def room_for(nodes: Sequence[Node], needs: Needs) -> int:
    """Return the number of members, a learner and its actors each, for which these nodes have free CPUs."""
    return sum(max(0, math.floor(node.num_cpus)) for node in nodes) // (1 + needs.actors_each)


def find_placement_problems(nodes: Sequence[Node], needs: Needs) -> Iterator[Problem]:
    """Yield the reasons why a run does not fit on these nodes; of members that may wait, why not even one fits."""
    if needs.may_wait:
        needs = needs.of_members(max(1, min(needs.num_learners, room_for(nodes, needs))))
    free = sum(max(0, math.floor(node.num_cpus)) for node in nodes)
    wanted = needs.num_learners + needs.num_actors
    if wanted > free:
        learners = "a learner" if needs.num_learners == 1 else f"{needs.num_learners} learners"
        each = "" if needs.num_learners == 1 else " for each member"
        room = free - needs.num_learners
        fit = room_for(nodes, needs)
        waiting = f"let {fit} train at once and the others wait: --concurrent {fit}" if fit and each else ""
        fewer = f"use at most {room // needs.num_learners}{each}" if room >= needs.num_learners else ""
        yield Problem(
            "num-actors",
            f"{learners} and {needs.num_actors} actors need {wanted} CPUs and the cluster has {free} free "
            f"({', '.join(f'{node.host}: {node.num_cpus:g}' for node in nodes)})",
            ", or ".join(remedy for remedy in (waiting, fewer, "add nodes") if remedy),
        )
    yield from _find_full_nodes(nodes, needs)
    if needs.device.startswith("cuda") and not any(node.num_gpus >= 1 for node in nodes):
        yield Problem(
            "device", "no node of the cluster has a free GPU", "use --device cpu, or start a node with --num-gpus"
        )


def _find_full_nodes(nodes: Sequence[Node], needs: Needs) -> Iterator[Problem]:
    placement = Placement(nodes, needs)
    shards = Counter(seat.node for seat in placement.shards(needs.num_shards))
    fewer = "use fewer members" if needs.num_learners > 1 else "lower algorithm.batch-size"
    # key of the config, and what to do
    remedies = {
        "shard": ("replay.capacity-steps", "lower it, raise replay.num-shards"),
        "learner": ("grid" if needs.num_learners > 1 else "algorithm.batch-size", fewer),
        "actor": ("num-actors", "lower it"),
    }
    all_parts = placement.parts(shards)
    for node in nodes:
        parts = all_parts[node.id]
        total = sum(part.num_bytes for part in parts)
        if total > node.num_bytes:
            key, remedy = remedies[max(parts, key=lambda part: part.num_bytes).kind]
            held = ", ".join(f"{_in_words(part, needs)} ({size(part.num_bytes)})" for part in parts if part.num_bytes)
            wrong = f"node {node.host} would hold {held}, {size(total)} in all, but has {size(node.num_bytes)}"
            yield Problem(key, wrong, f"{remedy}, or add nodes")


def _in_words(part: Part, needs: Needs) -> str:
    if part.kind == "shard":
        return f"{part.num} of {needs.num_shards} shards of the replay"
    return f"{part.num} {part.kind}" + ("" if part.num == 1 else "s")
