"""Where noise is drawn: private, seeded, or none. The only module that knows NumPy's generators."""

import math
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray, whole
from privfit._threads import each_part, thread_count
from privfit.errors import Incompatible
from privfit.privacy.samplers import (
    gaussian_sampler,
    laplace_sampler,
    radial_sampler,
    random_bits,
    random_octets,
    secure_gamma,
    selection_sampler,
)

BoolArray: TypeAlias = NDArray[np.bool_]

COIN_SIDES = 2**16
"""What chances of a coin are multiples of the inverse of."""

_TOGETHER = 256
"""Coordinates whose noise is drawn in one call of OpenDP at most; it takes some milliseconds."""

_APART = 32
"""Coordinates from which on another thread draws the noise of some: a call takes as long as that of seven."""

_TOSSED = 2**18
"""Coins that a thread throws at a time."""

_NO_EXACT_DRAW = "solver: a method that draws at random has no version without noise"

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

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Return ``value``, of shape (k,), plus independent noise of density ``exp(-abs(z) / scale)``."""
        ...

    def uniform(self, size: int) -> FloatArray:
        """Return ``size`` numbers spread evenly over [0, 1), multiples of ``2**-53``."""
        ...

    def integers(self, high: int, size: int) -> IntArray:
        """Return ``size`` whole numbers, each of 0 .. high - 1 equally likely."""
        ...

    def coins(self, chances: int, size: int) -> BoolArray:
        """Return ``size`` independent truths, each true with probability ``chances / COIN_SIDES``."""
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
        return "OpenDP, operating system's entropy"

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
        *Guarantee.* `gaussian_mu` for this size, this ``sd`` and the L2 sensitivity of ``value``: coordinates
        are independent, on a lattice that follows from ``sd`` alone, so that it makes no difference which are
        drawn together. Takes 10 to 15 microseconds a coordinate, several threads where there are some dozens.
        """
        found = np.empty(value.size)
        enough = value.size // _APART
        parts = max(-(-value.size // _TOGETHER), min(enough, thread_count()) if enough > 1 else 1)
        length = -(-value.size // parts)

        def work(k: int) -> None:
            some = slice(k * length, (k + 1) * length)
            found[some] = gaussian_sampler(value[some].size, sd)(value[some].tolist())

        each_part(work, parts)
        return found

    def radial(self, value: FloatArray, scale: float) -> FloatArray:
        """Return a new array: ``value`` rounded to the lattice, plus radial lattice noise.

        Notes
        -----
        *Guarantee.* `radial_epsilon` for this size, this ``scale`` and the L2 sensitivity of ``value``.
        """
        if value.size == 0:
            return value.copy()
        sd = scale * math.sqrt(2.0 * secure_gamma(value.size + 1))
        return np.array(radial_sampler(value.size, sd, scale)(value.tolist()), dtype=np.float64)

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Return a new array: ``value`` rounded to the lattice, plus discrete Laplace noise.

        Notes
        -----
        *Guarantee.* `laplace_epsilon` for this size, this ``scale`` and the L1 sensitivity of ``value``.
        """
        if value.size == 0:
            return value.copy()
        return np.array(laplace_sampler(value.size, scale)(value.tolist()), dtype=np.float64)

    def uniform(self, size: int) -> FloatArray:
        """Return ``size`` numbers in [0, 1) from the operating system's entropy."""
        return (random_bits(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, high: int, size: int) -> IntArray:
        """Return ``size`` whole numbers below ``high``, exactly uniform, by rejection."""
        high = whole(high=high)
        limit = np.uint64(2**64 - 2**64 % high - 1)
        drawn = np.empty(0, dtype=np.uint64)
        while drawn.size < size:
            bits = random_bits(size - drawn.size)
            drawn = np.concatenate([drawn, bits[bits <= limit]])
        return (drawn % np.uint64(high)).astype(np.int64)

    def coins(self, chances: int, size: int) -> BoolArray:
        """Return ``size`` truths, each true with probability ``chances / COIN_SIDES``, exactly.

        A number of two octets is less than ``chances`` if the first is less than the first of those; the
        second is drawn where they are the same. Several threads throw where there are many.
        """
        first, second = divmod(chances, 2**8)
        truths = np.empty(size, dtype=np.bool_)

        def work(k: int) -> None:
            some = truths[k * _TOSSED : (k + 1) * _TOSSED]
            octets = random_octets(some.size)
            np.less(octets, first, out=some)
            tied = np.flatnonzero(octets == first)
            some[tied] = random_octets(tied.size) < second

        each_part(work, -(-size // _TOSSED))
        return truths

    def select(self, scores: FloatArray, scale: float) -> int:
        """Return k with probability proportional to ``exp(-scores[k] / scale)``; scores are finite.

        Notes
        -----
        *Guarantee.* `selection_epsilon` for this ``scale``. OpenDP compares Gumbel variables digit by
        digit, so that nothing is rounded.
        """
        return int(selection_sampler(scale)(scores.tolist()))


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
        sd = scale * math.sqrt(2.0 * self._generator.gamma(0.5 * (value.size + 1)))
        return value + self._generator.normal(scale=sd, size=value.shape)

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:
        """Return a new array: ``value`` plus continuous Laplace noise."""
        return value + self._generator.laplace(scale=scale, size=value.shape)

    def uniform(self, size: int) -> FloatArray:
        """Return ``size`` numbers in [0, 1)."""
        return self._generator.random(size)

    def integers(self, high: int, size: int) -> IntArray:
        """Return ``size`` whole numbers below ``high``."""
        return self._generator.integers(high, size=size)

    def coins(self, chances: int, size: int) -> BoolArray:
        """Return ``size`` truths, each true with probability ``chances / COIN_SIDES``."""
        return self._generator.integers(COIN_SIDES, size=size, dtype=np.uint16) < chances

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

    def laplace(self, value: FloatArray, scale: float) -> FloatArray:  # noqa: ARG002 - the protocol's signature
        """Return a copy of ``value``."""
        return value.copy()

    def uniform(self, size: int) -> FloatArray:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible(_NO_EXACT_DRAW)

    def integers(self, high: int, size: int) -> IntArray:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible(_NO_EXACT_DRAW)

    def coins(self, chances: int, size: int) -> BoolArray:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible(_NO_EXACT_DRAW)

    def select(self, scores: FloatArray, scale: float) -> int:  # noqa: ARG002 - the protocol's signature
        """Refuse: a method that samples has no exact answer."""
        raise Incompatible(_NO_EXACT_DRAW)
