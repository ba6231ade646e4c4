"""Loops over coded rows, compiled for each type of rows when it is first met."""

from concurrent.futures import ThreadPoolExecutor
from itertools import product
from threading import Barrier

import numpy as np
import pytest

from privfit.data.row_types import VECTOR, for_coded_rows

KINDS = list(product((np.float64, np.float32), (np.uint8, np.uint16)))


def totals(numbers, codes, out):
    """Fill ``out`` with the sums of the rows' numbers and codes."""
    for i in range(out.size):
        out[i] = numbers[i, 0] + codes[i, 0]


def rows(number=np.float64, code=np.uint8, width=1):
    column = np.arange(5)[:, None] * np.ones(width)
    return (0.1 * column).astype(number), (50 * column).astype(code)


def test_types_that_threads_meet_at_once_are_kept_apart():
    loop, at_once = for_coded_rows(VECTOR)(totals), Barrier(8)

    def call(kinds):
        (numbers, codes), out = rows(*kinds), np.empty(5)
        at_once.wait()
        loop(numbers, codes, out)
        return out - (numbers + codes)[:, 0]

    with ThreadPoolExecutor(8) as pool:
        np.testing.assert_allclose(list(pool.map(call, 2 * KINDS)), 0.0, atol=1e-5)


def test_protected_rows_are_read_and_rows_of_another_order_refused():
    loop, out = for_coded_rows(VECTOR)(totals), np.empty(5)
    for array in (both := rows()):
        array.flags.writeable = False
    loop(*both, out)
    np.testing.assert_allclose(out, 50.1 * np.arange(5))
    (numbers, codes), (wide, wide_codes) = rows(), rows(width=2)
    for arguments in ((wide[:, ::2], codes, out), (numbers, wide_codes[:, ::2], out), (*both, out[::-1])):
        with pytest.raises(TypeError):
            loop(*arguments)
