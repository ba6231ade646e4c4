"""Shares of rows by their norm, and the usual norm that they say."""

import math

import numpy as np
import pytest

from privfit.data.source import ArraySource
from privfit.losses import Squared
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.query_kernels import query_kernel
from privfit.problem.share_kernels import NORM_CLASSES, NORMS_A_DOUBLING
from privfit.solvers.geometry import whitened
from privfit.solvers.norms import (
    best_limit,
    longest_hidden,
    longest_norm,
    outliers,
    room_for,
    usual_norm,
)

MIDDLE = 20


def released(shares, sd):
    return Release(PlannedRelease("norms", NORM_CLASSES, 1.0, 1.0, sd), np.zeros(1), np.array(shares))


def released_at(shares, sd):
    """Return the release of shares in a few classes, known by their numbers."""
    return released([shares.get(number, 0.0) for number in range(NORM_CLASSES)], sd)


def usual(shares, sd, part):
    found = usual_norm(released(shares, sd), part)
    assert found is not None
    return found


def test_shares_are_those_of_the_norms_in_the_basis():
    rng = np.random.default_rng(4)
    n, p = 9_000, 4
    x = rng.standard_cauchy((n, p))
    x[:3] = np.nan
    basis = np.diag([0.02, 0.01, 0.04, 0.002])
    names = tuple(f"x{k}" for k in range(p))
    encoded = Problem(
        Squared(1.0), names, 3.0, n, Relation.REPLACE, 0.0, (0.0,) * p, (False, *(True,) * (p - 1))
    )
    problem = whitened(encoded, basis)
    source = ArraySource(x, np.zeros(n), norm_bound=3.0).reweighted(
        basis, norm_bound=problem.norm_bound, amplification=problem.amplification
    )
    found = source.sum(query_kernel(problem, "norms", np.zeros(p)), problem.sum_length("norms"))
    norms = np.linalg.norm(x[3:] @ basis, axis=1) / problem.norm_bound
    edges = np.concatenate([[0.0], 2.0 ** (np.arange(1.0, NORM_CLASSES) / NORMS_A_DOUBLING), [np.inf]])
    np.testing.assert_allclose(found, np.histogram(norms, bins=edges)[0], atol=2)  # one may be on an edge
    assert found.sum() == n - 3
    assert (found > 0).sum() > 20


def test_the_usual_norm_lies_where_the_shares_say():
    shares = np.zeros(NORM_CLASSES)
    shares[MIDDLE - 2 : MIDDLE + 4] = [0.125, 0.125, 0.25, 0.25, 0.125, 0.125]
    found = [usual(shares, 1e-6, part) for part in (0.25, 0.5, 0.75, 1.0)]
    wanted = 2.0 ** ((MIDDLE + np.array([0.0, 1.0, 2.0, 4.0])) / NORMS_A_DOUBLING)
    np.testing.assert_allclose(found, wanted)


def test_of_simulated_rows_it_is_the_quantile():
    rng = np.random.default_rng(2)
    norms = 2.0 ** (MIDDLE / NORMS_A_DOUBLING) * np.linalg.norm(rng.normal(size=(100_000, 6)), axis=1)
    classes = np.floor(NORMS_A_DOUBLING * np.log2(norms)).astype(int)
    shares = np.bincount(classes, minlength=NORM_CLASSES) / norms.size
    for part in (0.3, 0.7, 0.9):
        assert usual(shares, 1e-4, part) == pytest.approx(np.quantile(norms, part), rel=0.1)


