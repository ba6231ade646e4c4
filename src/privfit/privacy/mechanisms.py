"""Gaussian and pure mechanisms for vectors and symmetric matrices, calibrated to the safe side."""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, positive, whole
from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.privacy.noise import COIN_SIDES, NoiseSource, NoNoise, SecureNoise, SeededNoise
from privfit.privacy.samplers import (
    LARGEST_SD,
    LATTICE_BITS,
    MARGIN,
    RADIAL_MARGIN,
    SMALLEST_SD,
    gaussian_mu,
    laplace_epsilon,
    radial_epsilon,
    selection_epsilon,
)

__all__ = [
    "COIN_SIDES",
    "LATTICE_BITS",
    "NoNoise",
    "NoiseSource",
    "calibrate_gaussian",
    "calibrate_radial",
    "calibrate_selection",
    "gaussian_mu",
    "gaussian_vector",
    "laplace_epsilon",
    "make_source",
    "radial_epsilon",
    "radial_scale",
    "radial_sd",
    "radial_vector",
    "select_index",
    "selection_epsilon",
    "smat",
    "svec",
]

_SQRT2: Final = math.sqrt(2.0)


def make_source(random_state: object = None) -> NoiseSource:
    """Return the source of noise that scikit-learn's ``random_state`` asks for.

    Parameters
    ----------
    random_state : None, int, numpy.random.RandomState or numpy.random.Generator
        None draws from the operating system's entropy, and is the only choice that is private.

    Raises
    ------
    InvalidArgument
        If ``random_state`` is none of these.
    """
    if random_state is None:
        return SecureNoise()
    return SeededNoise(random_state)  # type: ignore[arg-type]  # its constructor checks


@lru_cache(maxsize=4096, typed=True)
def calibrate_gaussian(*, sensitivity: float, mu: float, size: int) -> float:
    """Return the standard deviation per coordinate of a μ-GDP release.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity of the vector (Frobenius norm for a symmetric matrix), in its unit.
    mu : float
        The guarantee asked for.
    size : int
        Number of coordinates; ``p * (p + 1) / 2`` for a symmetric (p, p) matrix.

    Returns
    -------
    float
        In the unit of ``sensitivity``; exceeds ``sensitivity / mu`` by a relative 2e-6 at most where
        ``mu >= 1e-3`` and ``size <= 1e6``.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, or the standard deviation would lie outside [1e-200, 1e200].
    Incompatible
        If ``mu`` is so small for the size that rounding to the lattice alone would use it up.

    Notes
    -----
    *Guarantee.* ``gaussian_mu(size, sensitivity, sd) <= mu`` literally, so that a release through the private
    source is μ-GDP (Dong, Roth and Su 2022, Theorem 2.7), lattice and rounding included.
    """
    sensitivity, mu, size = positive(sensitivity=sensitivity), positive(mu=mu), whole(size=size)
    lattice = math.sqrt(size) * 2.0**-LATTICE_BITS
    if mu < 1e3 * lattice or mu < 1e-7:
        raise Incompatible(
            f"budget: the part of a release, mu={mu:.4g}, is too small to calibrate the noise of {size} "
            "coordinates; raise it"
        )
    sd = sensitivity / mu * (1 + MARGIN)
    for _ in range(100):
        if not SMALLEST_SD <= sd <= LARGEST_SD:
            raise InvalidArgument(
                f"sensitivity / mu must lie in [{SMALLEST_SD:g}, {LARGEST_SD:g}], got {sd:.4g}"
            )
        actual = gaussian_mu(size, sensitivity, sd)
        if actual <= mu:
            return sd
        sd *= actual / mu * (1 + 2.0**-50)
    raise Incompatible(f"no noise level gives mu={mu:.4g} for {size} coordinates; ask for a larger mu")


