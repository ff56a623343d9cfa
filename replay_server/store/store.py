"""The store: one shard's memory, with inserting, forgetting, reading and writing of columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from laser.ports import KEY_DTYPE, ColumnWrites, WriteReceipt
from laser.prioritization.config import SamplerSettings
from laser.unroll import PackedFrames, Unrolls, UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.derived.derived_columns import Derived
from replay_server.member_settings import MemberSettings
from replay_server.removers import make_remover
from replay_server.samplers import samplers_called
from replay_server.samplers.prioritized import Prioritized
from replay_server.saving.contents import Contents, join_frames
from replay_server.storage.arena import Arena
from replay_server.storage.episode_index import EpisodeIndex, StreamKey
from replay_server.storage.pages import Pages
from replay_server.store.episode_streams import EpisodeStreams
from replay_server.store.members import Member
from replay_server.store.sizes import shard_sizes

_NAMES_OF_STREAMS = ("run", "actor", "incarnation", "environment")
_REFILLED_TOGETHER = 32


class Store:
    """Pages, arena, episode index, and the members' queues and columns over them. Not thread-safe.

    Args:
        spec: the layout of one unroll.
        config: capacities over all shards; the store takes its share.
        members: settings of all members, over all shards.
    """

    def __init__(self, spec: UnrollSpec, config: ReplayConfig, members: Sequence[MemberSettings]):
        self.spec = spec
        self._config = config
        self.sizes = shard_sizes(spec, config, members)
        num_pages = self.sizes.num_pages
        self.pages = Pages(spec, num_pages)
        self.index = EpisodeIndex(
            self.pages, spec.unroll_length, config.sequence_starts == "step", splits_log=config.log_share is not None
        )
        self.streams = EpisodeStreams(self.index, config.stream_weight, config.lease_s)
        self.images = list(spec.frames)
        self.arena = Arena(self.sizes.arena_bytes, num_pages * len(self.images)) if self.images else None
        self.members = {
            settings.member: Member(settings.share(config.num_shards), self.index, config) for settings in members
        }
        self.derived = {
            number: Derived(self.index, member.columns, member.settings) for number, member in self.members.items()
        }
        self._remover = make_remover(config.remover)
        self.num_removed = 0  # unrolls forgotten

    def add_member(self, settings: MemberSettings) -> None:
        """Register a member; see `Shard.add_member`."""
        share = settings.share(self._config.num_shards)
        known = self.members.get(settings.member)
        if known is not None:
            if known.settings != share:
                raise ValueError(f"member {settings.member} is known with other settings; choose another number")
            return
        member = self.members[settings.member] = Member(share, self.index, self._config)
        derived = self.derived[settings.member] = Derived(self.index, member.columns, share)
        if not derived.is_empty:
            derived.inserted(self.index.live_pages.items.copy(), np.empty(0, np.int32))

    def blocks_needed(self, unrolls: Unrolls, keep: np.ndarray) -> int:
        """Return the blocks that the images of unrolls `keep` will take."""
        if self.arena is None:
            return 0
        return sum(int(self.arena.blocks_for(packed.lengths[keep]).sum()) for packed in unrolls.frames.values())

    def never_fits(self, num_unrolls: int, num_blocks: int) -> str | None:
        """Return why a message of this size can never be stored, or None."""
        if num_unrolls > self.sizes.capacity_pages:
            return f"{num_unrolls} unrolls in one message exceed a shard's capacity of {self.sizes.capacity_pages}"
        if self.arena is not None and num_blocks > self.arena.num_blocks:
            num_bytes = num_blocks * self.arena.block_bytes
            return f"{num_bytes} bytes of frames in one message exceed a shard's {self.sizes.arena_bytes}"
        return None

    def make_room(self, num_unrolls: int, num_blocks: int) -> bool:
        """Forget episodes until there is room; return False if all remaining unrolls wait in online queues.

        Episodes that a stream walks are kept as long as other episodes can be forgotten. If the remover's choice is
        nothing, or an open episode younger than the oldest walked one, the streams on the oldest walked one are ended
        first. An insert that waited for these streams could wait for ever, since their learner may wait for the insert.
        """
        while not self._has_room(num_unrolls, num_blocks):
            episode = self._remover.choose(self.index)
            if (episode is None or not episode.finished) and self.streams.cut_oldest(
                None if episode is None else episode.first_order
            ):
                continue
            if episode is None:
                return False
            for derived in self.derived.values():
                derived.forget(episode)
            pages = np.array(episode.pages if episode.finished else episode.pages[:1], np.int32)
            self._freed(self.index.forget(episode))
            for member in self.members.values():
                member.forgotten(pages)
        return True

    def _has_room(self, num_unrolls: int, num_blocks: int) -> bool:
        return (
            len(self.index.live_pages) + num_unrolls <= self.sizes.capacity_pages
            and len(self.pages.free) >= num_unrolls
            and (self.arena is None or len(self.arena.free) >= num_blocks)
        )

    def why_full(self) -> tuple[str, str]:
        """Return what the stored unrolls fill, in words, and the setting that it comes from."""
        if self.arena is None or not self.pages.free or len(self.index.live_pages) == self.sizes.capacity_pages:
            return f"fill a shard, which holds {self.sizes.num_pages},", "replay.capacity-steps"
        return f"fill a shard's {self.sizes.arena_bytes:,} bytes of frames", "replay.capacity-bytes"

    def insert(
        self,
        unrolls: Unrolls,
        keep: np.ndarray,
        keys: Sequence[StreamKey],
        sequences: Sequence[int],
        queues: bool = True,
    ) -> np.ndarray:
        """Store unrolls `keep`, and queue those of members with an online queue; room has been made.

        Args:
            unrolls: a checked message.
            keep: int64 [N], indices of the unrolls to store.
            keys: (run, actor, incarnation, environment) of each kept unroll.
            sequences: sequence number of each kept unroll.
            queues: False: no unroll is queued, since none is fresh.

        Returns:
            their pages, int32 [N].
        """
        pages = self.pages.insert(unrolls, keep)
        if self.arena is not None:
            for image, name in enumerate(self.images):
                self.arena.insert(pages * len(self.images) + image, unrolls.frames[name], keep)
        self.index.append(pages, keys, sequences)
        of_member = unrolls.headers["member"][keep]
        for number, member in self.members.items():
            member.inserted(pages)
            mine = pages[of_member == number]
            if not self.derived[number].is_empty:
                self.derived[number].inserted(pages, mine)
            if queues and member.settings.online_capacity and len(mine):
                self.pages.retain(mine)
                member.enqueue(mine)
        return pages

    def write(self, writes: ColumnWrites) -> WriteReceipt:
        """Write a member's columns and update the numbers derived from them; see `Columns.write`."""
        receipt = self.members[writes.member].columns.write(writes)
        derived = self.derived[writes.member]
        if not derived.is_empty:
            derived.written(writes)
        return receipt

    def release(self, pages: np.ndarray) -> None:
        """Drop the references of these queue entries."""
        self._freed(self.index.release(pages))

    def _freed(self, pages: np.ndarray) -> None:
        self.num_removed += len(pages)
        if self.arena is not None:
            for image in range(len(self.images)):
                self.arena.remove(pages * len(self.images) + image)

    def frames(self, pages: np.ndarray) -> dict[str, PackedFrames]:
        """Return the compressed frames of pages by image name."""
        if self.arena is None:
            return {}
        return {name: self.arena.gather(pages * len(self.images) + image) for image, name in enumerate(self.images)}

    @property
    def num_bytes(self) -> int:
        """Bytes held in arrays; fixed from construction on."""
        arena = self.arena.num_bytes if self.arena is not None else 0
        columns = sum(member.num_bytes for member in self.members.values())
        columns += sum(derived.num_bytes for derived in self.derived.values())
        return self.pages.num_bytes + self.index.num_bytes + arena + columns

    def check_valid(self) -> None:
        """Assert every invariant by recounting; for tests."""
        self.index.check_valid()
        for slot, num_streams in self.streams.num_pins().items():
            assert self.index.episodes[slot].num_pins >= num_streams
        for derived in self.derived.values():
            derived.check_valid()
        far = sum(item.num_far for derived in self.derived.values() for item in derived.far.values())
        assert self.index.far_of_episode.sum() == far
        queued = np.zeros(self.pages.num_pages, np.int64)
        for member in self.members.values():
            assert member.imbalance == 0
            for sampler in member.samplers.values():
                sampler.check_valid()
            np.add.at(queued, list(member.queue), 1)
        assert (self.pages.references == self.index.num_segments + queued).all()
        assert len(self.index.live_pages) <= self.sizes.capacity_pages
        if self.arena is not None:
            lengths = self.arena._lengths.reshape(self.pages.num_pages, -1)
            free = self.pages.free.is_free()
            assert (lengths[free] == 0).all()
            assert (lengths[~free] > 0).all()
            num_blocks = int(self.arena.blocks_for(lengths).sum())
            assert num_blocks + len(self.arena.free) == self.arena.num_blocks

    def fingerprint(self) -> dict[str, Any]:
        """Return the properties that a state's store must share, as JSON values by name."""
        fields = {name: [list(self.spec.shape(name)), item.array.dtype] for name, item in self.spec.fields.items()}
        weighs = any(issubclass(kind, Prioritized) for kind in samplers_called(self._config.sampler).values())
        own = self._config.sampler_settings
        columns = {str(number): sorted(member.columns.arrays) for number, member in self.members.items()}
        return {
            "fields": fields,
            "images": {name: [list(image.frame_shape), image.stack] for name, image in self.spec.frames.items()},
            "pages": [self.sizes.capacity_pages, self.sizes.num_pages],
            "frame bytes": self.sizes.arena_bytes,
            "columns by member": columns,
            "sampler": self._config.sampler,
            "priority exponent": self._config.priority_exponent if weighs else None,
            "sampler settings": repr(own) if type(own) is not SamplerSettings else None,
        }

    def contents(self, known: Sequence[tuple[int, int]]) -> Contents:
        """Return the contents of the used pages whose places in the order of insertion are in none of these ranges."""
        used = np.flatnonzero(~self.pages.free.is_free())
        positions = self.pages.positions(used)
        is_new = np.ones(len(used), bool)
        for start, stop in known:
            is_new &= (positions < start) | (positions >= stop)
        pages = used[is_new]
        headers, fields = self.pages.gather(pages)
        return Contents(positions[is_new], headers, fields, self.frames(pages))

    def load_contents(self, contents: Contents | None, state: dict[str, Any]) -> None:
        """Restore a state without contents, from `state_dict`, and the contents of its used pages in their order."""
        pages = state["pages"]
        if contents is not None:
            pages = {**pages, "headers": contents.headers, "fields": contents.fields}
        self.load_state_dict({**state, "pages": pages})
        if self.arena is not None and contents is not None:
            used, num = pages["used"], len(self.images)
            packed = join_frames([contents.frames[name] for name in self.images])
            self.arena.load_blobs(np.concatenate([used * num + image for image in range(num)]), packed)

    def refill(self, contents: Contents, columns: Mapping[int, Mapping[str, np.ndarray]]) -> None:
        """Store unrolls that other shards held, the oldest first; those that find no room make older ones go.

        Args:
            contents: the unrolls.
            columns: by member and name, values [N, T].
        """
        unrolls = Unrolls(contents.headers, dict(contents.fields), dict(contents.frames))
        together = min(_REFILLED_TOGETHER, self.sizes.capacity_pages)
        for start in range(0, len(contents), together):
            keep = np.arange(start, min(start + together, len(contents)))
            headers = contents.headers[keep]
            if not self.make_room(len(keep), self.blocks_needed(unrolls, keep)):
                continue  # larger than all room for frames
            keys = list(zip(*(headers[name].tolist() for name in _NAMES_OF_STREAMS), strict=True))
            pages = self.insert(unrolls, keep, keys, headers["sequence"].tolist(), queues=False)
            at = np.zeros(len(keep), KEY_DTYPE)
            at["page"], at["generation"] = pages, self.pages.generation[pages]
            for member, values in columns.items():
                if values:
                    self.write(ColumnWrites(member, at, {name: value[keep] for name, value in values.items()}))

    def state_dict(self, with_contents: bool = True) -> dict[str, Any]:
        """Return the state of pages, index, arena, streams, members and derived numbers.

        Args:
            with_contents: False leaves out what `contents` returns.
        """
        state: dict[str, Any] = {"pages": self.pages.state_dict(with_contents), "index": self.index.state_dict()}
        if self.arena is not None and with_contents:
            state["arena"] = self.arena.state_dict()
        state["streams"] = self.streams.state_dict()
        state["members"] = {str(number): member.state_dict() for number, member in self.members.items()}
        state["derived"] = {str(number): derived.state_dict() for number, derived in self.derived.items()}
        return state

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`, into a store of the same spec, config and members."""
        self.pages.load_state_dict(state["pages"])
        self.index.load_state_dict(state["index"])
        if self.arena is not None and "arena" in state:
            self.arena.load_state_dict(state["arena"])
        self.streams.load_state_dict(state["streams"])
        for number, member in self.members.items():
            member.load_state_dict(state["members"][str(number)])
        self.index.far_of_episode[:] = 0
        for number, derived in self.derived.items():
            derived.load_state_dict(state["derived"][str(number)])
