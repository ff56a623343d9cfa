"""Episodes over pages, one small story each; random ones are told to the store and its naive twin."""

import json

import numpy as np
import pytest
from replay_helpers import make_spec

from laser.unroll import HEADER_DTYPE, Unrolls
from replay_server.storage.episode_index import NO_EPISODE, NO_PAGE, EpisodeIndex
from replay_server.storage.pages import Pages

LENGTH = 4
KEY = (1, 0, 0, 0)


class Book:
    """An index to which unrolls are written as strings: a row is `b` or `B` where an episode begins, `-` or `+` else.

    Capital letters and `+` are steps; the others, rows without a transition. The fifth row is the next unroll's first.
    """

    def __init__(self, num_pages=8):
        self.spec = make_spec(LENGTH)
        self.pages = Pages(self.spec, num_pages)
        self.index = EpisodeIndex(self.pages, LENGTH)
        self.sequences = {}

    def append(self, *texts, key=KEY, skip=0):
        numbers = []
        for text in texts:
            fields = {
                name: np.zeros((1, *self.spec.shape(name)), item.array.dtype) for name, item in self.spec.fields.items()
            }
            fields["first"][0] = [row in "bB" for row in text]
            fields["valid"][0] = [row in "B+" for row in text[:LENGTH]]
            pages = self.pages.insert(Unrolls(np.zeros(1, HEADER_DTYPE), fields), np.arange(1))
            sequence = self.sequences.get(key, 0) + skip
            self.sequences[key] = sequence + 1
            self.index.append(pages, [key], [sequence])
            self.index.check_valid()
            numbers += pages.tolist()
        return numbers

    def forget(self, episode):
        freed = self.index.forget(episode)
        self.index.check_valid()
        return sorted(freed.tolist())


def numbers_of(index, *names):
    return [tuple(getattr(episode, name) for name in names) for episode in index.episodes.values()]


def test_an_episode_is_cut_out_of_the_middle_of_a_page():
    book = Book()
    one, two = book.append("B++-B", "B+++b")
    first, second = book.index.episodes.values()
    assert (first.pages, first.start_row, first.stop_row, first.num_steps) == ([one], 0, 4, 3)
    assert (second.pages, second.start_row, second.stop_row, second.num_steps) == ([two], 0, 4, 4)
    assert numbers_of(book.index, "finished", "complete", "ended", "streamable") == [(True,) * 4] * 2
    inside = Book()
    (page,) = inside.append("B-B++")
    assert inside.index.begins_inside[page]
    assert not book.index.begins_inside[[one, two]].any()
    first, second = inside.index.episodes.values()
    assert (first.stop_row, second.start_row, second.finished) == (2, 2, False)
    assert inside.index.episode_of_row[page].tolist() == [first.slot, NO_EPISODE, second.slot, second.slot]
    assert inside.pages.references[page] == 2


def test_the_rows_of_an_episode_are_all_between_its_first_and_its_last():
    book = Book()
    book.append("B-B++", "+++++", "+-B++")
    _, middle, _ = book.index.episodes.values()
    assert book.index.num_rows(middle) == 2 + 4 + 2
    assert middle.num_steps == 2 + 4 + 1
    assert book.index.num_streamable == 2
    assert book.index.num_streamable_steps == 1 + 7
    assert book.index.longest_streamable == 7


def test_a_gap_ends_an_episode_that_is_not_whole():
    book = Book()
    one, two = book.append("B++++", "+++++")
    (three,) = book.append("+++++", skip=1)
    before, after = book.index.episodes.values()
    assert (before.finished, before.ended, before.streamable) == (True, False, False)
    assert (after.finished, after.complete) == (False, False)
    assert book.index.next_page[[one, two, three]].tolist() == [two, NO_PAGE, NO_PAGE]
    assert book.index.num_streamable == 0


def test_streams_do_not_continue_each_other():
    book = Book()
    book.append("B++++")
    book.append("+++++", key=(1, 0, 0, 1))
    assert numbers_of(book.index, "num_steps", "complete") == [(4, True), (4, False)]
    assert (book.index.next_page == NO_PAGE).all()


def test_a_stream_that_is_closed_leaves_its_episode_finished_where_it_stands():
    book = Book()
    book.append("B++++")
    book.index.close_stream((9, 9, 9, 9))
    assert not book.index.finished
    book.index.close_stream(KEY)
    book.index.check_valid()
    assert numbers_of(book.index, "finished", "ended") == [(True, False)]
    # What came after is told from it, though its number follows.
    book.append("+++++")
    assert numbers_of(book.index, "finished", "complete") == [(True, True), (False, False)]


def test_a_page_goes_with_the_last_episode_that_has_rows_of_it():
    book = Book()
    one, two = book.append("B+-B+", "++-Bb")
    first, second = (e for e in book.index.episodes.values() if e.num_steps > 1)
    assert book.forget(first) == []
    assert book.index.episode_of_row[one].tolist() == [NO_EPISODE] * 3 + [second.slot]
    assert book.forget(second) == [one]
    # Row 3 of the second page began one more.
    (third,) = book.index.episodes.values()
    assert book.forget(third) == [two]
    assert book.index.num_steps == 0
    assert len(book.index.live_pages) == 0
    assert len(book.pages.free) == book.pages.num_pages


