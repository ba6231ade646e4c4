"""The constant predictor that marginals say: where noise hides a mean count, what is to be expected of it."""

import math

import numpy as np
import pytest
from scipy.integrate import quad

from privfit.losses import Logistic, Poisson
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.geometry import Marginals
from privfit.solvers.response import MeanResponse, expected_mean


@pytest.mark.parametrize("usual", [0.5, 2.0, 50.0])
@pytest.mark.parametrize(("noisy", "noise"), [(3.0, 0.1), (1.0, 1.0), (-2.0, 1.0), (0.3, 4.0), (-8.0, 2.0)])
def test_the_expected_mean_is_that_of_the_posterior(noisy, noise, usual):
    def density(mean):
        return math.exp(-0.5 * ((mean - noisy) / noise) ** 2 - mean / usual)

    top = max(noisy, 0.0) + 12.0 * max(noise, 0.1)
    scale = quad(density, 0.0, top, limit=200)[0]
    wanted = quad(lambda mean: mean * density(mean), 0.0, top, limit=200)[0] / scale
    assert expected_mean(noisy, noise, usual) == pytest.approx(wanted, rel=1e-5)


def test_without_noise_it_is_the_mean_and_far_below_0_it_is_positive():
    assert expected_mean(2.5, 0.0, 1.0) == 2.5
    for far in np.geomspace(1.0, 1e6, 40):
        below, next_one = (expected_mean(-k * far, 1.0, 1.0) for k in (1.0, 1.01))
        assert 0.0 < next_one < below < 1.0
    assert expected_mean(-29.99, 1.0, 1e9) == pytest.approx(expected_mean(-30.01, 1.0, 1e9), rel=2e-3)
    assert expected_mean(5.0, 1e9, 2.0) == pytest.approx(2.0, rel=1e-3)


def counts_problem(p=3, bound=20.0):
    columns = tuple(f"x{k}" for k in range(p))
    loss = Poisson(math.log(bound), bound)
    penalised = (False, *(True,) * (p - 1))
    return Problem(loss, columns, 2.0, 1000, Relation.REPLACE, 0.0, (0.0,) * p, penalised)


def marginals_of(problem, mean_weight, mean, sd):
    """Return what is said of rows of this mean weight and mean response, if noise adds nothing by chance."""
    p, bound = problem.n_coef, problem.norm_bound
    low, high = problem.response_range
    u = (mean - 0.5 * (low + high)) / (0.5 * (high - low))
    value = np.zeros(2 * p + 2)
    value[0], value[2 * p], value[2 * p + 1] = (
        mean_weight,
        mean_weight * bound * u,
        mean_weight * bound * u**2,
    )
    planned = PlannedRelease("marginals", value.size, 1.0, 1.0, sd)
    return Marginals.of(problem, Release(planned, np.zeros(p), value))


def test_a_mean_count_is_not_drawn_towards_half_of_the_bound():
    clear = marginals_of(counts_problem(), 0.5, 1.2, 0.02)
    assert clear.response.constant()[0] == pytest.approx(math.log(1.2), abs=0.1)


def test_where_long_rows_hide_the_mean_count_it_is_what_is_usual():
    hidden = marginals_of(counts_problem(), 0.01, 1.2, 0.02)
    assert hidden.response.constant()[0] == pytest.approx(math.log(2.0), abs=0.25)


def test_a_share_of_ones_stays_as_far_from_0_as_its_noise_is_large():
    problem = Problem(Logistic(), ("x",), 1.0, 100, Relation.REPLACE, 0.0, (0.0,), (False,))
    response = MeanResponse(problem, mean=0.01, spread=0.1, error=0.1)
    assert response.constant()[0] == pytest.approx(math.log(0.2 / 0.8), abs=1e-6)
