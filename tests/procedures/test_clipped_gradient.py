"""Clipped gradients: agreement with NumPy, bounds on every row, law of the noise."""

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2, kstest

from privfit.data.source import ArraySource
from privfit.errors import InvalidArgument, PlanViolation
from privfit.losses import ConcomitantHuber, Huber, Logistic, Squared
from privfit.losses.base import AbstractLoss, LossConstants, ScalarFunctions, scalar
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, gaussian_mu, make_source
from privfit.privacy.relation import Relation
from privfit.problem.clipped_kernels import clipped_gradient_kernel
from privfit.problem.rows import Rows
from privfit.procedures.clipped_gradient import ClippedGradient

from .tables import UNLIMITED, exact, extreme_rows, make_problem

FALSE_ALARM = 1e-8
LOSSES = [Logistic(), Squared(0.8), Squared(1e25), Huber(0.5)]
UNWEIGHTED = 2.0**60


@scalar
def _steep(y, eta, s, c, k):
    return 1e300 * (eta - y)


@scalar
def _broken(y, eta, s, c, k):
    return float("nan") if eta > 0 else float("inf")


def _array_steep(y, eta, s, c, k):
    return 1e300 * (eta - y)


def _array_broken(y, eta, s, c, k):
    return np.where(eta > 0, np.nan, np.inf)


class Lying(AbstractLoss):
    """A loss whose slope breaks what it declares."""

    target_kind = "numeric"

    def __init__(self, slope, bound):
        self.functions = ScalarFunctions(slope, slope, slope)
        self._bound = bound

    @property
    def name(self):
        return "lying"

    @property
    def constants(self):
        return LossConstants(slope=self._bound, curvature=0.25)

    @property
    def parameters(self):
        return (0.0, 0.0)


def points(rng):
    return [np.zeros(3), *rng.normal(size=(2, 3)), 50 * rng.normal(size=3), np.full(3, 1e155)]


def check_neighbours(loss, norm_bound, rng, *, tight):
    """Check all pairs of single rows, and each alone: the relation enters the sensitivity only."""
    responses = (0.0, 1.0) if loss.target_kind == "binary" else (-1e300, -1.0, 0.0, 0.4, 1e9)
    rows = extreme_rows(3, norm_bound=1.5, responses=responses)
    problem, largest = make_problem(loss, n_rows=1, norm_bound=norm_bound), dict.fromkeys(Relation, 0.0)
    for at in points(rng):
        procedure = ClippedGradient(0.3, at, UNLIMITED)
        answers = np.unique([exact(procedure, problem, *row) for row in rows], axis=0)
        assert np.isfinite(answers).all()
        gaps = {
            Relation.REPLACE: max(np.linalg.norm(answers - one, axis=1).max() for one in answers),
            Relation.ADD_REMOVE: np.linalg.norm(answers, axis=1).max(),
        }
        for relation, gap in gaps.items():
            sensitivity = procedure.planned(replace(problem, relation=relation)).sensitivity
            assert gap <= sensitivity
            largest[relation] = max(largest[relation], gap / sensitivity)
    if tight:
        assert min(largest.values()) >= 1 - 1e-9, "the bound is not tight"


@pytest.mark.parametrize("norm_bound", [1.5, UNWEIGHTED], ids=["weighted", "unweighted"])
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_no_neighbour_exceeds_the_clipping_norm(loss, norm_bound, rng):
    check_neighbours(loss, norm_bound, rng, tight=True)


@pytest.mark.parametrize("bound", [0.5, 1e300])
@pytest.mark.parametrize("slope", [_steep, _broken, _array_steep, _array_broken])
def test_wrong_constants_cost_accuracy_never_privacy(slope, bound, rng):
    """Compiled slopes and slopes of arrays, too large, infinite or NaN: rows are clipped all the same."""
    check_neighbours(Lying(slope, bound), UNWEIGHTED, rng, tight=False)


@pytest.mark.parametrize("slope", [_steep, _array_steep], ids=["compiled", "arrays"])
@pytest.mark.parametrize("p", [1, 2, 7, 64])
@pytest.mark.parametrize("clip", [0.3, 1.0, 7.3e5])
def test_what_is_added_of_a_row_is_within_the_clipping_norm_in_exact_arithmetic(slope, p, clip, rng):
    """Directions without end, lengths on both sides of the bound and beyond; the bound is nearly reached."""
    x = rng.normal(size=(60, p))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x[20:40] *= np.exp2(rng.integers(-300, 300, (20, 1)))
    x[40:, 1:] *= 2.0**-27
    kernel = clipped_gradient_kernel(Lying(slope, 1e300), np.zeros(p), clip)
    norms = []
    for row in x:
        source = ArraySource(row[None], np.ones(1), norm_bound=UNWEIGHTED**6)
        norms.append(sum(Fraction(value) ** 2 for value in source.sum(kernel, p).tolist()))
    assert max(norms) <= Fraction(clip) ** 2
    assert max(norms) > (Fraction(clip) * (1 - Fraction(2) ** -38)) ** 2


