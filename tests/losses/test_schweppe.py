"""Schweppe's weighting: rows are scaled, bounds hold, and the estimate is the one of the definition."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial.distance import pdist

import privfit as pf
from privfit.data.blocks import Block
from privfit.data.clamp import schweppe_weights
from privfit.data.source import ArraySource
from privfit.losses import (
    ConcomitantHuber,
    Hinge,
    Huber,
    LogCosh,
    Logistic,
    Poisson,
    PseudoHuber,
    Quantile,
    Schweppe,
    SelfConcordantHuber,
    SmoothedHuber,
    SmoothedQuantile,
    Squared,
)
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.query_kernels import query_kernel

OF_RESIDUAL = [
    Huber(),
    Squared(),
    SmoothedHuber(),
    LogCosh(),
    PseudoHuber(),
    SelfConcordantHuber(),
    Quantile(),
    SmoothedQuantile(),
]


@pytest.mark.parametrize("loss", OF_RESIDUAL, ids=lambda loss: loss.name)
def test_the_constants_are_those_of_the_loss(loss):
    wrapped = Schweppe(loss)
    assert wrapped.constants == loss.constants
    assert wrapped.span(2.0) == loss.span(2.0)
    assert wrapped.convex
    assert wrapped.proven
    assert loss.name in wrapped.name


@pytest.mark.parametrize(
    "loss",
    [Logistic(), Hinge(), Poisson(), ConcomitantHuber(), Schweppe(Huber())],
    ids=lambda loss: loss.name,
)
def test_other_losses_are_refused(loss):
    with pytest.raises(pf.Incompatible, match="residual"):
        Schweppe(loss)


def test_rows_are_scaled_to_the_bound_and_short_ones_left_alone():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(500, 3)) * np.exp(3 * rng.normal(size=(500, 1)))
    x[:3] = [[np.nan, 0, 0], [1e200, 0, 0], [0, 0, 0]]
    y = rng.normal(size=500)
    weight, scaled, response = schweppe_weights(x, y, norm_bound=2.0)
    length = np.hypot(np.hypot(x[:, 0], x[:, 1]), x[:, 2])
    usable = np.isfinite(length)
    assert weight[0] == 0.0
    assert set(weight[np.flatnonzero(usable & (length < 1e100))]) <= {1.0}
    short = usable & (length <= 2.0)
    np.testing.assert_array_equal(scaled[short], x[short])
    long = usable & (length > 2.0) & (length < 1e100)
    np.testing.assert_allclose(np.linalg.norm(scaled[long], axis=1), 2.0, rtol=1e-9)
    np.testing.assert_allclose(response[long] / y[long], 2.0 / length[long], rtol=1e-9)


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("kind", ["gradient", "hessian", "meat", "second_moment"])
def test_no_neighbour_exceeds_the_sensitivity(relation, kind):
    loss = Schweppe(Huber(0.5))
    problem = Problem(loss, ("a", "b"), 1.5, 1, relation, 0.0, (0.0, 0.0), (True, True))
    directions = [np.array(d) / np.linalg.norm(d) for d in ([1, 0], [0, 1], [-1, 0], [1, -1], [2, 1])]
    pairs = [
        (s * d, y) for d in directions for s in (0.2, 1.5, 1.6, 40.0, 1e160) for y in (-1e9, -0.3, 0, 1, 1e9)
    ]
    x, y = np.array([row for row, _ in pairs]), np.array([y for _, y in pairs])
    (block,) = ArraySource(x, y, norm_bound=1.5, weighting=schweppe_weights).blocks()
    for at in (np.zeros(2), np.array([0.7, -0.2]), np.array([40.0, 3.0])):
        answers = []
        for i in range(len(y)):
            out = np.zeros((1, problem.sum_length(kind)))
            one = Block(block.x[i : i + 1], block.y[i : i + 1], block.weight[i : i + 1])
            query_kernel(problem, kind, at)(one, out)
            answers.append(problem.mean(kind, out[0]).ravel())
        answers = np.array(answers)
        gap = pdist(answers).max() if relation is Relation.REPLACE else np.linalg.norm(answers, axis=1).max()
        assert gap <= problem.sensitivity(kind)


def test_the_estimate_minimises_the_definition():
    rng = np.random.default_rng(5)
    x = rng.standard_t(2, size=(400, 2))
    y = x @ [0.5, -1.0] + rng.standard_t(2, size=400)
    bound = 1.5
    fit = pf.MEstimator(
        loss=Schweppe(PseudoHuber(1.0)), solver="non-private", norm_bound=bound, fit_intercept=False
    ).fit(x, y)
    v = np.minimum(1.0, bound / np.linalg.norm(x, axis=1))

    def objective(theta):
        return np.sum(np.sqrt(1 + (v * (y - x @ theta)) ** 2) - 1)

    np.testing.assert_allclose(fit.coef_, minimize(objective, np.zeros(2), tol=1e-12).x, atol=1e-5)
    plain = pf.MEstimator(
        loss=PseudoHuber(1.0), solver="non-private", norm_bound=bound, fit_intercept=False
    ).fit(x, y)
    assert np.abs(plain.coef_ - fit.coef_).max() > 1e-3


@pytest.mark.parametrize("solver", ["auto", "newton", "gradient-descent", "output-perturbation"])
def test_private_fits_come_close(solver):
    rng = np.random.default_rng(6)
    x = rng.normal(size=(20_000, 2))
    y = x @ [0.5, -1.0] + rng.standard_t(3, size=20_000)
    fit = pf.MEstimator(4.0, loss=Schweppe(Huber(1.0)), solver=solver, random_state=1, norm_bound=2.0).fit(
        x, y
    )
    assert (np.abs(fit.coef_ - [0.5, -1.0]) < 6 * fit.result_.bse.to_numpy()[1:]).all()
    assert np.isfinite(fit.result_.bse).all()
