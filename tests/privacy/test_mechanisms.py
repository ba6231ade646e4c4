import inspect
import math

import numpy as np
import pytest
from scipy.stats import chi2

from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.privacy.mechanisms import (
    NoNoise,
    calibrate_gaussian,
    gaussian_mu,
    gaussian_vector,
    make_source,
    smat,
    svec,
)
from privfit.privacy.noise import SecureNoise, SeededNoise

FALSE_ALARM = 1e-8


def gaussian_symmetric(matrix, **release):
    """Noise on a symmetric matrix, as the oracle adds it."""
    return smat(gaussian_vector(svec(matrix), **release))


def scale_is(draws, sd):
    low, high = chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], draws.size)
    return low < float(np.sum((draws / sd) ** 2)) < high


def test_calibration_is_literal_and_not_wasteful_over_the_grid():
    for mu in np.logspace(-4, 4, 17):
        for sensitivity in (1e-15, 1e-7, 0.3, 1.0, 1e6):
            for size in (1, 55, 200_000):
                sd = calibrate_gaussian(sensitivity=sensitivity, mu=mu, size=size)
                assert gaussian_mu(size, sensitivity, sd) <= mu
                assert sensitivity / mu * (1 + 1e-6) <= sd <= sensitivity / mu * (1 + 5e-6)


def test_calibration_is_monotone_in_every_argument():
    def sd(sensitivity=1.0, mu=0.1, size=10):
        return calibrate_gaussian(sensitivity=sensitivity, mu=mu, size=size)

    assert sd(sensitivity=1.001) > sd() > sd(mu=0.1001)
    assert sd(size=10_000) > sd()


@pytest.mark.parametrize("name", ["sensitivity", "mu"])
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, True, "1"])
def test_calibration_checks_its_numbers(name, bad):
    with pytest.raises(InvalidArgument, match=f"{name} must"):
        calibrate_gaussian(**{"sensitivity": 1.0, "mu": 1.0, "size": 3, name: bad})


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_calibration_checks_the_size(size):
    with pytest.raises(InvalidArgument, match="size must"):
        calibrate_gaussian(sensitivity=1.0, mu=1.0, size=size)


def test_calibration_beyond_its_limits_says_so():
    with pytest.raises(Incompatible, match=r"budget: .* too small .*; raise it"):
        calibrate_gaussian(sensitivity=1.0, mu=1e-9, size=1)
    with pytest.raises(Incompatible, match=r"budget: .* too small .*; raise it"):
        calibrate_gaussian(sensitivity=1.0, mu=1e-7, size=10**6)
    for sensitivity, mu in ((1e-210, 1.0), (1e201, 1.0), (1.0, 1e201)):
        with pytest.raises(InvalidArgument, match="sensitivity"):
            calibrate_gaussian(sensitivity=sensitivity, mu=mu, size=1)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 9])
def test_vector_noise_has_the_planned_scale_in_every_coordinate(seed):
    sd = calibrate_gaussian(sensitivity=0.02, mu=0.5, size=5)
    value, source = np.array([0.0, 1.0, -3.0, 1e3, 1e-9]), make_source(seed)
    draws = np.array(
        [gaussian_vector(value, sensitivity=0.02, mu=0.5, sd=sd, source=source) for _ in range(1200)]
    )
    for noise in (draws - value).T:
        assert scale_is(noise, 0.02 / 0.5)
        assert not scale_is(noise, 2 / 3 * 0.02 / 0.5)
        assert not scale_is(noise, 3 / 2 * 0.02 / 0.5)
    correlation = np.corrcoef(draws.T) - np.eye(5)
    assert np.abs(correlation).max() < 6 / math.sqrt(1200)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [None, 10])
def test_matrix_noise_is_symmetric_and_smaller_off_the_diagonal(seed):
    matrix, source = np.array([[2.0, 0.5, -1.0], [0.5, 1.0, 0.0], [-1.0, 0.0, 3.0]]), make_source(seed)
    sd = calibrate_gaussian(sensitivity=0.1, mu=0.2, size=6)
    draws = np.array(
        [gaussian_symmetric(matrix, sensitivity=0.1, mu=0.2, sd=sd, source=source) for _ in range(1200)]
    )
    assert np.array_equal(draws, draws.transpose(0, 2, 1))
    for row in range(3):
        for column in range(row, 3):
            noise = draws[:, row, column] - matrix[row, column]
            expected = sd if row == column else sd / math.sqrt(2)
            assert scale_is(noise, expected)
            # sqrt(2) is the error of one convention for another, smaller than 3/2.
            assert not scale_is(noise, expected * math.sqrt(2))
            assert not scale_is(noise, expected / math.sqrt(2))
    flat = draws[:, *np.triu_indices(3)]
    assert np.abs(np.corrcoef(flat.T) - np.eye(6)).max() < 6 / math.sqrt(1200)


def test_two_releases_differ_unless_seeded_alike():
    def release(seed):
        return gaussian_vector(np.zeros(4), sensitivity=1.0, mu=1.0, sd=1.1, source=make_source(seed))

    assert not np.any(release(None) == release(None))
    assert np.array_equal(release(1), release(1))


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0)], ids=repr)
@pytest.mark.parametrize("release", [gaussian_vector, gaussian_symmetric])
def test_too_little_noise_is_refused(source, release):
    value = np.zeros(1) if release is gaussian_vector else np.zeros((1, 1))
    sd = calibrate_gaussian(sensitivity=1.0, mu=0.7, size=1)
    release(value, sensitivity=1.0, mu=0.7, sd=sd, source=source)
    for change in ({"sd": sd * (1 - 1e-9)}, {"sensitivity": 1 + 1e-9}, {"mu": 0.7 * (1 - 1e-9)}):
        with pytest.raises(PlanViolation, match="calibrate_gaussian"):
            release(value, **{"sensitivity": 1.0, "mu": 0.7, "sd": sd, "source": source, **change})


