"""The density of a perturbed minimiser, integrated numerically for worst-case neighbours."""

import math
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from privfit.data.shares import ShareRule
from privfit.data.source import ArraySource
from privfit.errors import PlanViolation
from privfit.losses import Huber, Logistic, Multinomial
from privfit.privacy.curves import gdp_delta
from privfit.privacy.mechanisms import NoNoise
from privfit.privacy.relation import Relation
from privfit.privacy.samplers import LATTICE_BITS, RADIAL_BITS
from privfit.problem.rows import Rows
from privfit.procedures.landscape import Landscape
from privfit.procedures.objective_perturbation import (
    PerturbedObjective,
    calibrate_spread,
    determinant_loss,
    profile_delta,
    profile_mu,
    ridge_for,
    settled,
)

from .test_minimise import problem_of


def clipped(eta, y):
    return np.clip(eta - y, -1.0, 1.0), (np.abs(eta - y) <= 1.0).astype(float)


def log_densities(rows, others, sigma, *, points, span):
    """Log densities of the minimiser of ``theta' others theta / 2 + row + b'theta`` on a grid, for each row.

    The grid is even in ``others @ theta``; ``b`` is Gaussian. Returns them with the volume of a cell.
    """
    side = np.linspace(-span, span, points)
    grid = np.stack(np.meshgrid(*[side] * others.shape[0]), axis=-1)
    inverse = np.linalg.inv(others)
    theta = grid @ inverse.T
    found = []
    for x, y in rows:
        slope, curvature = clipped(theta @ x, y)
        b = grid + slope[..., None] * x
        jacobian = np.linalg.det(others) * (1 + curvature * (x @ inverse @ x))
        normal = -0.5 * np.sum(b * b, axis=-1) / sigma**2 - len(x) * math.log(sigma * math.sqrt(2 * math.pi))
        found.append(normal + np.log(jacobian))
    return found, (side[1] - side[0]) ** others.shape[0] / np.linalg.det(others)


def divergence(one, other, cell, epsilon):
    p, q = np.exp(one), np.exp(other)
    assert p.sum() * cell == pytest.approx(1.0, abs=0.02)
    return (
        max(np.maximum(p - math.exp(epsilon) * q, 0).sum(), np.maximum(q - math.exp(epsilon) * p, 0).sum())
        * cell
    )


@pytest.mark.parametrize(("epsilon", "loss"), [(1.0, 0.2), (1.0, 0.02), (2.0, 0.4), (0.3, 0.03)])
@pytest.mark.parametrize("share", [0.25, 0.4])
def test_one_coefficient_by_quadrature(epsilon, loss, share):
    """All pairs of rows on a grid: never above the claim; of epsilon at that delta at least 60 % is real."""
    ridge, mu = 1 / math.expm1(loss), share * epsilon
    sigma = 2 / mu
    claim = profile_delta(mu, epsilon - loss)
    assert claim < 1
    rows = [(np.array([x]), y) for x in (-1.0, 0.0, 1.0) for y in (-1e6, -3.0, -1.0, 0.0, 0.5, 2.0, 1e6)]
    found, cell = log_densities(rows, np.array([[ridge]]), sigma, points=4001, span=9 * sigma + 2)
    worst, real = 0.0, 0.0
    for i in range(len(rows)):
        for j in range(i):
            worst = max(worst, divergence(found[i], found[j], cell, epsilon))
            real = max(real, divergence(found[i], found[j], cell, 0.6 * epsilon))
    assert worst <= claim
    assert real > claim, "the claimed epsilon is more than 1 / 0.6 of the real one"


