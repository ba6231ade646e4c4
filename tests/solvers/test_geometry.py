"""Coordinates from released moments: what noise in a second moment may and may not do to them."""

import numpy as np
import pytest

from privfit.privacy.mechanisms import svec
from privfit.solvers.geometry import denoised


def noisy_eigen(matrix, noise, rng):
    """Return the eigenvalues and eigenvectors of a matrix with symmetric normal noise."""
    half = rng.normal(size=matrix.shape)
    disturbed = matrix + noise * (half + half.T) / 2.0
    values, vectors = np.linalg.eigh(disturbed)
    return values, vectors


def test_noise_has_the_law_of_released_matrices():
    """Standard deviation 1 on the diagonal: svec of the noise has equal variances."""
    rng = np.random.default_rng(0)
    draws = np.array([svec((half + half.T) / 2.0) for half in rng.normal(size=(4000, 3, 3))])
    np.testing.assert_allclose(draws.std(axis=0), 1.0, atol=0.08)


@pytest.mark.parametrize("p", [1, 2, 10, 60])
def test_where_noise_hides_all_differences_eigenvalues_are_about_equal(p):
    rng = np.random.default_rng(p)
    spreads, means = [], []
    for _ in range(20):
        values = noisy_eigen(np.eye(p), 0.1, rng)[0]
        found = denoised(values, 0.1)
        assert (np.diff(found) >= 0.0).all()
        spreads.append(found.std() / max(values.std(), 1e-300))
        means.append(found.mean() - values.mean())
    np.testing.assert_allclose(means, 0.0, atol=1e-9)
    if p > 2:
        assert np.mean(spreads) < 0.5


@pytest.mark.parametrize("p", [10, 60])
def test_they_are_closer_to_the_variances_along_the_noisy_directions(p):
    rng = np.random.default_rng(p)
    matrix = np.diag(np.geomspace(3.0, 0.1, p))
    before, after = 0.0, 0.0
    for _ in range(20):
        values, vectors = noisy_eigen(matrix, 0.15, rng)
        truth = np.einsum("ij,ik,kj->j", vectors, matrix, vectors)
        before += np.mean((np.maximum(values, 0.0) - truth) ** 2)
        after += np.mean((denoised(values, 0.15) - truth) ** 2)
    assert after < 0.9 * before


def test_without_noise_nothing_changes_and_nothing_is_negative():
    values = np.array([0.0, 1.0, 1.0, 4.0])
    np.testing.assert_array_equal(denoised(values, 0.0), values)
    assert (denoised(np.array([-3.0, -1.0, 2.0]), 1.0) >= 0.0).all()