@pytest.mark.parametrize("freedom", [6.0, 50.0])
@pytest.mark.parametrize("sd", [1e-3, 1e-4])
def test_room_for_rows_that_noise_hides_is_about_the_longest_row(freedom, sd):
    """Room for nearly all of them, and not for several times as long rows as there are."""
    rng = np.random.default_rng(3)
    n, t = 20_000, np.sqrt(freedom / rng.chisquare(freedom, size=20_000))
    norms = 2.0 ** (MIDDLE / NORMS_A_DOUBLING) * t * np.linalg.norm(rng.normal(size=(n, 6)), axis=1)
    classes = np.minimum(np.floor(NORMS_A_DOUBLING * np.log2(norms)), NORM_CLASSES - 1).astype(int)
    exact = np.bincount(classes, minlength=NORM_CLASSES) / n
    for _ in range(20):
        look = released(exact + rng.normal(scale=sd, size=NORM_CLASSES), sd)
        found = longest_hidden(look, n)
        assert longest_norm(look) <= found
        assert np.quantile(norms, 0.995) < found < 3.0 * norms.max()
    assert longest_hidden(released(exact, 1e-9), n) == longest_norm(released(exact, 1e-9))
    assert longest_hidden(released(np.zeros(NORM_CLASSES), 1.0), n) == np.inf


def test_noise_in_the_tail_is_no_outlier_and_noise_alone_says_nothing():
    shares = np.full(NORM_CLASSES, 0.001)
    shares[MIDDLE] = 0.9
    shares[-1] = 0.05  # beyond classes that noise may have made
    assert usual(shares, 0.01, 1.0) <= 2.0 ** ((MIDDLE + 2) / NORMS_A_DOUBLING)
    assert usual_norm(released(shares, 0.5), 0.5) is None


