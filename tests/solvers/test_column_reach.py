"""How far the tail of a side of a column is drawn out beyond what noise lets be seen."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from privfit.solvers.column_ranges import End, reach
from privfit.solvers.tails import end_bound, tail_bound

TAIL = 1e-3
"""Share of rows up to which the tails of a normal column are drawn out."""

BIAS, ROOM = 0.3, 7.5
"""What rows beyond bounds may move a mean by, in usual distances over the root of the number of rows; and how
many usual distances a tail reaches of which little is seen."""


def excess_of(usual, rows):
    """Return what the rows of a side may lie beyond its bound in the mean."""
    return BIAS * usual / math.sqrt(rows)


class TestReach:
    """Distances 0, 1, 2, ... from the centre unless others are said."""

    @staticmethod
    def of(shares, end, *, away=None, rows=10_000):
        shares = np.asarray(shares, dtype=float)
        return reach(np.arange(shares.size + 1.0) if away is None else np.asarray(away), shares, end, rows)

    @pytest.mark.parametrize("hidden", [0.25, 0.1, 0.02, 0.002, 0.0011, TAIL, 0.0009, 1e-4, 1e-12, 0.0])
    def test_where_noise_hides_the_tail_it_is_drawn_out_as_a_normal_one_to_a_thousandth(self, hidden):
        """The run holds half of the rows, or more, or those next to the usual distance."""
        for shares, end in (
            ([0.0, 0.0, 1.0], End(0, 0, hidden)),
            ([0.0, 0.7, 0.3], End(0, 1, hidden)),
            ([0.5, 0.0, 0.5], End(0, 0, hidden)),
            ([0.0, 0.6, 0.4], End(0, 0, hidden)),
            ([0.0, 0.98, 0.02], End(0, 0, hidden)),
            ([0.0, 0.7, 0.29, 0.01], End(1, 1, hidden)),  # beyond what is seen
        ):
            for part in (1.0, 0.4):  # of all rows on this side
                found, outer = self.of(np.multiply(part, shares), end), 3.0
                if hidden > TAIL:
                    assert norm.sf(norm.isf(hidden) * found / outer) == pytest.approx(TAIL, rel=1e-9)
                else:
                    assert found == outer

    @pytest.mark.parametrize("places", [1, 2, 4])
    def test_an_end_on_the_other_side_of_the_centre_is_kept(self, places):
        """And one at the centre."""
        away, shares = [-8.0, -7.0, -5.0, -4.0, -3.0, -1.0], [0.3, 0.3, 0.2, 0.1, 0.1]
        assert self.of(shares, End(0, places - 1, 0.1), away=away) == -1.0
        assert self.of(shares, End(1, places, 0.1), away=away) == -3.0
        assert self.of(shares, End(0, places - 1, 0.1), away=[one + 1.0 for one in away]) == 0.0

    def test_a_run_that_begins_on_the_other_side_of_the_centre_is_drawn_out_as_a_normal_one(self):
        for last in (1, 2, 3):
            found = self.of([0.1, 0.1, 0.5, 0.3], End(0, last, 0.02), away=[-3.0, -2.0, -1.0, 1.0, 2.0])
            assert found == pytest.approx(2.0 * norm.isf(TAIL) / norm.isf(0.02), rel=1e-12)

    @pytest.mark.parametrize("share", [0.11, 0.2, 0.49])
    def test_where_the_run_holds_a_tenth_of_the_side_the_tail_reaches_some_usual_distances(self, share):
        """But no further than the fall within it says, if there is any; and not where it holds less."""
        shares, excess = [0.0, 1.0 - share, 0.0, 0.0, 0.0, share], excess_of(2.0, 100.0)
        slow = end_bound(5.0, share, 6.0, 0.9 * share, excess)
        assert slow > ROOM * 2.0
        assert self.of(shares, End(0, 0, 0.9 * share), rows=100.0) == pytest.approx(ROOM * 2.0, rel=1e-12)
        quick = end_bound(5.0, share, 6.0, 0.1 * share, excess_of(2.0, 1e6))
        assert 7.0 < quick < 10.0
        assert self.of(shares, End(0, 0, 0.1 * share), rows=1e6) == pytest.approx(quick, rel=1e-9)

    def test_a_tenth_of_the_side_is_enough_for_the_fall_of_the_tail(self):
        shares = [0.0, 0.9, 0.0, 0.1]
        wanted = tail_bound(2.0, 3.0, 0.1, excess_of(2.0, 100.0))
        assert wanted < end_bound(3.0, 0.1, 4.0, 0.099, excess_of(2.0, 100.0))
        assert self.of(shares, End(0, 0, 0.099), rows=100.0) == pytest.approx(wanted, rel=1e-12) != ROOM * 2.0

    @pytest.mark.parametrize("rows", [1.0, 300.0, 1e4, 1e8])
    @pytest.mark.parametrize("part", [1.0, 0.3])
    def test_the_tail_reaches_as_far_as_either_fall_says(self, part, rows):
        """From the usual distance to the run, or from there to its end; shares are those of the side.

        The first is seen of a tail that falls quickly up to the run, the second of one that ends there.
        """
        quick, slow = [0.0, 0.0, 0.0, 0.0, 0.98, 0.0, 0.02], [0.0, 0.9, 0.07, 0.0, 0.0, 0.0, 0.03]
        for shares, share, usual, hidden in ((quick, 0.02, 5.0, 0.018), (slow, 0.03, 2.0, 1e-5)):
            excess = excess_of(usual, rows)
            bounds = tail_bound(usual, 6.0, share, excess), end_bound(6.0, share, 7.0, hidden, excess)
            if rows > 1000:
                assert (bounds[0] < bounds[1]) is (shares is quick)
            found = self.of(np.multiply(shares, part), End(0, 0, part * hidden), rows=rows)
            assert found == pytest.approx(max(min(bounds), 7.0), rel=1e-9)

    def test_a_run_in_which_as_many_may_be_hidden_as_it_holds_shows_no_fall(self):
        excess, shares = excess_of(5.0, 0.01), [0.0, 0.0, 0.0, 0.0, 0.75, 0.0, 0.25]
        assert end_bound(6.0, 0.25, 7.0, 0.2499, excess) == pytest.approx(7.0)
        for hidden, wanted in ((0.2499, 7.0), (0.25, ROOM * 5.0), (0.4, ROOM * 5.0)):
            assert self.of(shares, End(0, 0, hidden), rows=0.01) == pytest.approx(wanted, rel=1e-12)

    def test_runs_of_several_places_count_from_their_inner_edge(self):
        """On to where they are seen to end; nothing counts that seems to lie beyond."""
        shares = [0.0, 0.9, 0.04, 0.0, 0.0, 0.01, 0.02, 0.01, 0.02, 0.3, 0.4]
        for first, outer in ((2, 9.0), (3, 8.0)):
            side = np.sum(shares[: int(outer)])
            share = np.sum(shares[5 : int(outer)]) / side
            wanted = tail_bound(2.0, 5.0, share, excess_of(2.0, 1e6))
            assert wanted > outer
            found = self.of(shares, End(first, 5, 0.9 * share * side), rows=1e6)
            assert found == pytest.approx(wanted, rel=1e-9)

    def test_shares_on_the_other_side_and_less_than_none_do_not_count(self):
        """A place on either side of the centre counts for both; one that ends there does not."""
        end, rows = End(0, 0, 0.01), 1e8
        plain = self.of([0.5, 0.0, 0.4, 0.0, 0.0, 0.03], end, rows=rows)
        wanted = end_bound(5.0, 0.03 / 0.93, 6.0, 0.01 / 0.93, excess_of(1.0, rows))
        assert plain == pytest.approx(wanted, rel=1e-9)
        assert plain > 7.0
        away = [-2.0, -1.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
        noisy = self.of([0.6, 0.7, 0.5, -0.2, 0.4, -0.3, -0.1, 0.03], end, away=away, rows=rows)
        assert noisy == pytest.approx(plain, rel=1e-12)
        across = self.of([0.6, 0.5, 0.0, 0.4, 0.0, 0.0, 0.03], end, away=[-2.0, -0.1, *away[3:]], rows=rows)
        assert across == pytest.approx(plain, rel=1e-12)

    @pytest.mark.parametrize("shape", [0.8, 1.4, 2.0])
    @pytest.mark.parametrize("hidden", [1e-4, 1e-3, 0.01])
    @pytest.mark.parametrize("unit", [1.0, 1e-9])
    def test_the_tail_of_a_weibull_law_has_no_more_excess_than_was_asked_for(self, unit, hidden, shape):
        """By exact shares in half doublings, the last of which exceeds what is hidden."""
        edges = np.concatenate([[0.0], 2.0 ** np.arange(-8.0, 12.0, 0.5)])
        beyond, rows = np.exp(-(edges**shape)), 1e6
        shares = -np.diff(beyond)
        first = int(np.flatnonzero(shares[::-1] > hidden)[0])
        end, last = End(first, first, hidden), shares.size - 1 - first
        found = reach(unit * edges, shares, end, rows) / unit
        outer, inner = edges[last + 1], edges[last]
        usual = edges[np.flatnonzero(1.0 - beyond >= 0.5)[0]]
        seen, excess = 1.0 - beyond[last + 1], excess_of(usual, rows)
        share, hidden = shares[last] / seen, hidden / seen
        fall, stop = tail_bound(usual, inner, share, excess), end_bound(inner, share, outer, hidden, excess)
        assert found == pytest.approx(max(min(fall, stop), outer), rel=1e-9)
        assert quad(lambda r: math.exp(-(r**shape)), found, 60.0 * found, limit=200)[0] < excess

    def test_where_nothing_is_hidden_nothing_lies_beyond_the_end(self):
        """As little as where next to nothing is; Gaussian noise of 1e-300 leaves 2."""
        shares, away = [0.5, 0.2, 0.2, 0.1], [0.0, 0.5, 1.0, math.sqrt(2.0), 2.0]
        assert self.of(shares, End(0, 0, 1e-300), away=away) == pytest.approx(2.0, rel=1e-12)
        assert self.of(shares, End(0, 0, 0.0), away=away) == 2.0