def test_noise_that_is_exactly_enough_is_taken():
    """A plan states the cost of its noise, and the release asks for no more."""
    ask = {"sensitivity": 0.4, "mu": gaussian_mu(3, 0.4, 1.3), "source": make_source()}
    assert gaussian_vector(np.zeros(3), sd=1.3, **ask).shape == (3,)


def test_vector_of_twice_the_norm_needs_the_planned_sensitivity_by_size():
    sd = calibrate_gaussian(sensitivity=1.0, mu=1e-4, size=1)
    with pytest.raises(PlanViolation):
        gaussian_vector(np.zeros(200_000), sensitivity=1.0, mu=1e-4, sd=sd, source=make_source())


@pytest.mark.parametrize(
    ("mu", "sd"), [(math.inf, 0.0), (math.inf, 1.0), (math.nan, 1.0), (1.0, 0.0), (1.0, -1.0)]
)
def test_a_private_source_never_releases_without_noise(mu, sd):
    with pytest.raises(PlanViolation, match="without noise"):
        gaussian_vector(np.ones(3), sensitivity=1.0, mu=mu, sd=sd, source=make_source())


def test_a_plan_without_privacy_gives_the_exact_answer():
    value = np.array([1.0, 2.0, 3.0])
    for source in (NoNoise(), SeededNoise(0)):
        answer = gaussian_vector(value, sensitivity=1.0, mu=math.inf, sd=0.0, source=source)
        assert np.array_equal(answer, value)
        assert answer is not value
        matrix = gaussian_symmetric(smat(value), sensitivity=1.0, mu=math.inf, sd=0.0, source=source)
        assert np.allclose(matrix, smat(value), rtol=1e-15)
    noisy = gaussian_vector(value, sensitivity=1.0, mu=math.inf, sd=1.0, source=SeededNoise(0))
    assert np.all(noisy != value), "noise that is asked for is added"


def test_without_noise_non_finite_entries_are_zero():
    value = np.array([math.nan, math.inf, -math.inf, 1e6])
    answer = gaussian_vector(value, sensitivity=1.0, mu=1.0, sd=1.1, source=NoNoise())
    np.testing.assert_array_equal(answer, [0.0, 0.0, 0.0, 1e6])


@pytest.mark.parametrize("source", [SecureNoise(), SeededNoise(0), NoNoise()], ids=repr)
def test_non_finite_entries_count_as_zero_without_a_word(source):
    value = np.array([math.nan, math.inf, -math.inf, 1e6])
    answer = gaussian_vector(value, sensitivity=1.0, mu=1.0, sd=1.1, source=source)
    assert np.all(np.abs(answer - [0, 0, 0, 1e6]) < 12)
    matrix = np.full((2, 2), math.nan)
    answer = gaussian_symmetric(matrix, sensitivity=1.0, mu=1.0, sd=1.1, source=source)
    assert np.all(np.abs(answer) < 12)


def test_huge_finite_values_do_not_fail():
    value = np.array([1e308, -1e308, 5e-324, 1e100])
    answer = gaussian_vector(value, sensitivity=1.0, mu=1.0, sd=1.1, source=make_source())
    assert np.all(np.isfinite(answer))


def test_svec_is_an_isometry_and_smat_its_inverse():
    rng = np.random.default_rng(11)
    for p in range(1, 41):
        root = rng.normal(size=(p, p))
        matrix, other = root + root.T, root @ root.T
        assert np.linalg.norm(svec(matrix)) == pytest.approx(np.linalg.norm(matrix))
        assert svec(matrix) @ svec(other) == pytest.approx(np.trace(matrix @ other))
        assert np.allclose(smat(svec(matrix)), matrix, rtol=1e-15)
    assert svec(np.array([[1.0, 2.0], [2.0, 3.0]])) == pytest.approx([1.0, 2 * math.sqrt(2), 3.0])


def test_shapes_are_checked():
    release = {"sensitivity": 1.0, "mu": 1.0, "sd": 1.1, "source": NoNoise()}
    with pytest.raises(InvalidArgument, match="vector"):
        gaussian_vector(np.zeros((2, 2)), **release)
    for bad in (np.zeros(3), np.zeros((2, 3))):
        with pytest.raises(InvalidArgument, match="square"):
            gaussian_symmetric(bad, **release)
    for bad in (np.zeros(2), np.zeros((3, 1))):
        with pytest.raises(InvalidArgument, match="p\\(p\\+1\\)/2"):
            smat(bad)
    assert gaussian_vector(np.empty(0), **release).shape == (0,)


def test_make_source_reads_random_state_as_scikit_learn_does():
    assert isinstance(make_source(), SecureNoise)
    for seed in (0, np.int64(3), np.random.default_rng(0), np.random.RandomState(0)):
        assert isinstance(make_source(seed), SeededNoise)
    for bad in (-1, "secure", 0.5, False):
        with pytest.raises(InvalidArgument, match="random_state"):
            make_source(bad)


def test_nothing_has_a_default_that_could_hide_a_missing_sensitivity():
    for release in (gaussian_vector, gaussian_symmetric, calibrate_gaussian):
        assert all(
            p.default is inspect.Parameter.empty for p in inspect.signature(release).parameters.values()
        )
