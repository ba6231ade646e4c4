"""Joint moments and the smallest eigenvalue: bounds, agreement with NumPy, law of the noise."""

import itertools
import math

import numpy as np
import pytest
from scipy import optimize
from scipy.stats import chi2, kstest, laplace

from privfit.data.source import ArraySource
from privfit.errors import InvalidArgument
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise, gaussian_mu, make_source
from privfit.privacy.pure_mechanisms import radial_epsilon, radial_scale
from privfit.privacy.relation import Relation
from privfit.problem.queries import mean_sensitivity
from privfit.problem.rows import Rows
from privfit.procedures.moments import JointMoments, SmallestEigenvalue

from .tables import UNLIMITED, exact, extreme_rows, make_problem

FALSE_ALARM = 1e-8
RESPONSES = (-1e300, -2.0, -0.7, 0.0, 0.7, 2.0, 1e300)


def law(procedure, problem, x, y, draws):
    """Return ``draws`` outcomes minus the exact one, over the planned sd."""
    rows = Rows(problem, ArraySource(x, y, norm_bound=problem.norm_bound))
    source, planned = make_source(0), procedure.planned(problem)
    center = exact(type(procedure)(**{**fields(procedure), "allowance": UNLIMITED}), problem, x, y)
    outcomes = [procedure.carry_out(problem, rows, source) for _ in range(draws)]
    return (np.array(outcomes) - center) / planned.sd


def fields(procedure):
    return {name: getattr(procedure, name) for name in procedure.__slots__}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("balance", [0.05, 0.5, 1.0])
@pytest.mark.parametrize("p", [1, 2, 3])
def test_no_neighbour_moves_the_joint_moments_by_more(p, balance, relation):
    problem = make_problem(p=p, n_rows=1, relation=relation)
    moments = JointMoments(0.7, balance, UNLIMITED)
    rows = extreme_rows(p, norm_bound=1.5, responses=RESPONSES)
    answers = np.unique([exact(moments, problem, *row) for row in rows], axis=0)
    sensitivity = moments.planned(problem).sensitivity
    if relation is Relation.REPLACE:
        gaps = [np.linalg.norm(answers - one, axis=1).max() for one in answers]
    else:
        gaps = np.linalg.norm(answers, axis=1)
    assert max(gaps) <= sensitivity
    if relation is Relation.ADD_REMOVE:
        assert max(gaps) >= sensitivity * (1 - 1e-9), "the bound is not tight"
    elif balance == 0.5 and p > 1:
        assert max(gaps) >= 0.99 * sensitivity, "the bound is not tight"


