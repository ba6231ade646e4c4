"""How far Newton steps go by the model of the Hessian."""

import math

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.losses import Huber, Logistic, Poisson
from privfit.solvers.geometry import Frame, Marginals
from privfit.solvers.hessian_model import HessianModel, View
from privfit.solvers.response import MeanResponse

from .simulated import problem_for

COUNTS = Poisson(math.log(45.0), 45.0)


def view(loss):
    """Coordinates of three whitened columns, the first of them constant."""
    problem = problem_for(loss, np.ones((1000, 3)))
    response = MeanResponse(problem, mean=1.0, spread=1.0, error=0.0)
    constant = np.array([1.0, 0.0, 0.0])
    marginals = Marginals(constant, np.ones(3), 0.0, 0.0, response)
    return View(HessianModel(problem, Frame(np.eye(3), constant, 3.0, np.eye(3), 3.0), marginals), np.eye(3))


@pytest.mark.parametrize("mean", [2.0, 5.0, 15.0, 40.0])
def test_a_log_mean_goes_about_as_far_as_the_mean_asks(mean):
    """From a mean of 1 a Newton step moves the log mean by ``mean - 1``."""
    at, step = np.zeros(3), np.array([mean - 1.0, 0.0, 0.0])
    found = at + view(COUNTS).length(at, step) * step
    assert 0.8 * math.log(mean) < found[0] < 1.15 * math.log(mean)


def test_a_step_is_taken_as_a_whole_where_the_curvature_does_not_grow():
    for loss, at, step in (
        (COUNTS, [2.0, 0.0, 0.0], [-0.9, 0.0, 0.0]),
        (COUNTS, [0.0, 0.0, 0.0], [0.1, 0.2, 0.0]),
        (Logistic(), [0.0, 0.0, 0.0], [2.0, 1.0, -1.0]),
        (Huber(1.0), [0.0, 0.0, 0.0], [20.0, 0.0, 0.0]),
    ):
        assert view(loss).length(np.array(at), np.array(step)) == 1.0


def test_a_step_from_where_a_logit_is_flat_does_not_overshoot():
    """At log odds of 5 the curvature is a fortieth of that at even odds, where the gradient 1 / 2 leads."""
    at = np.array([5.0, 0.0, 0.0])
    coordinates = view(Logistic())
    step = -np.linalg.solve(coordinates.expected(at), [0.49, 0.0, 0.0])
    assert at[0] + step[0] < -30.0
    assert abs(at[0] + coordinates.length(at, step) * step[0]) < 3.0


@pytest.mark.parametrize("seed", [8, 16])
def test_a_regression_of_counts_does_not_diverge(seed):
    """Noise makes their mean small, and steps by the curvature there went from log means of -0.7 to 4.

    Of these tables with counts that vary more than a Poisson law's, two of sixty, no coefficient was within
    1 of the truth.
    """
    rng = np.random.default_rng([seed, 2000, 5, 0, 1])
    z = rng.normal(size=(2000, 4))
    beta = np.array([0.5, 0.2, -0.2, 0.2, -0.2])
    y = rng.poisson(rng.gamma(2.0, 0.5, size=2000) * np.exp(beta[0] + z @ beta[1:]))
    model = pf.PoissonRegressor(budget=pf.Budget.gdp(1.0), random_state=10**7 + seed, count_bound=20)
    result = model.fit(pd.DataFrame(z, columns=list("abcd")), y).result_
    assert np.all(np.abs(result.params - beta) < 0.3)
    assert np.all(result.bse < 0.1)
