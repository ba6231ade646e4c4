"""Queries of a response with K classes: derivatives, and brute force over neighbouring tables."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import logsumexp

from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS
from privfit.data.source import ArraySource
from privfit.errors import InvalidArgument, PlanViolation
from privfit.losses import Logistic, Multinomial
from privfit.privacy.relation import Relation
from privfit.problem.query_kernels import query_kernel

from .conftest import make_problem
from .test_neighbours import (
    KINDS,
    N,
    P,
    answer,
    answers_of_single_rows,
    bases,
    check_among_others,
    extreme_rows,
    largest_parts,
    one_by_one,
    parameters,
    source_of,
)

CLASSES = (2, 3, 5)
C = 1.5
"""Norm bound of the rows."""


def table(n_classes, rng, n):
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    return x, rng.integers(0, n_classes, n).astype(float)


def plain_value(loss, problem, x, y, at):
    """The weighted mean loss, written without the kernels."""
    weight = np.minimum(1.0, C**2 / np.sum(x * x, axis=1))
    predictors = x @ problem.coefficients(at).reshape(loss.n_outputs, -1).T @ loss.contrasts.T
    return float(
        np.mean(weight * (logsumexp(predictors, axis=1) - predictors[np.arange(len(y)), y.astype(int)]))
    )


def released(problem, source, kind, at):
    return problem.mean(kind, source.sum(query_kernel(problem, kind, at), problem.sum_length(kind)))


def differences(function, at, h):
    return np.array([(function(at + h * e) - function(at - h * e)) / (2 * h) for e in np.eye(at.size)])


@pytest.mark.parametrize("n_classes", CLASSES)
def test_contrasts_keep_lengths_and_sum_to_zero(n_classes):
    contrasts = Multinomial(n_classes).contrasts
    np.testing.assert_allclose(contrasts.T @ contrasts, np.eye(n_classes - 1), atol=1e-14)
    np.testing.assert_allclose(contrasts.sum(axis=0), 0.0, atol=1e-14)


@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("n", [1, GROUP_ROWS, CHUNK_ROWS + 1, 2 * CHUNK_ROWS + GROUP_ROWS + 17])
def test_the_gradient_is_the_derivative_of_the_objective(n_classes, n, rng):
    loss = Multinomial(n_classes)
    x, y = table(n_classes, rng, n)
    source, problem = ArraySource(x, y, norm_bound=C), make_problem(loss, n_rows=n)
    at = 0.5 * rng.normal(size=problem.size)
    numeric = differences(lambda point: plain_value(loss, problem, x, y, point), at, 1e-5)
    np.testing.assert_allclose(released(problem, source, "gradient", at), numeric, atol=1e-9)


@pytest.mark.parametrize("n_classes", CLASSES)
def test_the_hessian_is_the_derivative_of_the_gradient_and_the_meat_that_of_its_rows(n_classes, rng):
    loss, n = Multinomial(n_classes), CHUNK_ROWS + 100
    x, y = table(n_classes, rng, n)
    source, problem = ArraySource(x, y, norm_bound=C), make_problem(loss, n_rows=n)
    at = 0.5 * rng.normal(size=problem.size)
    numeric = differences(lambda point: released(problem, source, "gradient", point), at, 1e-5)
    hessian = released(problem, source, "hessian", at)
    np.testing.assert_allclose(hessian, numeric, atol=1e-9)
    np.testing.assert_array_equal(hessian, hessian.T)
    alone = answers_of_single_rows(replace(problem, n_rows=1), "gradient", at, one_by_one(source))
    np.testing.assert_allclose(released(problem, source, "meat", at), alone.T @ alone / n, atol=1e-12)


@pytest.mark.parametrize("n_classes", CLASSES)
def test_a_secant_is_the_slope_between_two_points(n_classes, rng):
    loss = Multinomial(n_classes)
    x, y = table(n_classes, rng, CHUNK_ROWS + 100)
    source, problem = ArraySource(x, y, norm_bound=C), make_problem(loss, n_rows=len(y))
    one, other = rng.normal(size=(2, problem.size))
    secant = released(problem, source, "secant", np.concatenate([one, other]))
    rise = plain_value(loss, problem, x, y, other) - plain_value(loss, problem, x, y, one)
    assert secant[0] == pytest.approx(rise / np.linalg.norm(other - one), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_basis_is_the_same_as_transformed_rows(kind, rng):
    loss, n = Multinomial(3), 200
    x, y = table(3, rng, n)
    basis, bound, far = rng.normal(size=(3, 3)), 1.3, 1e6
    problem = replace(make_problem(loss, n_rows=n), basis=basis, norm_bound=bound, amplification=far)
    source = ArraySource(x, y, norm_bound=1e3).reweighted(basis, norm_bound=bound, amplification=far)
    plain = make_problem(loss, n_rows=n, norm_bound=bound)
    turned = ArraySource(x @ basis, y, norm_bound=bound)
    phi = 0.2 * rng.normal(size=problem.size * (2 if kind == "secant" else 1))
    np.testing.assert_allclose(
        released(problem, source, kind, phi), released(plain, turned, kind, phi), atol=1e-9
    )


def test_two_classes_are_the_logistic_loss(rng):
    """With the parameter over sqrt(2), because the two predictors are half the log odds apart from 0."""
    x, y = table(2, rng, 500)
    source = ArraySource(x, y, norm_bound=C)
    many, two = make_problem(Multinomial(2), n_rows=500), make_problem(Logistic(), n_rows=500)
    (sign,) = Multinomial(2).reported[0] / np.sqrt(2.0)
    assert abs(sign) == pytest.approx(1.0)
    theta = rng.normal(size=3)
    at = sign * theta / np.sqrt(2.0)
    for kind, factor in (("gradient", sign * np.sqrt(2.0)), ("hessian", 2.0), ("meat", 2.0)):
        expected = factor * released(two, source, kind, theta)
        np.testing.assert_allclose(released(many, source, kind, at), expected, atol=1e-12)
        assert many.sensitivity(kind) == pytest.approx(abs(factor) * two.sensitivity(kind), rel=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["encoded", "turned", "skewed"])
def test_no_neighbour_exceeds_the_sensitivity(n_classes, kind, which, rng):
    problem = make_problem(Multinomial(n_classes), n_rows=N)
    basis = bases()[which]
    if basis is not None:
        problem = replace(problem, basis=basis, norm_bound=2.0, amplification=40.0)
    rows, points = extreme_rows(problem), parameters(problem, rng, kind)
    if kind == "secant":  # a shift for each point, another one in each basis
        points = [pair for k, pair in enumerate(points) if k % 3 == (k // 3 + which) % 3]
    largest_parts(problem, kind, points, one_by_one(source_of(problem, rows)))
    check_among_others(problem, kind, points, rows, rng)


def certain(loss, favoured, columns):
    """A parameter at which the predictors of these classes exceed all others, whatever else is in the row."""
    wanted = np.zeros((loss.n_classes, P))
    wanted[np.ix_(favoured, columns)] = 1e4
    return (loss.contrasts.T @ wanted).ravel()


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("n_classes", CLASSES)
def test_sensitivities_are_attained_in_the_limit(n_classes, relation):
    """Rows nearly opposite, with one certain wrong class; orthogonal rows, with two classes at even odds."""
    loss = Multinomial(n_classes)
    problem = make_problem(loss, n_rows=1, relation=relation)
    first, second = C * np.eye(P)[:2]
    tilted = [C * np.array([0.01, sign * np.sqrt(1.0 - 1e-4), 0.0]) for sign in (1.0, -1.0)]
    cases = {
        "gradient": (certain(loss, [1], [0]), tilted),
        "meat": (certain(loss, [1], [0, 1]), (first, second)),
        "hessian": (certain(loss, [0, 1], [0, 1]), (first, second)),
    }
    for kind, (at, rows) in cases.items():
        one, other = (answer(problem, kind, at, [(row, 0.0)]) for row in rows)
        gap = np.linalg.norm(one - other) if relation is Relation.REPLACE else np.linalg.norm(one)
        assert 0.9999 * problem.sensitivity(kind) <= gap <= problem.sensitivity(kind)


def test_the_bounds_hold_for_all_numbers_with_a_sum_of_at_most_one(rng):
    """What kernels hold probabilities to is enough: no formula for them is needed."""
    for n_classes in CLASSES:
        constants, trace = Multinomial(n_classes).constants, Multinomial(n_classes).trace
        assert trace == pytest.approx(1.0 - 1.0 / n_classes, rel=1e-8)  # of even ones
        for _ in range(300):
            chances = rng.dirichlet(np.full(n_classes, rng.choice([0.05, 1.0]))) * rng.choice(
                [1.0, rng.random()]
            )
            matrix = np.diag(chances) - np.outer(chances, chances)
            assert np.linalg.eigvalsh(matrix)[0] >= -1e-15
            assert np.linalg.norm(matrix) <= constants.curvature
            assert np.trace(matrix) <= trace
            for code in range(n_classes):
                assert np.linalg.norm(chances - np.eye(n_classes)[code]) <= constants.slope


def bounded_problem(n_classes, which):
    problem = make_problem(Multinomial(n_classes), n_rows=N, amplification=1.5)
    basis = bases()[which]
    if basis is None:
        return problem
    return replace(problem, basis=basis, norm_bound=0.05, amplification=1.0)


@pytest.mark.parametrize("kind", ["bounded_gradient", "marginals"])
@pytest.mark.parametrize("n_classes", CLASSES)
@pytest.mark.parametrize("which", [0, 1, 2], ids=["encoded", "turned", "skewed"])
def test_no_neighbour_exceeds_the_sensitivity_of_bounded_terms(n_classes, kind, which, rng):
    problem = bounded_problem(n_classes, which if kind == "bounded_gradient" else 0)
    rows, points = extreme_rows(problem), parameters(problem, rng, kind)
    largest = largest_parts(problem, kind, points, one_by_one(source_of(problem, rows)))
    check_among_others(problem, kind, points, rows, rng)
    assert largest[Relation.ADD_REMOVE] >= 0.75, "the bound is not tight"
    assert largest[Relation.REPLACE] >= (0.75 if kind == "bounded_gradient" else 0.7), "it is not tight"


@pytest.mark.parametrize("n_classes", CLASSES)
def test_bounded_gradients_are_gradients_with_weights_that_do_not_depend_on_the_class(n_classes, rng):
    loss, n = Multinomial(n_classes), CHUNK_ROWS + 100
    x, y = table(n_classes, rng, n)
    problem = replace(make_problem(loss, n_rows=n), norm_bound=0.5)
    source = ArraySource(x, y, norm_bound=0.5)
    at = rng.normal(size=problem.size)
    chances = loss.chances(at.reshape(-1, 3) @ x.T)
    residuals = chances[None] - np.eye(n_classes)[:, :, None]
    reach = np.linalg.norm(residuals, axis=1).max(axis=0)
    room = np.minimum(1.0, 0.5 / np.linalg.norm(x, axis=1)) / 0.5
    factor = np.minimum(1.0, room / reach)
    scores = loss.contrasts.T @ (factor * residuals[y.astype(int), :, np.arange(n)].T)
    expected = (scores @ x).ravel() / n
    np.testing.assert_allclose(released(problem, source, "bounded_gradient", at), expected, atol=1e-8)


def test_marginals_are_means_of_columns_squares_and_classes(rng):
    n = CHUNK_ROWS + 100
    x, y = table(5, rng, n)
    problem, source = make_problem(Multinomial(5), n_rows=n), ArraySource(x, y, norm_bound=C)
    weight = np.minimum(1.0, C**2 / np.sum(x * x, axis=1))
    shares = [C * np.mean(weight * (y == k)) for k in range(5)]
    expected = np.concatenate([weight @ x / n, weight @ x**2 / (C * n), shares])
    found = released(problem, source, "marginals", np.zeros(problem.size))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_two_classes_have_the_bounded_gradient_of_the_logistic_loss(rng):
    """With units so that slopes may be sqrt(2) times as large."""
    x, y = table(2, rng, 500)
    root, theta = np.sqrt(2.0), rng.normal(size=3)
    (sign,) = Multinomial(2).reported[0] / root
    two = replace(make_problem(Logistic(), n_rows=500), norm_bound=0.5)
    basis = np.eye(3) / root
    many = replace(make_problem(Multinomial(2), n_rows=500), norm_bound=0.5, basis=basis, amplification=9.0)
    expected = released(two, ArraySource(x, y, norm_bound=0.5), "bounded_gradient", theta)
    weight = np.minimum(1.0, 0.25 / np.sum(x * x, axis=1))
    assert weight.min() < 0.1
    turned = ArraySource(x, y, norm_bound=9.0).reweighted(basis, norm_bound=0.5 / root, amplification=9.0)
    many = replace(many, norm_bound=0.5 / root)
    found = released(many, turned, "bounded_gradient", sign * theta)
    np.testing.assert_allclose(found, sign * expected, atol=1e-8)


@pytest.mark.parametrize("filling", [np.nan, np.inf, -np.inf, 1e12, -1e12, 0.0])
@pytest.mark.parametrize("kind", ["gradient", "bounded_gradient", "hessian", "meat", "secant"])
def test_wrong_probabilities_cost_accuracy_never_privacy(kind, filling, monkeypatch, rng):
    def broken(self, eta):
        chances = np.tile(rng.normal(size=(self.n_classes, 1)), (1, eta.shape[1]))
        chances[0] = filling
        return chances

    monkeypatch.setattr(Multinomial, "chances", broken)
    monkeypatch.setattr(Multinomial, "values", lambda self, codes, eta: filling * eta[0])
    problem = make_problem(Multinomial(3), n_rows=N)
    alone = one_by_one(source_of(problem, extreme_rows(problem)))
    largest_parts(problem, kind, parameters(problem, rng, kind), alone)


@pytest.mark.parametrize("threads", ["2", "3"])
def test_sums_do_not_depend_on_the_number_of_threads(threads, monkeypatch, rng):
    x, y = table(3, rng, 5 * CHUNK_ROWS + 3)
    problem, source = make_problem(Multinomial(3), n_rows=len(y)), ArraySource(x, y, norm_bound=C)
    at = rng.normal(size=problem.size)
    for kind in ("gradient", "bounded_gradient", "marginals", "hessian", "meat"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
        one = released(problem, source, kind, at)
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        np.testing.assert_array_equal(released(problem, source, kind, at), one)


@pytest.mark.parametrize("n_classes", [1, 0, -3, 2.5, "3", True, 1001])
def test_a_number_of_classes_that_is_none(n_classes):
    with pytest.raises(InvalidArgument, match="n_classes"):
        Multinomial(n_classes)


def test_a_parameter_of_the_wrong_length_is_refused():
    with pytest.raises(PlanViolation, match="wrong shape"):
        query_kernel(make_problem(Multinomial(3)), "gradient", np.zeros(P))


def test_sizes_are_refused_for_classes():
    problem = make_problem(Multinomial(3))
    with pytest.raises(PlanViolation, match="sizes"):
        query_kernel(problem, "sizes", np.zeros(problem.size))