def gaussian_vector(
    value: FloatArray, *, sensitivity: float, mu: float, sd: float, source: NoiseSource
) -> FloatArray:
    """Release a vector with independent Gaussian noise of standard deviation ``sd`` per coordinate.

    Parameters
    ----------
    value : array of shape (k,)
        The exact answer. A non-finite entry counts as 0, without a word: an error or warning would depend on
        the data.
    sensitivity : float
        Its L2 sensitivity, in its unit.
    mu : float
        The planned guarantee; ``inf`` for an answer without noise.
    sd : float
        In the unit of ``value``, from `calibrate_gaussian`; 0 for an answer without noise.
    source : NoiseSource
        From `make_source`, or `NoNoise`.

    Returns
    -------
    array of shape (k,)
        A new array.

    Raises
    ------
    InvalidArgument
        If ``value`` is not a vector.
    PlanViolation
        If ``sd`` is too small for ``sensitivity`` and ``mu``. A seeded source is held to the same rule, so
        that it stands in for a private one; only where ``mu`` is infinite may a source that is not private
        add none.

    Notes
    -----
    *Guarantee.* If ``source.private``, the release is μ-GDP: ``gaussian_mu(k, sensitivity, sd) <= mu`` is
    verified before noise is drawn. The margin in `gaussian_mu` covers the rounding of ``value`` itself as
    long as its norm is below 1e9 times the sensitivity.
    """
    if value.ndim != 1:
        raise InvalidArgument(f"value must be a vector, got {value.ndim} dimensions")
    if value.size == 0:
        return value.astype(np.float64)
    exact = np.where(np.isfinite(value), value, 0.0)
    if math.isinf(mu) and not source.private:
        return source.gaussian(exact, sd) if sd > 0 else exact
    if not math.isfinite(mu) or not sd > 0:
        raise PlanViolation("a release without noise was asked of a plan or a source that demands noise")
    if gaussian_mu(value.size, sensitivity, sd) > mu:
        raise PlanViolation(
            f"noise of sd {sd:.6g} on a sensitivity of {sensitivity:.6g} does not give mu={mu:.6g}; "
            "take sd from calibrate_gaussian"
        )
    return source.gaussian(exact, sd)


def calibrate_radial(*, sensitivity: float, epsilon: float, size: int) -> float:
    """Return the scale of an ε-differentially private release by `radial_vector`.

    Parameters
    ----------
    sensitivity : float
        L2 sensitivity of the vector, in its unit.
    epsilon : float
        The guarantee asked for.
    size : int
        Number of coordinates.

    Returns
    -------
    float
        In the unit of ``sensitivity``; exceeds ``sensitivity / epsilon`` by a relative 2e-6 at most where
        ``epsilon >= 1e-6``.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, or the scale would lie outside [1e-200, 1e200].
    Incompatible
        If ``epsilon`` is so small that rounding to the lattice alone would use it up.

    Notes
    -----
    *Guarantee.* ``radial_epsilon(size, sensitivity, scale) <= epsilon`` literally.
    """
    sensitivity, epsilon, size = (
        positive(sensitivity=sensitivity),
        positive(epsilon=epsilon),
        whole(size=size),
    )
    if epsilon < 1e-10 * math.sqrt(size):
        raise Incompatible(
            f"budget: the part of a release, epsilon={epsilon:.4g}, is too small to calibrate the noise of "
            f"{size} coordinates; raise it"
        )
    scale = sensitivity / epsilon * (1 + RADIAL_MARGIN)
    for _ in range(100):
        if not SMALLEST_SD <= scale <= LARGEST_SD:
            raise InvalidArgument(
                f"sensitivity / epsilon must lie in [{SMALLEST_SD:g}, {LARGEST_SD:g}], got {scale:.4g}"
            )
        actual = radial_epsilon(size, sensitivity, scale)
        if actual <= epsilon:
            return scale * (1 + 1e-12)  # leaves room for the rounding of `radial_sd` and back
        scale *= actual / epsilon * (1 + 2.0**-50)
    raise Incompatible(f"no noise level gives epsilon={epsilon:.4g} for {size} coordinates")


def radial_sd(scale: float, size: int) -> float:
    """Return the standard deviation of each coordinate of radial noise: ``scale * sqrt(size + 1)``."""
    return scale * math.sqrt(size + 1.0)


def radial_scale(sd: float, size: int) -> float:
    """Return the scale of radial noise with standard deviation ``sd`` per coordinate."""
    return sd / math.sqrt(size + 1.0)


def radial_vector(
    value: FloatArray, *, sensitivity: float, epsilon: float, scale: float, source: NoiseSource
) -> FloatArray:
    """Release a vector with noise of density proportional to ``exp(-norm(z) / scale)``.

    The norm of the noise is Gamma distributed with shape k and this scale, its direction uniform; the
    coordinates are not independent, and independent Laplace noise of this scale would not do.

    Parameters
    ----------
    value : array of shape (k,)
        The exact answer. A non-finite entry counts as 0.
    sensitivity : float
        Its L2 sensitivity, in its unit.
    epsilon : float
        The planned guarantee.
    scale : float
        In the unit of ``value``, from `calibrate_radial`.
    source : NoiseSource
        From `make_source`.

    Returns
    -------
    array of shape (k,)
        A new array.

    Raises
    ------
    InvalidArgument
        If ``value`` is not a vector.
    PlanViolation
        If ``scale`` is too small for ``sensitivity`` and ``epsilon``.

    Notes
    -----
    *Guarantee.* If ``source.private``, the release is ε-differentially private (Chaudhuri, Monteleoni and
    Sarwate 2011, algorithm 1): ``radial_epsilon(k, sensitivity, scale) <= epsilon`` is verified first.
    """
    if value.ndim != 1:
        raise InvalidArgument(f"value must be a vector, got {value.ndim} dimensions")
    if not scale > 0 or radial_epsilon(max(value.size, 1), sensitivity, scale) > epsilon:
        raise PlanViolation(
            f"noise of scale {scale:.6g} on a sensitivity of {sensitivity:.6g} does not give "
            f"epsilon={epsilon:.6g}; take scale from calibrate_radial"
        )
    return source.radial(np.where(np.isfinite(value), value, 0.0), scale)


