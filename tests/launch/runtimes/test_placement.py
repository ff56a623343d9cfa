"""Placement on the nodes of a cluster: who goes where, what is reserved, and what does not fit."""

from __future__ import annotations

from collections import Counter

import pytest

from laser.ports import NoPlaceError
from launch.planning.needs import Needs
from launch.runtimes.placement import Node, Placement, Seat, find_placement_problems
from launch.words import MB

OURS = Node("a", "10.0.0.1", 4, is_ours=True)
OTHER = Node("b", "10.0.0.2", 4)
CARDS = Node("c", "10.0.0.3", 8, num_gpus=2)


def place(nodes, num_actors, needs=None):
    placement = Placement(nodes, needs or Needs(1, num_actors))
    return placement, {name: placement.worker(name) for name in ["learner", *map("actor/{}".format, range(num_actors))]}


def test_actors_fill_the_free_cpus_of_all_nodes_and_no_more():
    _, seats = place([OURS, OTHER], 7)
    assert Counter(seat.node for seat in seats.values()) == {"a": 4, "b": 4}
    assert all(seat.num_cpus == 1.0 for seat in seats.values())
    assert seats["learner"].node == "a"


def test_actors_alternate_so_that_their_numbers_spread_over_a_nodes_shards():
    _, seats = place([OURS, OTHER], 7)
    actors = [seats[f"actor/{index}"].node for index in range(7)]
    assert actors == ["b", "b", "a", "b", "a", "b", "a"]


def test_shards_go_to_nodes_in_turn():
    placement = Placement([OURS, OTHER, CARDS], Needs())
    assert [seat.node for seat in placement.shards(5)] == ["c", "a", "b", "c", "a"]
    assert not any(seat.num_cpus or seat.num_gpus for seat in placement.shards(5))
    assert placement.parameter_store() == placement.worker("evaluator") == Seat("a")


@pytest.mark.parametrize(
    ("cpus", "num_learners", "num_actors", "num_shards"),
    [
        ((8, 8), 4, 4, 2),  # all learners on our node, all actors on the other
        ((4, 16), 4, 8, 2),
        ((16, 64), 9, 40, 2),
        ((8, 8), 1, 14, 2),
        ((8, 8, 8), 1, 20, 5),
        ((4, 12), 1, 14, 4),
    ],
)
def test_shards_are_where_actors_fill_them_about_evenly(cpus, num_learners, num_actors, num_shards):
    nodes = [Node(str(k), f"10.0.0.{k}", num, is_ours=not k) for k, num in enumerate(cpus)]
    placement = Placement(nodes, Needs(num_learners, num_actors, num_shards=num_shards))
    shards = Counter(seat.node for seat in placement.shards(num_shards))
    for member in range(num_learners):
        placement.worker(f"learner/{member}")
    actors = Counter(placement.worker(f"actor/{actor}").node for actor in range(num_actors))
    filled = [actors[node] / num for node, num in shards.items()]
    assert min(filled) > 0, "a shard that no actor is near stays empty"
    assert max(filled) / min(filled) < 2.5
    assert not placement.expected("evaluator")


def test_a_learner_that_had_a_gpu_goes_to_no_node_without_one():
    placement = Placement([OURS, CARDS], Needs(1))
    assert placement.worker("learner").node == "c"
    with pytest.raises(NoPlaceError, match="no node of the cluster has a free GPU"):
        placement.worker("learner", [OURS, OTHER])
    assert placement.worker("learner", [OURS, Node("d", "10.0.0.4", 1, num_gpus=1)]) == Seat("d", 1.0, 1.0)


def test_a_shard_may_start_anew_where_all_that_its_node_held_has_room():
    sizes = {"a": 500, "b": 800, "c": 1300}
    nodes = [Node(name, name, 3, num_bytes=num * MB, is_ours=name == "a") for name, num in sizes.items()]
    # The learner and two actors are on a, three actors on b and on c; each holds 400 MB of the replay, a 500 in all.
    needs = Needs(1, 8, num_shards=3, shard_bytes=400 * MB, learner_bytes=100 * MB)
    seats = {seat.node: seat.others for seat in Placement(nodes, needs).shards(3)}
    assert seats == {"a": ("c",), "b": ("c",), "c": ("b",)}
    assert Placement(nodes[:1], needs).shards(1) == [Seat("a")]


@pytest.mark.parametrize(
    ("num_learners", "num_gpus", "share"), [(1, 2, 1.0), (2, 2, 1.0), (3, 2, 0.5), (9, 2, 0.2), (3, 0, 0.0)]
)
def test_learners_go_to_the_cards_and_share_them_equally(num_learners, num_gpus, share):
    nodes = [Node("a", "1", 16, is_ours=True), Node("c", "3", 16, num_gpus=num_gpus)]
    placement = Placement(nodes, Needs(num_learners))
    seats = [placement.worker(f"learner/{index}") for index in range(num_learners)]
    assert {seat.num_gpus for seat in seats} == {share}
    assert {seat.node for seat in seats} == ({"c"} if share else {"a"})
    assert sum(seat.num_gpus for seat in seats) <= num_gpus + 1e-9