@pytest.mark.parametrize(("epsilon", "loss"), [(1.0, 0.2), (2.0, 0.4), (0.3, 0.03)])
def test_a_row_more_is_as_private_as_claimed(epsilon, loss):
    """Any row against none, for half the noise: below the claim; of epsilon at least 60 % is real."""
    ridge, mu = 1 / math.expm1(loss), 0.3 * epsilon
    claim = profile_delta(mu, epsilon - loss)
    rows = [(np.array([x]), y) for x in (0.0, -1.0, 0.4, 1.0) for y in (-1e6, -1.0, 0.0, 0.5, 2.0, 1e6)]
    (none, *found), cell = log_densities(rows, np.array([[ridge]]), 1 / mu, points=4001, span=9 / mu + 2)
    assert max(divergence(one, none, cell, epsilon) for one in found) <= claim < 1
    assert max(divergence(one, none, cell, 0.6 * epsilon) for one in found) > claim


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_row_more_asks_for_half_the_noise(delta):
    """By what the plan checks: a gradient moves by half as much, and the determinants are the same."""
    replaced = problem_of(Logistic(), n=1000, l2=0.01)
    added = replace(replaced, relation=Relation.ADD_REMOVE)
    costs = [determinant_loss(Landscape.of(problem)) for problem in (replaced, added)]
    assert costs[0] == costs[1]
    spread = calibrate_spread(Landscape.of(added), epsilon=0.9 - costs[0], delta=delta)
    twice = calibrate_spread(Landscape.of(replaced), epsilon=0.9 - costs[0], delta=delta)
    assert spread == pytest.approx(0.5 * twice, rel=1e-9)
    mechanism = PerturbedObjective(1.0, delta, 0.01, spread, 0.1, 10.0)
    assert mechanism.planned(added).epsilon == 1.0
    for problem, one in (
        (replaced, mechanism),
        (added, replace(mechanism, spread=0.999 * spread)),
    ):
        with pytest.raises(PlanViolation, match="stated cost"):
            one.planned(problem)


def test_the_determinants_attain_their_bound():
    problem = problem_of(Huber(1.0), n=10, l2=0.05, norm_bound=1.0, p=1)
    bound = determinant_loss(Landscape.of(problem))
    ridge = 10 * 0.05
    assert bound == pytest.approx(math.log((ridge + 1) / ridge), rel=1e-9)
    ridged = problem_of(Huber(1.0), n=10, l2=ridge_for(Landscape.of(problem), 0.3), norm_bound=1.0, p=1)
    assert 0.3 * (1 - 1e-6) < determinant_loss(Landscape.of(ridged)) <= 0.3


@pytest.mark.parametrize("directions", [1, 7])
def test_the_loss_of_the_determinants_is_rounded_up(rng, directions):
    """A claim of privacy is at least what is proven, however its logarithm is computed."""
    bare = Landscape.of(problem_of(Huber(1.0), n=10, l2=0.05, norm_bound=1.0, p=1))
    for curvature, l2 in 10.0 ** rng.uniform(-4.0, 4.0, size=(300, 2)):
        quotient = Decimal(curvature) / (10 * directions * Decimal(l2))
        exact = directions * (1 + quotient).ln()
        given = replace(bare, curvature=float(curvature), l2=float(l2), directions=directions)
        assert exact < Decimal(determinant_loss(given)) < exact * (1 + Decimal("3e-12"))


def of_units(problem):
    return replace(problem, shares=ShareRule(unit="person"))


def test_the_rows_of_a_unit_have_curvature_in_all_directions(rng):
    """Against random units of up to seven rows beside others; attained by rows along the axes."""
    problem = of_units(problem_of(Logistic(), n=10, l2=0.02, norm_bound=2.0, p=4))
    landscape = Landscape.of(problem)
    assert (landscape.directions, Landscape.of(replace(problem, shares=ShareRule())).directions) == (4, 1)
    bound, others = determinant_loss(landscape), rng.normal(size=(9, 4))
    for count in rng.integers(1, 8, size=500):
        rows = rng.normal(size=(count, 4))
        rows *= 2.0 / np.linalg.norm(rows, axis=1, keepdims=True)
        added = 0.25 * (rows.T * rng.dirichlet(np.ones(count))) @ rows / 10
        without = 0.02 * np.eye(4) + rng.uniform(0.0, 0.1) * others.T @ others / 10
        larger = np.linalg.slogdet(without + added)[1] - np.linalg.slogdet(without)[1]
        assert 0.0 <= larger <= bound
    even = 0.25 * 4.0 * np.eye(4) / 4 / 10
    most = np.linalg.slogdet(0.02 * np.eye(4) + even)[1] - 4.0 * math.log(0.02)
    assert most == pytest.approx(bound, rel=1e-9)
    assert bound > 1.5 * determinant_loss(replace(landscape, directions=1))
    ridged = replace(landscape, l2=ridge_for(landscape, 0.3))
    assert 0.3 * (1 - 1e-6) < determinant_loss(ridged) <= 0.3


