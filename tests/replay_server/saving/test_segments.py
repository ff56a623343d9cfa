"""Saved contents: written once, read back as they were, damaged ones named."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec, saved

from laser.ports import ColumnSpec, ColumnWrites, PortClosedError, SampleRequest, wait
from launch.records.replay_segments import ReplaySegments
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.saving.segments import BadSegmentError, SegmentWriter, remove_unused, segments_of, with_contents
from replay_server.serving.shard import Shard


def make_shard(frames=True, seed=5, capacity_steps=200, **settings):
    members = [MemberSettings(0, columns=(ColumnSpec("priority", 1.0),))]
    return Shard(make_spec(frames=frames), ReplayConfig(capacity_steps=capacity_steps, **settings), members, seed=seed)


def fill(shard, streams, num):
    for _ in range(num):
        wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")


def make_streams(shard):
    return [Stream(shard.spec, np.random.default_rng(e), environment=e) for e in range(2)]


def save(writer, shard):
    return saved(writer.add(*shard.partial_state(writer.known, writer.life)))


def drawn(shard):
    sample = wait(shard.sample(SampleRequest(0, 60)), 5, "sample")
    values = [sample.keys, sample.unrolls.headers, *sample.unrolls.fields.values(), *sample.columns.values()]
    pictures = [packed[i] for packed in sample.unrolls.frames.values() for i in range(len(packed.starts))]
    return [value.tobytes() for value in [*values, *pictures]]


@pytest.mark.parametrize("frames", [True, False])
def test_a_restored_shard_holds_what_was_saved_while_unrolls_come_and_go(tmp_path, frames):
    shard, writer = make_shard(frames), SegmentWriter(tmp_path, 0)
    streams = make_streams(shard)
    for num in (3, 1, 8, 0, 20, 2):
        fill(shard, streams, num)
        keys = wait(shard.sample(SampleRequest(0, 4)), 5, "sample").keys
        writes = ColumnWrites(0, keys, {"priority": np.full((4, 4), float(num), np.float32)})
        wait(shard.write(writes), 5, "write")
        state = save(writer, shard)
        other = make_shard(frames, seed=99)
        other.load_state_dict(with_contents(state, tmp_path))
        other.check_valid()
        assert drawn(other) == drawn(shard)
        other.close()
    shard.close()


def test_an_unroll_is_written_once_and_files_of_forgotten_ones_are_not_needed(tmp_path):
    shard, writer = make_shard(), SegmentWriter(tmp_path, 0)
    streams, num_saved, before = make_streams(shard), [], set()
    for _ in range(12):
        fill(shard, streams, 10)
        segments = segments_of(save(writer, shard))
        num_saved.append(sum(each.num for each in segments if each.name not in before))
        assert all(one.stop <= other.start for one, other in pairwise(segments))
        before |= {each.name for each in segments}
        remove_unused(tmp_path, writer.names)
        assert {path.name for path in tmp_path.iterdir()} == writer.names
    assert set(num_saved) == {20}
    assert len(writer.names) < 8, "the replay holds 50 unrolls"
    shard.close()


def test_few_unrolls_that_are_left_of_a_file_are_written_again(tmp_path):
    shard, writer = make_shard(), SegmentWriter(tmp_path, 0)
    streams = make_streams(shard)
    fill(shard, streams, 25)
    first = segments_of(save(writer, shard))
    fill(shard, streams, 21)
    assert set(first) < set(segments_of(save(writer, shard)))
    state = save(writer, shard)
    assert not set(first) & set(segments_of(state)), "less than a quarter of it is still stored"
    other = make_shard()
    other.load_state_dict(with_contents(state, tmp_path))
    other.check_valid()
    assert other.stats().result().num_unrolls == shard.stats().result().num_unrolls


def test_a_restored_shard_writes_only_what_is_new(tmp_path):
    shard, writer = make_shard(), SegmentWriter(tmp_path, 0)
    streams = make_streams(shard)
    fill(shard, streams, 10)
    state = save(writer, shard)
    other, next_writer = make_shard(), SegmentWriter(tmp_path, 0)
    other.load_state_dict(with_contents(state, tmp_path))
    next_writer.begin_from(state)
    fill(other, streams, 2)
    assert [each.num for each in segments_of(save(next_writer, other))] == [20, 4]


def test_a_shard_that_died_is_written_anew(tmp_path):
    """Its places in the order of insertion begin again, so that earlier files say nothing of them."""
    shard, writer = make_shard(), SegmentWriter(tmp_path, 0)
    fill(shard, make_streams(shard), 10)
    save(writer, shard)
    other = make_shard()
    other.begin_again(None, None, 1)
    fill(other, make_streams(other), 3)
    state = save(writer, other)
    assert [(each.start, each.num) for each in segments_of(state)] == [(0, 6)]
    fill(other, [Stream(other.spec, np.random.default_rng(5), actor=1)], 1)
    assert [each.num for each in segments_of(save(writer, other))] == [6, 1]


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"")])
def test_segments_that_have_lost_their_files_are_written_anew(tmp_path, damage):
    shard, segments = make_shard(), ReplaySegments(tmp_path / "replay", tmp_path / "checkpoints")
    streams = make_streams(shard)
    for _ in range(3):
        fill(shard, streams, 3)
        (state,) = segments.save([shard])
    one, lost, three = segments_of(state)
    damage(tmp_path / "replay" / lost.name)
    fill(shard, streams, 1)
    state = saved(segments.save([shard])[0])
    assert {(each.start, each.num) for each in segments_of(state)} == {(0, 6), (6, 6), (12, 6), (18, 2)}
    assert {one, three} < set(segments_of(state)), "the others are not written again"
    other = make_shard()
    other.load_state_dict(with_contents(state, tmp_path / "replay"))
    assert drawn(other) == drawn(shard)


def test_an_empty_shard_needs_no_file(tmp_path):
    shard, other = make_shard(), make_shard()
    state = save(SegmentWriter(tmp_path, 0), shard)
    assert state["segments"] == []
    other.load_state_dict(with_contents(state, tmp_path))
    other.check_valid()


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-100]), "bytes instead of"),
        (lambda path: path.write_bytes(path.read_bytes()[:-1] + b"?"), r"is damaged \(its hash differs\)"),
        (lambda path: path.unlink(), r"cannot be read \(No such file"),
    ],
)
def test_damaged_half_written_and_missing_files_are_named(tmp_path, damage, words):
    shard = make_shard()
    fill(shard, make_streams(shard), 3)
    (segment,) = segments_of(save(SegmentWriter(tmp_path, 0), shard))
    segment.verify(tmp_path)
    damage(tmp_path / segment.name)
    with pytest.raises(BadSegmentError, match=f"{segment.name} .*{words}|{segment.name} {words}"):
        segment.verify(tmp_path)


def test_what_an_interrupted_write_left_is_removed(tmp_path):
    (tmp_path / ".writing-0").write_bytes(b"half")
    (tmp_path / "mine.txt").write_text("of the user")
    remove_unused(tmp_path, set())
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


def test_a_checkpoint_never_outlasts_the_name_of_a_segment(tmp_path, monkeypatch):
    done, root = [], tmp_path / "run" / "replay"

    def flush(descriptor):
        flushed = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        done.append((flushed, sorted(path.suffix for path in root.iterdir()) if flushed == root else None))

    shard = make_shard()
    fill(shard, make_streams(shard), 3)
    monkeypatch.setattr(os, "fsync", flush)
    SegmentWriter(root, 0).add(*shard.partial_state([], 0))
    folders = [each for each in done if each[0].is_dir()]
    assert folders == [(tmp_path, None), (tmp_path / "run", None), (root, [".npz"])], "after the rename"
    assert [path.name for path, _ in done[:-1] if not path.is_dir()] == [".writing-0"]
    shard.close()


class Ended:
    """The port of a shard that has ended with its node."""

    def partial_state(self, known, life):
        raise PortClosedError("its node has ended")


def test_a_shard_that_has_ended_for_good_keeps_what_was_saved_of_it_last(tmp_path):
    shards = [make_shard(seed=1), make_shard(seed=2)]
    for shard in shards:
        fill(shard, make_streams(shard), 5)
    segments = ReplaySegments(tmp_path / "replay", tmp_path / "checkpoints")
    with pytest.raises(PortClosedError):
        segments.save([Ended(), shards[1]])  # nothing was saved of it
    segments.save(shards)
    fill(shards[1], make_streams(shards[1]), 5)
    first, second = map(saved, segments.save([Ended(), shards[1]]))
    segments.remove_unused()
    for state, shard in ((first, shards[0]), (second, shards[1])):
        other = make_shard()
        other.load_state_dict(with_contents(state, tmp_path / "replay"))
        assert drawn(other) == drawn(shard)
        other.close()
    resumed = ReplaySegments(tmp_path / "replay", tmp_path / "checkpoints")
    resumed.begin_from([with_contents(first, tmp_path / "replay"), second])
    again = saved(resumed.save([Ended(), shards[1]])[0])
    assert with_contents(again, tmp_path / "replay")["contents"].positions.tolist() == list(range(10))
