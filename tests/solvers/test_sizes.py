"""Shares of rows by the size of their gradient, and the quantile that they say."""

import numpy as np
import pytest

from privfit.data.source import ArraySource
from privfit.losses import Huber, Squared
from privfit.privacy.relation import Relation
from privfit.problem.bounded_kernels import SIZE_CLASSES, SIZE_ORIGIN
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.geometry import whitened
from privfit.solvers.sizes import quantile_of_sizes


def released(shares, sd):
    planned = PlannedRelease("sizes", len(shares), 1.0, 1.0, sd)
    return Release(planned, np.zeros(1), np.array(shares, dtype=float))


def problem_for(loss, n, p):
    names = tuple(f"x{k}" for k in range(p))
    return Problem(loss, names, 3.0, n, Relation.REPLACE, 0.0, (0.0,) * p, (False, *(True,) * (p - 1)))


@pytest.mark.parametrize("loss", [Squared(0.8), Huber(0.3)])
def test_shares_are_those_of_the_sizes_in_the_basis(loss):
    rng = np.random.default_rng(3)
    n, p = 9_000, 4
    x = np.column_stack([np.ones(n), rng.normal(size=(n, p - 1))])
    y, theta = rng.standard_cauchy(n), np.array([0.1, 0.4, 0.0, -0.2])
    y[:5] = x[:5] @ theta  # residual 0
    x[5:8] = np.nan
    basis = np.diag([1.0, 0.5, 2.0, 0.1])
    problem = whitened(problem_for(loss, n, p), basis)
    source = ArraySource(x, y, norm_bound=3.0).reweighted(
        basis, norm_bound=problem.norm_bound, amplification=problem.amplification
    )
    phi = np.linalg.solve(basis, theta)
    found = source.sum(problem.kernel("sizes", phi), problem.sum_length("sizes"))
    keep = np.isfinite(x).all(axis=1)
    slopes = np.clip(x[keep] @ theta - y[keep], -loss.constants.slope, loss.constants.slope)
    sizes = np.abs(slopes) * np.linalg.norm(x[keep] @ basis, axis=1) / loss.constants.slope
    edges = np.concatenate([[0.0], 2.0 ** (np.arange(SIZE_CLASSES - 1.0) - SIZE_ORIGIN), [np.inf]])
    wanted = np.histogram(sizes, bins=edges)[0]
    np.testing.assert_allclose(found, wanted, atol=2)  # a size may be just beyond an edge
    assert found.sum() == keep.sum() == n - 3


def test_the_quantile_lies_where_the_shares_say():
    shares = np.zeros(SIZE_CLASSES)
    shares[SIZE_ORIGIN - 1 : SIZE_ORIGIN + 2] = [0.25, 0.5, 0.25]
    quantiles = [quantile_of_sizes(released(shares, 1e-6), q) for q in (0.25, 0.5, 0.75, 1.0)]
    np.testing.assert_allclose(quantiles, [0.5, 2**-0.5, 1.0, 2.0])


def test_noise_in_the_tail_is_no_outlier_and_noise_alone_says_nothing():
    shares = np.full(SIZE_CLASSES, 0.001)
    shares[SIZE_ORIGIN] = 0.9
    shares[-1] = 0.05  # beyond classes that noise may have made
    assert quantile_of_sizes(released(shares, 0.01), 1.0) <= 1.0
    assert quantile_of_sizes(released(shares, 0.5), 0.5) is None