@pytest.mark.parametrize("n_classes", [3, 5])
def test_a_row_of_several_classes_has_curvature_for_each_predictor(rng, n_classes):
    """Against rows of any length and probabilities; attained by even ones where others have no curvature."""
    loss, p = Multinomial(n_classes), 2
    m = n_classes - 1
    problem = replace(
        problem_of(Logistic(), n=10, l2=0.02, norm_bound=2.0, p=p), loss=loss, start=(0.0,) * (m * p)
    )
    landscape = Landscape.of(problem)
    assert landscape.directions == m
    assert landscape.smoothness >= problem.smoothness
    bound, others = determinant_loss(landscape), rng.normal(size=(9, m * p))
    for spread in 10.0 ** rng.uniform(-2.0, 2.0, size=300):
        row = rng.normal(size=p)
        row *= 2.0 / np.linalg.norm(row)
        curved = loss.curvatures(spread * rng.normal(size=(m, 1)))[0]
        without = 0.02 * np.eye(m * p) + rng.uniform(0.0, 0.1) * others.T @ others / 10
        larger = np.linalg.slogdet(without + np.kron(curved, np.outer(row, row)) / 10)[1]
        assert 0.0 <= larger - np.linalg.slogdet(without)[1] <= bound
    even = np.kron(loss.curvatures(np.zeros((m, 1)))[0], np.diag([4.0, 0.0])) / 10
    most = np.linalg.slogdet(0.02 * np.eye(m * p) + even)[1] - m * p * math.log(0.02)
    assert most == pytest.approx(bound, rel=1e-8)
    assert bound > 1.2 * determinant_loss(replace(landscape, directions=1))


def test_no_gaussian_term_hides_a_unit():
    problem = problem_of(Logistic(), n=1000, p=2)
    for delta in (1e-6, 0.0):
        l2, spread = settled(
            Landscape.of(of_units(problem)), epsilon=0.98, delta=delta, curvature_share=0.5, least=0.0
        )
        mechanism = PerturbedObjective(1.0, delta, l2, spread, 0.01, 10.0)
        assert mechanism.planned(problem).delta == delta
        if delta == 0.0:
            assert mechanism.planned(of_units(problem)).epsilon == 1.0
        else:
            with pytest.raises(PlanViolation, match="not a unit"):
                mechanism.planned(of_units(problem))


# mu, epsilon, loss of the determinants, directions of the rows, stretch of the others along a direction
TWO_COEFFICIENTS = [
    (0.25, 1.0, 0.2, 0.0, 0.45, 1e3, 0.9),
    (0.25, 1.0, 0.2, 0.3, -0.3, 3e2, 1.7),
    (0.35, 1.0, 0.05, 0.0, math.pi / 2, 10.0, 0.4),
    (0.5, 2.0, 0.4, 0.2, 0.5, 1e3, 1.4),
]


@pytest.mark.parametrize("case", TWO_COEFFICIENTS, ids=str)
def test_two_coefficients_by_quadrature(case):
    """Rows in different directions, others stretched: the rank-two case that four corners stand for."""
    mu, epsilon, loss, first, second, stretch, turn = case
    ridge, sigma = 1 / math.expm1(loss), 2 / mu
    axis = np.array([math.cos(turn), math.sin(turn)])
    others = ridge * (np.eye(2) + stretch * np.outer(axis, axis))
    claim = profile_delta(mu, epsilon - loss)
    rows = [
        (sign * np.array([math.cos(a), math.sin(a)]), y)
        for a in (first, second)
        for sign in (1.0, -1.0)
        for y in (-1e6, 0.0, 1e6)
    ]
    found, cell = log_densities(rows, others, sigma, points=160, span=6.5 * sigma + 2)
    worst = max(divergence(found[i], found[j], cell, epsilon) for i in range(len(rows)) for j in range(i))
    assert 0.01 * claim < worst <= claim


