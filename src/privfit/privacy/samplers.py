"""OpenDP's exact samplers and what a draw costs: the only module that knows OpenDP.

The private source adds noise by OpenDP's discrete Gaussian, from the operating system's entropy, on a lattice
of spacing ``2**k`` far below the standard deviation: which floats can come out then does not depend on the
value (Mironov 2012; Haney, Desfontaines, Hartman, Shrestha and Hay 2022 attack noise that is merely rounded).

Why μ may be claimed for lattice noise
--------------------------------------
OpenDP's map bounds zero-concentrated divergence, ρ = (Δ'/sd)²/2, where Δ' is the sensitivity plus the
rounding of both neighbours to the lattice. The claim made here, μ-GDP with μ = sqrt(2ρ) × (1 + 1e-6), is
stronger, and rests on this: with s and r in units of the spacing, the discrete Gaussian of variance s² around
a lattice point is a continuous Gaussian of variance s² − r² around it, rounded at random to the lattice (a
step that does not see the data), but for a factor of ``exp(± 5 exp(−2π² r²))`` per coordinate, at every point
(by Poisson summation; a case of Peikert 2010, Theorem 3.1). The continuous mechanism's μ is larger by s /
sqrt(s² − r²), and the rounding is post-processing. Here s >= 2**40. Taking r = 1e-3 s uses up half the margin
of 1e-6; the factor then differs from 1 by less than exp(−1e19), for any size that fits in memory. That, not a
bound, is what the claim neglects.

Pure differential privacy
-------------------------
Noise of density proportional to ``exp(-norm(z) / b)`` is a Gaussian whose variance is drawn first:
``W = 2 b² G`` with ``G`` of the Gamma law with shape ``(k + 1) / 2`` (from the Laplace transform of
``exp(-sqrt(u))``). Both draws are OpenDP's exact ones: ``G`` is a sum of exponentials on a lattice of spacing
``2**-60`` (and, for even k, half a squared Gaussian), and the Gaussian of variance W is drawn on one lattice
that does not depend on W. By the identity above the mixture has the stated density on the lattice, but for a
relative ``2**-30``: what the lattice of G takes from the density near 0. `RADIAL_MARGIN` covers it.
"""

import math
import ssl
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import absolute_distance, l1_distance, l2_distance, linf_distance
from opendp.mod import Domain, Measurement, Metric, OpenDPException, enable_features

from privfit._checks import in_range, positive, whole
from privfit.errors import InvalidArgument

enable_features("contrib")

LATTICE_BITS: Final = 40
"""The lattice's spacing is between ``2**-41`` and ``2**-40`` standard deviations."""

MARGIN: Final = 1e-6
"""Relative margin on μ (so on the standard deviation), for the lattice and the rounding of the value."""

RADIAL_BITS: Final = 60
"""The lattice of radial noise has a spacing between ``2**-61`` and ``2**-60`` scales."""

RADIAL_MARGIN: Final = 1e-6
"""Relative margin on ε of radial noise, for the lattices and the rounding of the value."""

SMALLEST_SD: Final = 1e-200
LARGEST_SD: Final = 1e200


@lru_cache(maxsize=4096, typed=True)
def gaussian_mu(size: int, sensitivity: float, sd: float) -> float:
    """Return the μ of a `SecureNoise` release, by OpenDP's own map, with the margin of this module.

    Parameters
    ----------
    size : int
        Number of coordinates.
    sensitivity : float
        L2 sensitivity of the value, in its unit.
    sd : float
        Standard deviation, in the same unit.

    Raises
    ------
    InvalidArgument
        If ``sd`` is outside [1e-200, 1e200], or the map cannot take the sensitivity.

    Notes
    -----
    *Guarantee.* The release is μ-GDP for the returned μ: at least ``sqrt(2 rho) * (1 + 1e-6)``, where
    OpenDP's ρ counts the rounding to the lattice (relative ``2**-40 * sqrt(size) * sd / sensitivity`` at
    most).
    """
    sensitivity = positive(sensitivity=sensitivity)
    measurement = gaussian_sampler(whole(size=size), sd)
    try:
        rho = float(measurement.map(sensitivity))
    except OpenDPException:
        rho = math.inf
    if not math.isfinite(rho):
        raise InvalidArgument(
            f"sensitivity must be smaller for a noise of sd {sd:.4g}, got {sensitivity:.4g}"
        )
    return math.nextafter(math.sqrt(2 * rho), math.inf) * (1 + MARGIN)


@lru_cache(maxsize=64)
def gaussian_sampler(size: int, sd: float) -> Measurement:
    """Return OpenDP's discrete Gaussian on a lattice that follows from ``sd``."""
    sd = in_range(SMALLEST_SD, LARGEST_SD, sd=sd)
    exponent = math.frexp(sd)[1] - 1 - LATTICE_BITS
    return make_gaussian(*_vectors(size), scale=sd, k=exponent)


@lru_cache(maxsize=64)
def _vectors(size: int) -> tuple[Domain, Metric]:
    """Return OpenDP's space of vectors of this size under the L2 distance; it takes longer than a sampler."""
    return vector_domain(atom_domain(T=float, nan=False), size=size), l2_distance(T=float)


