"""What rounding does to Gaussian proposals of the regularised exponential mechanism, in wider arithmetic."""

import math

import numpy as np
import pytest

from privfit.errors import Incompatible
from privfit.losses import Logistic
from privfit.privacy.allowance import Allowance
from privfit.privacy.relation import Relation
from privfit.procedures.exponential_draw import scaled_objective
from privfit.procedures.regularised_draw import RegularisedGaussianDraw, inverse_temperature
from privfit.solvers import RegularisedExponentialMechanism

from .exponential_cases import problem_of, rows_of

WIDE = np.longdouble
needs_wide = pytest.mark.skipif(np.finfo(WIDE).nmant < 63, reason="no wider floating point")


def table(kind, n, p, rng):
    """Rows at the norm bound: each its own, all the same, or all the same but for a few."""
    x = rng.normal(size=(n, p))
    y = rng.integers(0, 2, n).astype(float)
    if kind != "random":
        x[:], y[:] = x[0], 1.0
    if kind == "turned":
        y[: n // 50] = 0.0
    return x * (math.sqrt(p) / np.linalg.norm(x, axis=1, keepdims=True)) * (1 - 1e-12), y


def exact_means(x, y, points):
    """Mean losses at points (m, p), in extended precision; those at 0 are taken off."""
    total = np.zeros(len(points), WIDE)
    for start in range(0, len(y), 1 << 15):
        rows = slice(start, start + (1 << 15))
        eta = x[rows].astype(WIDE) @ points.T.astype(WIDE)
        total += (np.logaddexp(WIDE(0), eta) - y[rows, None].astype(WIDE) * eta - np.log(WIDE(2))).sum(axis=0)
    return total / len(y)


@needs_wide
@pytest.mark.parametrize("kind", ["random", "same", "turned"])
@pytest.mark.parametrize(("n", "mu", "strength"), [(500, 5.0, 0.1), (20_000, 1.0, 0.05), (80_000, 0.7, 0.5)])
def test_the_allowance_covers_the_rounding_of_the_exponent(n, mu, strength, kind):
    rng, p = np.random.default_rng(3), 8
    x, y = table(kind, n, p, rng)
    problem = problem_of(Logistic(), n, p, norm_bound=math.sqrt(p))
    rows, draw = rows_of(problem, x, y), RegularisedGaussianDraw(mu, strength)
    allowed = draw.rounding(problem)
    k = inverse_temperature(problem, strength, mu - allowed.mu)
    objective = scaled_objective(problem, rows, rate=1.0 / n, radius=0.0, span=math.inf)
    for at in (draw._minimum(problem, rows, objective), np.zeros(p)):  # any point will do
        value, gradient = objective(at[None])
        points = -gradient[0] / strength + rng.normal(size=(10, p)) / math.sqrt(k * strength)
        excess = objective(points)[0] - value[0] - (points - at) @ gradient[0]
        exact = exact_means(x, y, np.vstack([at, points]))
        exact = exact[1:] - exact[0] - (points.astype(WIDE) - at) @ gradient[0].astype(WIDE)
        off = k * np.ptp((excess - exact).astype(float))
        assert 2.0 * math.sqrt(math.pi / 2.0) * off <= allowed.mu
        assert np.all(k * excess + allowed.below >= 0.0)


@pytest.mark.parametrize("relation", list(Relation))
def test_where_rounding_is_not_small_a_draw_is_refused_by_public_facts(relation):
    solver = RegularisedExponentialMechanism(strength=0.5)
    for n, refused in [(1000, False), (10_000, False), (10**6, True), (10**7, True)]:
        problem = problem_of(Logistic(), n, 8, norm_bound=math.sqrt(8), relation=relation)
        draw = RegularisedGaussianDraw(0.717, 0.5)
        assert refused == (draw.rounding(problem).mu > 1e-3 * draw.mu)
        if refused:
            with pytest.raises(Incompatible, match="rounding of an exponent"):
                solver.plan(problem, Allowance.gaussian(0.717))
        else:
            solver.plan(problem, Allowance.gaussian(0.717))
