"""The difference of a row is within its ball in exact arithmetic, not up to rounding."""

from fractions import Fraction

import numpy as np
import pytest

from privfit.data.blocks import Block
from privfit.procedures.differences import RoundRows, WeightedDifference

from .one_pass import Linear


def exact_norm_power(vector, norm):
    """Return the sum of the entries' powers, or the largest entry."""
    entries = [abs(entry) for entry in vector]
    return max(entries) if norm == np.inf else sum(entry ** int(norm) for entry in entries)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, np.inf])
def test_a_difference_that_is_too_large_ends_inside_of_its_ball(norm):
    """With a limit at the very radius, rounding would leave some of these outside."""
    rng, size, nothing = np.random.default_rng(3), 7, np.zeros(7)
    difference = WeightedDifference(Linear(), size, 1, norm)
    for _ in range(400):
        row = rng.normal(size=(1, size)) * 10.0 ** rng.uniform(1, 6)
        radius, center = rng.uniform(0.1, 3.0), nothing
        if norm == 2.0:
            center = rng.normal(size=size)
            center *= rng.uniform(0.0, radius) / np.linalg.norm(center)
        one = RoundRows(Block(row, np.ones(1), np.ones(1)), 0, 1)
        held = difference.mean(one, (nothing, nothing), (1.0, 0.0), (center, radius))
        apart = [Fraction(a) - Fraction(b) for a, b in zip(held.tolist(), center.tolist(), strict=True)]
        limit = Fraction(radius) ** (1 if norm == np.inf else int(norm))
        size_of_it = exact_norm_power(apart, norm)
        assert size_of_it <= limit
        assert size_of_it >= limit * (1 - Fraction(1, 10**9))