def test_one_side_is_not_enough():
    """``H(mu)`` at epsilon, the curve of a Gaussian release, understates a two-sided neighbour.

    A row that is added where there was none pulls to either side, with its steepest slope in both tails.
    """
    mu, epsilon, loss = 0.25, 1.0, 0.2
    sigma, ridge = 1 / mu, 1 / math.expm1(loss)
    found, cell = log_densities(
        [(np.zeros(1), 0.0), (np.ones(1), 0.0)], np.array([[ridge]]), sigma, points=8001, span=9 * sigma + 2
    )
    real = divergence(found[0], found[1], cell, epsilon)
    assert real > 1.5 * gdp_delta(mu, epsilon)
    assert real <= profile_delta(mu, epsilon - loss)


def test_the_calibration_keeps_its_delta_literally():
    """However small epsilon is: the limit of the proof is about as large, and its formula must not cancel."""
    for epsilon in (1e-300, 1e-12, 1e-8, 2e-4, 0.01, 0.3, 1.0, 5.0, 40.0):
        for delta in (1e-12, 1e-6, 1e-3, 0.05, 0.4):
            mu = profile_mu(epsilon, delta)
            assert profile_delta(mu, epsilon) <= delta
            assert profile_delta(1.01 * mu, epsilon) > delta
    assert profile_delta(1.0, 0.0) == 1.0
    assert profile_delta(1.0, 1.1) == 1.0


@pytest.mark.parametrize("epsilon", [3e-7, 3e-6, 3e-5, 2e-4])
def test_a_small_epsilon_can_be_planned(epsilon):
    problem = problem_of(Logistic(), n=100_000)
    l2, spread = settled(
        Landscape.of(problem), epsilon=0.98 * epsilon, delta=0.01, curvature_share=0.5, least=0.0
    )
    mechanism = PerturbedObjective(epsilon, 0.01, l2, spread, 0.01 * epsilon, 10.0)
    assert mechanism.planned(problem).delta == 0.01


def test_pure_noise_by_quadrature():
    """One coefficient, radial noise: the log density ratio stays within epsilon and comes near it."""
    epsilon = 0.8
    bare = Landscape.of(problem_of(Huber(1.0), n=10, norm_bound=1.0, p=1))
    problem = problem_of(Huber(1.0), n=10, l2=ridge_for(bare, 0.2), norm_bound=1.0, p=1)
    landscape = Landscape.of(problem)
    scale = 10 * calibrate_spread(landscape, epsilon=epsilon - determinant_loss(landscape), delta=0.0)
    ridge, theta = 10 * problem.l2, np.linspace(-8, 8, 20001)
    worst = 0.0
    densities = []
    for x in (-1.0, 0.0, 1.0):
        for y in (-1e6, -1.0, 0.0, 0.7, 1e6):
            slope, curvature = clipped(x * theta, y)
            densities.append(-np.abs(ridge * theta + slope * x) / scale + np.log(ridge + curvature * x * x))
    for one in densities:
        worst = max(worst, *(np.abs(one - other).max() for other in densities))
    assert 0.75 * epsilon < worst <= epsilon


@pytest.mark.parametrize("center", [(3.0, -1.0), (-200.0, 0.5)])
def test_the_ridge_pulls_to_its_center(center, rng):
    """Without a slope from rows the minimiser is there; with one it is that of the shifted ridge."""
    x, y = rng.uniform(-0.5, 0.5, size=(400, 2)), rng.integers(0, 2, 400).astype(float)
    problem = problem_of(Logistic(), n=400, l2=0.5, norm_bound=1.0, p=2)
    given = PerturbedObjective(math.inf, 0.0, 0.5, 0.0, 0.0, 1e4, center=center)
    at = np.array(center)
    np.testing.assert_allclose(given.pull(at), 0.0)
    source = ArraySource(x, y, norm_bound=1.0)
    found = given.carry_out(problem, Rows(problem, source), NoNoise())
    slope = x.T @ (1.0 / (1.0 + np.exp(-x @ found)) - y) / 400
    np.testing.assert_allclose(slope + 0.5 * (found - at), 0.0, atol=1e-9)
    plain = replace(given, center=None)
    assert given.planned(problem) == plain.planned(problem)
    assert given.error(problem) >= plain.error(problem)


