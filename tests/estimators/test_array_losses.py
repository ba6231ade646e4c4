"""Losses of NumPy functions: every solver takes them or refuses them by name, and no row stops a fit."""

import numpy as np
import pytest

from privfit import Budget, MEstimator, losses, solvers
from privfit.errors import Incompatible

CANARY = 0.625


def value(y, eta):
    return np.sqrt(1.0 + (eta - y) ** 2) - 1.0


def slope(y, eta):
    return (eta - y) / np.sqrt(1.0 + (eta - y) ** 2)


def curvature(y, eta):
    return (1.0 + (eta - y) ** 2) ** -1.5


def failing(function):
    """The function, but for a canary among the rows, on which it raises."""

    def broken(y, eta):
        if (y == CANARY).any():
            raise ValueError(f"found {y}")
        return function(y, eta)

    return broken


BOUNDS = {"slope_bound": 1.0, "curvature_bound": 1.0, "vectorized": True}
SOUND = losses.Custom(value, slope, curvature, **BOUNDS)
BROKEN = losses.Custom(failing(value), failing(slope), failing(curvature), **BOUNDS)

TAKES = {
    "auto": solvers.WhitenedGradientDescent(),
    "gradient": solvers.NoisyGradientDescent(),
    "newton": solvers.NoisyNewton(damping=solvers.Backtracking()),
    "noisy-sgd": solvers.NoisySGD(n_steps=40),
    "online-to-batch": solvers.OnlineToBatch(),
    "projected": solvers.ProjectedNoisyGradientDescent(n_steps=20),
}
REFUSES = {
    "random-round": (solvers.RandomRoundSGD(), "random-round SGD needs a compiled loss"),
    "candidates": (
        solvers.ExponentialMechanism(candidates=[[0.0, 0.0, 0.0], [0.3, 0.5, -0.4]]),
        "exponential mechanism needs a compiled loss",
    ),
    "exponential": (solvers.ExponentialMechanism(), "rests on the curvature"),
    "regularised": (solvers.RegularisedExponentialMechanism(), "rests on the curvature"),
    "output": (solvers.OutputPerturbation(), "OutputPerturbation"),
    "objective": (solvers.ObjectivePerturbation(), "ObjectivePerturbation"),
    "adassp": (solvers.AdaSSP(), "least squares only"),
    "statistics": (solvers.SufficientStatistics(), "least squares only"),
}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1.0, 1.0, size=(200, 2))
    y = np.clip(0.3 + x @ [0.5, -0.4] + 0.1 * rng.normal(size=200), -1.0, 1.0)
    y[3] = CANARY
    return x, y


def fitted(loss, solver, table, *, inference):
    estimator = MEstimator(
        loss=loss, solver=solver, inference=inference, budget=Budget(2.0, 1e-6), random_state=1
    )
    return estimator.fit(*table).result_


@pytest.mark.parametrize("solver", TAKES.values(), ids=TAKES)
@pytest.mark.parametrize("inference", [True, False])
def test_no_row_stops_a_fit(solver, inference, table):
    """A failing row counts as 0, so the fit is that of a loss with NaN there."""

    def silent(function):
        return lambda y, eta: np.where(y == CANARY, np.nan, function(y, eta))

    absent = losses.Custom(silent(value), silent(slope), silent(curvature), **BOUNDS)
    found, same, other = (
        fitted(loss, solver, table, inference=inference) for loss in (BROKEN, absent, SOUND)
    )
    np.testing.assert_allclose(found.params, same.params, rtol=1e-9, atol=1e-9)
    assert np.abs(found.params - other.params).max() > 1e-9


def test_clipped_gradients_take_them_too(table):
    solver = solvers.ClippedGradientDescent()
    assert np.isfinite(fitted(BROKEN, solver, table, inference=False).params).all()


@pytest.mark.parametrize(("solver", "says"), REFUSES.values(), ids=REFUSES)
def test_what_cannot_take_them_says_so(solver, says, table):
    with pytest.raises(Incompatible, match=says):
        fitted(SOUND, solver, table, inference=False)


def test_candidates_may_be_compared_by_a_compiled_score(table):
    x, y = table
    loss = losses.Custom(value, slope, curvature, target_kind="binary", **BOUNDS)
    solver = solvers.ExponentialMechanism(
        candidates=[[0.0, 0.0, 0.0], [0.0, 5.0, 0.0]], score=losses.ZeroOne()
    )
    found = fitted(loss, solver, (x, (x[:, 0] > 0).astype(float)), inference=False)
    assert found.params.iloc[1] == pytest.approx(5.0, rel=0.5)
    assert y.shape == (200,)
