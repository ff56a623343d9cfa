"""Pages: preallocated memory for one unroll each."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from replay_server.storage.free_list import FreeList

_GENERATIONS_PER_LIFE = 2**32


class Pages:
    """All uncompressed fields of `num_pages` unrolls, and the number of references to each page. Not thread-safe.

    A reference is an episode's segment or an entry of an online queue. A page is freed with its last reference; its
    generation then increases, so that keys handed out before are stale. All memory is touched at construction: a
    replay that exceeds the memory fails at the start of a run and not after hours.

    Args:
        spec: the layout of one unroll.
        num_pages: number of unrolls that fit.
    """

    def __init__(self, spec: UnrollSpec, num_pages: int):
        self.spec = spec
        self.num_pages = num_pages
        self.headers = _touched((num_pages,), HEADER_DTYPE)
        # NumPy copies structured items one by one; gathering plain words is six times faster.
        self._header_words = self.headers.view(np.int32).reshape(num_pages, -1)
        self.fields = {
            name: _touched((num_pages, *spec.shape(name)), np.dtype(field.array.dtype))
            for name, field in spec.fields.items()
        }
        self.generation = _touched((num_pages,), np.dtype(np.int64))
        self.references = _touched((num_pages,), np.dtype(np.int32))
        self._least_generation = 0
        self.num_inserted = 0
        self._positions = _touched((num_pages,), np.dtype(np.int64))  # place in the order of insertion
        self.free = FreeList(num_pages)
        # The same memory with one row per line, for gathering single rows.
        self.rows = {
            name: self.fields[name].reshape(-1, *field.array.shape)
            for name, field in spec.fields.items()
            if field.rows != "once"
        }

    def insert(self, unrolls: Unrolls, keep: np.ndarray) -> np.ndarray:
        """Copy the unrolls `keep` (int [N]) into free pages, without references yet; return the pages, int32 [N]."""
        pages = self.free.take(len(keep))
        everything = len(keep) == len(unrolls)
        self.headers[pages] = unrolls.headers if everything else unrolls.headers[keep]
        for name, column in self.fields.items():
            values = unrolls.fields[name]
            column[pages] = values if everything else values[keep]
        self._positions[pages] = np.arange(self.num_inserted, self.num_inserted + len(keep))
        self.num_inserted += len(keep)
        return pages

    def gather(self, pages: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return copies of headers [N] and fields by name [N, ...] of `pages`."""
        fields = {name: column.take(pages, axis=0) for name, column in self.fields.items()}
        return self.gather_headers(pages), fields

    def gather_headers(self, pages: np.ndarray) -> np.ndarray:
        """Return copies of the headers of `pages`, HEADER_DTYPE [N]."""
        headers: np.ndarray = self._header_words.take(pages, axis=0).view(HEADER_DTYPE)[:, 0]
        return headers

    def ages(self, pages: np.ndarray) -> np.ndarray:
        """Return the number of unrolls inserted after each of `pages`, int64 [N]."""
        ages: np.ndarray = self.num_inserted - 1 - self._positions[pages]
        return ages

    def retain(self, pages: np.ndarray, num: np.ndarray | int = 1) -> None:
        """Add references to distinct pages."""
        self.references[pages] += num

    def release(self, pages: np.ndarray) -> np.ndarray:
        """Drop one reference to each of these distinct pages; return the pages that became free."""
        self.references[pages] -= 1
        freed: np.ndarray = pages[self.references[pages] == 0]
        self.generation[freed] = np.maximum(self.generation[freed] + 1, self._least_generation)
        self.free.give(freed)
        return freed

    def outdate(self, num_lives: int) -> None:
        """Make keys stale that earlier lives of these pages gave out, except those to the unrolls that are stored.

        Args:
            num_lives: number of earlier lives since the state that these pages were restored from, at least 1.
        """
        known_lives = int(self.generation.max()) // _GENERATIONS_PER_LIFE
        self._least_generation = (known_lives + num_lives) * _GENERATIONS_PER_LIFE
        self.generation[self.free.is_free()] = self._least_generation

    @property
    def num_used(self) -> int:
        """Pages that hold an unroll."""
        return self.num_pages - len(self.free)

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        columns = sum(column.nbytes for column in self.fields.values())
        book_keeping = self.generation.nbytes + self.references.nbytes + self._positions.nbytes + self.free.num_bytes
        return columns + self.headers.nbytes + book_keeping

    def positions(self, pages: np.ndarray) -> np.ndarray:
        """Return the place of each of `pages` in the order of insertion, int64 [N]."""
        positions: np.ndarray = self._positions[pages]
        return positions

    def state_dict(self, with_contents: bool = True) -> dict[str, Any]:
        """Return the state, with the contents of used pages only, or without any contents."""
        used = np.flatnonzero(~self.free.is_free())
        headers, fields = self.gather(used) if with_contents else (None, None)
        return {
            "used": used,
            **({"headers": headers, "fields": fields} if with_contents else {}),
            "generation": self.generation.copy(),
            "references": self.references.copy(),
            "positions": self._positions.copy(),
            "num_inserted": self.num_inserted,
            "free": self.free.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        used = state["used"]
        if len(used):
            self.headers[used] = state["headers"]
            for name, column in self.fields.items():
                column[used] = state["fields"][name]
        self.generation[:] = state["generation"]
        self.references[:] = state["references"]
        self._positions[:] = state["positions"]
        self.num_inserted = state["num_inserted"]
        self.free.load_state_dict(state["free"])


def _touched(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    array = np.empty(shape, dtype)
    # np.zeros would leave the memory to be mapped page by page as it is first used.
    array[...] = np.zeros((), dtype)
    return array
