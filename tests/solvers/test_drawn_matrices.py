"""How a noisy matrix is drawn to a multiple of a reference: by hand, and by the rule of Bayes."""

import math

import numpy as np
import pytest

from privfit.solvers.drawn import Drawn, _fitted, _posterior, denoised, drawn_towards


def entries(size, rng, spread, noise):
    """Return ``1.3 I + D`` with noise, and the variances of the latter, unlike for every entry."""
    scale = rng.uniform(0.5, 2.0, size)
    variances = noise**2 * np.outer(scale, scale) * 0.5 * (1.0 + np.eye(size))
    half = 0.5 * (1.0 + np.eye(size))
    upper = np.triu(rng.normal(size=(size, size)) * np.sqrt(spread**2 * half + variances))
    return 1.3 * np.eye(size) + upper + np.triu(upper, 1).T, variances


@pytest.mark.parametrize("seed", range(1, 5))
@pytest.mark.parametrize("size", [2, 5])
def test_the_multiple_and_the_spread_solve_the_equations_of_moments(size, seed):
    """Those of normal entries whose variances are the spread's and the noise's together."""
    seen, noise = entries(size, np.random.default_rng(seed), spread=1.0, noise=0.3)
    kappa, error, spread = _fitted(seen, noise, 0.0, 1e-9)
    assert spread > 0.01
    total = spread + np.diag(noise)
    assert error == pytest.approx(1.0 / np.sum(1.0 / total), rel=1e-4)
    assert kappa == pytest.approx(max(error * np.sum(np.diag(seen) / total), error**0.5), rel=1e-4)
    part = 0.5 * (1.0 + np.eye(size))
    squares, expected = (seen - kappa * np.eye(size)) ** 2, spread * part + noise
    upper = np.triu_indices(size)
    gap = (part * (squares - expected) / expected**2)[upper]
    assert abs(gap.sum()) < 1e-3 * np.abs(gap).sum()


def test_the_multiple_is_no_less_than_asked_and_the_spread_no_less_than_a_part_of_it():
    seen, noise = np.eye(3), np.full((3, 3), 1e-4)
    assert _fitted(seen, noise, 0.0, 0.5) == pytest.approx((1.0, (0.25 + 1e-4) / 3.0, 0.25))
    assert _fitted(seen, noise, 2.0, 1e-9)[0] == 2.0
    hidden = _fitted(1e-9 * seen, noise, 0.0, 0.1)
    assert hidden[0] == pytest.approx(hidden[1] ** 0.5)
    assert hidden == pytest.approx((0.0057831, 3.3444e-5, 3.3444e-7), rel=1e-3)
    assert _fitted(-seen, noise, 0.0, 0.1)[0] > 0.0


@pytest.mark.parametrize("size", [1, 2, 4])
def test_entries_and_their_variances_are_those_of_the_rule_of_bayes(size):
    """The diagonal has a common mean about which nothing is known beforehand, other entries have mean 0."""
    seen, noise = entries(size, np.random.default_rng(size), spread=0.5, noise=0.4)
    seen += np.eye(size)  # so that the multiple is their weighted mean
    center, mean, variance = _posterior(seen, noise, 0.0, 0.2)
    kappa, _, spread = _fitted(seen, noise, 0.0, 0.2)
    np.testing.assert_array_equal(center, kappa * np.eye(size))
    precision = np.zeros((size + 1, size + 1))
    precision[:size, :size] = np.diag(1.0 / spread + 1.0 / np.diag(noise))
    precision[:size, -1] = precision[-1, :size] = -1.0 / spread
    precision[-1, -1] = size / spread
    covariance = np.linalg.inv(precision)
    expected = covariance @ np.append(np.diag(seen) / np.diag(noise), 0.0)
    np.testing.assert_allclose(np.diag(mean), expected[:-1], rtol=1e-4)
    np.testing.assert_allclose(np.diag(variance), np.diag(covariance)[:-1], rtol=1e-4)
    off = ~np.eye(size, dtype=bool)
    both = 1.0 / (1.0 / (0.5 * spread) + 1.0 / noise)
    np.testing.assert_allclose(mean[off], (both * seen / noise)[off])
    np.testing.assert_allclose(variance[off], both[off])


def given():
    """Return a reference of two columns, a matrix of three, and its third column's direction alone."""
    reference = np.array([[2.0, 0.6], [0.6, 1.0]])
    released = np.array([[3.0, 0.2, 0.4], [0.2, 1.1, -0.3], [0.4, -0.3, 5.0]])
    return reference, released, 0.2