def test_the_linear_term_of_a_center_is_in_the_bound_on_its_length(rng):
    """It is the ridge times the center, beside the noise; rounded up, and by no more than is needed."""
    problem = problem_of(Logistic(), n=400, l2=0.5, norm_bound=1.0, p=3)
    plain = PerturbedObjective(1.0, 0.0, 0.5, 1e-6, 0.02, 1e4)
    noise = plain.landscape(problem).tilt
    for l2, *center in 10.0 ** rng.uniform(-2.0, 2.0, size=(100, 4)):
        pulled = replace(plain, l2=l2, center=tuple(center)).landscape(problem).tilt
        length = Decimal(l2) * sum(Decimal(one) ** 2 for one in center).sqrt()
        assert length < Decimal(pulled) - Decimal(noise) < length * (1 + Decimal("3e-9"))


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
def test_what_is_settled_can_be_planned_whatever_the_parts_of_epsilon(delta, rng):
    """Parts that are rounded may add up to a little more than the whole: there is room for that."""
    problem = problem_of(Logistic(), n=1000)
    for amount, output, share in rng.uniform((-3.0, 0.01, 0.05), (1.5, 0.5, 0.9), size=(200, 3)):
        epsilon = 10.0**amount
        l2, spread = settled(
            Landscape.of(problem),
            epsilon=(1.0 - output) * epsilon,
            delta=delta,
            curvature_share=share,
            least=0.0,
        )
        procedure = PerturbedObjective(epsilon, delta, l2, spread, output * epsilon, 10.0)
        assert procedure.planned(problem).epsilon == epsilon


def test_noise_below_its_cost_is_refused():
    problem = problem_of(Logistic(), n=100, l2=0.1)
    spread = calibrate_spread(Landscape.of(problem), epsilon=0.5, delta=1e-6)
    good = PerturbedObjective(1.0, 1e-6, 0.1, spread, 0.02, 10.0)
    assert good.planned(problem).event is not None
    for bad in (
        PerturbedObjective(1.0, 1e-6, 0.1, 0.4 * spread, 0.02, 10.0),
        PerturbedObjective(1.0, 1e-6, 1e-3, spread, 0.02, 10.0),
        PerturbedObjective(0.4, 1e-6, 0.1, spread, 0.02, 10.0),
        PerturbedObjective(1.0, 0.0, 0.1, 1e-3, 0.02, 10.0),
    ):
        with pytest.raises(PlanViolation, match="cost"):
            bad.planned(problem)


class Given:
    """A linear term of 0, and no noise on the outcome; keeps the scales that were asked for."""

    private, label = False, "none (not private)"

    def __init__(self):
        self.scales = []

    def gaussian(self, value, sd):
        return value.copy()

    def radial(self, value, scale):
        self.scales.append(scale)
        return value.copy()


def perturbed(delta):
    problem = problem_of(Logistic(), n=100, l2=0.1)
    spread = calibrate_spread(Landscape.of(problem), epsilon=0.5, delta=delta)
    return problem, PerturbedObjective(1.0, delta, 0.1, spread, 0.02, 10.0)


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
def test_noise_on_the_outcome_hides_two_errors_in_opposite_directions(delta, rng):
    """Outcomes of neighbours with the same exact minimiser, each as far from it as it may be.

    That far is the tolerance of the minimiser, and 512 spacings of the lattice of the linear term a
    coordinate, over the ridge. The log ratio of densities is at most their distance over the scale.
    """
    problem, procedure = perturbed(delta)
    spacing = 2.0**-LATTICE_BITS if delta else 2.0**-RADIAL_BITS
    lattice = 512.0 * spacing * procedure.spread * math.sqrt(problem.size)
    tolerance = procedure.minimiser(procedure.landscape(problem)).tolerance
    apart = 2.0 * (tolerance + lattice) / problem.l2
    x, y = rng.normal(size=(100, problem.size)), (rng.random(100) < 0.5).astype(float)
    noise = Given()
    procedure.carry_out(problem, Rows(problem, ArraySource(x, y, norm_bound=problem.norm_bound)), noise)
    assert 0.99 * procedure.output_epsilon < apart / noise.scales[-1] <= procedure.output_epsilon


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
def test_noise_on_the_outcome_that_hides_one_error_only_is_refused(delta, rng, monkeypatch):
    problem, procedure = perturbed(delta)
    enough = procedure.output_scale(problem)
    rows = Rows(problem, ArraySource(np.ones((100, problem.size)), np.ones(100), norm_bound=1.5))
    for part in (0.5, 0.999):
        monkeypatch.setattr(PerturbedObjective, "output_scale", lambda *_, part=part: part * enough)
        with pytest.raises(PlanViolation, match="scale"):
            procedure.carry_out(problem, rows, Given())


