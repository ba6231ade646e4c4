"""Brute force: no pair of neighbouring tables moves any query by more than its sensitivity."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist, squareform

from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.losses import ConcomitantHuber, Multinomial, Sigmoid
from privfit.privacy.mechanisms import svec
from privfit.privacy.relation import Relation
from privfit.problem.plan import SHARES
from privfit.problem.query_kernels import query_kernel
from privfit.problem.steep import SteepRows, steepens
from privfit.problem.totals import query_total

from .conftest import HESSIANS, LOSSES, OF_EVERY_KIND, asked, make_problem

KINDS = ("gradient", "second_moment", "hessian", "meat", "secant")
OF_ANY = (*KINDS, "bounded_gradient", "marginals", "sizes", "norms")
"""With the queries of losses of one linear predictor."""

OF_ROWS = (*OF_ANY, "counts", "residuals", "labels")
"""And those of one kind of response, and of losses of residuals."""

WITHOUT_POINT = ("second_moment", "norms", "counts", "labels", "marginals")

P, N = 3, 7

TIGHT = {"hessian": 0.5, "secant": 0.6, "marginals": 0.7}
"""Share of the sensitivity that the rows below attain; 0.75 for the others."""


def extreme_rows(problem):
    """Rows on and beyond every bound, in opposite and orthogonal directions, and unusable ones."""
    loss, norm_bound = problem.loss, problem.norm_bound
    basis = np.eye(P) if problem.basis is None else problem.basis
    directions = [*np.eye(P), *(-np.eye(P)), np.ones(P) / np.sqrt(P), np.array([1.0, -1.0, 0.0]) / np.sqrt(2)]
    lengths = (0.3, 1.0, 1.0 + 1e-12, 30.0, 1e200)
    responses = {
        "binary": (0.0, 1.0),
        "numeric": (-1e9, -1.0, 0.0, 0.4, 1e9),
        "count": (-1e9, 0.0, 1.0, 4.0, 1e9),
        "class": (-1e9, 0.0, 1.0, 2.0, 1e9),
    }[loss.target_kind]
    on_bound = [d * norm_bound / np.linalg.norm(basis.T @ d) for d in directions]
    rows = [(length * row, y) for row in on_bound for length in lengths for y in responses]
    return [
        *rows,
        *[(np.zeros(P), y) for y in responses],
        (np.array([np.nan, 0.0, 0.0]), 1.0),
        (np.array([0.0, np.inf, 0.0]), 0.0),
        (np.ones(P), np.nan),
    ]


def answer(problem, kind, at, rows):
    """Return the exact mean that the oracle would perturb, as the vector whose norm is bounded."""
    total = source_of(problem, rows).sum(query_kernel(problem, kind, at), problem.sum_length(kind))
    return flat_mean(problem, kind, total)


def one_by_one(source):
    """Return blocks of one row each."""
    (block,) = source.blocks()
    return [block.part(slice(i, i + 1)) for i in range(source.n_rows)]


def answers_of_units(problem, kind):
    """Return the answers for totals of a single 1, which say all of a mean, as it is linear."""
    return np.array([flat_mean(problem, kind, unit) for unit in np.eye(problem.sum_length(kind))])


def answers_of_single_rows(problem, kind, at, alone, kernel=None, *, to_answer=None):
    """Return the answers for tables of one row each, shape (m, k), by the kernel that sums over tables."""
    kernel, length = kernel or query_kernel(problem, kind, at), problem.sum_length(kind)
    sums = np.zeros((len(alone), 1, length))
    for block, out in zip(alone, sums, strict=True):
        kernel(block, out)
    sums, to_answer = sums[:, 0], answers_of_units(problem, kind) if to_answer is None else to_answer
    for total in sums[:: len(sums) // 3]:  # a mean is linear, and asked of each entry instead of each row
        found, slack = flat_mean(problem, kind, total), 1e-12 * np.abs(to_answer).max()
        np.testing.assert_allclose(found, total @ to_answer, rtol=1e-12, atol=slack)
    return sums @ to_answer


def source_of(problem, rows):
    x, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    source = ArraySource(x, y, norm_bound=make_problem(problem.loss).norm_bound)
    if problem.basis is None:
        return source
    return source.reweighted(
        problem.basis,
        norm_bound=problem.norm_bound,
        amplification=problem.amplification,
        slopes=problem.slope_bounds,
    )


def flat_mean(problem, kind, total):
    mean = problem.mean(kind, total)
    return mean if mean.ndim == 1 else svec(mean)


def largest_gap(answers, relation):
    """Return the largest distance of two answers, or the largest answer."""
    return pdist(answers).max() if relation is Relation.REPLACE else np.linalg.norm(answers, axis=1).max()


def parameters(problem, rng, kind="gradient"):
    """Return points, two of them for sums that no point enters; for secants pairs of every distance."""
    points = _points(problem, rng)
    if kind != "secant":
        return points[:2] if kind in WITHOUT_POINT else points
    shifts = (1e-9 * np.ones(P), np.array([2.0, 0.0, -1.0]), np.full(P, -300.0))
    pairs = [(point, shift) for point in (points[0], points[-1]) for shift in shifts]
    pairs += zip(points[1:-1], shifts, strict=True)
    return [np.concatenate([point, point + np.pad(shift, (0, point.size - P))]) for point, shift in pairs]


def _points(problem, rng):
    points = [np.zeros(problem.size), *rng.normal(size=(3, problem.size)), 50 * rng.normal(size=problem.size)]
    if problem.loss.has_scale:
        for point in points:
            point[-1] = rng.choice([0.05, 0.5, 3.0])
    return points


def bases():
    turn = np.array([[2.0, 0.3, 0.0], [0.3, 0.7, -0.2], [0.0, -0.2, 5.0]])
    skew = turn @ np.array([[1.0, 0.5, 0.0], [0.5, 3.0, 0.1], [0.0, 0.1, 0.4]])
    return [None, turn, skew]


def sensitivities(problem, kind):
    """Return a sensitivity for each relation, the only thing about a query that depends on it."""
    return {relation: replace(problem, relation=relation).sensitivity(kind) for relation in Relation}


def largest_parts(problem, kind, points, alone, kernel=None):
    """Return the largest gap of neighbours at any of the points for each relation, as part of the bound."""
    bounds, largest = sensitivities(problem, kind), dict.fromkeys(Relation, 0.0)
    to_answer = answers_of_units(problem, kind)
    for at in points:
        answers = answers_of_single_rows(problem, kind, at, alone, kernel, to_answer=to_answer)
        assert np.isfinite(answers).all()
        for relation in Relation:
            gap = largest_gap(answers, relation)
            assert gap <= bounds[relation]
            largest[relation] = max(largest[relation], gap / bounds[relation])
    return largest


def check_among_others(problem, kind, points, rows, rng):
    """Check one row of a table that is replaced or left out, at each of the points."""
    base, bounds = [rows[k] for k in rng.choice(len(rows), N - 1)], sensitivities(problem, kind)
    for at in points:
        one, other = rows[rng.integers(len(rows))], rows[rng.integers(len(rows))]
        with_one, *changed = (answer(problem, kind, at, [*base, *row]) for row in ([one], [other], []))
        for relation, found in zip((Relation.REPLACE, Relation.ADD_REMOVE), changed, strict=True):
            assert np.linalg.norm(with_one - found) <= bounds[relation]


IN_COORDINATES = [
    pytest.param(*case.values, which, id=f"{name}-{case.id}")
    for which, name in enumerate(("encoded", "turned", "skewed"))
    for case in asked(*OF_ROWS)
    if (which == 0 or case.values[1] != "marginals") and (which != 1 or case.values[0] in OF_EVERY_KIND)
]
"""Marginals are asked for before any change of coordinates, and a few losses after a symmetric one."""


@pytest.mark.parametrize(("loss", "kind", "which"), IN_COORDINATES)
def test_no_neighbour_exceeds_the_sensitivity(loss, kind, which, rng):
    problem = make_problem(loss, n_rows=N)
    basis = bases()[which]
    if basis is not None:
        problem = replace(problem, basis=basis, norm_bound=2.0, amplification=40.0)
    rows = extreme_rows(problem)
    points = parameters(problem, rng, kind)
    largest = largest_parts(problem, kind, points, one_by_one(source_of(problem, rows)))
    assert min(largest.values()) >= TIGHT.get(kind, 0.75), "the bound is not tight"
    check_among_others(problem, kind, points, rows, rng)


@pytest.mark.parametrize(("loss", "kind"), [case for case in asked(*OF_ROWS) if case.values[1] in SHARES])
def test_no_neighbour_exceeds_the_absolute_sensitivity_of_pure_shares(loss, kind, rng):
    problem = make_problem(loss, n_rows=N)
    alone = one_by_one(source_of(problem, extreme_rows(problem)))
    for relation in Relation:
        bound = replace(problem, relation=relation).sensitivity(kind, pure=True)
        largest = 0.0
        for at in parameters(problem, rng, kind):
            answers = answers_of_single_rows(problem, kind, at, alone)
            moved = (
                pdist(answers, "cityblock") if relation is Relation.REPLACE else np.abs(answers).sum(axis=1)
            )
            largest = max(largest, moved.max())
        assert 0.999999 * bound <= largest <= bound


STEEP = [
    SteepRows(0.55, np.array([0.4, -1.0, 0.7]), 0.1),
    SteepRows(0.9, np.array([3.0, 0.0, -40.0]), 0.0),
    SteepRows(0.2, np.full(P, np.inf), 1.0),
]
"""The last ones say nothing of how steep rows are: bounds hold whatever is taken for it."""


@pytest.mark.parametrize(("loss", "kind"), [case for case in asked(*KINDS) if steepens(case.values[0])])
@pytest.mark.parametrize("steep", STEEP, ids=["near", "far", "unknown"])
def test_no_neighbour_exceeds_the_sensitivity_where_slopes_are_held(loss, kind, steep, rng):
    problem = make_problem(loss, n_rows=N, steep=steep)
    problem = replace(problem, basis=bases()[2], norm_bound=2.0, amplification=40.0)
    alone = one_by_one(source_of(problem, extreme_rows(problem)))
    largest = largest_parts(problem, kind, parameters(problem, rng, kind), alone)
    power = {"gradient": 1, "meat": 2}.get(kind, 0)
    assert_loosened_by(problem, kind, steep.part**power)
    if power > 0:
        assert min(largest.values()) >= 0.7, "the bound is not tight"


def assert_loosened_by(problem, kind, factor):
    """The sensitivity is ``factor`` times that of rows that are not weighted down."""
    loose = sensitivities(replace(problem, steep=None), kind)
    for relation, bound in sensitivities(problem, kind).items():
        assert bound == pytest.approx(loose[relation] * factor, rel=1e-6)


@pytest.mark.parametrize("loss", HESSIANS, ids=lambda loss: loss.name)
@pytest.mark.parametrize("most", [0.3, 2.0])
@pytest.mark.parametrize("which", [0, 2], ids=["encoded", "skewed"])
def test_no_neighbour_exceeds_the_sensitivity_where_curvatures_are_cut(loss, most, which, rng):
    """To a part of their bound, or to more than it, which changes nothing."""
    problem = make_problem(loss, n_rows=N, most_curved=most * loss.constants.curvature)
    if which:
        problem = replace(problem, basis=bases()[which], norm_bound=2.0, amplification=40.0)
    alone = one_by_one(source_of(problem, extreme_rows(problem)))
    largest = largest_parts(problem, "hessian", parameters(problem, rng), alone)
    loose = sensitivities(replace(problem, most_curved=None), "hessian")
    for relation, bound in sensitivities(problem, "hessian").items():
        assert bound == pytest.approx(loose[relation] * min(most, 1.0), rel=1e-6)
    assert min(largest.values()) >= (0.5 if most > 1.0 else 0.7), "the bound is not tight"


def test_curvatures_of_classes_are_not_cut():
    with pytest.raises(PlanViolation, match="not cut row by row"):
        make_problem(Multinomial(3), most_curved=0.1).sensitivity("hessian")


@pytest.mark.parametrize("kind", ["gradient", "hessian", "meat"])
def test_no_neighbour_exceeds_the_sensitivity_where_slopes_of_classes_are_held(kind, rng):
    loss = Multinomial(3)
    for one in STEEP:
        steep = replace(one, at=np.concatenate([one.at, -0.5 * one.at]))
        problem = make_problem(loss, n_rows=N, steep=steep)
        problem = replace(problem, basis=bases()[2], norm_bound=2.0, amplification=40.0)
        alone = one_by_one(source_of(problem, extreme_rows(problem)))
        points = (np.zeros(problem.size), *rng.normal(scale=3.0, size=(6, problem.size)))
        largest = largest_parts(problem, kind, points, alone)
        power = {"gradient": 1, "meat": 2, "hessian": 0}[kind]
        assert_loosened_by(problem, kind, steep.part**power)
        if power > 0:
            assert min(largest.values()) >= 0.5, "the bound is not tight"


def test_only_sums_that_hold_slopes_may_be_asked_of_steep_rows(rng):
    for loss in LOSSES:
        problem = make_problem(loss, steep=STEEP[0])
        if not steepens(loss):
            with pytest.raises(PlanViolation, match="not held row by row"):
                _ = problem.slope_bounds


def test_slopes_are_held_of_all_but_losses_with_a_scale_that_are_not_convex_or_not_compiled():
    names = [loss.name for loss in (*LOSSES, Multinomial(2), Multinomial(3)) if not steepens(loss)]
    assert names == [ConcomitantHuber().name, Sigmoid().name, "arrays"]


SAMPLED = [
    *asked(*OF_ROWS),
    *[
        pytest.param(Multinomial(3), kind, id=f"classes-{kind}")
        for kind in (*OF_ANY, "labels")
        if kind != "sizes"
    ],
]


def answer_of_sample(problem, kind, at, rows, coins, *, known=False):
    """Return the mean that the oracle would perturb if it asked the rows whose coins are true.

    ``known`` is whether norms in the basis were found of all rows before.
    """
    x, y = np.array([row[0] for row in rows]), np.array([row[1] for row in rows])
    source = ArraySource(x, y, norm_bound=make_problem(problem.loss).norm_bound)
    bounds = {"norm_bound": problem.norm_bound, "amplification": problem.amplification}
    if known:
        source.reweighted(3.0 * problem.basis, **bounds)
    sample = source.sampled(lambda size: np.array(coins[:size]), 0.5)
    if problem.basis is not None:
        sample = sample.reweighted(problem.basis, **bounds)
    return flat_mean(problem, kind, query_total(problem, kind, at)(sample))


def worst_rows(problem, kind, at, rows):
    """Return two rows whose answers are far apart, and one with a large answer."""
    alone = answers_of_single_rows(problem, kind, at, one_by_one(source_of(problem, rows)))
    apart = np.unravel_index(np.argmax(squareform(pdist(alone))), (len(rows), len(rows)))
    return [rows[k] for k in (*apart, np.argmax(np.linalg.norm(alone, axis=1)))]


@pytest.mark.parametrize(("loss", "kind"), SAMPLED)
def test_no_neighbour_exceeds_the_sensitivity_in_a_sample(loss, kind, rng):
    """Rows that two neighbours share have the same coins, as has the row that differs."""
    for basis in bases()[:: 3 if kind == "marginals" else 2]:
        problem = make_problem(loss, n_rows=N)
        if basis is not None:
            problem = replace(problem, basis=basis, norm_bound=2.0, amplification=40.0)
        replaced, added = (
            replace(problem, relation=relation).sensitivity(kind)
            for relation in (Relation.REPLACE, Relation.ADD_REMOVE)
        )
        rows, points = extreme_rows(problem), parameters(problem, rng, kind)
        some, largest = [rows[k] for k in rng.choice(len(rows), 40, replace=False)], 0.0
        asked_at = [(at, worst_rows(problem, kind, at, some)) for at in (points[0], points[len(points) // 4])]
        for k, coins in enumerate(rng.random((8, N)) < 0.5):
            (at, worst), known, place = asked_at[k % 2], basis is not None and k % 3 > 0, rng.integers(N)
            coins[place] = k % 4 < 2
            base, drawn = ([rows[j] for j in rng.choice(len(rows), size)] for size in (N - 1, 3))
            one, other, more = worst if k < 4 else drawn
            with_one, with_other, longer, shorter = (
                answer_of_sample(problem, kind, at, [*base[:place], *row, *base[place:]], its, known=known)
                for row, its in (
                    *[([row], coins) for row in (one, other, more)],
                    ([], np.delete(coins, place)),
                )
            )
            gaps = np.linalg.norm([with_one - with_other, longer - shorter], axis=1)
            assert gaps[0] <= replaced
            assert gaps[1] <= added
            assert coins[place] or not gaps.any()
            largest = max(largest, gaps[0] / replaced, gaps[1] / added)
        assert largest >= 0.45, "no row comes near the bound"


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", ["second_moment", "norms"])
def test_a_sample_attains_the_sensitivity_of_the_whole(kind, relation, rng):
    """Rows of a sample count as much as they do among all: the noise could not be smaller."""
    problem = replace(make_problem(LOSSES[0], n_rows=N, relation=relation), basis=bases()[2], norm_bound=2.0)
    problem = replace(problem, amplification=40.0)
    lengths = (0.5, 30.0) if kind == "norms" else (1.0, 1.0)
    directions = np.linalg.inv(problem.basis.T)[:, :2].T
    one, other = ((2.0 * length * d, 1.0) for length, d in zip(lengths, directions, strict=True))
    base, at = [extreme_rows(problem)[k] for k in rng.integers(50, size=N - 1)], np.zeros(P)
    for coins in rng.random((10, N - 1)) < 0.3:
        changed = [*base, other] if relation is Relation.REPLACE else base
        gap = np.linalg.norm(
            answer_of_sample(problem, kind, at, [*base, one], [*coins, True])
            - answer_of_sample(problem, kind, at, changed, [*coins, True])
        )
        assert gap <= problem.sensitivity(kind)
        assert gap >= 0.999999 * problem.sensitivity(kind)


def test_orthogonal_rows_attain_the_matrix_sensitivity():
    """The published sd 1/(mu n) for replace-one (Avella-Medina et al. 2023, lemma 1) is off by sqrt(2)."""
    problem = make_problem(LOSSES[0], n_rows=N)
    at = np.zeros(problem.size)
    one, other = (answer(problem, "second_moment", at, [(1.5 * d, 0.0)]) for d in np.eye(P)[:2])
    gap = np.linalg.norm(one - other)
    assert gap == pytest.approx(np.sqrt(2) * 1.5**2 / N, rel=1e-9)
    assert gap <= problem.sensitivity("second_moment")
    assert gap > 1.5**2 / N


def test_concomitant_gradient_attains_its_joint_sensitivity():
    """sqrt(4 c**2 norm_bound**2 + c**4 / 4): the joint bound on coefficients and scale."""
    loss = LOSSES[3]
    problem = make_problem(loss, n_rows=1)
    at = np.array([0.0, 0.0, 0.0, 1.0])
    far = answer(problem, "gradient", at, [(1.5 * np.eye(P)[0], 1e9)])
    near = answer(problem, "gradient", at, [(-1.5 * np.eye(P)[0], 0.0)])
    bound = np.hypot(2 * loss.c * 1.5, 0.5 * loss.c**2)
    assert problem.sensitivity("gradient") == pytest.approx(bound, rel=1e-9)
    assert np.abs(far[-1] - near[-1]) == pytest.approx(0.5 * loss.c**2)
    assert np.abs(far[0]) == pytest.approx(loss.c * 1.5)


def test_sensitivity_includes_the_rounding_of_the_sum():
    for n_rows in (10, 10**6, 10**9):
        problem = make_problem(LOSSES[0], n_rows=n_rows)
        exact = 2 * problem.norm_bound / n_rows
        assert problem.sensitivity("gradient") > exact
        assert problem.sensitivity("gradient") < exact * (1.001 if n_rows < 10**7 else 1.01)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("norm_bound", [2.0**-8, 0.5, 20.0])
def test_a_bounded_gradient_is_as_large_as_its_bound_and_no_larger(loss, norm_bound, rng):
    """With small norm bounds each row leaves just the room that its own length says, as solvers ask for."""
    turn = bases()[1]
    problem = make_problem(loss, n_rows=N)
    problem = replace(problem, basis=turn, norm_bound=norm_bound, amplification=1e6)
    directions = [d / np.linalg.norm(turn.T @ d) for d in (*np.eye(P), *-np.eye(P), np.ones(P))]
    responses = [row[1] for row in extreme_rows(problem)]
    rows = [
        (length * d, y)
        for d in directions
        for length in (1e-3, 0.1, 1.0, 8.0, 300.0, 1e200)
        for y in dict.fromkeys(responses)
    ]
    alone, kind = one_by_one(source_of(problem, [*rows, (np.full(P, np.nan), 0.0)])), "bounded_gradient"
    points = parameters(problem, rng, kind)
    for at in points:
        linear = N * np.linalg.norm(answers_of_single_rows(problem, kind, at, alone)[:, :P], axis=1)
        assert linear.max() <= 1.0 + 1e-12
    assert min(largest_parts(problem, kind, points, alone).values()) >= 0.9, "the bound is not tight"


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_marginals_attain_their_sensitivity_without_a_row(loss):
    problem = make_problem(loss, n_rows=1, relation=Relation.ADD_REMOVE)
    high = problem.response_range[1]
    found = answer(problem, "marginals", np.array(problem.start), [(1.5 * np.eye(P)[0], high)])
    assert np.linalg.norm(found) == pytest.approx(2.0 * 1.5, rel=1e-12)
    assert np.linalg.norm(found) <= problem.sensitivity("marginals")


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_marginals_of_two_rows_attain_their_sensitivity(loss):
    """Of unit rows at 60 degrees, about the diagonal of two columns, on opposite sides of the origin."""
    problem = make_problem(loss, n_rows=1, relation=Relation.REPLACE)
    low, high = problem.response_range
    cos, sin = 1.5 * math.cos(math.pi / 12), 1.5 * math.sin(math.pi / 12)
    one, other = (
        answer(problem, "marginals", np.array(problem.start), [(row, y)])
        for row, y in ((np.array([0.0, cos, sin]), low), (np.array([0.0, -sin, -cos]), high))
    )
    assert np.linalg.norm(one - other) == pytest.approx(math.sqrt(8.5) * 1.5, rel=1e-12)
    assert np.linalg.norm(one - other) <= problem.sensitivity("marginals")


def test_wrong_constants_cost_accuracy_never_privacy(rng):
    """A loss whose functions break their declared constants is clamped row by row."""
    from dataclasses import dataclass
    from typing import ClassVar

    from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar

    @scalar
    def steep(y, eta, s, c, k):
        return 1e6 * (eta - y)

    @scalar
    def broken(y, eta, s, c, k):
        return float("nan") if eta > 0 else 1e12

    @scalar
    def vanishing(y, eta, s, c, k):
        return float("nan") if eta > 1 else -1e-300

    @dataclass(frozen=True, slots=True)
    class Lying(AbstractLoss):
        target_kind: ClassVar = "numeric"
        functions: ClassVar = ScalarFunctions(steep, steep, broken, reach=vanishing)

        @property
        def name(self):
            return "lying"

        @property
        def constants(self):
            return LossConstants(slope=0.5, curvature=0.25)

        @property
        def parameters(self):
            return (0.0, 0.0)

    problem = make_problem(Lying(), n_rows=N)
    alone = one_by_one(source_of(problem, extreme_rows(problem)))
    for kind in OF_ANY:
        for at in parameters(problem, rng, kind):
            answers = answers_of_single_rows(problem, kind, at, alone)
            assert np.isfinite(answers).all()
            assert largest_gap(answers, Relation.REPLACE) <= problem.sensitivity(kind)