@pytest.mark.parametrize("last", [0, 8, MIDDLE, NORM_CLASSES - 2])
def test_without_noise_the_longest_norm_is_the_edge_of_the_last_class_with_rows(last):
    shares = np.zeros(NORM_CLASSES)
    shares[[last // 2, last]] = [0.6, 0.4]
    assert longest_norm(released(shares, 0.0)) == 2.0 ** ((last + 1) / NORMS_A_DOUBLING)


def test_the_last_class_is_open_and_noise_alone_says_the_first_edge():
    shares = np.zeros(NORM_CLASSES)
    shares[[3, -1]] = [0.9, 0.1]
    assert longest_norm(released(shares, 1e-3)) == np.inf
    assert longest_norm(released(shares, 10.0)) == 2.0 ** (1.0 / NORMS_A_DOUBLING)


def test_few_rows_far_out_are_seen_across_empty_classes():
    shares = np.zeros(NORM_CLASSES)
    shares[[4, 5, MIDDLE]] = [0.5, 0.48, 0.02]
    assert longest_norm(released(shares, 1e-4)) == 2.0 ** ((MIDDLE + 1) / NORMS_A_DOUBLING)


def test_rows_of_a_rare_level_are_seen_beyond_a_gap_whose_noise_hides_how_many_are_beyond():
    shares, sd = np.zeros(NORM_CLASSES), 2e-3
    shares[[4, MIDDLE]] = [0.98, 0.02]
    release = released(shares, sd)
    assert longest_norm(release) == 2.0 ** (5 / NORMS_A_DOUBLING)
    edge, share = outliers(release)
    assert edge == 2.0 ** ((MIDDLE + 1) / NORMS_A_DOUBLING)
    assert share == 0.02
    assert usual(shares, sd, 1.0) == 2.0 ** ((MIDDLE + 2) / NORMS_A_DOUBLING)  # two classes at a time
    assert outliers(released(shares, 0.5)) == (0.0, 0.0)
    shares[-1] = 0.02
    assert outliers(released(shares, sd))[0] == np.inf


@pytest.mark.statistical
def test_noise_is_hardly_ever_an_outlier():
    """Beyond four standard deviations in one of 40: 0.13 %; more than 30 of 5,000 have a chance of 2e-12."""
    noise = np.random.default_rng(3).normal(size=(5_000, NORM_CLASSES))
    assert sum(outliers(released(one, 1.0)) != (0.0, 0.0) for one in noise) <= 30


def test_room_for_rows_in_one_direction_is_what_keeps_the_sum_of_variances_least():
    for norm, share, dimension in [(14.0, 0.005, 5.0), (6.0, 0.02, 20.0), (5.0, 0.04, 2.0)]:
        theirs = share * norm**2
        limits = np.linspace(0.05 * norm, norm, 2_000)
        variances = limits**2 * (dimension - theirs + theirs * (norm / limits) ** 4)
        best = limits[np.argmin(variances)]
        assert room_for(norm, share, dimension) == pytest.approx(best, rel=1e-3)
    assert room_for(10.0, 0.5, 4.0) == 10.0
    assert room_for(np.inf, 0.01, 4.0) == np.inf
    assert room_for(0.0, 0.0, 4.0) == 0.0


@pytest.mark.statistical
@pytest.mark.parametrize("sd", [1e-3, 1e-2, 5e-2])
def test_noise_in_empty_classes_is_hardly_ever_a_long_row(sd):
    """Asked of all classes, three standard deviations are exceeded several times as often."""
    rng, shares = np.random.default_rng(0), np.zeros(NORM_CLASSES)
    shares[4:9] = [0.1, 0.3, 0.3, 0.2, 0.1]
    noise = sd * rng.normal(size=(5_000, NORM_CLASSES))
    found = np.array([longest_norm(released(shares + one, sd)) for one in noise])
    assert np.mean(found > 1.5 * 2.0 ** (9.0 / NORMS_A_DOUBLING)) < 0.003


def shares_of(norms):
    """Return the shares of norms in classes; their middle one begins at 1."""
    classes = np.floor(NORMS_A_DOUBLING * np.log2(norms)).astype(int) + MIDDLE
    return np.bincount(np.clip(classes, 0, NORM_CLASSES - 1), minlength=NORM_CLASSES) / norms.size


def limit_of(norms, **facts):
    found = best_limit(released(shares_of(norms), 0.0), **facts)
    assert found is not None
    return found * 2.0 ** (-MIDDLE / NORMS_A_DOUBLING)


def test_the_limit_grows_as_noise_falls_and_ends_where_no_row_is_weighted():
    norms = np.linalg.norm(np.random.default_rng(5).normal(size=(50_000, 8)), axis=1)
    limits = [
        limit_of(norms, noise=noise, dimension=8.0, n_rows=norms.size, scatter=0.2)
        for noise in (0.1, 0.01, 1e-3, 1e-4, 0.0)
    ]
    assert limits == sorted(limits)
    assert limits[0] < np.median(norms)
    assert 0.7 * norms.max() < limits[-1] < 1.2 * norms.max()


def test_where_noise_hides_the_norms_there_is_no_limit():
    shares = shares_of(np.ones(10))
    assert best_limit(released(shares, 0.5), noise=0.1, dimension=4.0, n_rows=1000, scatter=0.2) is None


def test_the_limit_has_the_least_error_in_a_simulation():
    """Slopes that do not depend on norms of many sizes: the noise's error and the weights', over tables."""
    rng, n, tables, reach = np.random.default_rng(9), 400, 2_000, 0.7
    norms = np.exp(0.8 * rng.standard_normal((tables, n)))
    slopes = 0.5 * rng.choice([-1.0, 1.0], size=(tables, n))

    def errors(limit):
        """Return the weights' mean squared error, and the noise's over the variance of the noise."""
        weight = np.minimum(1.0, limit / (reach * norms))
        kept = np.mean(weight * norms**2) / np.mean(norms**2)
        gap = np.mean(norms * slopes * (1.0 - weight / kept), axis=1)
        return np.array([np.mean(gap**2), (limit / kept) ** 2])

    others = np.array([errors(limit) for limit in np.geomspace(0.1, 60.0, 60)])
    for noise in (0.1, 0.03, 0.01, 0.002):
        chosen = limit_of(norms.ravel(), noise=noise, dimension=1.0, n_rows=n, scatter=0.25)
        variances = np.array([1.0, noise**2])
        assert errors(chosen) @ variances < 1.1 * (others @ variances).min(), noise


def test_norms_that_noise_hides_by_hand():
    """Noise hides 3 sd sqrt(m) of m classes; of two classes that are read as one rows are in eighths."""

    def survival(hidden, value, usual, heavier=0.4):
        """Return where one of 20,000 is left, of whom a half is beyond one and some beyond another norm."""
        power = math.log(math.log(1.0 / hidden) / math.log(2.0)) / math.log(value / usual)
        return value * (math.log(20_000) / math.log(1.0 / hidden)) ** (1.0 / (heavier * power))

    light = longest_hidden(released_at({8: 0.6, 11: 0.4}, 1e-3), 20_000)
    assert light == pytest.approx(survival(0.003 * math.sqrt(28.0), 2.0**3, 2.0 ** (4.875 / 2.0)))
    heavy = longest_hidden(released_at({0: 0.6, 30: 0.4}, 1e-3), 20_000)
    hidden = 0.003 * math.sqrt(9.0)
    assert heavy == pytest.approx(2.0**7.75 * (math.log(20_000) / math.log(1.0 / hidden)) ** 2.0)
    at_once = longest_hidden(released_at({30: 1.0}, 1e-3), 20_000)
    assert at_once == pytest.approx(survival(hidden, 2.0**7.75, 2.0**7.75 / 1.01))
    most_hidden = longest_hidden(released_at({30: 1.0}, 0.08), 20_000)
    assert most_hidden == pytest.approx(2.0**7.75 * (math.log(20_000) / math.log(2.0)) ** 2.0)
    assert longest_hidden(released_at({30: 1.2}, 0.112), 1) == 2.0**7.75
    few = longest_hidden(released_at({30: 1.0}, 0.6 / 9.0), 3)
    assert few == pytest.approx(2.0**7.75 * (math.log(3.0) / math.log(2.0)) ** 2.0)
    assert usual_norm(released_at({0: 1.0}, 0.15), 0.5) is not None
    assert longest_hidden(released_at({0: 1.0}, 0.15), 3) == math.inf


def test_noise_in_two_classes_is_that_of_their_sum():
    """The largest share counts from 3.5 standard deviations on."""
    release = 1.0 / (3.5 * math.sqrt(2.0))
    assert usual_norm(released_at({5: 1.0}, 0.999 * release), 0.5) == 2.0 ** (2.5 / 2.0)
    assert usual_norm(released_at({5: 1.0}, 1.001 * release), 0.5) is None


def test_without_noise_outliers_are_the_last_rows_that_there_are():
    assert outliers(released_at({4: 0.75, 11: 0.25}, 0.0)) == (2.0**3, 0.25)


@pytest.mark.parametrize("noise", [0.0, 1e-3, 4e-3, 0.016, 0.06, 0.25])
@pytest.mark.parametrize("scatter", [0.02, 0.2, 2.0])
@pytest.mark.parametrize("dimension", [1.0, 7.0])
def test_the_limit_is_that_of_least_error_row_by_row(noise, scatter, dimension):
    """Rows lie evenly in eighths of their classes; weights are for slopes that reach 0.7."""
    shares = {6: 0.125, 7: 0.25, 8: 0.25, 9: 0.125, 12: 0.125, 17: 0.125}
    rows = [(2.0 ** ((k + j / 8.0) / 4.0), share / 8.0) for k, share in shares.items() for j in range(1, 9)]
    energy, errors = sum(share * norm**2 for norm, share in rows), {}
    for limit, _ in rows:
        weights = [min(1.0, limit / (0.7 * norm)) for norm, _ in rows]
        kept = sum(w * share * norm**2 for w, (norm, share) in zip(weights, rows, strict=True)) / energy
        moved = sum(
            scatter * share * norm**2 * (1.0 - w / kept) ** 2 / 500.0
            for w, (norm, share) in zip(weights, rows, strict=True)
        )
        errors[limit] = dimension * (noise * limit / kept) ** 2 + moved
    found = best_limit(
        released_at(shares, 1e-9), noise=noise, dimension=dimension, n_rows=500, scatter=scatter
    )
    assert found == pytest.approx(min(errors, key=errors.get))
