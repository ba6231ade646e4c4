"""When two classes of residuals count as neighbours on a grid, and how far apart they are then."""

import itertools
import math

import numpy as np
import pytest

from privfit.problem.share_kernels import SIDE_CLASSES
from privfit.solvers.residuals import BOTH_EDGES, EDGES, Residuals
from privfit.solvers.spacing import spacing

SHARE = 0.4
MANY = 10**15
"""Rows among which shares are not uneven by chance."""


def seen(shares, noise=1e-9):
    """A look that shows these shares by the number of the class: -1 is next to 0 and below it, 0 above."""
    found = np.zeros(2 * SIDE_CLASSES)
    for number, share in shares.items():
        found[SIDE_CLASSES + number] = share
    return Residuals(found, noise)


def upper(number):
    return BOTH_EDGES[SIDE_CLASSES + number + 1]


def lower(number):
    return BOTH_EDGES[SIDE_CLASSES + number]


GRID = {-12: 0.1, -9: 0.2, 9: 0.3, 13: 0.3, 15: 0.1}


def test_neighbours_are_as_far_apart_as_their_outer_edges():
    assert spacing(seen(GRID), SHARE, MANY) == upper(9) - lower(-9)


@pytest.mark.parametrize("missing", [(8, 9), (-11, -10), (8, 9, -12, -13)])
def test_a_hole_in_a_density_is_no_gap_of_a_grid(missing):
    """Even residuals about 0, of which some are missing: those before the hole reach further than it does."""
    shares = {k: 0.5 * (EDGES[k] - EDGES[k - 1]) for k in range(1, 20)}
    shares |= {0: 0.5 * EDGES[0], -1: 0.5 * EDGES[0]} | {-1 - k: shares[k] for k in range(1, 20)}
    left = {k: share for k, share in shares.items() if k not in missing}
    assert spacing(seen(left), SHARE, MANY) == 0.0


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gap_that_is_nearest_to_a_heap_at_0_counts(sign):
    look = seen({-13: 0.1, -12: 0.2, -1: 0.2, 0: 0.2, 10: 0.2, 13: 0.1})
    look = look if sign == 1 else Residuals(look.shares[::-1], look.noise)
    assert spacing(look, SHARE, MANY) == upper(10) - lower(0)


def test_what_lies_before_a_gap_may_be_as_long_as_it():
    """From one gap to the next; below the lowest residual there is none."""
    assert spacing(seen({-1: 0.3, 0: 0.3, 8: 0.2, 10: 0.2}), 0.4, MANY) == upper(8) - lower(0)
    assert spacing(seen({-15: 0.3, 5: 0.3, 8: 0.2}), 0.3, MANY) == upper(5) - lower(-15)
    runs = dict.fromkeys(range(-9, 1), 0.1)
    assert spacing(seen({**runs, 4: 0.1}), 0.3, MANY) == 0.0


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("longest", "shown"), [(8, True), (9, False)])
def test_residuals_before_a_gap_are_counted_to_the_outer_edge_of_the_last(longest, shown, sign):
    look = seen(dict.fromkeys(range(-longest, 1), 0.05) | {9: 0.5})
    look = look if sign == 1 else Residuals(look.shares[::-1], look.noise)
    assert spacing(look, 0.6, MANY) == (upper(9) - lower(0) if shown else 0.0)


def test_gaps_beyond_the_share_that_is_near_do_not_count():
    """All but a few residuals are in neighbouring classes about 0, and those few are far."""
    near = {-10: 0.2, -9: 0.1, -8: 0.1, -7: 0.1, -6: 0.1} | dict.fromkeys(range(-5, 10), 0.025)
    assert spacing(seen(near | {14: 0.02}), 0.05, MANY) == 0.0
    assert spacing(seen(near | {14: 0.02}), 0.999, MANY) == 0.0


@pytest.mark.parametrize("shares", [{}, {3: 1.0}, {3: 1.0, -4: 3e-9}])
def test_fewer_than_two_classes_that_noise_does_not_hide_have_no_gap(shares):
    assert spacing(seen(shares), SHARE, MANY) == 0.0


def test_two_classes_are_enough():
    assert spacing(seen({-9: 0.5, 12: 0.5}), SHARE, MANY) == upper(12) - lower(-9)


