"""Shares of rows by the size of their gradient, and the cut that they say."""

import numpy as np
import pytest
from scipy.stats import norm

from privfit.data.source import ArraySource
from privfit.losses import Huber, Squared
from privfit.privacy.relation import Relation
from privfit.problem.bounded_kernels import SIZE_CLASSES, SIZE_ORIGIN
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.solvers.geometry import whitened
from privfit.solvers.sizes import LEAST_UNCUT, best_cut


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


def test_where_noise_hides_the_sizes_there_is_no_cut():
    shares = np.full(SIZE_CLASSES, 0.001)
    shares[SIZE_ORIGIN] = 0.9
    assert best_cut(released(shares, 0.5), noise=0.1, dimension=4.0, n_rows=1000) is None


def cut_of(release, **facts):
    found = best_cut(release, **facts)
    assert found is not None
    return found


def normal_sizes():
    """Return the shares of the sizes of standard normal numbers."""
    edges = np.concatenate([[0.0], 2.0 ** (np.arange(SIZE_CLASSES - 1.0) - SIZE_ORIGIN), [np.inf]])
    return np.diff(2.0 * norm.cdf(edges) - 1.0)


def test_the_cut_grows_as_noise_falls_and_knows_what_it_leaves():
    release = released(normal_sizes(), 0.0)
    cuts = [
        cut_of(release, noise=noise, dimension=10.0, n_rows=10_000)
        for noise in (1.0, 0.03, 0.01, 0.003, 1e-4, 0.0)
    ]
    sizes = [cut.size for cut in cuts]
    assert sizes == sorted(sizes)
    assert cuts[0].uncut == pytest.approx(LEAST_UNCUT, abs=0.05)
    assert cuts[-1].uncut == pytest.approx(1.0)
    for cut in cuts[:-1]:
        assert cut.uncut == pytest.approx(2.0 * norm.cdf(cut.size) - 1.0, abs=0.03)


def test_the_cut_has_the_least_error_in_a_simulation():
    """Where errors are symmetric: the noise's error and the cut's, over the sampling of tables."""
    rng, n, tables, noise = np.random.default_rng(8), 400, 4000, 0.02
    errors = rng.standard_normal((tables, n))
    chosen = cut_of(released(normal_sizes(), 0.0), noise=noise / 5.0, dimension=25.0, n_rows=n)

    def total(size):
        cut = np.clip(errors, -size, size)
        gap = errors.mean(axis=1) - cut.mean(axis=1) / (np.abs(errors) < size).mean()
        return np.mean(gap**2) + (noise * size / (2.0 * norm.cdf(size) - 1.0)) ** 2

    others = [total(size) for size in np.geomspace(0.5, 6.0, 40)]
    assert total(chosen.size) < 1.15 * min(others)
