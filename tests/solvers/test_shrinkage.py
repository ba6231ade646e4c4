"""Empirical-Bayes shrinkage: better than the noisy vector, and harmless where the signal is large."""

import numpy as np
import pytest

from privfit.solvers.shrinkage import likelier_mean, shrunk

SIGNALS = {
    "none": lambda rng, k: np.zeros(k),
    "sparse": lambda rng, k: np.where(np.arange(k) < max(k // 20, 1), 0.5, 0.0),
    "dense and small": lambda rng, k: 0.05 * rng.normal(size=k),
    "dense": lambda rng, k: 0.2 * rng.normal(size=k),
}


@pytest.mark.statistical
@pytest.mark.parametrize("k", [20, 100, 400])
@pytest.mark.parametrize("kind", SIGNALS)
def test_the_error_is_less_than_that_of_the_noisy_vector(kind, k):
    """Mean over 60 draws, at least 5 standard errors within the margin: false alarms below 1e-6.

    20 dense signals do not tell enough about their prior to be sure of a gain, but of little harm.
    """
    rng = np.random.default_rng(7)
    noise, errors = 0.1 * np.linspace(0.8, 1.2, k), []
    for _ in range(60):
        signal = SIGNALS[kind](rng, k)
        noisy = signal + noise * rng.normal(size=k)
        errors.append(
            [
                np.sum((shrunk(noisy, noise**2, energy=max(1.0, float(signal @ signal))).mean - signal) ** 2),
                np.sum((noisy - signal) ** 2),
            ]
        )
    ours, raw = np.mean(errors, axis=0)
    share = {"none": 0.15, "sparse": 0.45, "dense and small": 0.45, "dense": 1.1 if k < 100 else 0.97}[kind]
    assert ours < share * raw


@pytest.mark.parametrize("size", [30.0, 300.0])
def test_large_signals_are_left_alone(size):
    rng = np.random.default_rng(8)
    noise = 0.01
    for k in (20, 200):
        noisy = size * noise * rng.choice([-1.0, 1.0], size=k) * rng.uniform(1.0, 2.0, size=k)
        found = shrunk(noisy, np.full(k, noise**2), energy=1.0).mean
        assert np.abs(found / noisy - 1.0).max() < 5.0 / size**1.5
    alone = np.zeros(200)
    alone[3] = size * noise
    alone[4:] = noise * rng.normal(size=196)
    found = shrunk(alone, np.full(200, noise**2), energy=1.0).mean
    assert found[3] == pytest.approx(alone[3], rel=0.02)
    assert np.sum(found[4:] ** 2) < 0.1 * np.sum(alone[4:] ** 2)


@pytest.mark.parametrize("noise", [10.0, 1e3, 1e6])
def test_where_noise_drowns_all_that_is_believable_nothing_is_kept(noise):
    rng = np.random.default_rng(12)
    for k in (1, 10, 300):
        for _ in range(20):
            found = shrunk(noise * rng.normal(size=k), np.full(k, noise**2), energy=1.0)
            assert np.sum(found.mean**2) < 1.0


def test_estimates_are_never_longer_and_keep_their_signs():
    rng = np.random.default_rng(9)
    for k in (1, 2, 7, 50):
        noisy, variance = rng.normal(size=k) * 10.0 ** rng.uniform(-6, 6), 10.0 ** rng.uniform(-9, 9, size=k)
        found = shrunk(noisy, variance, energy=1.0)
        assert (np.abs(found.mean) <= np.abs(noisy)).all()
        assert (found.mean * noisy >= 0.0).all()
        assert (found.square >= found.mean**2).all()
        assert np.isfinite(found.square).all()


def test_a_common_unit_does_not_matter():
    rng = np.random.default_rng(10)
    noisy, variance = rng.normal(size=30), np.full(30, 0.04)
    one = shrunk(noisy, variance, energy=4.0).mean
    other = shrunk(0.1 * noisy, 0.01 * variance, energy=0.04).mean
    np.testing.assert_allclose(other, 0.1 * one, rtol=1e-9)


def mean_if(noisy, noise, *, energy, alike):
    """Posterior mean of one predictor's coefficients with a single belief."""
    return likelier_mean(noisy, noise, np.eye(1), energy=energy, alike=alike, otherwise=alike)


def test_a_change_of_coordinates_does_not_matter():
    """Shrinking ``alike @ u`` is shrinking ``u``, up to the factor."""
    rng = np.random.default_rng(11)
    alike, root = rng.normal(size=(2, 6, 6))
    noise = 0.1 * root @ root.T + 0.05 * np.eye(6)
    noisy = rng.normal(size=6)
    found = mean_if(alike @ noisy, alike @ noise @ alike.T, energy=4.0, alike=alike)
    plain = mean_if(noisy, noise, energy=4.0, alike=np.eye(6))
    np.testing.assert_allclose(found, alike @ plain, rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(plain) < np.linalg.norm(noisy)


@pytest.mark.statistical
def test_knowing_how_large_coefficients_are_relative_to_others_lessens_the_error():
    """Mean over 200 draws, 7 standard errors below that of a prior blind to it: false alarms below 1e-9."""
    rng, k = np.random.default_rng(12), 40
    alike = np.diag(np.geomspace(1.0, 0.1, k))
    noise, gains = 0.04 * np.eye(k), []
    for _ in range(200):
        signal = 0.3 * alike @ rng.normal(size=k)
        noisy = signal + 0.2 * rng.normal(size=k)
        errors = [
            np.sum((mean_if(noisy, noise, energy=9.0, alike=known) - signal) ** 2)
            for known in (alike, np.eye(k))
        ]
        gains.append(errors[1] - errors[0])
    assert np.mean(gains) > 7.0 * np.std(gains) / np.sqrt(len(gains))


def _collinear(k, rng):
    """Return coordinates in which all coefficients are hidden by noise along two directions of the frame."""
    turn = np.linalg.qr(rng.normal(size=(k, k)))[0]
    return (turn * np.where(np.arange(k) < 2, 1e-3, 1.0)) @ np.linalg.qr(rng.normal(size=(k, k)))[0]


def test_what_no_coefficient_shows_by_itself_is_found_in_the_other_coordinates():
    """By itself the first belief ends at 0 in many draws: noise is taken for all that there is."""
    rng, k, one, lost = np.random.default_rng(13), 6, np.eye(1), 0
    for _ in range(20):
        alike = _collinear(k, rng)
        signal = np.linalg.qr(alike)[0] @ rng.normal(size=k)
        signal /= np.linalg.norm(signal)
        noise, noisy = 0.05**2 * np.eye(k), signal + 0.05 * rng.normal(size=k)
        alone = mean_if(noisy, noise, energy=1.0, alike=alike)
        found = likelier_mean(noisy, noise, one, energy=1.0, alike=alike, otherwise=np.eye(k))
        lost += np.linalg.norm(alone) < 0.01
        assert np.linalg.norm(found - signal) < 0.3
    assert lost >= 5


def test_a_belief_that_the_estimate_does_not_contradict_stands():
    """Signals follow it, and no direction is hidden by noise."""
    rng, k, one, same = np.random.default_rng(14), 12, np.eye(1), []
    for _ in range(50):
        alike, root = np.eye(k) + 0.1 * rng.normal(size=(k, k)), 0.1 * rng.normal(size=(k, k))
        noise = root @ root.T + 0.01 * np.eye(k)
        noisy = alike @ rng.normal(size=k) + np.linalg.cholesky(noise) @ rng.normal(size=k)
        usual = mean_if(noisy, noise, energy=4.0 * k, alike=alike)
        found = likelier_mean(noisy, noise, one, energy=4.0 * k, alike=alike, otherwise=np.eye(k))
        same.append(np.array_equal(usual, found))
    assert all(same)
