"""Shares of rows by the size of their gradient, and the cut that they say."""

import numpy as np
import pytest
from scipy.stats import norm

from privfit.data.source import ArraySource
from privfit.losses import Huber, Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.query_kernels import query_kernel
from privfit.problem.share_kernels import SIZE_CLASSES, SIZE_ORIGIN
from privfit.solvers.geometry import whitened
from privfit.solvers.sizes import LEAST_UNCUT, Sizes


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
    found = source.sum(query_kernel(problem, "sizes", phi), problem.sum_length("sizes"))
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
    assert Sizes.of(released(shares, 0.5), dimension=4.0, n_rows=1000) is None


def sizes_of(release, **facts):
    found = Sizes.of(release, **facts)
    assert found is not None
    return found


def cut_of(release, noise, **facts):
    sizes = sizes_of(release, **facts)
    return sizes.best_cut(noise, sizes.usual_lean)


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
    chosen = sizes_of(released(normal_sizes(), 0.0), dimension=25.0, n_rows=n).best_cut(noise / 5.0, 0.0)

    def total(size):
        cut = np.clip(errors, -size, size)
        gap = errors.mean(axis=1) - cut.mean(axis=1) / (np.abs(errors) < size).mean()
        return np.mean(gap**2) + (noise * size / (2.0 * norm.cdf(size) - 1.0)) ** 2

    others = [total(size) for size in np.geomspace(0.5, 6.0, 40)]
    assert total(chosen.size) < 1.15 * min(others)


def test_points_follow_the_law_within_classes():
    """A class is twice as wide as the one before; even within it, what lies beyond would be too much."""
    sizes = sizes_of(released(normal_sizes(), 0.0), dimension=1.0, n_rows=1_000)
    np.testing.assert_allclose(np.cumsum(sizes.chance), 2.0 * norm.cdf(sizes.size) - 1.0, atol=0.015)
    for size, most in ((0.5, 1.15), (1.0, 1.25), (2.0, 2.0)):  # even within classes 1.17, 1.38, 2.7
        beyond = np.maximum(sizes.size - size, 0.0) @ sizes.chance
        wanted = 2.0 * (norm.pdf(size) - size * norm.sf(size))
        assert 1.0 < beyond / wanted < most
    assert sizes.median.size == pytest.approx(norm.ppf(0.75), rel=0.1)
    assert sizes.median.uncut == pytest.approx(0.5, abs=0.05)


def test_a_lean_is_believed_as_far_as_noise_allows():
    sizes = sizes_of(released(normal_sizes(), 0.0), dimension=9.0, n_rows=10_000)
    usual = sizes.usual_lean
    assert sizes.lean(4.0 * usual, 0.0) == 4.0 * usual
    assert sizes.lean(0.0, 0.0) == 0.0
    hidden = 50.0 * usual**0.5
    assert sizes.lean(9.0 * hidden**2, hidden) == pytest.approx(usual, rel=1e-3)
    found = [
        sizes.lean(16.0 * usual + 9.0 * sd**2, sd) / usual for sd in usual**0.5 * np.geomspace(0.1, 3.0, 6)
    ]
    assert found == sorted(found, reverse=True)
    assert 1.0 < found[-1] < found[0] < 16.0


def test_the_more_errors_lean_the_less_is_cut():
    sizes = sizes_of(released(normal_sizes(), 0.0), dimension=9.0, n_rows=100_000)
    cuts = [sizes.best_cut(0.003, lean).size for lean in (0.0, 0.001, 0.01, 0.1, 1.0)]
    assert cuts == sorted(cuts)
    assert cuts[-1] > 1.5 * cuts[0]


