"""Steps, ridges and noise that follow from public facts, each against the formula of its source."""

import math

import numpy as np
import pytest

from privfit.learners import ConcentrationPenalty, ParameterFree, SourcePenalty, StronglyConvexOSD
from privfit.losses import Logistic
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.procedures.noisy_sgd import SampledDescent
from privfit.solvers import (
    NoisyGradientDescent,
    NoisySGD,
    NonPrivate,
    ObjectivePerturbation,
    OnlineToBatch,
    RandomRoundSGD,
    RegularisedExponentialMechanism,
)

from .simulated import inferred, problem_for, procedure_of

N, P, LENGTH = 1000, 3, 1.6
CURVATURE = 0.25 * LENGTH**2
ALLOWANCE = Allowance.of(Budget(1.0, 1e-5))


def problem_of(**changes):
    return problem_for(Logistic(), np.ones((N, P)), norm_bound=LENGTH, **changes)


@pytest.mark.parametrize("l2", [0.0, 0.7])
@pytest.mark.parametrize("gap", [None, 0.3])
@pytest.mark.parametrize("n_steps", [500, 20_000])
def test_the_step_of_random_rounds_balances_distance_and_noise(n_steps, gap, l2):
    """Ghadimi and Lan: ``min(1 / beta, D / (S sqrt(N)))``, ridge included, in the law of R as well."""
    problem, solver = problem_of(l2=l2), RandomRoundSGD(n_steps=n_steps, initial_gap=gap)
    walk = procedure_of(problem, solver, ALLOWANCE)
    beta, sd = CURVATURE + l2, walk.planned(problem).sd
    noise = math.sqrt(LENGTH**2 + P * sd**2)
    balanced = math.sqrt(2 * (gap or LENGTH) / beta) / (noise * math.sqrt(n_steps))
    assert walk.step_size == pytest.approx(min(1 / beta, balanced))
    assert walk.smoothness == pytest.approx(beta)
    assert walk.n_steps == n_steps


def test_a_step_of_random_rounds_is_never_above_one_over_the_curvature():
    walk = procedure_of(problem_of(), RandomRoundSGD(n_steps=500, initial_gap=1e6), ALLOWANCE)
    assert walk.step_size == pytest.approx(1 / CURVATURE)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 30.0])