def calibrate_selection(*, sensitivity: float, epsilon: float) -> float:
    """Return the scale of an ε-differentially private selection by `select_index`.

    Parameters
    ----------
    sensitivity : float
        Largest change of a score between neighbouring tables.
    epsilon : float
        The guarantee asked for.

    Notes
    -----
    *Guarantee.* ``selection_epsilon(sensitivity, scale) <= epsilon`` literally.
    """
    sensitivity, epsilon = positive(sensitivity=sensitivity), positive(epsilon=epsilon)
    scale = 2.0 * sensitivity / epsilon
    while selection_epsilon(sensitivity, scale) > epsilon:
        scale *= 1.0 + 2.0**-50
    return scale


def select_index(
    scores: FloatArray, *, sensitivity: float, epsilon: float, scale: float, source: NoiseSource
) -> int:
    """Return k with probability proportional to ``exp(-scores[k] / scale)``: the exponential mechanism.

    Parameters
    ----------
    scores : array of shape (m,)
        Smaller is better. A non-finite score counts as 0.
    sensitivity : float
        Largest change of a score between neighbouring tables.
    epsilon : float
        The planned guarantee.
    scale : float
        From `calibrate_selection`.
    source : NoiseSource
        From `make_source`.

    Raises
    ------
    InvalidArgument
        If ``scores`` is not a vector with at least one entry.
    PlanViolation
        If ``scale`` is too small for ``sensitivity`` and ``epsilon``.

    Notes
    -----
    *Guarantee.* If ``source.private``, the selection is ε-differentially private (McSherry and Talwar 2007,
    Theorem 6): ``selection_epsilon(sensitivity, scale) <= epsilon`` is verified first.
    """
    if scores.ndim != 1 or scores.size == 0:
        raise InvalidArgument("scores must be a vector with at least one entry")
    if not scale > 0 or selection_epsilon(sensitivity, scale) > epsilon:
        raise PlanViolation(
            f"a scale of {scale:.6g} on a sensitivity of {sensitivity:.6g} does not give "
            f"epsilon={epsilon:.6g}; take scale from calibrate_selection"
        )
    return source.select(np.where(np.isfinite(scores), scores, 0.0), scale)


def svec(matrix: FloatArray) -> FloatArray:
    """Return the upper triangle row by row, off-diagonal entries times sqrt(2): an isometry.

    Parameters
    ----------
    matrix : array of shape (p, p)
        Symmetric; only the upper triangle is read.

    Returns
    -------
    array of shape (p * (p + 1) / 2,)

    Raises
    ------
    InvalidArgument
        If ``matrix`` is not square.
    """
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InvalidArgument(f"matrix must be square, got shape {matrix.shape}")
    rows, columns, factors = _upper(matrix.shape[0])
    return matrix[rows, columns] * factors


@lru_cache(maxsize=2)
def _upper(p: int) -> tuple[NDArray[np.intp], NDArray[np.intp], FloatArray]:
    """Return rows and columns of the upper triangle of a (p, p) matrix, and the factors of an isometry."""
    rows, columns = np.triu_indices(p)
    return rows, columns, np.where(rows == columns, 1.0, _SQRT2)


def smat(vector: FloatArray) -> FloatArray:
    """Return the symmetric matrix whose `svec` is ``vector``.

    Parameters
    ----------
    vector : array of shape (p * (p + 1) / 2,)

    Returns
    -------
    array of shape (p, p)

    Raises
    ------
    InvalidArgument
        If the length is not ``p * (p + 1) / 2`` for a whole p.
    """
    p = (math.isqrt(8 * vector.size + 1) - 1) // 2
    if vector.ndim != 1 or p * (p + 1) // 2 != vector.size:
        raise InvalidArgument(f"vector must hold p(p+1)/2 entries, got shape {vector.shape}")
    rows, columns, factors = _upper(p)
    matrix = np.empty((p, p))
    matrix[rows, columns] = matrix[columns, rows] = vector / factors
    return matrix