def test_neighbours_in_a_larger_table(rng):
    rows = extreme_rows(3, norm_bound=1.5, responses=(0.0, 1.0))
    problem = make_problem(Logistic(), n_rows=200, norm_bound=UNWEIGHTED)
    x, y = rng.normal(size=(199, 3)), (rng.random(199) < 0.5).astype(float)
    procedure = ClippedGradient(0.3, rng.normal(size=3), UNLIMITED)
    answers = [exact(procedure, problem, [*x, row], [*y, label]) for row, label in rows[::7]]
    gaps = [np.linalg.norm(a - b) for a, b in itertools.combinations(answers, 2)]
    assert 0 < max(gaps) <= procedure.planned(problem).sensitivity


@pytest.mark.parametrize("n", [1, 63, 64, 65, 4096, 9000])
def test_the_sum_is_that_of_clipped_rows(n, rng):
    x, y, theta = rng.normal(size=(n, 3)), rng.normal(size=n), rng.normal(size=3)
    for loss, norm_bound in ((Squared(0.8), 1.5), (Squared(1e6), UNWEIGHTED)):
        problem = make_problem(loss, n_rows=n, norm_bound=norm_bound)
        weight = np.minimum(1.0, (norm_bound / np.linalg.norm(x, axis=1)) ** 2)
        slope = np.clip(x @ theta - y, -loss.bound, loss.bound)
        gradients = (weight * slope)[:, None] * x
        norms = np.linalg.norm(gradients, axis=1)
        wanted = (gradients * np.minimum(1.0, 0.7 / norms)[:, None]).mean(axis=0)
        found = exact(ClippedGradient(0.7, theta, UNLIMITED), problem, x, y)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        if n > 60:
            assert 0.05 < (norms > 0.7).mean() < 0.95


def test_a_slope_of_arrays_gives_the_same_sum(rng):
    @scalar
    def compiled(y, eta, s, c, k):
        return eta - y

    x, y, theta = rng.normal(size=(9000, 3)), rng.normal(size=9000), rng.normal(size=3)
    problem = make_problem(n_rows=9000, norm_bound=UNWEIGHTED)
    sums = []
    for slope in (compiled, lambda y, eta, s, c, k: eta - y):
        other = replace(problem, loss=Lying(slope, 2.0))
        sums.append(exact(ClippedGradient(0.7, theta, UNLIMITED), other, x, y))
    np.testing.assert_allclose(*sums, rtol=1e-12)


@pytest.mark.parametrize("relation", list(Relation))
def test_calibration_is_literal(relation):
    problem = make_problem(Logistic(), n_rows=100, relation=relation)
    exact_sensitivity = (2.0 if relation is Relation.REPLACE else 1.0) * 0.3 / 100
    for mu in (0.01, 1.0, 40.0):
        planned = ClippedGradient(0.3, np.zeros(3), Allowance.gaussian(mu)).planned(problem)
        assert exact_sensitivity < planned.sensitivity < exact_sensitivity * (1 + 1e-9)
        assert gaussian_mu(3, planned.sensitivity, planned.sd) <= mu


@pytest.mark.statistical
@pytest.mark.parametrize("pure", [False, True])
def test_noise_is_neither_too_small_nor_too_large(pure, rng):
    """Two-sided test of the scale and Kolmogorov test of the law, false alarm 1e-8 each."""
    x, y = rng.normal(size=(50, 3)), (rng.random(50) < 0.5).astype(float)
    problem = make_problem(Logistic(), n_rows=50, norm_bound=UNWEIGHTED)
    rows, source = Rows(problem, ArraySource(x, y, norm_bound=UNWEIGHTED)), make_source(3)
    procedure = ClippedGradient(0.3, np.ones(3), Allowance(0.4, pure=pure))
    center = exact(ClippedGradient(0.3, np.ones(3), UNLIMITED), problem, x, y)
    draws = np.array([procedure.carry_out(problem, rows, source) for _ in range(3000)]) - center
    draws /= procedure.planned(problem).sd
    if pure:
        norms = np.linalg.norm(draws, axis=1) * math.sqrt(4.0)
        assert kstest(norms, "gamma", args=(3,)).pvalue > FALSE_ALARM
    else:
        low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], draws.size)
        assert low < float(np.sum(draws**2)) < high
        assert kstest(draws.ravel(), "norm").pvalue > FALSE_ALARM


def test_what_cannot_be_clipped_is_refused(rng):
    with pytest.raises(InvalidArgument, match="clip"):
        ClippedGradient(0.0, np.zeros(3), UNLIMITED)
    scaled = make_problem(ConcomitantHuber(), n_rows=5)
    rows = Rows(scaled, ArraySource(np.ones((5, 3)), np.ones(5), norm_bound=1.5))
    with pytest.raises(PlanViolation, match="scale"):
        ClippedGradient(1.0, np.zeros(3), UNLIMITED).carry_out(scaled, rows, NoNoise())
