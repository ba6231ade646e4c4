"""Where noise is drawn: the only module that knows OpenDP and NumPy's generators.

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
import os
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NoReturn, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian, make_laplace, make_noisy_max
from opendp.measures import zero_concentrated_divergence
from opendp.metrics import absolute_distance, l2_distance, linf_distance
from opendp.mod import Measurement, OpenDPException, enable_features

from privfit._checks import FloatArray, in_range, positive, whole
from privfit.errors import Incompatible, InvalidArgument

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

IntArray: TypeAlias = NDArray[np.int64]

Seed: TypeAlias = int | np.random.RandomState | np.random.Generator


class NoiseSource(Protocol):
    """Adds noise to a vector, and draws what private sampling needs."""

    @property
    def private(self) -> bool:
        """Whether a release through this source has the stated guarantee."""
        ...

    @property
    def label(self) -> str:
        """The source in words, for summaries."""
        ...

    def gaussian(self, value: FloatArray, sd: float) -> FloatArray:
        """Return ``value``, of shape (k,) and finite, plus noise of standard deviation ``sd``."""
        ...

    def radial(self, value: FloatArray, scale: float) -> FloatArray:
        """Return ``value``, of shape (k,), plus noise of density ``exp(-norm(z) / scale)``."""
        ...

    def uniform(self, size: int) -> FloatArray:
        """Return ``size`` numbers spread evenly over [0, 1), multiples of ``2**-53``."""
        ...

    def integers(self, high: int, size: int) -> IntArray:
        """Return ``size`` whole numbers, each of 0 .. high - 1 equally likely."""
        ...

    def select(self, scores: FloatArray, scale: float) -> int:
        """Return k with probability proportional to ``exp(-scores[k] / scale)``."""
        ...


@final
@dataclass(frozen=True, slots=True)
class SecureNoise:
    """Discrete Gaussian noise from the operating system's entropy, on a lattice (OpenDP)."""

    @property
    def private(self) -> bool:
        """True."""
        return True

    @property
    def label(self) -> str:
        """The source in words."""
        return "discrete Gaussian noise (OpenDP), operating system's entropy"

    def gaussian(self, value: FloatArray, sd: float) -> FloatArray:
        """Return a new array: ``value`` rounded to the lattice, plus lattice noise.

        Parameters
        ----------
        value : array of shape (k,)
            Finite.
        sd : float
            Standard deviation, in the unit of ``value``.

        Raises
        ------
        InvalidArgument
            If ``sd`` is outside [1e-200, 1e200].

        Notes
        -----
        *Guarantee.* `gaussian_mu` for this size, this ``sd`` and the L2 sensitivity of ``value``. Takes 10 to
        15 microseconds a coordinate.
        """
        if value.size == 0:
            return value.copy()
        return np.array(_measurement(value.size, sd)(value.tolist()), dtype=np.float64)

    def radial(self, value: FloatArray, scale: float) -> FloatArray:
        """Return a new array: ``value`` rounded to the lattice, plus radial lattice noise.

        Notes
        -----
        *Guarantee.* `radial_epsilon` for this size, this ``scale`` and the L2 sensitivity of ``value``.
        """
        if value.size == 0:
            return value.copy()
        sd = scale * math.sqrt(2.0 * _secure_gamma(value.size + 1))
        return np.array(_radial_measurement(value.size, sd, scale)(value.tolist()), dtype=np.float64)

    def uniform(self, size: int) -> FloatArray:
        """Return ``size`` numbers in [0, 1) from the operating system's entropy."""
        return (_random_bits(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, high: int, size: int) -> IntArray:
        """Return ``size`` whole numbers below ``high``, exactly uniform, by rejection."""
        high = whole(high=high)
        limit = np.uint64(2**64 - 2**64 % high - 1)
        drawn = np.empty(0, dtype=np.uint64)
        while drawn.size < size:
            bits = _random_bits(size - drawn.size)
            drawn = np.concatenate([drawn, bits[bits <= limit]])
        return (drawn % np.uint64(high)).astype(np.int64)

    def select(self, scores: FloatArray, scale: float) -> int:
        """Return k with probability proportional to ``exp(-scores[k] / scale)``; scores are finite.

        Notes
        -----
        *Guarantee.* `selection_epsilon` for this ``scale``. OpenDP compares Gumbel variables digit by
        digit, so that nothing is rounded.
        """
        return int(_selection(scale)(scores.tolist()))


@final
class SeededNoise:
    """Repeatable noise for tests and teaching. Who knows the seed can subtract it: *not private*.

    Cannot be copied or pickled, since two copies would draw the same noise.

    Parameters
    ----------
    seed : int, numpy.random.RandomState or numpy.random.Generator
        An int is at least 0. A generator is advanced.
    """

    __slots__ = ("_generator",)

    def __init__(self, seed: Seed) -> None:
        if isinstance(seed, np.random.Generator):
            self._generator = seed
        elif isinstance(seed, np.random.RandomState):
            self._generator = np.random.default_rng(seed.randint(2**31, size=4))
        else:
            self._generator = np.random.default_rng(whole(0, random_state=seed))

    @property
    def private(self) -> bool:
        """False."""
        return False

    @property
    def label(self) -> str:
        """The source in words."""
        return "seeded: not private"

    def gaussian(self, value: FloatArray, sd: float) -> FloatArray:
        """Return a new array: ``value`` plus continuous Gaussian noise."""
        return value + self._generator.normal(scale=sd, size=value.shape)

    def radial(self, value: FloatArray, scale: float) -> FloatArray:
        """Return a new array: ``value`` plus continuous radial noise."""
        variance = 2.0 * scale**2 * self._generator.gamma(0.5 * (value.size + 1))
        return value + self._generator.normal(scale=math.sqrt(variance), size=value.shape)

    def uniform(self, size: int) -> FloatArray:
        """Return ``size`` numbers in [0, 1)."""
        return self._generator.random(size)

    def integers(self, high: int, size: int) -> IntArray:
        """Return ``size`` whole numbers below ``high``."""
        return self._generator.integers(high, size=size)

    def select(self, scores: FloatArray, scale: float) -> int:
        """Return k with probability proportional to ``exp(-scores[k] / scale)``."""
        return int(np.argmax(self._generator.gumbel(size=scores.size) - scores / scale))

    def __repr__(self) -> str:
        return "SeededNoise(...)"

    def __reduce__(self) -> NoReturn:
        raise Incompatible("a seeded noise source cannot be copied or pickled: its noise would repeat")


@final
@dataclass(frozen=True, slots=True)
class NoNoise:
    """The exact answer, for the non-private reference only."""

    @property
    def private(self) -> bool:
        """False."""
        return False

    @property
    def label(self) -> str:
        """The source in words."""
        return "no noise: not private"

    def gaussian(self, value: FloatArray, sd: float) -> FloatArray:  # noqa: ARG002 - the protocol's signature
        """Return a copy of ``value``."""
        return value.copy()

    def radial(self, value: FloatArray, scale: float) -> FloatArray:  # noqa: ARG002 - the protocol's signature
        """Return a copy of ``value``."""
        return value.copy()

    def uniform(self, size: int) -> FloatArray:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible("solver: a method that draws at random has no version without noise")

    def integers(self, high: int, size: int) -> IntArray:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible("solver: a method that draws at random has no version without noise")

    def select(self, scores: FloatArray, scale: float) -> int:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible("solver: a method that draws at random has no version without noise")


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
    measurement = _measurement(whole(size=size), sd)
    try:
        rho = float(measurement.map(sensitivity))
    except OpenDPException:
        rho = math.inf
    if not math.isfinite(rho):
        raise InvalidArgument(
            f"sensitivity must be smaller for a noise of sd {sd:.4g}, got {sensitivity:.4g}"
        )
    return math.nextafter(math.sqrt(2 * rho), math.inf) * (1 + MARGIN)


def _measurement(size: int, sd: float) -> Measurement:
    sd = in_range(SMALLEST_SD, LARGEST_SD, sd=sd)
    exponent = math.frexp(sd)[1] - 1 - LATTICE_BITS
    domain = vector_domain(atom_domain(T=float, nan=False), size=size)
    return make_gaussian(domain, l2_distance(T=float), scale=sd, k=exponent)


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
    rho = float(_selection(scale).map(positive(sensitivity=sensitivity)))
    return math.nextafter(max(math.sqrt(8.0 * rho), 2.0 * sensitivity / scale), math.inf)


@lru_cache(maxsize=16)
def _selection(scale: float) -> Measurement:
    scale = in_range(SMALLEST_SD, LARGEST_SD, scale=scale)
    domain = vector_domain(atom_domain(T=float, nan=False))
    return make_noisy_max(
        domain, linf_distance(T=float), zero_concentrated_divergence(), scale=scale, negate=True
    )


def _radial_measurement(size: int, sd: float, scale: float) -> Measurement:
    domain = vector_domain(atom_domain(T=float, nan=False), size=size)
    exponent = math.frexp(scale)[1] - 1 - RADIAL_BITS
    return make_gaussian(domain, l2_distance(T=float), scale=sd, k=exponent)


def _secure_gamma(doubled_shape: int) -> float:
    """Return a Gamma variable of shape ``doubled_shape / 2`` and scale 1."""
    whole_part, half = divmod(doubled_shape, 2)
    total = math.fsum(abs(_lattice_laplace()(0.0)) for _ in range(whole_part))
    if half:
        total += 0.5 * _measurement(1, 1.0)([0.0])[0] ** 2
    return max(total, 2.0**-RADIAL_BITS)


@lru_cache(maxsize=1)
def _lattice_laplace() -> Measurement:
    """Return a sampler whose absolute value is exponential with mean 1, on a lattice of ``2**-60``."""
    domain = atom_domain(T=float, nan=False)
    return make_laplace(domain, absolute_distance(T=float), scale=1.0, k=-RADIAL_BITS)


def _random_bits(size: int) -> NDArray[np.uint64]:
    return np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