def test_the_default_number_of_random_rounds(epsilon):
    allowance = Allowance.of(Budget(epsilon, 1e-5))
    walk = procedure_of(problem_of(), RandomRoundSGD(), allowance)
    expected = math.ceil((N * allowance.amount) ** 2 / (8 * P))
    assert walk.n_steps == min(max(N, expected), 10**6 // P)


@pytest.mark.parametrize("factor", [0.0, 0.1, 10.0])
def test_gradient_descent_counts_the_ridge_in_its_step(factor):
    """With 1 / L alone, a ridge above L would make every step overshoot, and the fit explode."""
    rng = np.random.default_rng(4)
    x = np.column_stack([np.ones(N), rng.uniform(-1, 1, size=(N, P - 1))])
    y = (rng.random(N) < 1 / (1 + np.exp(-2 * x[:, 1]))).astype(float)
    problem = problem_for(Logistic(), x, norm_bound=LENGTH, l2=factor * CURVATURE)
    solver = NoisyGradientDescent(n_steps=400, report="last")
    found, exact = (inferred(problem, one, x, y, mu=math.inf).theta for one in (solver, NonPrivate()))
    np.testing.assert_allclose(found, exact, atol=0.01)


def test_noisy_sgd_of_the_source_is_its_algorithm():
    """Bassily, Smith and Thakurta: steps ``D / sqrt(t (L**2 + noise))``, projected, and the last point."""
    problem, radius = problem_of(), 1.5
    descent = procedure_of(problem, NoisySGD(radius=radius, constants="source"), ALLOWANCE)
    rate = math.floor(0.05 * 2.0**53) * 2.0**-53
    noise = P * (descent.planned(problem).sd / (rate * N)) ** 2
    assert descent == SampledDescent(
        n_steps=math.ceil(rate**-2),
        batch_rate=rate,
        step_size=pytest.approx(radius / math.sqrt(LENGTH**2 + noise)),
        decay=0.5,
        radius=radius,
        averaged=1,
        ratio=descent.ratio,
        start=problem.start,
    )


@pytest.mark.parametrize(("l2", "epsilon"), [(0.0, 1.0), (0.0, 4.0), (0.3, 1.0)])
def test_objective_perturbation_of_kifer_smith_and_thakurta(l2, epsilon):
    """Ridge ``2 lambda / epsilon``, noise ``L sqrt(8 log(2 / delta) + 4 epsilon) / epsilon``, of a mean.

    L is twice the bound on a gradient, since a row is replaced.
    """
    solver, delta = ObjectivePerturbation(constants="source"), 1e-5
    procedure = procedure_of(problem_of(l2=l2), solver, Allowance.of(Budget(epsilon, delta)))
    left = 0.98 * epsilon
    spread = 2 * LENGTH / N * math.sqrt(8 * math.log(2 / delta) + 4 * left) / left
    assert procedure.spread == pytest.approx(spread, rel=1e-6)
    assert procedure.l2 == pytest.approx(max(l2, 2 * CURVATURE / (N * left)), rel=1e-6)


@pytest.mark.parametrize(("l2", "enough"), [(0.0, False), (1e-6, False), (0.1, True)])
def test_objective_perturbation_of_chaudhuri_monteleoni_and_sarwate(l2, enough):
    """Epsilon less ``2 log(1 + c / (n l2))``; where nothing is left half of it, and a ridge for a quarter."""
    solver = ObjectivePerturbation(constants="source")
    procedure = procedure_of(problem_of(l2=l2), solver, Allowance.of(Budget(1.0)))
    rest = 0.98 - 2 * math.log1p(CURVATURE / (N * l2)) if enough else 0.49
    ridge = l2 if enough else CURVATURE / (N * math.expm1(0.98 / 4))
    assert procedure.l2 == pytest.approx(ridge, rel=1e-6)
    assert procedure.spread == pytest.approx(2 * LENGTH / (N * rest), rel=1e-5)


@pytest.mark.parametrize("radius", [1.0, 3.0])
def test_the_regularised_mechanism_balances_bias_and_noise(radius):
    """``sqrt(2 p) s / (mu R)``: the least sum of ``strength R**2 / 2`` and ``p / k``."""
    mu, sensitivity = 0.5, 2 * LENGTH / N
    solver = RegularisedExponentialMechanism(radius=radius)
    draw = procedure_of(problem_of(), solver, Allowance.gaussian(mu))
    assert draw.strength == pytest.approx(math.sqrt(2 * P) * sensitivity / (mu * radius), rel=1e-6)

    def bound(strength):
        return 0.5 * strength * radius**2 + P * sensitivity**2 / (strength * mu**2)

    assert bound(draw.strength) < min(bound(0.99 * draw.strength), bound(1.01 * draw.strength))


@pytest.mark.parametrize(
    ("learner", "power"),
    [
        (StronglyConvexOSD(strength=0.1), 2.0),
        (ParameterFree(), 1.0),
        (ParameterFree(penalty=ConcentrationPenalty()), 1.0),
        (ParameterFree(penalty=SourcePenalty()), 3.0),
    ],
    ids=repr,
)
def test_one_pass_has_the_weights_that_suit_the_learner(learner, power):
    """FLAG A-2 for strong convexity, theorem 11 for the source's penalty."""
    allowance = Allowance.gaussian(1.0)
    assert procedure_of(problem_of(), OnlineToBatch(learner), allowance).power == power
    if power != 3.0:
        assert procedure_of(problem_of(), OnlineToBatch(learner, power=1.5), allowance).power == 1.5
