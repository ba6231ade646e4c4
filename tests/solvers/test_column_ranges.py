"""Where noisy shares say that the numbers of a column lie: ends, quartiles and bounds."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import binom, gamma, norm

from privfit.solvers.column_ranges import End, Visible, extent, first_seen, middle_half, reach, seen

FALSE_ALARM = 1e-8

TAIL = 1e-3
"""Share of rows up to which the tails of a normal column are drawn out."""

EXACT, QUIET = Visible(0.0, 5.0), Visible(1e-30, 5.0)

COARSE = Visible(0.05, 3.0)
"""Noise does not reach 0.15 in one place, 0.212 in two, 0.3 in four, 0.424 in eight, 0.6 in sixteen."""


def at(size, shares):
    """Return shares (size,) that are 0 but in these places."""
    found = np.zeros(size)
    found[list(shares)] = list(shares.values())
    return found


def laplace_sum_above(limit, length):
    """Return the chance that a sum of Laplace variables of unit variance exceeds a limit.

    It is normal given a variance that is of the Gamma law of this shape.
    """
    return quad(
        lambda g: gamma.pdf(g, length) * norm.sf(limit / math.sqrt(g)),
        *(0.0, 400.0),
        points=[1.0, 10.0, 50.0],
        epsrel=1e-8,
        epsabs=0.0,
        limit=200,
    )[0]


def pass_for_rows(shares, visible):
    """Return in which of the looks (m, k) something is seen.

    Twenty are asked about at once, with places between them that no run can make up for.
    """
    found = np.zeros(len(shares), dtype=bool)
    apart = np.concatenate([shares, np.full((len(shares), 32), -100.0)], axis=1)
    for start in range(0, len(shares), 20):
        if first_seen(apart[start : start + 20].ravel(), visible) is not None:
            found[start : start + 20] = [
                first_seen(one, visible) is not None for one in shares[start : start + 20]
            ]
    return found


class TestVisible:
    @pytest.mark.parametrize("gaussian", [True, False], ids=["Gaussian", "Laplace"])
    @pytest.mark.parametrize("places", [1, 19, 2180, 10**6])
    def test_the_chances_of_all_runs_in_three_looks_add_up_to_a_thousandth(self, places, gaussian):
        """Of 1, 2, 4, 8 and 16 places, none of which noise exceeds more easily than a single one."""
        visible = Visible.among(places, 0.3, gaussian=gaussian)
        limits = [visible.above(length) / 0.3 for length in (1, 2, 4, 8, 16)]
        single = norm.sf(limits[0]) if gaussian else 0.5 * math.exp(-math.sqrt(2.0) * limits[0])
        assert 3 * 5 * places * single == pytest.approx(1e-3, rel=1e-9)
        for k, limit in enumerate(limits):
            chance = norm.sf(limit / math.sqrt(2**k)) if gaussian else laplace_sum_above(limit, 2**k)
            assert chance <= single * (1 + 1e-6)

    @pytest.mark.parametrize("places", [1, 2, 4, 16])
    def test_a_run_has_the_noise_of_its_sum(self, places):
        assert Visible(0.3, 5.0).above(places) == pytest.approx(5.0 * 0.3 * math.sqrt(places), rel=1e-15)

    @pytest.mark.statistical
    @pytest.mark.parametrize("gaussian", [True, False], ids=["Gaussian", "Laplace"])
    def test_noise_alone_passes_for_rows_with_a_chance_of_a_thousandth_at_most(self, gaussian):
        """In any of the three looks at a column; places are those of each.

        Binomial test, false alarm below 1e-8; it notices limits that are three tenths lower, by a quarter of
        the draws already.
        """
        rng, draws = np.random.default_rng(7), 12_000
        seen_at, seen_lower = np.zeros(draws, dtype=bool), np.zeros(draws // 4, dtype=bool)
        for places in (209, 18, 435):
            visible = Visible.among(places, 0.3, gaussian=gaussian)
            lower, size = Visible(0.3, 0.7 * visible.deviations), (draws, places)
            noise = rng.normal(size=size) if gaussian else rng.laplace(scale=math.sqrt(0.5), size=size)
            seen_at |= pass_for_rows(0.3 * noise, visible)
            seen_lower |= pass_for_rows(0.3 * noise[: draws // 4], lower)
        most = binom.isf(FALSE_ALARM, draws, 1e-3)
        assert seen_at.sum() <= most < seen_lower.sum()


class TestFirstSeen:
    def test_without_noise_it_is_the_first_place_that_holds_rows(self):
        assert first_seen(at(9, {3: 1e-9, 5: 0.5, 8: 0.5}), EXACT) == End(3, 3, 0.0)
        assert first_seen(at(9, {0: 1.0}), EXACT) == End(0, 0, 0.0)
        assert first_seen(at(9, {8: 1.0}), EXACT) == End(8, 8, 0.0)
        assert first_seen(at(1, {0: 1.0}), EXACT) == End(0, 0, 0.0)

    @pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 40])
    def test_no_rows_are_seen_where_noise_may_have_made_all(self, size):
        assert first_seen(np.zeros(size), EXACT) is None
        assert first_seen(np.full(size, 0.6 / 17), COARSE) is None
        assert first_seen(np.full(size, -0.5), COARSE) is None

    def test_a_share_must_exceed_what_noise_reaches(self):
        limit = COARSE.above(1)
        assert first_seen(at(9, {4: limit}), COARSE) is None
        assert first_seen(at(9, {4: 1.000001 * limit}), COARSE) == End(4, 4, limit)

    @pytest.mark.parametrize(("share", "places"), [(0.16, 1), (0.11, 2), (0.08, 4), (0.054, 8), (0.038, 16)])
    def test_rows_that_are_spread_out_are_seen_together(self, share, places):
        """By a run that holds all of them, and by none that lacks one."""
        shares = np.zeros(60)
        shares[20 : 20 + places] = share
        assert first_seen(shares, COARSE) == End(20, 19 + places, COARSE.above(places))
        shares[20 + places - 1] = 0.0
        assert first_seen(shares, COARSE) is None

    def test_rows_over_more_places_than_sixteen_are_not(self):
        """1.2 in 32 places, of which noise does not reach 0.85."""
        assert first_seen(np.full(64, 0.0374), COARSE) is None
        assert first_seen(np.full(64, 0.0376), COARSE) == End(0, 15, COARSE.above(16))

    def test_runs_that_end_first_count_and_of_these_the_shortest(self):
        shares = at(20, {9: 0.14, 10: 0.3})
        assert first_seen(shares, COARSE) == End(10, 10, COARSE.above(1))
        shares[8] = 0.14  # two places end before
        assert first_seen(shares, COARSE) == End(8, 9, COARSE.above(2))

    def test_what_is_hidden_is_no_more_than_all(self):
        assert first_seen(at(3, {1: 9.0}), Visible(1.0, 3.0)) == End(1, 1, 1.0)


def test_rows_are_seen_from_both_sides_each_counted_from_its_own(rng):
    shares, one, two = at(40, {7: 0.3, 20: 0.4, 30: 0.11, 31: 0.11}), COARSE.above(1), COARSE.above(2)
    assert seen(shares, COARSE) == (End(7, 7, one), End(8, 9, two))
    assert seen(shares[::-1], COARSE) == (End(8, 9, two), End(7, 7, one))
    assert seen(at(40, {7: 0.3}), COARSE) == (End(7, 7, one), End(32, 32, one))
    assert seen(shares, EXACT) == (End(7, 7, 0.0), End(8, 8, 0.0))
    assert seen(np.zeros(40), COARSE) is None
    for _ in range(300):
        noisy = shares + 0.05 * rng.normal(size=40)
        found, mirrored = seen(noisy, COARSE), seen(noisy[::-1], COARSE)
        assert found is not None
        assert mirrored == found[::-1]
        for end, row in zip(found, (noisy, noisy[::-1]), strict=True):
            run = row[end.first : end.last + 1]
            assert run.sum() > COARSE.above(run.size) == end.hidden
            assert first_seen(row[: end.last], COARSE) is None
        assert found[0].first + found[1].first < 40


def test_what_rounding_hides_from_one_side_is_not_seen():
    shares, visible = np.array([0.2, 0.9]), Visible(0.9, 1.0)
    assert (first_seen(shares, visible), first_seen(shares[::-1], visible)) == (End(1, 1, 0.9), None)
    assert seen(shares, visible) is None
    assert seen(shares[::-1], visible) is None


class TestMiddleHalf:
    @pytest.mark.parametrize(
        ("shares", "wanted"),
        [
            ([0.1, 0.2, 0.3, 0.2, 0.2], (1, 3)),
            ([0.25, 0.25, 0.25, 0.25], (0, 2)),
            ([0.24, 0.26, 0.26, 0.24], (1, 2)),
            ([0.26, 0.48, 0.26], (0, 2)),
            ([0.1, 0.8, 0.1], (1, 1)),
            ([1.0], (0, 0)),
            ([0.0, 0.0, 0.03, 0.04, 0.03, 0.0], (2, 4)),  # of the rows that there are
            ([0.0, 0.5, -0.3, 0.3, 0.5, 0.0], (1, 4)),  # a place with less than no rows
            ([0.0, 0.5, 0.3, -0.6, 0.3, 0.5, 0.0], (1, 2)),  # whose rows are not asked for again
        ],
    )
    def test_quartiles_are_those_of_the_rows(self, shares, wanted):
        assert middle_half(np.array(shares), EXACT) == wanted

    def test_what_noise_makes_outside_is_left_out(self):
        """Sixty places that together seem to hold as many rows as there are, on either side."""
        outside = np.tile([0.1, -0.07], 30)
        assert middle_half(np.concatenate([outside, [0.3, 0.2, 0.26, 0.24], outside]), COARSE) == (60, 62)
        assert middle_half(np.concatenate([-outside, [0.24, 0.26, 0.2, 0.3], outside]), COARSE) == (61, 63)
        assert middle_half(np.concatenate([outside, outside]), COARSE) is None

    @pytest.mark.statistical
    def test_noise_moves_quartiles_by_no_more_than_it_must(self, rng):
        """They are 0.15 from the next place, ten standard deviations of the sums that say so."""
        shares = at(200, {100: 0.1, 101: 0.4, 102: 0.4, 103: 0.1})
        visible = Visible.among(200, 0.005, gaussian=True)
        for _ in range(300):
            assert middle_half(shares + 0.005 * rng.normal(size=200), visible) == (101, 102)


class TestExtent:
    around = np.array([-1.0, -0.8, -0.4, -0.2, 0.0, 0.1, 0.3, 0.7, 1.0])

    def bounds(self, shares, visible=QUIET, *, centre=0.05, rows=1e4):
        return extent(self.around, at(8, shares), visible, centre=centre, rows=rows)

    def test_with_next_to_no_noise_bounds_are_the_edges_around_all_rows(self):
        for shares, wanted in (
            ({2: 0.3, 4: 0.4, 5: 0.3}, (-0.4, 0.3)),
            ({0: 0.3, 7: 0.7}, (-1.0, 1.0)),
            ({6: 1.0}, (0.3, 0.7)),
            ({1: 1e-9, 2: 0.3, 4: 0.4, 5: 0.3, 6: 1e-9}, (-0.8, 0.7)),
        ):
            assert self.bounds(shares) == pytest.approx(wanted, rel=1e-12)

    @pytest.mark.parametrize("noise", [0.002, 0.005, 0.03])
    def test_tails_are_drawn_out_about_the_centre(self, noise):
        """As normal ones: those that are seen are half of a side, or next to that."""
        visible = Visible(noise, 4.0)
        factor = norm.isf(TAIL) / norm.isf(visible.above(1))
        assert factor > 1.1
        lower, upper = self.bounds({3: 0.3, 4: 0.4, 5: 0.3}, visible, centre=0.02)
        assert lower == pytest.approx(0.02 - 0.22 * factor, rel=1e-12)
        assert upper == pytest.approx(0.02 + 0.28 * factor, rel=1e-12)

    def test_each_end_is_drawn_out_by_what_is_seen_of_its_side(self):
        """By two places that are seen together, and by one far out."""
        visible, rows = Visible(0.01, 4.0), 5_000.0
        shares = at(8, {1: 0.03, 2: 0.03, 3: 0.24, 4: 0.4, 5: 0.25, 7: 0.05})
        lower, upper = extent(self.around, shares, visible, centre=0.05, rows=rows)
        assert lower == 0.05 - reach(
            0.05 - self.around[::-1], shares[::-1], End(1, 2, visible.above(2)), rows
        )
        assert upper == 0.05 + reach(self.around - 0.05, shares, End(0, 0, visible.above(1)), rows)
        assert lower < -1.0
        assert upper > 1.0

    def test_more_rows_ask_for_longer_bounds(self):
        found = [
            self.bounds({3: 0.3, 4: 0.7, 7: 0.05}, Visible(0.01, 4.0), rows=10.0**k) for k in range(2, 9)
        ]
        lengths = [upper for _, upper in found]
        assert lengths == sorted(lengths)
        assert lengths[0] < lengths[-1]

    def test_bounds_on_one_side_of_0_stay_there(self):
        visible = Visible(0.03, 4.0)
        assert self.bounds({4: 0.5, 5: 0.5}, visible, centre=0.2)[0] == 0.0
        assert self.bounds({5: 0.5, 6: 0.5}, visible, centre=0.65)[0] == 0.0
        assert self.bounds({2: 0.5, 3: 0.5}, visible, centre=-0.2)[1] == 0.0
        assert self.bounds({1: 0.5, 2: 0.5}, visible, centre=-0.75)[1] == 0.0
        assert self.bounds({3: 0.5, 4: 0.5}, visible, centre=-0.01)[1] > 0.1

    @pytest.mark.parametrize("centre", [-0.9, 0.9])
    def test_ends_are_never_drawn_in(self, centre):
        """Where the centre is on the other side of what is seen."""
        lower, upper = self.bounds({3: 0.5, 4: 0.5}, Visible(0.03, 4.0), centre=centre)
        assert (lower == pytest.approx(-0.2)) is (centre < 0)
        assert (upper == pytest.approx(0.1)) is (centre > 0)
        assert lower <= -0.2 * (1 - 1e-12)
        assert upper >= 0.1 * (1 - 1e-12)

    @pytest.mark.parametrize("noise", [0.0, 1e-9, 1e-4, 0.004, 0.02])
    def test_bounds_hold_what_is_seen_and_are_mirrored_with_it(self, noise, rng):
        edges = 2.0 ** np.arange(-3.0, 7.0, 0.5)
        around, visible, said = np.concatenate([-edges[::-1], edges]), Visible(noise, 4.0), 0
        for _ in range(100):
            law = norm(loc=rng.normal(), scale=math.exp(rng.normal()))
            shares = np.diff(law.cdf(around)) + noise * rng.normal(size=around.size - 1)
            centre, rows = law.mean() + 0.3 * law.std() * rng.normal(), 10.0 ** rng.uniform(1.0, 7.0)
            found = extent(around, shares, visible, centre=centre, rows=rows)
            mirrored = extent(-around[::-1], shares[::-1], visible, centre=-centre, rows=rows)
            assert (found is None) is (mirrored is None)
            if found is not None and mirrored is not None:
                assert mirrored == (-found[1], -found[0])
                first, last = seen(shares, visible)
                said += 1
                assert found[0] <= around[first.first] + 1e-9
                assert found[1] >= around[-1 - last.first] - 1e-9
        assert said > 60

    def test_nothing_is_said_where_noise_may_have_made_all(self):
        assert self.bounds({}) is None
        assert self.bounds({}, EXACT) is None
        assert self.bounds({3: 0.1}, Visible(0.03, 4.0)) is None

    @pytest.mark.parametrize("shares", [{1: 0.14, 2: 0.14, 4: 0.72}, {3: 0.72, 5: 0.14, 6: 0.14}])
    def test_nothing_is_said_where_noise_may_hide_a_quarter_of_the_rows(self, shares):
        """Beyond either end: two places are seen together at one of them."""
        assert self.bounds(shares, Visible(0.249 / math.sqrt(2.0), 1.0)) is not None
        assert self.bounds(shares, Visible(0.251 / math.sqrt(2.0), 1.0)) is None
        assert self.bounds({3: 0.5, 4: 0.5}, Visible(0.251, 1.0)) is None
        assert self.bounds({3: 0.5, 4: 0.5}, Visible(0.25, 1.0)) is not None

    def test_nothing_is_said_where_three_tenths_seem_to_lie_beyond(self):
        assert self.bounds({3: 0.3, 4: 0.401}) == pytest.approx((-0.2, 0.1), rel=1e-12)
        assert self.bounds({3: 0.3, 4: 0.399}) is None
        assert self.bounds({0: -0.2, 3: 0.3, 4: 0.401, 7: -0.2}) is not None
        assert self.bounds({0: -0.2, 3: 0.3, 4: 0.399, 7: -0.2}) is None
        assert self.bounds({2: 0.4, 3: -0.101, 4: 0.4}) is None
        assert self.bounds({2: 0.4, 3: -0.099, 4: 0.4}) is not None

    @pytest.mark.parametrize("hidden", [2, 5])
    def test_rows_that_noise_hides_lie_beyond(self, hidden):
        visible = Visible(0.005, 4.0)
        assert self.bounds({3: 0.3, 4: 0.401, hidden: 0.01}, visible) is not None
        assert self.bounds({3: 0.3, 4: 0.399, hidden: 0.01}, visible) is None
        assert self.bounds({3: 0.3, 4: 0.399, hidden: 0.021}, visible) is not None

    def test_places_without_width_have_no_bounds(self):
        around = np.array([0.1, 0.2, 0.2, 0.1, 0.3])
        for place, wanted in ((0, (0.1, 0.2)), (1, None), (2, None), (3, (0.1, 0.3))):
            found = extent(around, at(4, {place: 1.0}), QUIET, centre=0.15, rows=1e4)
            assert found == (None if wanted is None else pytest.approx(wanted))
