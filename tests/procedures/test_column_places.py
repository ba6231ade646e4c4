"""Shares of rows by place: agreement with NumPy, bounds on every row and unit, law of the noise."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from privfit.data.coded import CodedMatrix, Layout
from privfit.data.declarations import NumericColumn
from privfit.data.reduction import CHUNK_ROWS, summation_error
from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.data.tables import Table
from privfit.errors import PlanViolation
from privfit.planning import plan_of
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, gaussian_mu, make_source
from privfit.privacy.pure_mechanisms import laplace_epsilon
from privfit.privacy.relation import Relation
from privfit.problem.oracle import Oracle
from privfit.problem.place_kernels import places_kernel
from privfit.problem.rows import Rows
from privfit.procedures.column_places import ColumnPlaces

from .tables import UNLIMITED, make_problem

FALSE_ALARM = 1e-8

P = 5
EDGES = (
    np.array([-0.5]),
    np.sort(np.r_[0.0, 1.0, np.linspace(-2.0, 2.0, 40)]),
    np.array([]),
    np.array([0.0, 1.0]),
    np.array([-1e200, -1.0, 0.0, 0.25, 1.0, 1e307]),
)
"""Of four columns and the response."""

LAYOUT = Layout(P, True, (2, 1), plain=1)
"""Constant, two numbers in another order, two indicators."""

STORED = ["written out", "float64", "float32", "by code in float64", "by code in float32"]

FEW = (np.array([-1.0, 0.0, 0.5]), np.array([0.2]), np.array([0.0, 0.3]))
"""Edges of two columns and the response."""


def numbers(rng, n, edges):
    """Numbers within, beyond and on the edges; -0 among them."""
    found = np.where(rng.random(n) < 0.7, rng.normal(size=n), rng.choice([-0.0, 0.0, -1e150, 1e150], n))
    on = rng.random(n) < 0.3
    return np.where(on, rng.choice(edges, n), found) if edges.size else found


def table(rng, n, stored):
    """Return rows of P columns as they are stored, and as they are written out, and responses."""
    x = np.column_stack([np.ones(n), *(numbers(rng, n, edges) for edges in EDGES[:-1])])
    y = np.where(rng.random(n) < 0.1, rng.choice([-1.7e308, 1.7e308], n), numbers(rng, n, EDGES[-1]))
    unusable = [(3, np.nan), (4, np.inf), (1, -np.inf), (2, 1e200)]
    for row, (column, cell) in zip(range(1, n, 7), itertools.cycle(unusable), strict=False):
        x[row, column] = cell
    y[2::11] = np.nan
    if stored == "written out":
        return x, x, y
    storage = stored.rsplit(maxsplit=1)[-1]
    with np.errstate(over="ignore"):
        if "code" not in stored:
            coded = CodedMatrix.of_array(Layout(P, True, tuple(range(1, P))), x, storage)
        else:
            coded = CodedMatrix.empty(LAYOUT, n, storage)
            coded.numbers[:] = x[:, (2, 1)]
            coded.codes[:] = rng.choice([3, 4, LAYOUT.none, LAYOUT.missing], (n, 1), p=[0.4, 0.3, 0.2, 0.1])
    return coded, coded.dense(), y


def counted(x, y, edges, share):
    """Return the shares of rows by place, by NumPy, and which rows are in any."""
    usable = np.isfinite(x).all(axis=1) & np.isfinite(y) & (np.abs(x).max(axis=1) < 1e160)
    places = [
        np.bincount(np.searchsorted(one, column, side="right"), share[usable], one.size + 1)
        for one, column in zip(edges, [*x[usable, 1:].T, y[usable]], strict=False)
    ]
    return np.concatenate(places), usable


def asked(edges, problem, source, *, pure=False):
    """Return the exact shares; without a limit, both kinds of an allowance are."""
    procedure = ColumnPlaces(edges, Allowance(math.inf, pure=pure))
    return procedure.carry_out(problem, Rows(problem, source), NoNoise())


@pytest.mark.parametrize("n", [1, 77, 3 * CHUNK_ROWS + 77])
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("d", [P - 1, P], ids=["columns", "columns and response"])
def test_the_shares_are_those_that_numpy_counts(d, stored, n, rng):
    x, written_out, y = table(rng, n, stored)
    wanted, usable = counted(written_out, y, EDGES[:d], np.ones(n))
    problem = make_problem(p=P, n_rows=n)
    found = asked(EDGES[:d], problem, ArraySource(x, y, norm_bound=1.5))
    np.testing.assert_array_equal(found, wanted / n)
    if n > CHUNK_ROWS:
        assert 0.4 * n < usable.sum() < n
        assert wanted.min() > 0 or "code" in stored


@pytest.mark.parametrize("n", [77, 3 * CHUNK_ROWS + 77])
@pytest.mark.parametrize(
    "rule",
    [
        ShareRule("id", 2),
        ShareRule("id", 1, ("weight", NumericColumn(0.0, 2.0))),
        ShareRule(weights=("weight", NumericColumn(0.5, 2.0))),
    ],
    ids=["units", "weighted units", "weights"],
)
def test_rows_count_by_their_shares(rule, n, rng):
    x, _, y = table(rng, n, "written out")
    cells = [("id", rng.integers(0, n // 3, n)), ("weight", rng.uniform(-0.5, 3.0, n))]
    shares = rule.read(Table(cells))
    usable = counted(x, y, EDGES, np.ones(n))[1]
    wanted, _ = counted(x, y, EDGES, shares.among(usable))
    problem = make_problem(p=P, n_rows=shares.n_units, shares=rule)
    found = asked(EDGES, problem, ArraySource(x, y, norm_bound=1.5, shares=shares))
    np.testing.assert_allclose(found, wanted / shares.n_units, rtol=1e-12, atol=1e-15)


def test_every_chunk_of_rows_is_added_to_a_row_of_its_own(rng):
    n, starts = 2 * CHUNK_ROWS + 77, np.cumsum([0, *(one.size for one in EDGES)])
    x, _, y = table(rng, n, "written out")
    (block,) = ArraySource(x, y, norm_bound=1.5).blocks()
    out = np.full((3, sum(one.size + 1 for one in EDGES)), 0.5)
    places_kernel(np.concatenate(EDGES), starts)(block, out)
    for k in range(3):
        rows = slice(k * CHUNK_ROWS, (k + 1) * CHUNK_ROWS)
        wanted, usable = counted(x[rows], y[rows], EDGES, np.ones(len(y[rows])))
        np.testing.assert_array_equal(out[k], wanted + 0.5)
        assert usable.any()


@pytest.mark.parametrize(
    ("edges", "wanted"),
    [
        ((np.array([]),), [1.0]),
        ((np.array([0.3]),), [0.6, 0.4]),
        ((np.array([0.0, 0.1, 0.2, 0.4]),), [0.0, 0.2, 0.2, 0.4, 0.2]),
    ],
)
def test_without_columns_there_is_the_response(edges, wanted):
    problem, y = make_problem(p=1, n_rows=5), np.array([0.0, 0.1, 0.2, 0.3, 0.4])
    found = asked(edges, problem, ArraySource(np.ones((5, 1)), y, norm_bound=1.5))
    np.testing.assert_allclose(found, wanted, rtol=1e-15)


def test_parts_are_those_of_each_column(rng):
    x, _, y = table(rng, 300, "written out")
    procedure, problem = ColumnPlaces(EDGES, UNLIMITED), make_problem(p=P, n_rows=300)
    rows = Rows(problem, ArraySource(x, y, norm_bound=1.5))
    parts = procedure.parts(procedure.carry_out(problem, rows, NoNoise()))
    _, usable = counted(x, y, EDGES, np.ones(300))
    for part, edges, column in zip(parts, EDGES, [*x[usable, 1:].T, y[usable]], strict=True):
        places = np.searchsorted(edges, column, side="right")
        np.testing.assert_array_equal(part, np.bincount(places, minlength=edges.size + 1) / 300)


def rows_in_all_places():
    """Rows in every combination of places of `FEW`, on edges and beyond, and unusable ones."""
    ends = (-1e150, 1e150)
    first = (*ends, -1.0, -0.5, -0.0, 0.7)
    cells = itertools.product(first, (-3.0, 0.2), (-1e300, 0.0, 0.25, 1e300))
    rows = [((1.0, a, b), y) for a, b, y in cells]
    return [*rows, ((1.0, np.nan, 0.0), 1.0), ((1.0, 0.0, np.inf), 0.0), ((1.0, 0.0, 0.0), np.nan)]


def largest_gaps(answers, order):
    """Return how far two answers are apart, and one from none."""
    apart = max(np.linalg.norm(answers - one, order, axis=1).max() for one in answers)
    return {
        Relation.REPLACE: apart,
        Relation.ADD_REMOVE: np.linalg.norm(answers, order, axis=1).max(),
    }


def check_against_sensitivity(gaps, problem, *, pure, tight=True):
    """L2 distances for Gaussian noise, L1 distances for the Laplace noise of a pure allowance."""
    for relation, gap in gaps.items():
        procedure = ColumnPlaces(FEW, Allowance(1.0, pure=pure))
        sensitivity = procedure.planned(replace(problem, relation=relation)).sensitivity
        unlimited = ColumnPlaces(FEW, Allowance(math.inf, pure=pure))
        assert unlimited.planned(replace(problem, relation=relation)).sensitivity == sensitivity
        assert gap <= sensitivity
        assert gap >= sensitivity * (1 - 1e-9) or not tight, "the bound is not tight"


@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("response", [True, False], ids=["with the response", "columns alone"])
def test_no_row_moves_the_shares_by_more_than_the_sensitivity(response, pure):
    """All pairs of single rows, and each alone, for both relations; the bounds are reached."""
    problem, rows = make_problem(p=3 if response else 4, n_rows=1), rows_in_all_places()
    if not response:
        rows = [((*x, math.copysign(min(abs(y), 1e150), y)), 0.0) for x, y in rows]
    answers = [
        asked(FEW, problem, ArraySource(np.array([x]), np.array([y]), norm_bound=1.5), pure=pure)
        for x, y in rows
    ]
    assert len(np.unique(answers, axis=0)) == 4 * 2 * 3 + 1
    check_against_sensitivity(largest_gaps(np.array(answers), 1 if pure else 2), problem, pure=pure)


def test_a_row_is_in_one_place_of_each_column_whatever_the_edges():
    """They follow from earlier releases, and are not in order where these are wild."""
    wild = (np.array([0.5, np.nan, -1.0, 0.7]), np.array([np.inf, -np.inf]), np.full(3, np.nan))
    procedure, problem = ColumnPlaces(wild, UNLIMITED), make_problem(n_rows=1)
    for x, y in rows_in_all_places():
        source = ArraySource(np.array([x]), np.array([y]), norm_bound=1.5)
        parts = procedure.parts(procedure.carry_out(problem, Rows(problem, source), NoNoise()))
        counts = float(np.isfinite([*x, y]).all())
        assert [sorted(part) for part in parts] == [[0.0] * one.size + [counts] for one in wild]


@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
def test_neighbours_in_a_larger_table(pure, rng):
    n, order, rows = 6, 1 if pure else 2, rows_in_all_places()
    problem, others = make_problem(n_rows=n), [rows[k] for k in rng.integers(len(rows), size=n - 1)]

    def answer(some):
        x, y = (np.array(part) for part in zip(*some, strict=True))
        return asked(FEW, problem, ArraySource(x, y, norm_bound=1.5), pure=pure)

    without = answer(others)
    added = np.array([answer([*others, row]) for row in rows])
    gone = np.linalg.norm(added - without, order, axis=1).max()
    gaps = largest_gaps(added, order) | {Relation.ADD_REMOVE: gone}
    check_against_sensitivity(gaps, problem, pure=pure)


WEIGHTS = ("weight", NumericColumn(0.0, 2.0))
RULES = {
    "units": ShareRule("id"),
    "units of up to 3 rows": ShareRule("id", 3),
    "weighted units": ShareRule("id", 2, WEIGHTS),
    "weights": ShareRule(weights=WEIGHTS),
}


def people(rng, rule):
    """Return persons of some rows in many places, and of many in one; a row is (x, y, survey weight)."""
    rows, weights = rows_in_all_places(), [-1.0, 0.0, 0.3, 2.0, 5.0, np.nan, np.inf]

    def one(size):
        return [(*rows[rng.integers(len(rows))], rng.choice(weights)) for _ in range(size)]

    if rule.unit is None:
        return [[(*row, weight)] for row in rows for weight in (0.3, 2.0, 5.0)]
    copies = [[(*row, 2.0)] * size for row in rows for size in (1, 3, 7)]
    return [*copies, *(one(size) for size in rng.integers(1, 10, 60))]


def source_of(persons, rule, rng):
    """Return the rows of some persons in any order."""
    rows = [(*row, k) for k, person in enumerate(persons) for row in person]
    rows = [rows[k] for k in rng.permutation(len(rows))]
    x, y, weight, codes = (np.array(part) for part in zip(*rows, strict=True))
    shares = rule.read(Table([("id", codes), ("weight", weight)]))
    return ArraySource(x, y, norm_bound=1.5, shares=shares)


@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_no_person_moves_the_shares_by_more_than_the_sensitivity(rule, pure, rng):
    """Persons alone, and one of them changed among others, for both relations; the bounds are reached."""
    persons, order = people(rng, rule), 1 if pure else 2
    problem = make_problem(n_rows=1, shares=rule)
    alone = np.array([asked(FEW, problem, source_of([one], rule, rng), pure=pure) for one in persons])
    check_against_sensitivity(largest_gaps(alone, order), problem, pure=pure)
    others = [persons[k] for k in rng.integers(len(persons), size=4)]
    among = replace(problem, n_rows=5)
    without = asked(FEW, among, source_of(others, rule, rng), pure=pure)
    added = np.array(
        [asked(FEW, among, source_of([*others, one], rule, rng), pure=pure) for one in persons[::3]]
    )
    gone = np.linalg.norm(added - without, order, axis=1).max()
    gaps = largest_gaps(added, order) | {Relation.ADD_REMOVE: gone}
    check_against_sensitivity(gaps, among, pure=pure, tight=False)


@pytest.mark.parametrize("rule", [ShareRule(), ShareRule("id")], ids=["rows", "units"])
@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
def test_the_rounding_of_both_sums_is_in_the_sensitivity(pure, relation, rule):
    """Each may be off by `summation_error` of the norms of its terms, of up to twice the planned number."""
    n, largest = 10**8, 3.0 if pure else math.sqrt(3.0)
    problem = make_problem(n_rows=n, relation=relation, shares=rule)
    factor = 1.0 if relation is Relation.ADD_REMOVE else 2.0 if pure else math.sqrt(2.0)
    rounding = 2.0 * summation_error(problem.most_rows) * (2 * n) * largest
    planned = ColumnPlaces(FEW, Allowance(1.0, pure=pure)).planned(problem)
    assert rounding > 1e-4 * largest
    assert planned.sensitivity * n >= factor * largest + rounding
    assert planned.sensitivity * n == pytest.approx(factor * largest + rounding, rel=1e-9)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("amount", [0.01, 1.0, 40.0])
def test_calibration_is_literal(relation, amount):
    problem = make_problem(n_rows=100, relation=relation)
    gaussian = ColumnPlaces(FEW, Allowance.gaussian(amount)).planned(problem)
    assert (gaussian.kind, gaussian.size, gaussian.mu, gaussian.epsilon) == ("places", 9, amount, None)
    assert gaussian_mu(9, gaussian.sensitivity, gaussian.sd) <= amount
    assert gaussian.sd == pytest.approx(gaussian.sensitivity / amount, rel=1e-5)
    pure = ColumnPlaces(FEW, Allowance(amount, pure=True)).planned(problem)
    assert (pure.kind, pure.size, pure.mu, pure.epsilon) == ("places", 9, math.inf, amount)
    assert laplace_epsilon(9, pure.sensitivity, pure.sd / math.sqrt(2.0)) <= amount
    assert pure.sd == pytest.approx(math.sqrt(2.0) * pure.sensitivity / amount, rel=1e-5)
    assert (pure.delta, pure.sampled) == (0.0, None)


@pytest.mark.parametrize("pure", [False, True])
def test_without_a_limit_the_shares_are_exact(pure):
    planned = ColumnPlaces(FEW, Allowance(math.inf, pure=pure)).planned(make_problem(n_rows=100))
    assert (planned.mu, planned.sd, planned.epsilon, planned.private) == (math.inf, 0.0, None, False)


@pytest.mark.statistical
@pytest.mark.parametrize("pure", [False, True], ids=["Gaussian", "Laplace"])
def test_noise_is_neither_too_small_nor_too_large(pure, rng):
    """Chi-squared test of the scale, Kolmogorov tests of coordinates and of norms; false alarm 1e-8 each.

    The first notices noise that is 10 % too small or too large, the last noise that is not independent.
    """
    x, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    x[:, 0] = 1.0
    problem, source = make_problem(n_rows=50), ArraySource(x, y, norm_bound=1.5)
    procedure = ColumnPlaces(FEW, Allowance(0.4, pure=pure))
    planned, rows, noise = procedure.planned(problem), Rows(problem, source), make_source(None)
    draws = np.array([procedure.carry_out(problem, rows, noise) for _ in range(2500)])
    draws = (draws - asked(FEW, problem, source)) / planned.sd
    if pure:
        draws *= math.sqrt(2.0)
        sizes, degrees = 2.0 * np.abs(draws).sum(axis=1), 2 * planned.size
        law = "laplace"
    else:
        sizes, degrees = np.sum(draws**2, axis=1), planned.size
        law = "norm"
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], degrees * len(draws))
    power = 1 if pure else 2
    assert low < sizes.sum() < high
    assert sizes.sum() * 0.9**power < low
    assert sizes.sum() * 1.1**power > high
    assert kstest(draws.ravel(), law).pvalue > FALSE_ALARM
    assert kstest(sizes, chi2(degrees).cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("p", "changes"),
    [
        (2, {}),
        (5, {}),
        (3, {"penalised": (True,) * 3}),
        (3, {"basis": np.eye(3), "amplification": 1.5}),
    ],
    ids=["fewer columns", "more columns", "no constant", "other coordinates"],
)
@pytest.mark.parametrize("pure", [False, True])
def test_what_has_other_columns_is_refused(pure, p, changes):
    problem = replace(make_problem(p=p, n_rows=5), **changes)
    rows = Rows(problem, ArraySource(np.ones((5, p)), np.ones(5), norm_bound=1.5))
    with pytest.raises(PlanViolation, match="places are asked for of"):
        ColumnPlaces(FEW, Allowance(math.inf, pure=pure)).carry_out(problem, rows, NoNoise())


class TestTheDoor:
    procedure = ColumnPlaces(FEW, Allowance.gaussian(1.0))

    def oracle(self, *planned, noise=None):
        problem = make_problem(n_rows=5)
        source = ArraySource(np.ones((5, 3)), np.ones(5), norm_bound=1.5)
        return Oracle(problem, plan_of(problem, "m", "s", planned), source, noise or make_source(None))

    def refuses(self, oracle, procedure, match):
        left = oracle.remaining("places")
        with pytest.raises(PlanViolation, match=match):
            oracle.carry_out(procedure, np.zeros(3))
        assert oracle.remaining("places") == left
        assert oracle.released == ()

    def test_what_is_not_planned_is_refused(self):
        self.refuses(self.oracle(), self.procedure, "no further places")

    @pytest.mark.parametrize("pure", [False, True])
    def test_what_is_planned_at_a_smaller_cost_is_refused(self, pure):
        problem = make_problem(n_rows=5)
        asked_for = ColumnPlaces(FEW, Allowance(1.0, pure=pure))
        for planned in (
            ColumnPlaces(FEW, Allowance(0.5, pure=pure)).planned(problem),
            ColumnPlaces(FEW, Allowance(1.0, pure=not pure)).planned(problem),
            ColumnPlaces((*FEW[:2], np.zeros(1)), Allowance(1.0, pure=pure)).planned(problem),
            replace(asked_for.planned(problem), sensitivity=0.1),
            replace(asked_for.planned(problem), sd=0.1),
        ):
            self.refuses(self.oracle(planned), asked_for, "another places")

    def test_exact_shares_are_refused_to_a_private_source(self):
        problem = make_problem(n_rows=5)
        exact, private = ColumnPlaces(FEW, UNLIMITED), self.procedure.planned(problem)
        self.refuses(self.oracle(private), exact, "another places")
        with pytest.raises(PlanViolation, match="not private"):
            self.oracle(exact.planned(problem))
        rows = Rows(problem, ArraySource(np.ones((5, 3)), np.ones(5), norm_bound=1.5))
        with pytest.raises(PlanViolation, match="demands noise"):
            exact.carry_out(problem, rows, make_source(None))

    @pytest.mark.parametrize("pure", [False, True])
    def test_what_is_planned_is_carried_out_once_at_any_edges(self, pure):
        elsewhere = ColumnPlaces(tuple(one + 0.1 for one in FEW), Allowance(1.0, pure=pure))
        planned = ColumnPlaces(FEW, Allowance(1.0, pure=pure)).planned(make_problem(n_rows=5))
        oracle = self.oracle(planned)
        release = oracle.carry_out(elsewhere, np.zeros(3))
        assert (release.planned, release.value.shape) == (planned, (9,))
        with pytest.raises(PlanViolation, match="no further places"):
            oracle.carry_out(elsewhere, np.zeros(3))
