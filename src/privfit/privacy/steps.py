"""Noise of many steps at once, for releases that are made one after another inside a procedure."""

import math

import numpy as np

from privfit._checks import FloatArray
from privfit.errors import PlanViolation
from privfit.privacy.mechanisms import LATTICE_BITS, NoiseSource, gaussian_mu


def gaussian_steps(
    count: int, size: int, *, sensitivity: float, mu: float, sd: float, source: NoiseSource
) -> tuple[FloatArray, float]:
    """Draw the noise of ``count`` Gaussian releases of ``size`` numbers each, before their values are known.

    Parameters
    ----------
    count, size : int
    sensitivity : float
        L2 sensitivity of each value.
    mu : float
        What each release may cost by itself.
    sd : float
        Standard deviation, from `calibrate_gaussian`.
    source : NoiseSource

    Returns
    -------
    noise : array of shape (count, size)
    spacing : float
        A power of 2. The caller rounds each value to multiples of it before adding the noise.

    Raises
    ------
    PlanViolation
        If ``sd`` is too small for ``sensitivity`` and ``mu``.

    Notes
    -----
    *Guarantee.* If ``source.private``, a value rounded to the spacing plus its noise is μ-GDP:
    ``gaussian_mu(size, sensitivity, sd) <= mu`` is verified first. The private source adds lattice noise to
    0 here, so value and noise lie on one lattice, and the sum is what the source would have returned for the
    value. Rounding the sum to a float is post-processing.
    """
    if not sd > 0 or gaussian_mu(size, sensitivity, sd) > mu:
        raise PlanViolation(
            f"noise of sd {sd:.6g} on a sensitivity of {sensitivity:.6g} does not give mu={mu:.6g} a step; "
            "take sd from calibrate_gaussian"
        )
    noise = source.gaussian(np.zeros(count * size), sd).reshape(count, size)
    return noise, 2.0 ** (math.frexp(sd)[1] - 1 - LATTICE_BITS)
