"""Gaussian mechanisms for vectors and symmetric matrices, calibrated to the safe side."""

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
    SMALLEST_SD,
    gaussian_mu,
)

__all__ = [
    "COIN_SIDES",
    "LATTICE_BITS",
    "NoNoise",
    "NoiseSource",
    "calibrate_gaussian",
    "finite_vector",
    "gaussian_mu",
    "gaussian_vector",
    "make_source",
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


def finite_vector(value: FloatArray) -> FloatArray:
    """Return a new vector in which what is not a finite number is 0; refuse what is no vector.

    Raises
    ------
    InvalidArgument
        If ``value`` is not a vector.
    """
    if value.ndim != 1:
        raise InvalidArgument(f"value must be a vector, got {value.ndim} dimensions")
    return np.where(np.isfinite(value), value, 0.0)


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
    exact = finite_vector(value)
    if exact.size == 0:
        return exact
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