@pytest.mark.parametrize("relation", list(Relation))
def test_rounding_is_in_the_sensitivities(relation):
    """2**-40 of a row's products; 64 p 2**-53 of a matrix's norm for an eigenvalue, of two matrices."""
    p, n, bound, balance = 400, 10**6, 3.0, 0.3
    problem = make_problem(p=p, n_rows=n, norm_bound=bound, relation=relation)
    single = math.sqrt(1.0 + 2.0 * balance) * bound**2
    most = math.sqrt(2.0) * (1.0 + balance) * bound**2 if relation is Relation.REPLACE else single
    moments = JointMoments(0.7, balance, UNLIMITED).planned(problem)
    of_sum = mean_sensitivity(most, largest=single, n_rows=n, most_rows=problem.most_rows)
    assert 0.9 * 2.0**-40 < moments.sensitivity / of_sum - 1.0 < 1.1 * 2.0**-40
    smallest = SmallestEigenvalue(UNLIMITED).planned(problem)
    error = 64 * p * 2.0**-53 * (2 * bound**2)
    of_sum = mean_sensitivity(bound**2, largest=bound**2, n_rows=n, most_rows=problem.most_rows)
    assert 1.99 * error < smallest.sensitivity - of_sum < 2.01 * error
    assert (moments.size, smallest.size) == (p * (p + 1) // 2 + p, 1)


@pytest.mark.parametrize("balance", [0.1, 0.5, 0.9])
def test_the_worst_replacement_attains_the_bound_and_no_more(balance):
    """An optimiser over both rows in the plane finds the derived sup, sqrt(2) (1 + k) B**2."""
    bound, response = 1.5, 0.7
    problem = make_problem(p=2, n_rows=1)
    moments = JointMoments(response, balance, UNLIMITED)
    sensitivity = moments.planned(problem).sensitivity

    def row(radius, angle, y):
        turned = np.array([math.cos(angle), math.sin(angle)])
        return bound * min(abs(radius), 1.0) * turned, response * y

    def gap(v):
        one, other = exact(moments, problem, *row(*v[:3])), exact(moments, problem, *row(*v[3:]))
        return -float(np.linalg.norm(one - other))

    start = np.random.default_rng(1)
    found = min(
        optimize.minimize(
            gap, start.uniform(-1, 1, 6), bounds=[(0, 1), (-4, 4), (-1, 1)] * 2, method="L-BFGS-B"
        ).fun
        for _ in range(12)
    )
    assert -found <= sensitivity
    assert -found >= sensitivity * (1 - 1e-5)


def test_the_joint_release_has_less_noise_than_two():
    """At the same noise in the matrix, the cross moment has sqrt(2 + k) / 2 of the noise."""
    problem = make_problem(n_rows=1000)
    for k in (0.1, 0.5, 1.0):
        moments = JointMoments(1.0, k, Allowance.gaussian(1.0))
        joint = moments.planned(problem).sd
        share = 1.0 / (1.0 + k) ** 2
        separate_matrix = math.sqrt(2) * 1.5**2 / 1000 / math.sqrt(share)
        separate_cross = 2 * 1.5 / 1000 / math.sqrt(1 - share)
        assert joint == pytest.approx(separate_matrix, rel=1e-5)
        assert joint / moments.factor(problem) == pytest.approx(
            separate_cross * math.sqrt(2 + k) / 2, rel=1e-5
        )


def test_moments_are_the_weighted_sums(rng):
    x, y = 2.0 * rng.normal(size=(9000, 3)), rng.normal(size=9000)
    problem = make_problem(n_rows=9000)
    moments = JointMoments(0.7, 0.5, UNLIMITED)
    matrix, cross = moments.parts(problem, exact(moments, problem, x, y))
    weight = np.minimum(1.0, 1.5**2 / np.sum(x**2, axis=1))
    assert (weight < 1).mean() > 0.5
    np.testing.assert_allclose(matrix, (x.T * weight) @ x / 9000, rtol=1e-9)
    np.testing.assert_allclose(cross, (x.T * weight) @ np.clip(y, -0.7, 0.7) / 9000, rtol=1e-9, atol=1e-12)
    smallest = exact(SmallestEigenvalue(UNLIMITED), problem, x, y)
    np.testing.assert_allclose(smallest, [np.linalg.eigvalsh(matrix)[0]], rtol=1e-9)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("p", [1, 2, 3])
def test_no_neighbour_moves_the_smallest_eigenvalue_by_more(p, relation, rng):
    """B**2 / n under both relations, attained by a row in the direction that no other row has."""
    rows = [row for row, _ in extreme_rows(p, norm_bound=1.5, responses=(0.0,))]
    largest = 0.0
    for base in [np.zeros((3, p)), 1.5 * np.eye(p)[[0] * 3], *rng.normal(size=(20, 3, p))]:
        problem = make_problem(p=p, n_rows=4, relation=relation)
        procedure = SmallestEigenvalue(UNLIMITED)
        answers = [exact(procedure, problem, [*base, row], np.zeros(4))[0] for row in rows]
        if relation is Relation.ADD_REMOVE:
            answers.append(exact(procedure, problem, base, np.zeros(3))[0])
            gaps = [abs(answers[-1] - one) for one in answers]
        else:
            gaps = [abs(a - b) for a, b in itertools.combinations(answers, 2)]
        sensitivity = procedure.planned(problem).sensitivity
        assert max(gaps) <= sensitivity
        largest = max(largest, *gaps)
    if p < 3:
        assert largest >= sensitivity * (1 - 1e-9), "the bound is not tight"


@pytest.mark.parametrize("mu", [0.01, 1.0, 40.0])
@pytest.mark.parametrize("relation", list(Relation))
def test_calibration_is_literal(relation, mu):
    problem = make_problem(n_rows=100, relation=relation)
    for make in (lambda a: JointMoments(1.0, 0.5, a), SmallestEigenvalue):
        planned = make(Allowance.gaussian(mu)).planned(problem)
        assert gaussian_mu(planned.size, planned.sensitivity, planned.sd) <= mu
        pure = make(Allowance(mu, pure=True)).planned(problem)
        scale = radial_scale(pure.sd, pure.size)
        assert radial_epsilon(pure.size, pure.sensitivity, scale) <= mu
        assert pure.sd == pytest.approx(pure.sensitivity / mu * math.sqrt(pure.size + 1), rel=1e-5)


@pytest.mark.statistical
def test_gaussian_noise_is_neither_too_small_nor_too_large(rng):
    """Two-sided chi-squared and Kolmogorov tests, false alarm 1e-8 each."""
    x, y = rng.normal(size=(50, 3)), rng.normal(size=50)
    problem = make_problem(n_rows=50)
    for procedure in (JointMoments(1.0, 0.5, Allowance.gaussian(0.3)), SmallestEigenvalue(Allowance(0.3))):
        draws = law(procedure, problem, x, y, 3000).ravel()
        low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], draws.size)
        assert low < float(draws @ draws) < high
        assert kstest(draws, "norm").pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_pure_noise_is_radial(rng):
    """The norm of the noise is Gamma(size); the eigenvalue's is Laplace. False alarm 1e-8 each."""
    x, y = rng.normal(size=(50, 2)), rng.normal(size=50)
    problem = make_problem(p=2, n_rows=50)
    moments = law(JointMoments(1.0, 0.5, Allowance(0.3, pure=True)), problem, x, y, 3000)
    norms = np.linalg.norm(moments, axis=1) * math.sqrt(6.0)
    assert kstest(norms, "gamma", args=(5,)).pvalue > FALSE_ALARM
    single = law(SmallestEigenvalue(Allowance(0.3, pure=True)), problem, x, y, 3000)[:, 0]
    assert kstest(single * math.sqrt(2.0), laplace.cdf).pvalue > FALSE_ALARM


def test_arguments_are_checked():
    for make in (
        lambda: JointMoments(0.0, 0.5, UNLIMITED),
        lambda: JointMoments(math.inf, 0.5, UNLIMITED),
        lambda: JointMoments(1.0, 0.0, UNLIMITED),
        lambda: JointMoments(1.0, 1.01, UNLIMITED),
    ):
        with pytest.raises(InvalidArgument):
            make()


def test_unusable_rows_count_for_nothing():
    problem = make_problem(n_rows=3)
    moments = JointMoments(0.7, 0.5, UNLIMITED)
    x = np.array([[1.0, 0.5, 0.0], [np.nan, 1.0, 1.0], [1.0, 1.0, 1.0]])
    clean = x * np.array([[1.0], [0.0], [0.0]])
    clean[1] = 0.0
    source = ArraySource(x, np.array([0.3, 1.0, np.inf]), norm_bound=1.5)
    dirty = moments.carry_out(problem, Rows(problem, source), NoNoise())
    np.testing.assert_array_equal(dirty, exact(moments, problem, clean, np.array([0.3, 0.0, 0.0])))
