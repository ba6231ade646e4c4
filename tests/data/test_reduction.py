"""Chunks are added by a balanced tree whose order depends on their number alone."""

import numpy as np
import pytest

from privfit.data.reduction import sum_chunks, tree_sum


def terms(chunks: int, size: int) -> np.ndarray:
    rng = np.random.default_rng(chunks)
    return rng.normal(size=(chunks, size)) * 10.0 ** rng.integers(-8, 9, size=(chunks, 1))


@pytest.mark.parametrize("size", [1, 3, 2**13, 2**18])
@pytest.mark.parametrize("chunks", [1, 2, 3, 5, 31, 32, 33, 64, 65, 100, 129, 1000])
def test_sum_is_that_of_a_tree_over_one_chunk_after_the_other(chunks, size):
    """To the last digit, however many of them are worked on together."""
    if chunks * size > 2**22:
        chunks = 2**22 // size
    each = terms(chunks, size)

    def work(first, last, out):
        out += each[first:last]

    np.testing.assert_array_equal(sum_chunks(work, chunks, size), tree_sum(iter(each)))


def test_tree_adds_neighbours_first():
    a, b, c, d, e = (np.array([number]) for number in (1.0, 2.0**-53, 2.0**-53, -1.0, 2.0**-60))
    assert tree_sum([a, b, c, d, e])[0] == ((a + b) + (c + d))[0] + e[0]
    assert tree_sum([a, b, c, d, e])[0] != ((a + (b + c)) + d)[0] + e[0]


def test_no_chunks_have_sum_zero():
    np.testing.assert_array_equal(sum_chunks(lambda first, last, out: None, 0, 3), np.zeros(3))
