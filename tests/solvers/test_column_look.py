"""Three looks at columns, from rows to bounds: what they hold, how they move, what noise makes of them."""

import math

import numpy as np
import pytest
from scipy.stats import expon, lognorm, norm, t

from privfit.data.source import ArraySource
from privfit.losses import Squared
from privfit.planning import plan_of
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, make_source
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.solvers.column_look import ColumnLook
from privfit.solvers.column_ranges import Visible

from .test_column_ranges import TAIL, at

UNIT = 2.0**-64
"""What numbers of columns without bounds are multiplied by, before they are looked at."""

N = 10_007

COLUMNS = {
    "normal": (lambda rng: rng.normal(size=N), 1.5),
    "uniform": (lambda rng: rng.random(N), 1.5),
    "exponential": (lambda rng: rng.exponential(size=N), 1.5),
    "two groups": (lambda rng: rng.choice([-100.0, 100.0], N) + rng.normal(size=N), 1.5),
    "whole numbers": (lambda rng: rng.integers(17, 91, N).astype(float), 1.5),
    "of two values": (lambda rng: rng.integers(0, 2, N).astype(float), 1.5),
    "log-normal": (lambda rng: np.exp(10.0 + rng.normal(size=N)), 1.5),
    "Cauchy": (lambda rng: rng.standard_cauchy(N), 1.5),
    "zero-inflated": (lambda rng: np.where(rng.random(N) < 0.6, 0.0, np.exp(rng.normal(size=N))), 1.5),
    "nearly all 0": (lambda rng: np.where(rng.random(N) < 0.95, 0.0, rng.exponential(size=N)), 1.5),
    "far from 0, normal": (lambda rng: 1e4 + 10.0 * rng.normal(size=N), 2.0),
    "far from 0, uniform": (lambda rng: 1e4 + rng.uniform(-10.0, 10.0, N), 3.0),
    "huge": (lambda rng: 1e17 * rng.normal(size=N), 1.5),
    "tiny": (lambda rng: 1e-9 * rng.normal(size=N), 1.5),
}
"""Columns, and how many times as long as what they span their bounds are at most, with next to no noise."""

CONTINUOUS = (
    "normal", "uniform", "exponential", "two groups", "log-normal", "Cauchy", "far from 0, normal",
    "far from 0, uniform", "tiny",
)  # fmt: skip
"""Columns without numbers on edges: a place holds its lower edge and not its upper one."""


def made(rng, names=tuple(COLUMNS)):
    return [UNIT * COLUMNS[name][0](rng) for name in names]


class Scripted:
    """Noise that makes of each answer what a function says; it is told the standard deviation."""

    private, label = False, "scripted (not private)"

    def __init__(self, *answers):
        self.answers = list(answers)

    def gaussian(self, value, sd):
        return self.answers.pop(0)(value, sd)

    def laplace(self, value, scale):
        return self.gaussian(value, math.sqrt(2.0) * scale)


def unchanged(value, sd):
    return value


def looked(*columns, allowance=None, noise=None, response=False, relation=Relation.REPLACE):
    """Return bounds of the columns, the last of which is the response if that is looked at.

    Without an allowance noise is said to be there, far below what a row counts, and is not.
    """
    if allowance is None:
        allowance, noise = Allowance.gaussian(1e6), Scripted(unchanged, unchanged, unchanged)
    y = columns[-1] if response else np.zeros_like(columns[0])
    x = np.column_stack([np.ones(y.size), *(columns[:-1] if response else columns)])
    p = x.shape[1]
    names, penalised = tuple(f"x{k}" for k in range(p)), (False,) + (True,) * (p - 1)
    problem = Problem(Squared(1.0), names, 2.0, y.size, relation, 0.0, (0.0,) * p, penalised)
    look = ColumnLook(len(columns))
    plan = plan_of(problem, "m", "s", look.plan(problem, allowance))
    source = ArraySource(x, y, norm_bound=problem.norm_bound)
    return look.run(problem, Oracle(problem, plan, source, noise or NoNoise()))