def test_a_matrix_is_drawn_where_the_reference_is_the_identity():
    """Columns beyond the reference keep what was released and all of the noise."""
    reference, released, sd = given()
    drawn = drawn_towards(reference, released, sd, spread=0.1)
    values, vectors = np.linalg.eigh(reference)
    to = np.eye(3)
    to[:2, :2] = vectors / np.sqrt(values)
    sizes = np.append(1.0 / values, 1.0)
    noise = sd**2 * np.outer(sizes, sizes) * 0.5 * (1.0 + np.eye(3))
    seen = to.T @ released @ to
    center, mean, left = _posterior(seen[:2, :2], noise[:2, :2], 0.0, 0.1)
    back = np.linalg.inv(to)
    for found, part in ((drawn.matrix, mean), (drawn.center, center)):
        whole = seen.copy()
        whole[:2, :2] = part
        np.testing.assert_allclose(found, back.T @ whole @ back, rtol=1e-5)
    kept = noise.copy()
    kept[:2, :2] = left
    np.testing.assert_allclose(drawn.left, kept, rtol=1e-5)
    assert drawn.kept == pytest.approx(kept.sum() / noise.sum(), rel=1e-5)
    u = np.array([0.3, -1.0, 2.0])
    y = back @ u
    variance = sum(y[i] ** 4 * kept[i, i] for i in range(3))
    variance += sum(4.0 * (y[i] * y[j]) ** 2 * kept[i, j] for i, j in ((0, 1), (0, 2), (1, 2)))
    np.testing.assert_allclose(drawn.variance(np.array([u, 2.0 * u])), [variance, 16.0 * variance], rtol=1e-5)


def test_no_entry_is_drawn_further_than_its_noise_allows():
    reference, released, sd = given()
    free, held = (drawn_towards(reference, released, sd, spread=0.1, most=m) for m in (math.inf, 0.02))
    noise = drawn_towards(reference, released, sd, spread=0.1, most=0.0).left
    to = np.linalg.inv(free.root)
    moves = [to @ (one.matrix - released) @ to.T for one in (free, held)]
    limit = 0.02 * np.sqrt(noise)
    assert np.count_nonzero(np.abs(moves[0]) > limit) in range(1, 5)
    np.testing.assert_allclose(moves[1], np.clip(moves[0], -limit, limit), rtol=1e-9, atol=1e-12)
    further = np.abs(moves[0]) > limit
    np.testing.assert_array_equal(held.left, np.where(further, noise, free.left))


@pytest.mark.parametrize("entry", [1.5, 0.25])
def test_a_multiple_that_the_entries_rule_out_is_not_believed(entry):
    """A single entry in units of the reference, with a spread of 0.3 times that unless it is given."""
    reference, released, sd = np.array([[2.0]]), np.array([[2.0 * entry]]), 0.25 * entry
    draw = {"least": 50.0, "generous": True}
    for spread, options in ((0.3, {}), (0.1, {"spread": 0.1})):
        believed = entry * (1.0 + 2.0 * math.sqrt(2.0 * spread**2 + 0.125**2))
        drawn = drawn_towards(reference, released, sd, **draw, **options)
        assert drawn.center[0, 0] == pytest.approx(2.0 * believed)
        plain = drawn_towards(reference, released, sd, least=50.0, **options)
        assert plain.center[0, 0] == pytest.approx(100.0)
    low = drawn_towards(reference, released, sd, least=1.1 * entry, generous=True)
    assert low.center[0, 0] == pytest.approx(2.2 * entry)


def test_nothing_keeps_the_multiple_up_unless_it_is_asked():
    drawn = drawn_towards(np.array([[2.0]]), np.array([[0.5]]), 0.1)
    assert drawn.center[0, 0] == pytest.approx(0.5)


@pytest.mark.parametrize("unit", [1e-9, 1e9])
def test_units_do_not_matter(unit):
    reference, released, sd = given()
    plain, other = (drawn_towards(u * reference, u * released[:2, :2], u * sd) for u in (1.0, unit))
    np.testing.assert_allclose(other.matrix, unit * plain.matrix, rtol=1e-9)
    np.testing.assert_allclose(other.left, plain.left, rtol=1e-9)


def test_all_noise_is_left_in_a_matrix_of_which_nothing_else_is_said():
    assert Drawn(np.eye(2), np.eye(2), np.eye(2), np.eye(2)).kept == 1.0


def test_eigenvalues_are_pulled_back_from_where_noise_has_driven_them():
    """Two that are 1 apart by ``s**2 / (1 + 2 s**2)`` each; of three the middle one from both sides."""
    pull = 0.01 / 1.02
    np.testing.assert_allclose(denoised(np.array([1.0, 2.0]), 0.1), [1.0 + pull, 2.0 - pull])
    far = 0.02 / 4.02
    np.testing.assert_allclose(
        denoised(np.array([1.0, 2.0, 3.0]), 0.1), [1.0 + pull + far, 2.0, 3.0 - pull - far], rtol=1e-3
    )
    np.testing.assert_allclose(denoised(np.array([1.0, 1.0, 2.0]), 0.1)[:2], 1.0 + pull)
    found = denoised(np.array([-1.0, 0.0, 3.0]), 0.1)
    assert found[0] == 0.0
    assert found[2] == pytest.approx(3.0 - 0.01 * (4.0 / 16.02 + 3.0 / 9.02))
