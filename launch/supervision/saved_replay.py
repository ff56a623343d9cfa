"""The replay of a resumed run or sweep: its content and its newest accounts, from the checkpoints that there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from laser.ports import Report
from launch.errors import NothingToResumeError
from launch.planning.member_plan import MemberPlan
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.records.saved_state import check_saved_state
from launch.runtimes.runtime import ShardPort
from launch.supervision.checkpointing import SavedMember
from learner.checkpoint import NoCheckpointError, load_newest_checkpoint
from replay_server.saving.spreading import spread

_MARKS = ("marks", "incarnations")
_REMEDY = "resume with the settings it was saved with"


class SavedReplay:
    """What the checkpoints of all members that use one replay hold of it. Used from one thread.

    Checkpoints of members that end at different times differ in their accounts. The ledger comes from the newest of
    them. The marks of an actor's unrolls come from its own member's checkpoint, with whose actors they go.

    Args:
        members: members and their checkpoints; None: a member has none.
        shared: what the sweep's own checkpoint holds of a shared replay; empty: none.
    """

    def __init__(
        self,
        members: Sequence[tuple[MemberPlan, SavedMember | None]],
        shared: Sequence[dict[str, Any]] = (),
    ):
        self.content: list[dict[str, Any]] = list(shared)
        """The states of all shards, with what they held; empty if that was not saved."""
        self.is_shared = bool(shared)
        """True: the content comes from the sweep's own checkpoint."""
        self.fault = ""
        """The fault of the replay's files in words, if there is no content because of it; it names a file."""
        self._num_shards = len(shared)
        self._newest = _accounts_of(shared)
        self._num_made = 0
        self._of_actors: list[tuple[range, list[dict[str, Any]]]] = []
        for member, saved in members:
            if saved is not None:
                self._add(member, saved)

    @property
    def has_content(self) -> bool:
        """Whether what the replay held was saved."""
        return self._num_shards > 0

    def has_keys_for(self, shards: Sequence[ShardPort]) -> bool:
        """Whether these shards, once filled, hold everything under the keys by which learners know it."""
        return self.has_content and self._num_shards == len(shards)

    def release(self) -> None:
        """Forget the content, as large as the replay, once the shards hold it."""
        self.content = []

    def _add(self, member: MemberPlan, saved: SavedMember) -> None:
        content = saved.replay()
        if content and _received(content) >= _received(self.content):
            self.content, self._num_shards, self.is_shared = content, len(content), False
        self.fault = "" if self.has_content else self.fault or saved.replay_fault
        self._num_made += _made(saved.recorder["totals"])
        # Checkpoints from before every member saved the accounts have those of the content, or none.
        accounts = saved.accounts or _accounts_of(content)
        if accounts:
            self._of_actors.append((member.actor_numbers, accounts))
            self._newest = max(accounts, self._newest, key=_received)

    def read_further(self, members: Sequence[MemberPlan], paths: Sequence[Path]) -> None:
        """Add the newest checkpoints of members that wait for a place; those that have none are left out.

        Args:
            members: the members.
            paths: their run directories, which may not exist.
        """
        for member, path in zip(members, paths, strict=True):
            with suppress(NoCheckpointError):  # the member finds out for itself when its turn comes
                checkpoints = RunDirectory(path, resumed=True).checkpoints_path
                self._add(member, SavedMember(*load_newest_checkpoint(checkpoints, check_saved_state)))

    def count_in_transit(self, recorder: Recorder) -> None:
        """Count the unrolls that were on their way when the checkpoints were written, once the state is loaded.

        A run that was killed continues from checkpoints that were written while actors worked: what they had reported
        and what had arrived differ.
        """
        missing = self._num_made - _arrived(self._newest) if self._newest else 0
        if missing:
            name = "unrolls_lost" if missing > 0 else "unrolls_unreported"
            recorder.report(Report("supervisor", {f"{name}/not_saved": float(abs(missing))}))

    def load_into(self, shards: Sequence[ShardPort]) -> None:
        """Put the content and the accounts into shards that are still empty; nothing if nothing was saved.

        They may be of another number than the shards that were saved.

        Raises:
            NothingToResumeError: the content has other settings.
        """
        if self.content:
            _fill(shards, self.content)
        if not self._newest:
            return
        streams = _merged(self._newest)
        for actors, accounts in self._of_actors:
            _take_over(streams, _merged(accounts), actors)
        is_newest = _received(self.content) == _received(self._newest)
        if self.has_keys_for(shards) and is_newest and streams == _merged(self.content):
            return
        marks = {name: [[list(key), number] for key, number in numbers.items()] for name, numbers in streams.items()}
        for index, port in enumerate(shards):
            port.load_accounts([marks], [each["ledger"] for each in self._newest[index :: len(shards)]])


def _accounts_of(states: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return saved states of shards without what they held, which is as large as the replay."""
    return [{"ledger": state["ledger"], "streams": state["streams"]} for state in states]


def _fill(shards: Sequence[ShardPort], states: Sequence[dict[str, Any]]) -> None:
    if len(shards) != len(states) and all("contents" in state for state in states):
        _spread(shards, states)
        return
    if len(shards) != len(states):
        raise NothingToResumeError("replay.num-shards", f"{len(states)} were saved, got {len(shards)}", _REMEDY)
    for port, state in zip(shards, states, strict=True):
        try:
            port.load_state_dict(state)
        except ValueError as error:
            raise NothingToResumeError("replay", str(error), _REMEDY) from error


def _spread(shards: Sequence[ShardPort], states: Sequence[dict[str, Any]]) -> None:
    for port, refill in zip(shards, spread(states, len(shards)), strict=True):
        try:
            if refill is not None:
                port.refill(refill)
        except ValueError as error:
            raise NothingToResumeError("replay", str(error), _REMEDY) from error


def _made(totals: Mapping[str, float]) -> int:
    """Return how many unrolls have arrived, by what the actors of a member reported and by its accounts."""
    lost = {name: n for name, n in totals.items() if name.startswith("unrolls_lost/") and name != "unrolls_lost/shard"}
    unreported = sum(n for name, n in totals.items() if name.startswith("unrolls_unreported/"))
    return int(totals.get("unrolls", 0.0) + unreported - sum(lost.values()))


def _arrived(accounts: Sequence[dict[str, Any]]) -> int:
    ledgers = [account["ledger"] for account in accounts]
    by_reason = [ledger[name] for ledger in ledgers for name in ("rejected", "failed")]
    refused = sum(sum(part.values()) if isinstance(part, dict) else part for part in by_reason)
    arrived: int = refused + sum(ledger["inserted"] + ledger["lost"] for ledger in ledgers)
    return arrived


def _received(accounts: Sequence[dict[str, Any]]) -> int:
    return sum(account["ledger"]["received"] for account in accounts)


def _merged(accounts: Sequence[dict[str, Any]]) -> dict[str, dict[tuple[int, ...], int]]:
    """Return the marks of all shards: an actor may find another shard than before."""
    merged: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in _MARKS}
    for account in accounts:
        for name, numbers in merged.items():
            for key, number in account["streams"][name]:
                numbers[tuple(key)] = max(number, numbers.get(tuple(key), 0))
    return merged


def _take_over(
    marks: dict[str, dict[tuple[int, ...], int]], others: dict[str, dict[tuple[int, ...], int]], actors: range
) -> None:
    """Replace the marks of some actors by those in `others`."""
    for name, numbers in marks.items():
        for key in [key for key in numbers if key[1] in actors]:
            del numbers[key]
        numbers |= {key: number for key, number in others[name].items() if key[1] in actors}
