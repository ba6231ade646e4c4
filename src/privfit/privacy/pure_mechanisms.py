"""Pure mechanisms: radial noise, independent Laplace noise and selection, calibrated to the safe side."""

import math
from collections.abc import Callable
from functools import partial
from typing import Final

import numpy as np

from privfit._checks import FloatArray, positive, whole
from privfit.errors import Incompatible, InvalidArgument, PlanViolation
from privfit.privacy.mechanisms import NoiseSource, finite_vector
from privfit.privacy.samplers import (
    LARGEST_SD,
    RADIAL_MARGIN,
    SMALLEST_SD,
    laplace_epsilon,
    radial_epsilon,
    selection_epsilon,
)

__all__ = [
    "calibrate_laplace",
    "calibrate_radial",
    "calibrate_selection",
    "laplace_epsilon",
    "laplace_vector",
    "radial_epsilon",
    "radial_scale",
    "radial_sd",
    "radial_vector",
    "select_index",
    "selection_epsilon",
]

_SQRT2: Final = math.sqrt(2.0)


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
    size = whole(size=size)
    scale = _pure_scale(partial(radial_epsilon, size), sensitivity=sensitivity, epsilon=epsilon, size=size)
    return scale * (1 + 1e-12)  # leaves room for the rounding of `radial_sd` and back


def _pure_scale(
    cost: Callable[[float, float], float], *, sensitivity: float, epsilon: float, size: int
) -> float:
    """Return the least scale whose ``cost(sensitivity, scale)`` is at most ``epsilon``, but for a margin."""
    sensitivity, epsilon = positive(sensitivity=sensitivity), positive(epsilon=epsilon)
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
        actual = cost(sensitivity, scale)
        if actual <= epsilon:
            return scale
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
    exact = finite_vector(value)
    if not scale > 0 or radial_epsilon(max(value.size, 1), sensitivity, scale) > epsilon:
        raise PlanViolation(
            f"noise of scale {scale:.6g} on a sensitivity of {sensitivity:.6g} does not give "
            f"epsilon={epsilon:.6g}; take scale from calibrate_radial"
        )
    return source.radial(exact, scale)


def calibrate_laplace(*, sensitivity: float, epsilon: float, size: int) -> float:
    """Return the standard deviation of an ε-differentially private release by `laplace_vector`.

    Parameters
    ----------
    sensitivity : float
        L1 sensitivity of the vector, in its unit.
    epsilon : float
        The guarantee asked for.
    size : int
        Number of coordinates.

    Returns
    -------
    float
        Per coordinate, in the unit of ``sensitivity``: the root of 2 times the scale of the noise.

    Raises
    ------
    InvalidArgument
        If an argument is out of range, or the scale would lie outside [1e-200, 1e200].
    Incompatible
        If ``epsilon`` is so small that rounding to the lattice alone would use it up.

    Notes
    -----
    *Guarantee.* ``laplace_epsilon(size, sensitivity, sd / sqrt(2)) <= epsilon`` literally.
    """
    size = whole(size=size)
    scale = _pure_scale(partial(laplace_epsilon, size), sensitivity=sensitivity, epsilon=epsilon, size=size)
    return scale * (1 + 1e-12) * _SQRT2


def laplace_vector(
    value: FloatArray, *, sensitivity: float, epsilon: float, sd: float, source: NoiseSource
) -> FloatArray:
    """Release a vector with independent Laplace noise of standard deviation ``sd`` per coordinate.

    Parameters
    ----------
    value : array of shape (k,)
        The exact answer. A non-finite entry counts as 0.
    sensitivity : float
        Its L1 sensitivity, in its unit.
    epsilon : float
        The planned guarantee.
    sd : float
        In the unit of ``value``, from `calibrate_laplace`.
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
        If ``sd`` is too small for ``sensitivity`` and ``epsilon``.

    Notes
    -----
    *Guarantee.* If ``source.private``, the release is ε-differentially private (Dwork, McSherry, Nissim and
    Smith 2006, Proposition 1): ``laplace_epsilon(k, sensitivity, sd / sqrt(2)) <= epsilon`` is verified
    first.
    """
    exact = finite_vector(value)
    scale = sd / _SQRT2
    if not scale > 0 or laplace_epsilon(max(value.size, 1), sensitivity, scale) > epsilon:
        raise PlanViolation(
            f"noise of sd {sd:.6g} on a sensitivity of {sensitivity:.6g} does not give "
            f"epsilon={epsilon:.6g}; take sd from calibrate_laplace"
        )
    return source.laplace(exact, scale)


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