def held(column, bounds):
    """Return the part of a column that lies within its bounds."""
    return np.mean((column >= bounds[0]) & (column <= bounds[1]))


class TestLookWithNextToNoNoise:
    @pytest.mark.parametrize("response", [False, True], ids=["columns", "columns and response"])
    def test_bounds_hold_all_rows_and_little_more(self, response, rng):
        columns = made(rng)
        found = looked(*columns, response=response)
        for name, column, bounds in zip(COLUMNS, columns, found, strict=True):
            assert held(column, bounds) == 1.0, name
            assert bounds[1] - bounds[0] <= COLUMNS[name][1] * np.ptp(column), name

    @pytest.mark.parametrize("value", [0.3, 1.99, -1.01, -7.0, 1e4, 1e-9, -1e19])
    def test_bounds_of_one_value_are_close_to_it(self, value):
        ((lower, upper),) = np.array(looked(np.full(N, UNIT * value))) / UNIT
        assert lower <= value <= upper
        assert 0 < upper - lower <= 0.02 * abs(value)

    def test_zeros_and_numbers_that_count_as_such_have_no_bounds(self, rng):
        least = 2.0**-104
        assert looked(np.zeros(N), np.full(N, 0.2), -np.zeros(N))[::2] == (None, None)
        assert looked(least * rng.uniform(-0.5, 0.5, N)) == (None,)
        assert looked(least * rng.uniform(-0.99, 0.99, N)) == (None,)
        noise = Scripted(unchanged, unchanged, unchanged)  # draws tails out to more than twice that
        few = least * rng.uniform(-0.99, 0.99, N)
        assert looked(few, allowance=Allowance.gaussian(0.1), noise=noise) == (None,)
        assert looked(100.0 * least * rng.normal(size=N)) != (None,)

    def test_rows_without_a_number_do_not_count(self, rng):
        (column,) = made(rng, ["normal"])
        gaps = np.where(rng.random(N) < 0.4, np.nan, column)
        (bounds,) = looked(gaps)
        there = gaps[np.isfinite(gaps)]
        assert held(there, bounds) == 1.0
        assert bounds[1] - bounds[0] <= 1.5 * np.ptp(there)
        assert looked(np.full(N, np.nan)) == (None,)

    def test_columns_do_not_change_each_others_bounds(self, rng):
        columns = made(rng)
        assert looked(*columns) == tuple(looked(column)[0] for column in columns)

    def test_a_column_mirrored_has_its_bounds_mirrored(self, rng):
        columns = made(rng, CONTINUOUS)
        for one, other in zip(looked(*columns), looked(*(-column for column in columns)), strict=True):
            np.testing.assert_allclose(other, (-one[1], -one[0]), rtol=1e-9)

    @pytest.mark.parametrize("doublings", [-6, -1, 1, 40])
    def test_bounds_scale_with_their_columns(self, doublings, rng):
        columns, factor = made(rng, CONTINUOUS), 2.0**doublings
        scaled = looked(*(factor * column for column in columns))
        assert scaled == tuple((factor * low, factor * high) for low, high in looked(*columns))

    @pytest.mark.parametrize("name", COLUMNS)
    def test_without_any_noise_bounds_hold_all_rows(self, name, rng):
        (column,) = made(rng, [name])
        (bounds,) = looked(column, allowance=Allowance.unlimited(), noise=NoNoise())
        assert held(column, bounds) == 1.0

    def test_without_any_noise_bounds_are_no_longer_than_with_next_to_none(self):
        """Of numbers between two, equally many everywhere."""
        column = UNIT * np.linspace(0.0, 1.0, N)
        (bounds,) = looked(column, allowance=Allowance.unlimited(), noise=NoNoise())
        assert bounds == pytest.approx(looked(column)[0], rel=1e-9, abs=0.0)

    def test_bounds_do_not_exceed_what_numbers_are_held_to(self, rng):
        column = np.clip(rng.standard_cauchy(N), -1.0, 1.0)
        (lower, upper), (_, positive) = looked(column, np.abs(column))
        assert (lower, upper, positive) == (-1.0, 1.0, 1.0)
        column = np.clip(0.3 * norm.ppf((np.arange(N) + 0.5) / N), -1.0, 1.0)
        noise = Scripted(unchanged, unchanged, unchanged)  # draws tails out further
        assert looked(column, allowance=Allowance.gaussian(0.1), noise=noise) == ((-1.0, 1.0),)

    def test_places_end_at_what_numbers_are_held_to(self):
        column = np.linspace(0.55, 0.95, N)
        for bounds in looked(column, -column):
            low, high = np.sort(np.abs(bounds))
            assert (low, high) == (pytest.approx(0.5), 1.0)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("columns", [1, 2])