@pytest.mark.parametrize(("num_learners", "at_once"), [(2, 2), (4, 4), (3, 4)])
def test_members_have_room_where_their_learners_have_cards(num_learners, at_once):
    nodes = [Node("a", "1", 16, is_ours=True), Node("c", "3", 16, num_gpus=2)]
    placement = Placement(nodes, Needs(num_learners, num_learners))
    assert placement.room(nodes) == at_once, "16 by the CPUs"
    assert placement.room([*nodes, Node("d", "4", 16, num_gpus=1.5)]) == 3 * at_once // 2
    assert placement.room([nodes[0]]) == 0
    assert placement.room([Node("c", "3", 2, num_gpus=2)]) == 1, "a learner and an actor on two CPUs"
    assert Placement(nodes, Needs(2, 2, device="cpu")).room([nodes[0]]) == 8


def test_a_learner_on_the_cpu_takes_no_card():
    placement = Placement([OURS, CARDS], Needs(device="cpu"))
    assert placement.worker("learner") == Seat("a", 1.0, 0.0)


def test_actors_of_a_lost_node_go_elsewhere_and_squeeze_in_where_nothing_is_free():
    placement, seats = place([OURS, OTHER], 7)
    lost = [name for name, seat in seats.items() if seat.node == "b"]
    again = {name: placement.worker(name, [OURS]) for name in lost}
    assert set(again.values()) == {Seat("a", 0.0)}
    # A node that joined late takes those that are placed after.
    assert placement.worker(lost[0], [OURS, Node("d", "10.0.0.4", 4)]) == Seat("d", 1.0)


def test_a_worker_that_is_placed_again_gives_up_its_seat():
    placement, _ = place([OURS], 3)
    assert all(placement.worker("actor/1") == Seat("a", 1.0) for _ in range(5))


@pytest.mark.parametrize(
    ("needs", "words"),
    [
        (Needs(1, 8), "a learner and 8 actors need 9 CPUs and the cluster has 8 free (10.0.0.1: 4, 10.0.0.2: 4); use"),
        (Needs(9, 9), "9 learners and 9 actors need 18 CPUs"),
        (Needs(3, 12), "use at most 1 for each member, or add nodes"),
        (Needs(1, 1, device="cuda"), "no node of the cluster has a free GPU"),
        (
            Needs(1, 7, num_shards=3, shard_bytes=600 * MB),
            "replay.capacity-steps: node 10.0.0.2 would hold 2 of 3 shards of the replay (1.2 GB), 1.2 GB in all",
        ),
        (Needs(2, 2, learner_bytes=600 * MB), "grid: node 10.0.0.1 would hold 2 learners (1.2 GB), 1.2 GB in all"),
        (
            Needs(1, 7, actor_bytes=245 * MB, learner_bytes=300 * MB),
            "num-actors: node 10.0.0.1 would hold 1 learner (300 MB), 3 actors (735 MB), ",
        ),
    ],
)
def test_what_does_not_fit_is_said_in_one_line(needs, words):
    nodes = [Node(id, f"10.0.0.{k}", 4, num_bytes=1000 * MB, is_ours=k == 1) for k, id in ((1, "a"), (2, "b"))]
    (problem,) = find_placement_problems(nodes, needs)
    assert words in str(problem)
    assert not list(find_placement_problems(nodes, Needs(1, 7, num_shards=2, shard_bytes=600 * MB)))


@pytest.mark.parametrize(
    ("num_learners", "num_actors", "remedy"),
    [
        (32, 32, "; let 4 train at once and the others wait: --concurrent 4, or add nodes"),
        (
            3,
            6,
            "; let 2 train at once and the others wait: --concurrent 2, or use at most 1 for each member, or add nodes",
        ),
        (2, 20, "; use at most 3 for each member, or add nodes"),
        (1, 20, "; use at most 7, or add nodes"),
        (9, 0, "; let 8 train at once and the others wait: --concurrent 8, or add nodes"),
    ],
)
def test_a_sweep_without_room_is_told_how_many_members_fit(num_learners, num_actors, remedy):
    nodes = [Node(id, f"10.0.0.{k}", 4, is_ours=k == 1) for k, id in ((1, "a"), (2, "b"))]
    (problem,) = find_placement_problems(nodes, Needs(num_learners, num_actors))
    assert str(problem).endswith(remedy)


def test_the_seat_of_a_worker_that_has_ended_is_free_again():
    placement = Placement([Node("a", "10.0.0.1", 2, is_ours=True)], Needs(1, 1))
    first = [placement.worker(name) for name in ("learner/0", "actor/0")]
    for name in ("learner/0", "actor/0", "evaluator/0"):
        placement.release(name)
    assert [placement.worker(name) for name in ("learner/1", "actor/1")] == first == [Seat("a", 1.0)] * 2


def test_actors_without_a_cpu_of_their_own_move_as_far_as_there_is_room():
    placement, seats = place([OURS, OTHER], 7)
    lost = [name for name, seat in seats.items() if seat.node == "b"]
    for name in lost:  # to what is left: no CPU is free there
        assert placement.worker(name, [OURS]) == Seat("a", 0.0)
    assert placement.crowded([OURS]) == []
    small = Node("b", "10.0.0.2", 2)
    assert placement.crowded([OURS, small]) == lost[:2]
    assert placement.worker(lost[0], [OURS, small]) == Seat("b", 1.0)
    assert placement.crowded([OURS, small]) == [lost[1]]
    assert placement.worker(lost[1], [OURS, small]) == Seat("b", 1.0)
    assert placement.crowded([OURS, small]) == []
