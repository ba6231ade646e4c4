"""Without much noise, the solvers find the minimum of every smooth convex loss."""

import numpy as np
import pytest

from privfit.errors import Incompatible
from privfit.losses import (
    Hinge,
    LogCosh,
    Poisson,
    PseudoHuber,
    SelfConcordantHuber,
    Sigmoid,
    SmoothedHinge,
    SmoothedHuber,
    SmoothedQuantile,
)
from privfit.privacy.allowance import Allowance
from privfit.solvers import NoisyGradientDescent, NoisyNewton, NonPrivate, WhitenedGradientDescent

from .simulated import inferred, problem_for

LOSSES = [
    SmoothedHinge(),
    SmoothedQuantile(0.5, 0.2),
    SmoothedQuantile(0.85, 0.2),
    Poisson(2.5, 12.0),
    SmoothedHuber(0.4, 0.2),
    LogCosh(0.4),
    PseudoHuber(0.4),
    SelfConcordantHuber(0.4),
]


def rows(loss, n=4000, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    eta = x @ np.array([0.4, -0.5, 0.3])
    y = {
        "binary": (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "numeric": eta + 0.3 * rng.normal(size=n),
        "count": rng.poisson(np.exp(eta)).astype(float),
    }[loss.target_kind]
    return x, y


@pytest.mark.parametrize("solver", [WhitenedGradientDescent(), NoisyNewton()], ids=lambda one: one.name)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
def test_a_huge_budget_finds_the_minimum(loss, solver):
    x, y = rows(loss)
    far = 1.6 if isinstance(solver, NoisyNewton) else 9.0
    exact = inferred(problem_for(loss, x, norm_bound=far), NonPrivate(), x, y, mu=np.inf)
    found = inferred(problem_for(loss, x, norm_bound=far), solver, x, y, mu=1e6)
    np.testing.assert_allclose(found.theta, exact.theta, atol=2e-5)
    np.testing.assert_allclose(found.cov_sampling, exact.cov_sampling, rtol=2e-2, atol=1e-9)


@pytest.mark.parametrize("width", [1.0, 0.3, 0.05])
def test_the_reference_leaves_the_flat_parts_of_a_narrow_hinge(width):
    from scipy.optimize import minimize

    loss = SmoothedHinge(width)
    x, y = rows(loss)
    found = inferred(problem_for(loss, x, norm_bound=9.0), NonPrivate(), x, y, mu=np.inf).theta

    def objective(theta):
        short = np.maximum(0.0, 1.0 - (2 * y - 1) * (x @ theta))
        return np.where(short <= width, 0.5 * short**2 / width, short - 0.5 * width).mean()

    best = minimize(objective, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-14})
    assert objective(found) <= best.fun + 1e-9


def test_what_solvers_refuse():
    x, _ = rows(Hinge())
    for solver in (WhitenedGradientDescent(), NoisyGradientDescent(), NoisyNewton(), NonPrivate()):
        mu = np.inf if isinstance(solver, NonPrivate) else 1.0
        with pytest.raises(Incompatible, match="SmoothedHinge"):
            solver.plan(problem_for(Hinge(), x), Allowance(mu))
    for solver in (WhitenedGradientDescent(), NoisyNewton()):
        with pytest.raises(Incompatible, match="RandomRoundSGD"):
            solver.plan(problem_for(Sigmoid(), x), Allowance.gaussian(1.0))
    for loss in (Hinge(), Sigmoid()):
        assert NoisyGradientDescent(step_size=0.1, n_steps=3).plan(
            problem_for(loss, x), Allowance.gaussian(1.0)
        )
