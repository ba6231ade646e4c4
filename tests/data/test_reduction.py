"""Chunks are added by a balanced tree whose order depends on their number alone."""

import numpy as np
import pytest

from privfit.data import reduction
from privfit.data.reduction import (
    CHUNK_ROWS,
    GROUP_ROWS,
    chunk_rows,
    each_stretch,
    slab_rows,
    slab_terms,
    slabs,
    sum_chunks,
    summation_error,
    tree_sum,
)


def terms(chunks: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(chunks)
    return rng.normal(size=(chunks, size)) * 10.0 ** rng.integers(-8, 9, size=(chunks, 1))


def balanced(each: np.ndarray) -> np.ndarray:
    """Return the sum of terms: that of the most that are a power of 2, but not all, plus the others'."""
    if len(each) == 1:
        return each[0]
    first = 1 << ((len(each) - 1).bit_length() - 1)
    return balanced(each[:first]) + balanced(each[first:])


@pytest.mark.parametrize("size", [1, 3, 2**13, 2**18])
@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 31, 32, 33, 64, 65, 100, 129, 1000])
def test_sum_is_that_of_a_tree_over_one_chunk_after_the_other(chunks, size):
    """To the last digit, however many of them are worked on together."""
    if chunks * size > 2**22:
        chunks = 2**22 // size
    each = terms(chunks, size)

    def work(first, last, out):
        out += each[first:last]

    found = sum_chunks(work, chunks, size)
    np.testing.assert_array_equal(found, balanced(each))
    np.testing.assert_array_equal(found, tree_sum(iter(each)))


@pytest.mark.parametrize("entries", [2**8, 2**9, 2**18])
@pytest.mark.parametrize("chunks", [7, 23, 83, 1003, 4931, 4963])
def test_what_remains_of_a_part_is_added_as_in_the_whole_tree(chunks, entries, monkeypatch):
    """After some chunks at a time fewer are left, and no power of 2 of them."""
    monkeypatch.setattr(reduction, "_ENTRIES", entries)
    each = np.random.default_rng(chunks).normal(size=(chunks, 64))

    def work(first, last, out):
        out += each[first:last]

    np.testing.assert_array_equal(sum_chunks(work, chunks, 64), balanced(each))


def test_tree_adds_neighbours_first():
    a, b, c, d, e = (np.array([number]) for number in (1.0, 2.0**-53, 2.0**-53, -1.0, 2.0**-60))
    assert tree_sum([a, b, c, d, e])[0] == ((a + b) + (c + d))[0] + e[0]
    assert tree_sum([a, b, c, d, e])[0] != ((a + (b + c)) + d)[0] + e[0]


def test_no_chunks_have_sum_zero():
    np.testing.assert_array_equal(sum_chunks(lambda first, last, out: None, 0, 3), np.zeros(3))


class Counted:
    """A term that knows in how many additions one of those that it is made of took part at most."""

    def __init__(self, additions=0, terms=1):
        self.additions, self.terms = additions, terms

    def __add__(self, other):
        return Counted(max(self.additions, other.additions) + 1, self.terms + other.terms)

    def copy(self):
        return self


@pytest.mark.parametrize("chunks", [*range(1, 40), 1000, 4095, 4096, 4097])
def test_the_error_counts_all_additions_of_the_tree(chunks):
    total = tree_sum(Counted() for _ in range(chunks))
    assert total.terms == chunks
    for n_rows in (chunks * CHUNK_ROWS, (chunks - 1) * CHUNK_ROWS + 1):
        for terms in (CHUNK_ROWS, 160):
            within = min(n_rows, terms)
            assert summation_error(n_rows, terms) >= 2.0 * (within + total.additions) * 2.0**-53


@pytest.mark.parametrize(
    ("n_rows", "additions"),
    [(0, 1), (1, 2), (4096, 4097), (4097, 4098), (8192, 4098), (8193, 4099), (163840, 4103)],
)
def test_the_error_is_twice_a_rounding_for_each_addition(n_rows, additions):
    assert CHUNK_ROWS == 4096
    assert summation_error(n_rows) == additions * 2.0**-52
    assert summation_error(n_rows, 10) == (min(n_rows, 10) + additions - min(n_rows, 4096)) * 2.0**-52


def test_chunks_are_whole_groups_and_hold_each_row_once():
    assert CHUNK_ROWS % GROUP_ROWS == 0
    assert chunk_rows(2, 4) == [slice(2 * CHUNK_ROWS, 3 * CHUNK_ROWS), slice(3 * CHUNK_ROWS, 4 * CHUNK_ROWS)]
    assert chunk_rows(5, 5) == []


@pytest.mark.parametrize("n_rows", [0, 1, 4 * CHUNK_ROWS, 4 * CHUNK_ROWS + 1, 77 * CHUNK_ROWS - 5])
def test_stretches_are_whole_chunks_that_hold_each_row_once(n_rows):
    times = np.zeros(n_rows)

    def work(rows):
        assert rows.start % CHUNK_ROWS == rows.stop % CHUNK_ROWS == 0
        times[rows] += 1.0
        np.log(-times[rows])  # a warning would be an error

    each_stretch(work, n_rows)
    assert (times == 1.0).all()


@pytest.mark.parametrize("chunks", [1, 5, 70, 1000])
def test_chunks_without_a_sum_are_worked_on_once(chunks):
    times = np.zeros(chunks)

    def work(first, last, out):
        assert out.shape == (last - first, 0)
        times[first:last] += 1.0

    assert sum_chunks(work, chunks, 0).shape == (0,)
    assert (times == 1.0).all()


@pytest.mark.parametrize("width", [0, 1, 100, 128, 200, 1000])
def test_slabs_have_at_least_as_many_rows_as_numbers_and_fit_the_cache_where_that_allows(width):
    length = slab_rows(width)
    assert length >= max(width, 256)
    assert length * max(width, 1) <= 2**15 or length == max(width, 256)
    parts = slabs(slice(0, CHUNK_ROWS), width)
    assert {part.stop - part.start for part in parts[:-1]} <= {length}
    assert slab_rows(1) == slab_rows(0) == 2**15
    assert slab_terms(width) == min(length, CHUNK_ROWS) + 2 + len(parts)


@pytest.mark.parametrize("size", [0, 1, 2**11, 2**13, 2**14, 2**17, 2**20])
@pytest.mark.parametrize("chunks", [1, 4, 5, 32, 33, 64, 100, 1000, 100_000])
def test_there_are_parts_for_threads_and_little_is_set_aside(chunks, size, monkeypatch):
    """At most 64 chunks are worked on together, and no more numbers than one sum has or `_ENTRIES`."""
    seen, lengths = [], []

    def look(one_part, parts):
        seen.append(parts)
        if chunks <= 33 or size < 2**14:
            one_part(parts - 1)

    def work(first, last, out):
        assert out.shape == (last - first, size)
        lengths.append(last - first)

    monkeypatch.setattr(reduction, "each_part", look)
    monkeypatch.setattr(reduction, "tree_sum", lambda _: np.zeros(size))
    sum_chunks(work, chunks, size)
    (parts,) = seen
    wanted = min(max(2**18 // max(size, 1), 4), 32)
    assert min(chunks, wanted) <= 2 * parts <= 2 * wanted
    assert all(length * size <= max(2**18, size) for length in lengths)
    assert max(lengths, default=0) <= 64
    if chunks == 100_000 and size < 2**14:
        assert max(lengths) == min(64, 2**18 // max(size, 1))