def test_a_heap_next_to_0_does_not_say_how_dense_others_are():
    """Were they as dense as those in its class, the rows below 0, which noise hides, would be few."""
    for sign in (1, -1):
        shares = {0: 0.42, -9: 0.25, 10: 0.25} | dict.fromkeys(range(-8, 0), 0.01)
        look = seen(shares, 0.003)
        look = look if sign == 1 else Residuals(look.shares[::-1], look.noise)
        assert spacing(look, 0.5, MANY) == upper(10) - lower(0)


def test_a_look_that_shows_too_few_residuals_shows_no_gap():
    assert spacing(seen({-9: 0.1, 9: 0.1}), 0.4, MANY) == 0.0


def by_definition(look, share, n_rows):
    """Distances of the outer edges of neighbouring classes, the nearest to 0 first, 0 if none of a grid."""
    shares, noise, widths = look.shares, look.noise, np.diff(EDGES, prepend=0.0)
    held = [k for k in range(2 * SIDE_CLASSES) if shares[k] > 3.5 * noise]
    size_of = [
        SIDE_CLASSES - 1 - k if k < SIDE_CLASSES else k - SIDE_CLASSES for k in range(2 * SIDE_CLASSES)
    ]
    sizes, beside = np.zeros(SIDE_CLASSES), np.zeros(SIDE_CLASSES)
    nearest = min(held, key=lambda k: (size_of[k], k), default=None)
    for k in range(2 * SIDE_CLASSES):
        sizes[size_of[k]] += shares[k]
        beside[size_of[k]] += shares[k] * (k != nearest)
    least_squares = [
        EDGES[m] * (beside[: m + 1] @ widths[: m + 1]) / (widths[: m + 1] @ widths[: m + 1])
        for m in range(SIDE_CLASSES - 1)
    ]
    last = next((m for m, within in enumerate(least_squares) if within >= share), None)
    if last is None:
        return []
    certain = max(sizes[: last + 1].sum() - 3.5 * noise * math.sqrt(2 * (last + 1)), 0.0)
    gaps = []
    for left, right in itertools.pairwise(held):
        between = range(left + 1, right)
        low, high = BOTH_EDGES[left + 1], BOTH_EDGES[right]
        few = 0.25 * certain * (high - low) / (2.0 * EDGES[last])
        chance = math.sqrt(noise**2 * len(between) + few / n_rows)
        if sum(shares[k] for k in between) < few - 3.5 * chance:
            gaps.append((low, high, BOTH_EDGES[right + 1] - BOTH_EDGES[left]))
    ends = [BOTH_EDGES[held[0]], *(high for _, high, _ in gaps)]
    starts = [*(low for low, _, _ in gaps), BOTH_EDGES[held[-1] + 1]]
    found = []
    for k, (low, high, distance) in enumerate(gaps):
        away = 0.0 if low <= 0.0 <= high else max(abs(low), abs(high))
        before = low - ends[k] if low > 0.0 else starts[k + 1] - high
        found.append((away, distance, away <= EDGES[last] and (away == 0.0 or before <= high - low)))
    return [distance * counts for _, distance, counts in sorted(found, key=lambda one: one[0])]


def test_looks_with_noise_and_few_rows_between_are_judged_by_the_definition():
    """Grids of all kinds, a part of the rows even between their numbers, in tables of all sizes."""
    rng, kinds = np.random.default_rng(21), {"none": 0, "one": 0, "several": 0}
    for _ in range(1500):
        step = rng.choice([0.02, 0.1, 0.3])
        numbers = step * (rng.integers(-5, 6, 400) + rng.random()) + rng.choice([0.0, 0.3]) * step
        numbers = np.where(rng.random(400) < rng.choice([0.0, 0.03, 0.3]), rng.normal(size=400), numbers)
        shares = np.histogram(np.clip(numbers, -1.0, 1.0), BOTH_EDGES)[0] / 400.0
        noise = rng.choice([1e-9, 1e-3, 5e-3])
        look = Residuals(shares + noise * rng.normal(size=shares.size), noise)
        n_rows, share = int(rng.choice([300, 5000, MANY])), rng.choice([0.2, 0.4, 0.5])
        distances = by_definition(look, share, n_rows)
        assert spacing(look, share, n_rows) == pytest.approx(distances[0] if distances else 0.0, rel=1e-12)
        kinds["several" if len(distances) > 1 else "one" if distances else "none"] += 1
    assert min(kinds.values()) >= 50