def test_a_page_that_is_gone_is_no_neighbour():
    book = Book()
    one, two, three = book.append("B++-B", "B++-B", "B++-b")
    assert book.index.next_page[[one, two, three]].tolist() == [two, three, NO_PAGE]
    assert book.index.previous_page[[one, two, three]].tolist() == [NO_PAGE, one, two]
    middle = next(episode for episode in book.index.episodes.values() if episode.pages == [two])
    assert book.forget(middle) == [two]
    assert (book.index.next_page == NO_PAGE).all()
    assert (book.index.previous_page == NO_PAGE).all()


def test_a_long_episode_is_forgotten_with_the_pages_between():
    book = Book()
    pages = book.append("b-B++", "+++++", "+++++", "+-B++")
    book.index.close_stream(KEY)
    *_, long, last = book.index.episodes.values()
    assert book.forget(long) == pages[1:3]
    live = book.index.episode_of_row
    assert sorted(zip(*(part.tolist() for part in np.nonzero(live != NO_EPISODE)), strict=True)) == [
        (pages[3], 2),
        (pages[3], 3),
    ]
    assert book.index.num_steps == last.num_steps == 2


def test_an_open_episode_is_forgotten_from_its_oldest_page_on():
    book = Book()
    _, two, three = book.append("-B+++", "+++++", "+++++")
    episode = list(book.index.open.values())[-1]
    # The first page holds a row of the episode before as well.
    for freed, num_steps, order in (([], 8, 1), ([two], 4, 2)):
        assert book.forget(episode) == freed
        assert (episode.num_steps, episode.complete, episode.start_row) == (num_steps, False, 0)
        assert episode.first_order == order
        assert not episode.finished
    assert book.forget(episode) == [three]
    assert not book.index.open
    # The stream begins an episode of its own after that.
    book.append("+++++")
    assert numbers_of(book.index, "num_steps", "complete")[-1] == (4, False)


def test_a_pinned_episode_cannot_be_forgotten():
    book = Book()
    book.append("B++-b")
    (episode,) = book.index.episodes.values()
    book.index.pin(episode)
    book.index.pin(episode)
    book.index.unpin(episode)
    with pytest.raises(AssertionError):
        book.index.forget(episode)
    book.index.unpin(episode)
    with pytest.raises(AssertionError):
        book.index.unpin(episode)
    book.forget(episode)


def test_an_open_episode_cannot_be_pinned():
    book = Book()
    book.append("B++++")
    with pytest.raises(AssertionError):
        book.index.pin(*book.index.open.values())


def test_an_episode_without_steps_is_none_that_can_be_drawn():
    book = Book()
    book.append("b-B++")
    empty, full = book.index.episodes.values()
    assert not empty.streamable
    assert book.index.live_episodes.items.tolist() == [full.slot]


def test_a_longest_episode_is_remembered_when_it_is_gone():
    book = Book()
    book.append("B+++B", "+++-b")
    longest = max(book.index.episodes.values(), key=lambda episode: episode.num_steps)
    num_steps = longest.num_steps
    book.forget(longest)
    assert book.index.longest_streamable == num_steps


def test_a_restored_index_goes_on_as_if_nothing_had_happened():
    book, other = Book(), Book()
    book.append("B-B++", "+++-b", "B++++")
    book.append("B++-b", key=(1, 0, 0, 1))
    book.forget(next(iter(book.index.finished.values())))
    book.index.pin(next(iter(book.index.finished.values())))
    state = book.index.state_dict()
    plain = json.loads(json.dumps(state, default=lambda array: array.tolist()))
    kept = {name: np.array(plain[name]) if isinstance(value, np.ndarray) else value for name, value in state.items()}
    other.pages.load_state_dict(book.pages.state_dict())
    other.index.load_state_dict(kept)
    other.sequences = dict(book.sequences)
    # Who pinned it pins it again.
    book.index.unpin(next(iter(book.index.finished.values())))
    for each in (book, other):
        each.index.check_valid()
        each.append("+++-b", "B++++")
        each.forget(next(iter(each.index.finished.values())))
    assert book.index.episodes == other.index.episodes
    assert list(book.index.finished) == list(other.index.finished)
    assert book.index.num_streamable_steps == other.index.num_streamable_steps
    np.testing.assert_array_equal(book.index.episode_of_row, other.index.episode_of_row)
    np.testing.assert_array_equal(book.index.next_page, other.index.next_page)


@pytest.mark.parametrize("name", ["episode_of_row", "num_segments", "next_page", "order", "steps_of_episode"])
def test_a_number_that_is_off_is_noticed(name):
    book = Book()
    (page,) = book.append("B++++")
    (episode,) = book.index.episodes.values()
    getattr(book.index, name)[episode.slot if name == "steps_of_episode" else page] += 1
    with pytest.raises(AssertionError):
        book.index.check_valid()
