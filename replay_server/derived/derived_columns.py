"""Derived numbers of one member, kept up to date as rows and columns come, change and go."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from laser.ports import ColumnWrites, PortError
from replay_server.derived.far_steps import FarSteps
from replay_server.derived.retrace_sweep import RetraceColumn
from replay_server.derived.step_sums import StepSums
from replay_server.member_settings import MemberSettings
from replay_server.storage.columns import Columns
from replay_server.storage.episode_index import NO_EPISODE, NO_PAGE, Episode, EpisodeIndex


class Derived:
    """One member's far-policy counts, swept columns and sums over steps. Not thread-safe.

    Args:
        index: holds the live rows.
        columns: of the member.
        settings: of the member; its columns and `needs_statistics` define the derived numbers.
    """

    def __init__(self, index: EpisodeIndex, columns: Columns, settings: MemberSettings):
        self._index = index
        self._columns = columns
        self._initial_from = {spec.name: spec.initial_from for spec in settings.columns if spec.initial_from}
        self.far = {
            spec.name: FarSteps(index, columns.arrays[spec.name], spec.far_bound)
            for spec in settings.columns
            if spec.far_bound
        }
        self.retraces = {
            spec.name: RetraceColumn(index, columns.arrays, spec.name, spec.retrace)
            for spec in settings.columns
            if spec.retrace is not None
        }
        self.sums = StepSums(index) if settings.needs_statistics else None

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to derive."""
        return not (self.far or self.retraces or self._initial_from or self.sums)

    def inserted(self, pages: np.ndarray, own: np.ndarray) -> None:
        """Count and sweep new pages.

        Args:
            pages: int32 [N], indexed.
            own: the pages of the member itself, whose policy statistics give columns their initial values.
        """
        for name, statistic in self._initial_from.items():
            values = self._index.pages.fields[f"mu/{statistic}"][own]
            self._columns.arrays[name][own] = values.reshape(len(own), self._index.unroll_length)
        rows = self._live_rows(pages)
        for far in self.far.values():
            far.update(rows)
        for retrace in self.retraces.values():
            retrace.sweep(pages, "episodes")
        if self.sums is not None:
            self.sums.add(rows)

    def written(self, writes: ColumnWrites) -> None:
        """Bring derived numbers up to date after a column write.

        Raises:
            PortError: a bound for a column without one, or final values of a wrong column or shape.
        """
        keys = writes.keys[self._index.pages.generation[writes.keys["page"]] == writes.keys["generation"]]
        pages = keys["page"].astype(np.int64)
        self._write_final(writes)
        for name, bound in writes.far_bounds.items():
            if name not in self.far or not bound > 1.0:
                raise PortError(f"far_bounds must be above 1 for columns of {sorted(self.far)}, got {name} {bound}")
            self.far[name].move_bound(bound)
        for name, far in self.far.items():
            if name in writes.values and len(keys):
                width = writes.values[name].shape[1]
                rows = (pages * self._index.unroll_length + keys["row"])[:, None] + np.arange(width)
                far.update(np.unique(rows))
        if writes.sweep is not None:
            for retrace in self.retraces.values():
                retrace.discount = writes.sweep.discount
                retrace.sweep(pages, writes.sweep.reach, writes.sweep.tolerance)

    def _write_final(self, writes: ColumnWrites) -> None:
        """Write the values of final observations: the rows without a transition that follow the keys' rows."""
        if not writes.final_values or not len(writes.keys):
            return
        index, length = self._index, self._index.unroll_length
        current = index.pages.generation[writes.keys["page"]] == writes.keys["generation"]
        pages, rows = writes.keys["page"].astype(np.int64), writes.keys["row"] + 1
        crosses = rows == length
        pages = np.where(crosses, index.next_page[pages], pages)
        rows = np.where(crosses, 0, rows)
        final = current & (pages != NO_PAGE) & ~index.pages.fields["valid"][pages, rows]
        for name, values in writes.final_values.items():
            if name not in self._columns.arrays or values.shape != (len(pages),):
                raise PortError(f"final values of column {name!r} must be [{len(pages)}], got {values.shape}")
            self._columns.arrays[name][pages[final], rows[final]] = values[final]

    def forget(self, episode: Episode) -> None:
        """Leave out the rows of an episode that `EpisodeIndex.forget` is about to remove."""
        whole = episode.finished or len(episode.pages) == 1
        pages = np.array(episode.pages if whole else episode.pages[:1], np.int64)
        rows = self._rows(pages)
        rows = rows[self._index.episode_of_row.reshape(-1)[rows] == episode.slot]
        for far in self.far.values():
            far.forget(episode.slot, rows)
        if self.sums is not None:
            self.sums.forget(rows)

    def statistics(self) -> dict[str, np.ndarray]:
        """Return sums that may be added over shards, by name; {} if the member needs none."""
        statistics = {} if self.sums is None else self.sums.sums
        if self.far:
            statistics["num_steps"] = np.array(float(self._index.num_steps))
            statistics |= {f"num_far/{name}": np.array(float(far.num_far)) for name, far in self.far.items()}
        return statistics

    def _rows(self, pages: np.ndarray) -> np.ndarray:
        length = self._index.unroll_length
        rows: np.ndarray = (pages.astype(np.int64)[:, None] * length + np.arange(length)).reshape(-1)
        return rows

    def _live_rows(self, pages: np.ndarray) -> np.ndarray:
        rows = self._rows(pages)
        live: np.ndarray = rows[self._index.episode_of_row.reshape(-1)[rows] != NO_EPISODE]
        return live

    @property
    def num_bytes(self) -> int:
        """Bytes held in arrays of the replay's size."""
        return sum(far.num_bytes for far in self.far.values()) + len(self.retraces) * 4 * self._index.pages.num_pages

    def state_dict(self) -> dict[str, Any]:
        """Return the state, without index and columns."""
        return {
            "far": {name: far.state_dict() for name, far in self.far.items()},
            "discounts": {name: retrace.discount for name, retrace in self.retraces.items()},
            "step_sums": {} if self.sums is None else self.sums.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`. Index and columns must be restored before, and far counts be 0."""
        for name, far in self.far.items():
            far.load_state_dict(state["far"][name])
        for name, retrace in self.retraces.items():
            retrace.discount = float(state["discounts"][name])
        if self.sums is not None:
            # Older states have the sums at the top level instead of under `step_sums`.
            self.sums.load_state_dict(state.get("step_sums", state))

    def check_valid(self) -> None:
        """Assert that counts and sums equal a recount; for tests."""
        for far in self.far.values():
            far.check_valid()
        if self.sums is not None:
            fresh = StepSums(self._index)
            fresh.recount()
            for name, value in fresh.sums.items():
                np.testing.assert_allclose(self.sums.sums[name], value, rtol=1e-9, atol=1e-6)