@pytest.mark.parametrize("delta", [0.0, 1e-6], ids=["pure", "approximate"])
def test_the_parts_of_epsilon_add_up_to_the_whole_literally(delta):
    """Determinants, linear term and noise on the outcome; a little more for the last is refused."""
    problem = problem_of(Logistic(), n=100, l2=0.1)
    landscape, output = Landscape.of(problem), 0.02
    left = 1.0 - output - determinant_loss(landscape)
    spread = calibrate_spread(landscape, epsilon=left * (1.0 - 1e-9), delta=delta)
    procedure = PerturbedObjective(1.0, delta, 0.1, spread, output, 10.0)
    planned = procedure.planned(problem)
    assert (planned.epsilon, planned.delta, planned.mu, planned.sd) == (1.0, delta, math.inf, 0.0)
    with pytest.raises(PlanViolation, match="cost"):
        replace(procedure, output_epsilon=output + 1e-3).planned(problem)
    exact = replace(procedure, epsilon=math.inf).planned(problem)
    assert (exact.mu, exact.sd, exact.event) == (math.inf, 0.0, None)


def log_tail(shape, at):
    """Return the log probability that a Gamma variable with a whole shape is larger."""
    terms = np.arange(shape)
    return logsumexp(terms * math.log(at) - gammaln(terms + 1)) - at


@pytest.mark.parametrize("size", [1, 2, 40, 200])
def test_a_linear_term_is_longer_than_the_landscape_says_with_no_probability_to_speak_of(size):
    """With Gaussian noise ``exp(-2000)`` at most, with radial noise ``exp(-1000)``, by the laws of its norm.

    What rounding does to the outcome is bounded from that length.
    """
    problem = problem_of(Logistic(), n=100, l2=0.1, p=size)
    procedure = PerturbedObjective(1.0, 1e-6, 0.1, 0.5, 0.02, 10.0)
    gaussian = procedure.landscape(problem).tilt / 0.5
    radial = replace(procedure, delta=0.0).landscape(problem).tilt / 0.5
    assert log_tail((size + 1) // 2, gaussian**2 / 2.0) < -2000.0
    assert log_tail(size, radial) < -1000.0
    assert replace(procedure, epsilon=math.inf).landscape(problem).tilt == 0.0


def test_the_landscape_has_the_curvature_of_the_problems_own_ridge():
    problem = replace(problem_of(Logistic(), n=100, l2=0.1), penalised=(False, True, True))
    bare = PerturbedObjective(1.0, 1e-6, 0.1, 0.5, 0.02, 10.0)
    assert bare.landscape(problem).penalty == 0.0
    own = replace(bare, beside=True).landscape(problem).penalty
    largest = float(np.linalg.eigvalsh(problem.ridge)[-1])
    assert 0.0 < largest < own <= largest * (1.0 + 1e-8)
    half = math.sqrt(0.5)
    basis = np.array([[half, half, 0.0], [-half, half, 0.0], [0.0, 0.0, 1.0]])
    turned = replace(problem, basis=basis, penalised=(False, True, False))
    assert np.min(turned.ridge) < 0.0
    assert largest <= replace(bare, beside=True, stretch=2.0).landscape(turned).penalty
