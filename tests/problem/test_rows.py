"""Exact answers about rows, for procedures: sums of what is not finite, and over chosen rows."""

import numpy as np
import pytest

from privfit.data.reduction import CHUNK_ROWS
from privfit.data.source import ArraySource
from privfit.losses import Logistic
from privfit.problem.rows import Rows

from .conftest import make_problem


class Overflowing:
    """A source whose sums are not finite in two of three entries."""

    @staticmethod
    def sum(kernel, length):
        return np.array([np.nan, -np.inf, 14.0])


def test_what_is_not_finite_counts_nothing():
    rows = Rows(make_problem(Logistic(), n_rows=7), Overflowing())
    np.testing.assert_array_equal(rows.sum(None, 3), [0.0, 0.0, 14.0])
    np.testing.assert_array_equal(rows.mean("gradient", np.zeros(3)), [0.0, 0.0, 2.0])


@pytest.mark.parametrize("count", [0, 1, CHUNK_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + 5])
def test_a_sum_over_chosen_rows_counts_each_as_often_as_it_was_chosen(count, rng):
    x, y = rng.normal(size=(10, 3)), rng.integers(0, 2, 10).astype(float)
    problem, at = make_problem(Logistic(), n_rows=10), np.array([0.2, -0.4, 0.1])
    rows = Rows(problem, ArraySource(x, y, norm_bound=problem.norm_bound))
    alone = [
        10.0 * Rows(problem, ArraySource(x[i : i + 1], y[i : i + 1], norm_bound=1.5)).mean("gradient", at)
        for i in range(10)
    ]
    chosen = rng.integers(0, 10, count)
    expected = np.bincount(chosen, minlength=10) @ np.array(alone)
    np.testing.assert_allclose(rows.sum_over(chosen, "gradient", at), expected, rtol=1e-10, atol=1e-12)
