"""The watch over nodes, with a runtime whose nodes come and go as the test says."""

from types import SimpleNamespace

from launch.supervision import node_watch
from launch.supervision.node_watch import NodeWatch


def test_actors_move_at_most_every_few_seconds_and_new_notes_are_said_once(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(node_watch.time, "monotonic", lambda: now[0])
    runtime = SimpleNamespace(notes=["known"], crowded=lambda: ["actor/1"], room=lambda: 3)
    said, moved = [], []
    supervisors = [SimpleNamespace(parts=SimpleNamespace(move=moved.append)) for _ in range(2)]
    watch = NodeWatch(runtime, 4, 3, said.extend)
    now[0] = 10.0
    watch.move_actors(supervisors)
    assert (moved, said) == ([], [])
    now[0] = 10.1
    runtime.notes.append("10.0.0.2 joined and is not used: it has other sources")
    watch.move_actors(supervisors)
    watch.move_actors(supervisors)
    assert moved == [["actor/1"]] * 2  # once for each member
    assert said == ["warning: 10.0.0.2 joined and is not used: it has other sources"]
    assert watch.room() == 3
    assert len(said) == 1


def test_a_change_of_room_is_said_and_never_less_than_one_or_more_than_asked_for():
    room, said = [2.0], []
    watch = NodeWatch(SimpleNamespace(notes=[], room=lambda: room[0]), 4, 2, said.extend)
    assert watch.room() == 2
    room[0] = 0
    assert watch.room() == 1
    room[0] = 9.0
    assert watch.room() == 4
    assert said == [
        "the cluster has room for 1 member at once now, fewer than before",
        "the cluster has room for 4 members at once now, more than before",
    ]