@pytest.mark.parametrize("noise", [0.0005, 0.002, 0.01])
@pytest.mark.parametrize("shape", [0.5, 2.0, 8.0, 100.0])
def test_the_cut_suits_skewed_errors_once_their_lean_is_known(shape, noise):
    """Gamma errors about their mean: the error of the noise and the bias of the fit with the cut."""
    rng, n = np.random.default_rng(8), 200_000
    errors = (rng.gamma(shape, size=n) - shape) / np.sqrt(shape)
    edges = np.concatenate([[0.0], 2.0 ** (np.arange(SIZE_CLASSES - 1.0) - SIZE_ORIGIN), [np.inf]])
    shares = np.histogram(np.abs(errors), bins=edges)[0] / n
    sizes = sizes_of(released(shares, 0.0), dimension=1.0, n_rows=n)
    seen = np.mean(np.clip(errors, -sizes.median.size, sizes.median.size)) / sizes.median.uncut

    def error(size):
        uncut = np.mean(np.abs(errors) < size)
        return (noise * size / uncut) ** 2 + (np.mean(np.clip(errors, -size, size)) / uncut) ** 2

    least = min(error(size) for size in np.geomspace(0.5, 30.0, 60))
    assert error(sizes.best_cut(noise, sizes.lean(seen**2, 0.0)).size) < 1.6 * least
    if shape == 0.5 and noise == 0.01:  # the usual lean would not do
        assert error(sizes.best_cut(noise, sizes.usual_lean).size) > 4.0 * least


def four_sizes(chance=(0.25, 0.25, 0.25, 0.25)):
    return Sizes(np.array([0.25, 0.5, 1.0, 2.0]), np.array(chance), dimension=4.0, n_rows=100)


def test_the_median_and_its_lean_by_hand():
    """Beyond 1/2 a half and one and a half are cut off of a quarter of the rows each: a half in the mean."""
    sizes = four_sizes()
    assert (sizes.median.size, sizes.median.uncut) == (0.5, 0.5)
    assert sizes.usual_lean == pytest.approx((0.12 * 0.5 / 0.5) ** 2 / 4.0)
    assert four_sizes((0.1, 0.39, 0.26, 0.25)).median.size == 1.0
    assert four_sizes((0.05, 0.25, 0.2, 0.1)).median.size == 0.5


def test_a_lean_by_hand():
    """Trust is 4/5 where the noise in a squared distance is half of what leans usually are."""
    sizes = four_sizes()
    usual = sizes.usual_lean
    sd = (0.25 * usual**2 / (2.0 * 4.0)) ** 0.25
    assert sizes.lean(3.0 * usual + 4.0 * sd**2, sd) == pytest.approx(usual + 0.8 * 2.0 * usual)
    assert sizes.lean(0.0, sd) == pytest.approx(max(usual + 0.8 * (-4.0 * sd**2 - usual), 0.0))
    assert sizes.lean(4.0 * sd**2 - 2.0 * usual, sd) == 0.0
    even = Sizes(np.array([1.0]), np.array([1.0]), dimension=1.0, n_rows=100)
    assert even.usual_lean == 0.0
    assert even.lean(0.3, 0.0) == 0.3


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.02, 0.04, 0.08, 0.3])
@pytest.mark.parametrize("lean", [0.0, 0.001, 0.01, 0.1])
def test_the_best_cut_is_that_of_least_error_row_by_row(noise, lean):
    rng = np.random.default_rng(5)
    size, chance = np.sort(np.exp(rng.normal(size=40))), rng.dirichlet(np.full(40, 2.0))
    sizes = Sizes(size, chance, dimension=4.0, n_rows=100)
    cut_off = [sum(chance[size > cut] * (size[size > cut] - cut)) for cut in size]
    uncut = [sum(chance[size <= cut]) for cut in size]
    middle = size.tolist().index(sizes.median.size)
    errors = {}
    for k, cut in enumerate(size):
        spread = sum(chance * (size - np.minimum(size, cut) / uncut[k]) ** 2) / 100.0
        leans = (cut_off[k] / cut_off[middle]) ** 0.6 * uncut[middle] / uncut[k]
        errors[cut, uncut[k]] = 4.0 * (noise * cut / uncut[k]) ** 2 + spread + lean * leans**2
    best, wanted = min((cut for cut in errors if cut[1] >= 0.38), key=errors.get)
    found = sizes.best_cut(noise, lean)
    assert (found.size, found.uncut) == (best, pytest.approx(wanted))


def test_no_more_than_so_many_are_cut_whatever_the_noise():
    sizes = four_sizes((0.19, 0.19, 0.31, 0.31))
    assert sizes.best_cut(10.0, 0.0).size == 0.5
    assert four_sizes((0.19, 0.189, 0.311, 0.31)).best_cut(10.0, 0.0).size == 1.0
