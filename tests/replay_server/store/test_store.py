"""A shard against a naive twin that keeps lists of rows, under random operations."""

import json
from dataclasses import dataclass, field

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, SampleRequest, wait
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import PackedFrames, UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard
from replay_server.store.sizes import shard_sizes
from replay_server.store.store import Store

LENGTH = 4


@dataclass
class NaiveEpisode:
    """Rows as (stream, row number); unrolls in order of arrival as (order, stream, sequence)."""

    rows: list = field(default_factory=list)
    unrolls: list = field(default_factory=list)
    finished: bool = False


@dataclass
class NaiveReplay:
    """What FIFO by episodes over unrolls means, written slowly from the stream's own log."""

    capacity_unrolls: int
    open: dict = field(default_factory=dict)
    episodes: list = field(default_factory=list)
    finished: list = field(default_factory=list)
    expected: dict = field(default_factory=dict)
    order: int = 0

    def live_unrolls(self):
        return {unroll[1:] for episode in self.episodes for unroll in episode.unrolls}

    def make_room(self, num):
        while len(self.live_unrolls()) + num > self.capacity_unrolls:
            still_open = [episode for episode in self.episodes if not episode.finished]
            oldest = min(still_open, key=lambda episode: episode.unrolls[0], default=None)
            victim = self.finished[0] if self.finished else None
            if victim is None or (oldest is not None and oldest.unrolls[0] < victim.unrolls[0]):
                _, stream, sequence = oldest.unrolls.pop(0)
                oldest.rows = [row for row in oldest.rows if not (row[0] == stream and row[1] // LENGTH == sequence)]
                if not oldest.unrolls:
                    self.episodes.remove(oldest)
                    del self.open[stream]
            else:
                self.finished.pop(0)
                self.episodes.remove(victim)

    def insert(self, stream, name, sequence):
        follows = self.expected.get(name, 0) == sequence
        self.expected[name] = sequence + 1
        self.order += 1
        for row in range(sequence * LENGTH, (sequence + 1) * LENGTH):
            _, step, valid, _ = stream.log[row]
            begins = step == 0 or (not follows and row == sequence * LENGTH)
            if begins and name in self.open:
                self.finish(name)
            if name not in self.open:
                self.open[name] = NaiveEpisode()
                self.episodes.append(self.open[name])
            episode = self.open[name]
            if not episode.unrolls or episode.unrolls[-1] != (self.order, name, sequence):
                episode.unrolls.append((self.order, name, sequence))
            if valid:
                episode.rows.append((name, row))
            if stream.log[row + 1][1] == 0:
                self.finish(name)

    def finish(self, name):
        episode = self.open.pop(name)
        episode.finished = True
        self.finished.append(episode)


def stored_rows(shard):
    """Return the live steps of a shard by what their observation says."""
    index = shard._store.index
    live = index.episode_of_row >= 0
    return sorted(index.pages.fields["observations/observation"][:, :LENGTH, 0][live].tolist())


@pytest.mark.parametrize("frames", [False, True])
@pytest.mark.parametrize("mean_length", [2, 6, 40, None])
def test_the_shard_keeps_what_the_naive_twin_keeps(mean_length, frames):
    rng = np.random.default_rng(mean_length or 0)
    spec, config = make_spec(LENGTH, frames=frames), ReplayConfig(capacity_steps=15 * LENGTH)
    members = [MemberSettings(0, 5, columns=(ColumnSpec("priority", 1.0),))]
    shard = Shard(spec, config, members)
    streams = [Stream(spec, rng, environment=e, mean_length=mean_length) for e in range(3)]
    twin = NaiveReplay(15)
    handed_out, queued, trimmed = [], [], False
    for _ in range(150):
        chosen = [stream for stream in streams if rng.random() < 0.6]
        if rng.random() < 0.1 and chosen:
            chosen[0].sequence += int(rng.integers(1, 3))  # unrolls get lost
        if chosen and len(queued) + len(chosen) <= 5:
            sequences = [stream.sequence for stream in chosen]
            message = join([stream.next_unroll() for stream in chosen])
            twin.make_room(len(chosen))
            for stream, sequence in zip(chosen, sequences, strict=True):
                twin.insert(stream, stream.environment, sequence)
            receipt = wait(shard.insert(message), 5, "insert")
            assert receipt.num_inserted == len(chosen)
            queued += [(s.environment, q) for s, q in zip(chosen, sequences, strict=True)]
            if rng.random() < 0.3:  # the receipt was lost and the call repeated
                again = wait(shard.insert(message), 5, "insert")
                assert (again.num_inserted, again.num_duplicates) == (0, len(chosen))
        if queued and rng.random() < 0.6:
            sample = wait(shard.sample(SampleRequest(0, 3, table="online", at_most=True)), 5, "online")
            headers = sample.unrolls.headers
            handed_out += list(zip(headers["environment"].tolist(), headers["sequence"].tolist(), strict=True))
            expected, queued = queued[: len(headers)], queued[len(headers) :]
            assert handed_out[-len(headers) :] == expected
            for i, (environment, sequence) in enumerate(expected):
                truth = streams[environment].unroll(sequence)
                for name, array in truth.fields.items():
                    np.testing.assert_array_equal(sample.unrolls.fields[name][i], array[0])
                if frames:
                    np.testing.assert_array_equal(sample.unrolls.frames["image"][i], truth.frames["image"][0])
        shard.check_valid()
        rows = sorted(streams[name].base + row for episode in twin.episodes for name, row in episode.rows)
        assert stored_rows(shard) == rows
        assert {e.num_steps for e in shard._store.index.episodes.values()} == {len(e.rows) for e in twin.episodes}
        trimmed |= any(not episode.complete for episode in shard._store.index.open.values())
    stats = shard.stats().result()
    assert stats.ledger.removed > 50
    assert stats.ledger.lost > 0
    assert stats.num_steps == len(rows)
    assert trimmed or mean_length is not None, "no open episode lost its oldest pages"
    assert stats.memory_bytes == shard_sizes(spec, config, members).num_bytes
    assert len(handed_out) == len(set(handed_out))
    shard.close()
    shard.check_valid()


def test_the_byte_capacity_forgets_episodes_too():
    rng = np.random.default_rng(0)
    spec, config = make_spec(LENGTH, frames=True), ReplayConfig(capacity_steps=10_000, capacity_bytes=20_000)
    shard = Shard(spec, config, [MemberSettings(0)])
    stream = Stream(spec, rng)
    for _ in range(200):
        assert wait(shard.insert(stream.next_unroll()), 5, "insert").num_inserted == 1
        shard.check_valid()
    stats = shard.stats().result()
    assert 0 < stats.num_unrolls < 40
    assert 15_000 < stats.frame_bytes <= 20_000
    assert stats.memory_bytes == shard_sizes(spec, config, [MemberSettings(0)]).num_bytes
    shard.close()


def make_store(*members, frames=False, **config):
    return Store(make_spec(LENGTH, frames=frames), ReplayConfig(**{"capacity_steps": 4 * LENGTH} | config), members)


def insert(store, stream, num_unrolls):
    """Insert the next unrolls of a stream into a store, as a shard does."""
    first = stream.sequence
    unrolls = join([stream.next_unroll() for _ in range(num_unrolls)])
    sequences = range(first, first + num_unrolls)
    store.insert(unrolls, np.arange(num_unrolls), [(1, 0, 0, stream.environment)] * num_unrolls, sequences)
    store.check_valid()


def test_a_pinned_episode_stays():
    store = make_store(MemberSettings(0), capacity_steps=15 * LENGTH)
    stream = Stream(store.spec, np.random.default_rng(0))
    insert(store, stream, 8)
    index = store.index
    pinned = next(iter(index.finished.values()))
    rows = index.episode_of_row == pinned.slot
    index.pin(pinned)
    for _ in range(40):
        assert store.make_room(1, 0)
        insert(store, stream, 1)
        assert (index.episode_of_row[rows] == pinned.slot).all()
    index.unpin(pinned)
    for _ in range(20):
        assert store.make_room(1, 0)
        insert(store, stream, 1)
    assert index.episodes.get(pinned.slot) is not pinned


def test_a_page_reference_too_few_is_noticed():
    store = make_store(MemberSettings(0))
    insert(store, Stream(store.spec, np.random.default_rng(0)), 1)
    store.pages.references[0] += 1
    with pytest.raises(AssertionError):
        store.check_valid()


def test_there_is_no_room_while_all_that_is_left_waits_in_queues():
    store = make_store(MemberSettings(0, online_capacity=4))
    stream = Stream(store.spec, np.random.default_rng(0), mean_length=2)
    insert(store, stream, 4)
    assert store.make_room(4, 0)
    insert(store, stream, 4)
    # Four pages may be drawn from and four more hold queued unrolls: all eight are in use.
    assert not store.make_room(1, 0)
    assert store.index.num_steps == 0
    assert store.num_removed == 0
    store.release(store.members[0].dequeue(2))
    assert store.num_removed == 2
    assert store.make_room(2, 0)
    assert not store.make_room(3, 0)


def test_room_is_made_by_forgetting_the_oldest_and_no_more_than_that():
    store = make_store(MemberSettings(0))
    insert(store, Stream(store.spec, np.random.default_rng(0), mean_length=None), 4)
    assert store.make_room(0, 0)
    assert (store.num_removed, store.index.num_steps) == (0, 4 * LENGTH)
    assert store.make_room(3, 0)
    assert (store.num_removed, store.index.num_steps) == (3, LENGTH)
    assert (store.pages.rows["rewards"][store.index.live_pages.items[0] * LENGTH]) == 3 * LENGTH


def test_a_message_that_can_never_be_stored_is_told_of():
    store = make_store(MemberSettings(0), frames=True, capacity_bytes=4096)
    num_blocks = store.arena.num_blocks
    assert store.never_fits(4, num_blocks) is None
    assert "5 unrolls in one message exceed a shard's capacity of 4" in store.never_fits(5, 0)
    assert f"exceed a shard's {store.sizes.arena_bytes}" in store.never_fits(1, num_blocks + 1)
    without = make_store(MemberSettings(0))
    assert without.never_fits(4, 10**9) is None


def test_the_blocks_of_a_message_are_those_of_the_unrolls_that_are_kept():
    store = make_store(MemberSettings(0), frames=True)
    stream = Stream(store.spec, np.random.default_rng(0))
    unrolls = join([stream.next_unroll() for _ in range(3)])
    lengths = unrolls.frames["image"].lengths
    blocks = [-(-int(length) // store.arena.block_bytes) for length in lengths]
    assert store.blocks_needed(unrolls, np.array([0, 2])) == blocks[0] + blocks[2]
    assert store.blocks_needed(unrolls, np.arange(3)) == sum(blocks)
    assert make_store(MemberSettings(0)).blocks_needed(unrolls, np.arange(3)) == 0


def test_frames_come_back_as_they_were_stored_and_not_when_they_are_gone():
    store = make_store(MemberSettings(0), frames=True)
    stream = Stream(store.spec, np.random.default_rng(0), mean_length=None)
    insert(store, stream, 3)
    pages = store.index.live_pages.items.copy()
    packed = store.frames(pages)["image"]
    for place, page in enumerate(pages):
        blob = packed.payload[packed.starts[place] :][: packed.lengths[place]]
        np.testing.assert_array_equal(blob, stream.blob(int(store.pages.headers["sequence"][page])))
    free = len(store.arena.free)
    assert store.make_room(4, 0)
    assert len(store.arena.free) == store.arena.num_blocks > free
    assert make_store(MemberSettings(0)).frames(pages) == {}


def test_a_member_that_comes_late_has_columns_of_what_is_stored():
    store = make_store(MemberSettings(0))
    insert(store, Stream(store.spec, np.random.default_rng(0)), 3)
    late = MemberSettings(1, columns=(ColumnSpec("priority", 2.0),))
    before = store.num_bytes
    store.add_member(late)
    assert store.num_bytes > before
    member = store.members[1]
    assert (member.columns.arrays["priority"][store.index.live_pages.items] == 2.0).all()
    store.add_member(late)
    assert store.members[1] is member
    with pytest.raises(ValueError, match="member 1 is known with other settings"):
        store.add_member(MemberSettings(1))
    store.check_valid()


def test_what_a_state_must_fit_differs_where_a_setting_of_the_memory_does():
    columns = (ColumnSpec("priority", 1.0),)
    mine = make_store(MemberSettings(0, columns=columns), sampler="per")
    same = make_store(MemberSettings(0, columns=columns), sampler="per", remover="fifo")
    assert json.loads(json.dumps(mine.fingerprint(), default=str)) == json.loads(
        json.dumps(same.fingerprint(), default=str)
    )
    for other, name in (
        (make_store(MemberSettings(0, columns=columns), sampler="per", capacity_steps=5 * LENGTH), "pages"),
        (make_store(MemberSettings(0, online_capacity=1, columns=columns), sampler="per"), "pages"),
        (make_store(MemberSettings(0, columns=columns), sampler="per", frames=True), "images"),
        (make_store(MemberSettings(0, columns=columns), sampler="uniform"), "sampler"),
        (make_store(MemberSettings(0, columns=columns), sampler="per", priority_exponent=0.9), "priority exponent"),
        (make_store(MemberSettings(0), sampler="per"), "columns by member"),
        (make_store(MemberSettings(1, columns=columns), sampler="per"), "columns by member"),
    ):
        assert mine.fingerprint()[name] != other.fingerprint()[name], name
    # Without priorities their exponent is no part of what must fit.
    drawn = [make_store(MemberSettings(0), sampler="uniform", priority_exponent=e).fingerprint() for e in (0.5, 0.9)]
    assert drawn[0] == drawn[1]


def test_a_store_that_is_full_of_frames_forgets_until_there_are_blocks():
    store = make_store(MemberSettings(0), frames=True, capacity_steps=100 * LENGTH, capacity_bytes=20_000)
    stream = Stream(store.spec, np.random.default_rng(0), mean_length=3)
    insert(store, stream, 6)
    in_use = store.arena.num_blocks - len(store.arena.free)
    wanted = len(store.arena.free) + in_use // 2
    assert store.make_room(1, wanted)
    assert len(store.arena.free) >= wanted
    assert 0 < store.num_removed < 6
    store.check_valid()


def test_the_images_of_an_unroll_do_not_mix():
    """Two images an unroll: each page has two places in the arena."""
    observations = {"observation": VectorSpec((1,)), "left": FramesSpec((4, 4)), "right": FramesSpec((4, 4))}
    environment = EnvironmentSpec("Two-v0", observations, DiscreteActions(3))
    spec = UnrollSpec(LENGTH, environment, {"logits": ArraySpec((3,))})
    store = Store(spec, ReplayConfig(capacity_steps=4 * LENGTH, capacity_bytes=100_000), [MemberSettings(0)])
    stream = Stream(spec, np.random.default_rng(0), mean_length=None)
    for number in range(12):
        message = stream.next_unroll()
        for name in spec.frames:
            # As long as its number says, so that no two are alike.
            payload = np.full(100 * (number + 1) + (name == "left"), number, np.uint8)
            message.frames[name] = PackedFrames(payload, np.zeros(1, np.int64), np.array([len(payload)]))
        assert store.make_room(1, store.blocks_needed(message, np.arange(1)))
        store.insert(message, np.arange(1), [(1, 0, 0, 0)], [number])
        store.check_valid()
        pages = store.index.live_pages.items
        numbers = store.pages.headers["sequence"][pages]
        assert sorted(numbers) == list(range(max(0, number - 3), number + 1))
        for name, packed in store.frames(pages).items():
            assert packed.lengths.tolist() == (100 * (numbers + 1) + (name == "left")).tolist()
            assert packed.payload[packed.starts].tolist() == numbers.tolist()