@lru_cache(maxsize=4096, typed=True)
def radial_epsilon(size: int, sensitivity: float, scale: float) -> float:
    """Return the ε of a `SecureNoise.radial` release, lattice and rounding included.

    Parameters
    ----------
    size : int
        Number of coordinates.
    sensitivity : float
        L2 sensitivity of the value, in its unit.
    scale : float
        ``b`` of the density ``exp(-norm(z) / b)``, in the same unit.

    Raises
    ------
    InvalidArgument
        If ``scale`` is outside [1e-200, 1e200].

    Notes
    -----
    *Guarantee.* The release is ε-differentially private for the returned ε: the log density changes by at
    most ``sensitivity / scale`` (Chaudhuri, Monteleoni and Sarwate 2011, section 2), to which rounding both
    neighbours to the lattice adds at most ``sqrt(size) * 2**-60``.
    """
    sensitivity, size = positive(sensitivity=sensitivity), whole(size=size)
    scale = in_range(SMALLEST_SD, LARGEST_SD, scale=scale)
    rounding = math.sqrt(size) * 2.0**-RADIAL_BITS
    return (sensitivity / scale + rounding) * (1 + RADIAL_MARGIN)


def selection_epsilon(sensitivity: float, scale: float) -> float:
    """Return the ε of a `SecureNoise.select`, by OpenDP's own map.

    Parameters
    ----------
    sensitivity : float
        Largest change of a score between neighbouring tables.
    scale : float
        In the same unit.

    Notes
    -----
    *Guarantee.* The selection is ε-differentially private for the returned ε, at least ``2 * sensitivity /
    scale`` (McSherry and Talwar 2007, Theorem 6). OpenDP states the same as ``rho = ε² / 8`` of
    zero-concentrated privacy (Cesar and Rogers 2021, Lemma 2).
    """
    rho = float(selection_sampler(scale).map(positive(sensitivity=sensitivity)))
    return math.nextafter(max(math.sqrt(8.0 * rho), 2.0 * sensitivity / scale), math.inf)


@lru_cache(maxsize=16)
def selection_sampler(scale: float) -> Measurement:
    """Return OpenDP's selection of the smallest score after Gumbel noise."""
    scale = in_range(SMALLEST_SD, LARGEST_SD, scale=scale)
    domain = vector_domain(atom_domain(T=float, nan=False))
    return make_noisy_max(
        domain, linf_distance(T=float), zero_concentrated_divergence(), scale=scale, negate=True
    )


def radial_sampler(size: int, sd: float, scale: float) -> Measurement:
    """Return a discrete Gaussian of standard deviation ``sd`` on a lattice that follows from ``scale``."""
    exponent = math.frexp(scale)[1] - 1 - RADIAL_BITS
    return make_gaussian(*_vectors(size), scale=sd, k=exponent)


def laplace_epsilon(size: int, sensitivity: float, scale: float) -> float:
    """Return the ε of a `SecureNoise.laplace` release for an L1 sensitivity, by OpenDP's own map."""
    return float(laplace_sampler(whole(size=size), scale).map(positive(sensitivity=sensitivity)))


@lru_cache(maxsize=16)
def laplace_sampler(size: int, scale: float) -> Measurement:
    """Return OpenDP's discrete Laplace on a lattice that follows from ``scale``."""
    scale = in_range(SMALLEST_SD, LARGEST_SD, scale=scale)
    domain = vector_domain(atom_domain(T=float, nan=False), size=size)
    exponent = math.frexp(scale)[1] - 1 - RADIAL_BITS
    return make_laplace(domain, l1_distance(T=float), scale=scale, k=exponent)


def secure_gamma(doubled_shape: int) -> float:
    """Return a Gamma variable of shape ``doubled_shape / 2`` and scale 1."""
    whole_part, half = divmod(doubled_shape, 2)
    total = math.fsum(abs(_lattice_laplace()(0.0)) for _ in range(whole_part))
    if half:
        total += 0.5 * gaussian_sampler(1, 1.0)([0.0])[0] ** 2
    return max(total, 2.0**-RADIAL_BITS)


@lru_cache(maxsize=1)
def _lattice_laplace() -> Measurement:
    """Return a sampler whose absolute value is exponential with mean 1, on a lattice of ``2**-60``."""
    domain = atom_domain(T=float, nan=False)
    return make_laplace(domain, absolute_distance(T=float), scale=1.0, k=-RADIAL_BITS)


def random_bits(size: int) -> NDArray[np.uint64]:
    """Return random words; see `random_octets`."""
    return random_octets(8 * size).view(np.uint64)


def random_octets(size: int) -> NDArray[np.uint8]:
    """Return random whole numbers below ``2**8``.

    Notes
    -----
    They are OpenSSL's, of AES in counter mode with keys from the operating system's entropy that are renewed,
    in every thread and in children of the process, too (Barker and Kelsey 2015, NIST SP 800-90A,
    *Recommendation for random number generation using deterministic random bit generators*). The operating
    system takes many times as long for as many.
    """
    return np.frombuffer(ssl.RAND_bytes(size), dtype=np.uint8)
