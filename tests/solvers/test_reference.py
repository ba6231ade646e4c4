"""The non-private reference returns a minimiser, whatever the table."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar, root
from scipy.special import expit

from privfit import MEstimator
from privfit.data.source import ArraySource
from privfit.errors import Incompatible
from privfit.losses import ConcomitantHuber, Huber, Logistic, SmoothedHuber
from privfit.losses.base import evaluate
from privfit.planning import make_plan
from privfit.privacy.allowance import Allowance
from privfit.privacy.mechanisms import NoNoise
from privfit.problem.oracle import Oracle
from privfit.solvers import NonPrivate
from tests.solvers.kinked import Absolute, PlainHinge
from tests.solvers.simulated import problem_for


def reference(loss, x, y, *, norm_bound, l2=0.0):
    """Return the minimiser, the number of gradients, and the size of the last one."""
    problem = problem_for(loss, x, norm_bound=norm_bound, l2=l2)
    plan = make_plan(problem, NonPrivate(), Allowance.unlimited(), inference=False)
    oracle = Oracle(problem, plan, ArraySource(x, y, norm_bound=norm_bound), NoNoise())
    solution = NonPrivate().run(problem, oracle)
    asked = sum(release.planned.kind == "gradient" for release in oracle.released)
    return solution.theta, asked, float(np.linalg.norm(solution.steps[-1].gradient))


def mean_loss(loss, y, eta):
    return float(np.mean(evaluate(loss.functions.value, y, eta, s=1.0, loss=loss)))


def least(loss, y):
    """The least mean loss of one number, by another method."""
    found = minimize_scalar(
        lambda at: mean_loss(loss, y, np.full(y.size, at)),
        bounds=(y.min() - 1e-9, y.max() + 1e-9),
        method="bounded",
        options={"xatol": 1e-12},
    )
    return min(found.fun, *(mean_loss(loss, y, np.full(y.size, at)) for at in y))


@pytest.mark.parametrize("seed", range(30))
def test_collinear_dummies_and_responses_far_beyond_the_threshold(seed):
    """The minimum splits by group. Responses are up to 1e7 thresholds away, where Hessians are 0."""
    rng = np.random.default_rng(seed)
    n, k = int(rng.integers(30, 400)), int(rng.integers(2, 12))
    group = rng.integers(0, k, n)
    dummies = np.eye(k)[group]
    x = np.column_stack([np.ones(n), dummies, dummies[:, 0] + dummies[:, 1]])
    y = dummies @ rng.normal(size=k) * 10 ** rng.uniform(-1, 4) + rng.standard_t(1, size=n)
    loss = Huber(10 ** rng.uniform(-3, 0.3))
    theta, asked, _ = reference(loss, x, y, norm_bound=10 ** rng.uniform(0, 3))
    expected = sum(np.mean(group == g) * least(loss, y[group == g]) for g in np.unique(group))
    assert mean_loss(loss, y, x @ theta) <= expected * (1 + 1e-6)
    assert np.abs(theta).max() <= 2.0 * np.abs(y).max()
    assert asked < 400


@pytest.mark.parametrize("loss", [Huber(0.001), Huber(0.5), Logistic(), SmoothedHuber(0.01)], ids=str)
@pytest.mark.parametrize("seed", range(4))
def test_the_gradient_vanishes_on_a_singular_table(loss, seed):
    rng = np.random.default_rng(seed)
    dummies = np.eye(4)[rng.integers(0, 4, 400)]
    x = np.column_stack([np.ones(400), dummies, 0.3 * rng.normal(size=400), dummies[:, 0] + dummies[:, 1]])
    y = dummies @ [1.0, -2.0, 0.5, 3.0] + 0.3 * rng.standard_t(1.5, size=400)
    y[:20] += 50.0
    theta, _, gradient = reference(
        loss, x, (y > 0).astype(float) if loss.target_kind == "binary" else y, norm_bound=1e3
    )
    assert gradient <= 1e-12
    assert np.abs(theta).max() < 30.0


@pytest.mark.parametrize("l2", [1e-4, 0.1, 10.0])
def test_a_ridge_holds_all_but_the_constant_where_classes_are_apart(l2, rng):
    """Without it there is no minimum; with a small one it is far off. Against a solver of equations."""
    x = np.column_stack([np.ones(300), rng.normal(size=(300, 2))])
    y = (x @ [0.3, 2.0, -1.0] > 0.0).astype(float)
    theta, asked, gradient = reference(Logistic(), x, y, norm_bound=10.0, l2=l2)

    def penalised(at):
        return x.T @ (expit(x @ at) - y) / 300 + l2 * np.array([0.0, at[1], at[2]])

    np.testing.assert_allclose(theta, root(penalised, np.zeros(3), tol=1e-12).x, rtol=1e-6)
    assert gradient <= 1e-12
    assert asked < 30


@pytest.mark.parametrize("allowance", [Allowance.gaussian(1e6), Allowance(1e6, pure=True)])
def test_a_budget_is_refused_however_large(allowance):
    with pytest.raises(Incompatible, match="cannot keep a budget"):
        NonPrivate().plan(problem_for(Logistic(), np.ones((10, 1))), allowance)


@pytest.mark.parametrize("loss", [Absolute(), PlainHinge()], ids=lambda loss: loss.name)
@pytest.mark.parametrize("inference", [True, False])
def test_a_kink_is_refused_with_a_remedy(loss, inference, rng):
    x = rng.normal(size=(100, 2))
    y = (x[:, 0] > 0).astype(float) if loss.target_kind == "binary" else x[:, 0]
    with pytest.raises(Incompatible, match=r"kink.* take .*ProjectedNoisyGradientDescent\(\)"):
        MEstimator(loss=loss, solver="non-private", inference=inference).fit(x, y)


def joint(x, y):
    """Huber's joint estimate of coefficients and scale by reweighting, another method."""
    loss = ConcomitantHuber()
    theta = np.linalg.lstsq(x, y, rcond=None)[0]
    scale = float(np.std(y - x @ theta))
    for _ in range(5_000):
        u = (y - x @ theta) / scale
        share = np.mean(np.minimum(u**2, loss.c**2)) / loss.constants.scale_curvature
        scale *= float(np.sqrt(share))
        root = np.sqrt(np.minimum(1.0, loss.c * scale / np.abs(y - x @ theta)))
        theta = np.linalg.lstsq(root[:, None] * x, root * y, rcond=None)[0]
    return np.append(theta, scale)


@pytest.mark.parametrize("apart", [1e-4, 1.0, 1e4], ids=str)
@pytest.mark.parametrize("counted", [1.0, 0.5], ids=str)
def test_a_scale_is_found_from_afar(apart, counted, rng):
    """The start has a scale of 1; with responses 1e4 of them away all Hessians on the way are 0."""
    x = np.column_stack([np.ones(400), rng.exponential(size=400)])
    y = apart * (1.0 + x @ [0.3, 2.0] + 0.1 * np.exp(rng.normal(size=400)))
    counts = np.arange(400) < 400 * counted
    y[~counts] = np.nan
    problem = problem_for(ConcomitantHuber(), x, norm_bound=1e3)
    plan = make_plan(problem, NonPrivate(), Allowance.unlimited(), inference=False)
    rows = ArraySource(x, y, norm_bound=1e3)
    found = NonPrivate().run(problem, Oracle(problem, plan, rows, NoNoise())).theta
    np.testing.assert_allclose(found, joint(x[counts], y[counts]), rtol=1e-6)