def test_the_three_looks_cost_what_is_allowed_and_are_all_that_is_asked(columns, pure, relation):
    problem = Problem(Squared(1.0), ("1", "a"), 2.0, 500, relation, 0.0, (0.0,) * 2, (False, True))
    look = ColumnLook(columns)
    releases = look.plan(problem, Allowance(0.7, pure=pure))
    assert [(one.kind, one.size) for one in releases] == [("places", k * columns) for k in (209, 18, 435)]
    costs = [one.epsilon if pure else one.mu**2 for one in releases]
    whole = 0.7 if pure else 0.7**2
    assert whole * (1 - 1e-9) < math.fsum(costs) <= whole
    assert costs[0] == costs[1] == pytest.approx(costs[2] / (2.0 if pure else 4.0))
    source = ArraySource(np.ones((500, 2)), np.zeros(500), norm_bound=2.0)
    oracle = Oracle(problem, plan_of(problem, "m", "s", releases), source, make_source(None))
    assert len(look.run(problem, oracle)) == columns
    assert tuple(one.planned for one in oracle.released) == releases


@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("columns", [1, 3])
def test_what_noise_may_have_made_depends_on_its_law_and_on_all_places(columns, pure):
    """The first look's limit is that for the places of all columns together."""
    places = 2 * 104 + 1
    limit = Visible.among(columns * places, 1.0, gaussian=not pure).deviations
    assert (8.0 < limit < 12.0) if pure else (4.0 < limit < 6.0)
    last, column = (columns - 1) * places + 120, np.full(N, 1.5 * 2.0**-89)
    for size, wanted in ((0.999 * limit, False), (1.001 * limit, True)):
        noise = Scripted(lambda value, sd, size=size: at(value.size, {last: size * sd}), unchanged, unchanged)
        found = looked(*[column] * columns, allowance=Allowance(1.0, pure=pure), noise=noise)
        assert [one is not None for one in found] == [False] * (columns - 1) + [wanted]


def test_what_noise_puts_where_no_number_can_be_has_no_bounds(rng):
    """Distances from the middle of a column are counted beyond -1 and 1, too."""
    (column,), allowance = made(rng, ["normal"]), Allowance.gaussian(1.0)
    for place in (20, 420):
        noise = Scripted(unchanged, unchanged, lambda value, sd, k=place: at(value.size, {k: 1.0}))
        assert looked(column, allowance=allowance, noise=noise) == (None,)


def test_a_column_that_the_first_look_does_not_see_has_no_bounds(rng):
    (column,), allowance = made(rng, ["huge"]), Allowance.gaussian(1.0)
    for first, wanted in ((unchanged, True), (lambda value, sd: 0.0 * value, False)):
        (bounds,) = looked(column, allowance=allowance, noise=Scripted(first, unchanged, unchanged))
        assert (bounds is not None) is wanted


@pytest.mark.statistical
@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("relation", list(Relation))
def test_bounds_hold_nearly_all_rows_behind_noise_as_well(relation, pure, rng):
    """Of fixed seeds. Those of a normal column are not twice as long as its central 99.8 %."""
    normal, skewed = UNIT * rng.normal(size=N), UNIT * np.exp(rng.normal(size=N))
    for seed in range(8):
        noise, allowance = make_source(seed), Allowance(1.0, pure=pure)
        one, other = looked(normal, skewed, allowance=allowance, noise=noise, relation=relation)
        assert held(normal, one) >= 0.98
        assert held(skewed, other) >= 0.96
        assert one[1] - one[0] <= 2.0 * 2.0 * norm.isf(TAIL) * UNIT


@pytest.mark.statistical
@pytest.mark.parametrize("law", [norm, t(3), expon, lognorm(1.0)], ids=["normal", "t", "exponential", "skew"])
@pytest.mark.parametrize("mu", [0.1, 1.0, 10.0])
def test_what_bounds_cut_off_a_mean_is_small_beside_its_standard_error(law, mu):
    """Of fixed seeds; it was a fifth of it at most when this was written."""
    column = (law.ppf((np.arange(N) + 0.5) / N) - law.mean()) / law.std()
    for seed in range(8):
        (bounds,) = looked(UNIT * column, allowance=Allowance.gaussian(mu), noise=make_source(seed))
        cut = np.mean(np.clip(column, bounds[0] / UNIT, bounds[1] / UNIT)) - np.mean(column)
        assert abs(cut) < 0.5 / math.sqrt(N)


@pytest.mark.parametrize("name", ["log-normal", "Cauchy"])
def test_more_rows_ask_for_longer_bounds(name, rng):
    """Behind noise that is as large beside them: a mean of more has a smaller standard error."""
    (column,), lengths = made(rng, [name]), []
    for times in (1, 10, 50):
        allowance, noise = Allowance.gaussian(1.0 / times), Scripted(unchanged, unchanged, unchanged)
        (bounds,) = looked(np.tile(column, times), allowance=allowance, noise=noise)
        lengths.append(np.ptp(bounds))
    assert lengths[0] < 0.95 * lengths[1] < 0.95**2 * lengths[2]


MISSING = 0.8
"""Part of the cells of a column that have no number."""


def with_gaps(column):
    """Return a column that has these numbers and as many rows more as make up that part."""
    return np.concatenate([column, np.full(round(column.size * MISSING / (1.0 - MISSING)), np.nan)])


@pytest.mark.parametrize("mu", [0.1, 0.3, 1.0, 10.0])
@pytest.mark.parametrize("name", ["normal", "log-normal", "Cauchy", "far from 0, normal", "uniform"])
def test_missing_cells_do_not_move_bounds_of_the_numbers_that_there_are(name, mu, rng):
    """Noise is as large beside those rows in either column, and there are as many of them."""
    (column,), allowance = made(rng, [name]), Allowance.gaussian(mu)
    whole, gaps = (
        looked(one, allowance=allowance, noise=Scripted(unchanged, unchanged, unchanged))[0]
        for one in (column, with_gaps(column))
    )
    assert gaps == pytest.approx(whole, rel=1e-6, abs=0.0)


@pytest.mark.statistical
def test_missing_cells_move_bounds_no_more_than_noise_does(rng):
    """Medians over seeds of the length of bounds behind noise, which are within a fifth of each other.

    By shares of all rows most of these would seem to lie beyond all places, and nothing would be said.
    """
    normal, skewed = UNIT * rng.normal(size=N), UNIT * np.exp(rng.normal(size=N))
    lengths = np.zeros((2, 25, 2))
    for k, columns in enumerate(((normal, skewed), (with_gaps(normal), with_gaps(skewed)))):
        for seed in range(25):
            found = looked(*columns, allowance=Allowance.gaussian(1.0), noise=make_source(seed))
            lengths[k, seed] = np.ptp(np.array(found), axis=1)
    whole, gaps = np.median(lengths, axis=1)
    assert (np.abs(np.log(gaps / whole)) < math.log(1.2)).all()


def test_where_noise_hides_the_rows_nothing_is_said(rng):
    few = UNIT * rng.normal(size=60)
    for seed in range(5):
        assert looked(few, few, allowance=Allowance.gaussian(0.1), noise=make_source(seed)) == (None, None)
