"""Compose privacy loss distributions on a grid, with a bound on every error that could understate δ.

A release is described by the law of its privacy loss ``l = log(P / Q)`` under P, for a pair (P, Q) that
dominates it (Zhu, Dong and Wang 2022, definition 7). Losses of releases chosen one after another add up, so
their law is a convolution (theorem 10 there), and ``δ(ε)`` is the mean of ``max(0, 1 − exp(ε − l))``.

From a law to a grid
--------------------
The P- and Q-mass of the losses between two neighbouring points of the grid are split among these two points
so that both masses are kept ("connect the dots": Doroshenko, Ghazi, Kamath, Kumar and Manurangsi 2022). As
δ(ε) is convex in exp(ε) and is changed on neither point, this can only raise it in between. Losses above
the grid count as infinite, losses below as its lowest point.

Convolution without loss of digits
----------------------------------
A δ of 1e-9 is the tail of a distribution, and a Fourier transform leaves errors of a part in 1e16 of its
centre, times the number of steps. So the law is tilted first: ``exp(s l − K(s)) p(l)`` has its centre at ε
for the right s (Esscher 1932), its convolution is tilted back, and errors become relative to δ. They are
bounded afterwards: if each value of a transform is off by at most e, its power N is off by at most ``N e``
times its modulus to the power ``N − 1``, and the inverse transform adds up the moduli.
"""

import math
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.fft import irfft, next_fast_len, rfft
from scipy.optimize import root_scalar

from privfit._checks import UNIT_ROUNDOFF, FloatArray

LARGEST_LOSS: Final = 300.0
"""Losses beyond it count as infinite: their exponentials would overflow soon."""

_MOST_POINTS: Final = 2**22
_ROUGH_POINTS: Final = 5000
_FACTORS: Final = (1.0, 0.5, 0.25, 0.12, 0.06, 0.03, 0.015, 0.007, 0.003, 0.001)
"""Tilts that are tried for a bound on the tail, in half-widths over standard deviations."""

_WIDTHS: Final = (8.0, 11.0, 15.0, 20.0, 30.0, 50.0, 100.0)
"""Half-widths of the window of the convolution that are tried, in standard deviations."""


Law: TypeAlias = tuple[FloatArray, FloatArray, int]
"""Losses, their masses, and how many releases have this law."""


@dataclass(frozen=True, slots=True, eq=False)
class LossGrid:
    """The law of the loss of one release, on points ``(first + k) * interval``.

    Parameters
    ----------
    first : int
    mass : array of shape (m,)
        P-mass of the points.
    infinite : float
        Mass of an infinite loss.
    count : int
        How many releases of this kind there are.
    """

    first: int
    mass: FloatArray
    infinite: float
    count: int


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """P- and Q-masses of the losses between neighbouring points of the grid.

    Parameters
    ----------
    first : int
        Cell k lies between points ``first + k`` and ``first + k + 1``.
    p, q : array of shape (m,)
    """

    first: int
    p: FloatArray
    q: FloatArray

    def mirrored(self) -> "Cells":
        """Return the cells of the pair (Q, P)."""
        return Cells(-self.first - self.p.size, self.q[::-1], self.p[::-1])


def connect_dots(
    cells: list[Cells], *, interval: float, atom: float, infinite: float, count: int
) -> LossGrid:
    """Return the law with the cells' masses moved to the points, and ``atom`` at 0.

    On top, so much is moved up that every loss is raised by 16 roundings of 1 or of itself: what the rounding
    of masses can take off.
    """
    first = min(0, *(part.first for part in cells))
    last = max(0, *(part.first + part.p.size for part in cells))
    mass = np.zeros(last - first + 1)
    mass[-first] = atom
    for part in cells:
        low = (part.first + np.arange(part.p.size)) * interval
        with np.errstate(over="ignore", invalid="ignore"):
            excess = (part.p - np.exp(low) * part.q) / -math.expm1(-interval)
        spare = (16 + 16 * np.abs(low)) * UNIT_ROUNDOFF / interval * part.p
        upper = np.clip(excess + spare, 0.0, part.p)
        start = part.first - first
        mass[start : start + part.p.size] += part.p - upper
        mass[start + 1 : start + 1 + part.p.size] += upper
    return LossGrid(first, mass, infinite, count)


class Convolution:
    """The law of the total loss of several releases.

    Parameters
    ----------
    parts : list of LossGrid
        All on the same grid.
    interval : float
        Distance of its points.
    """

    def __init__(self, parts: list[LossGrid], interval: float) -> None:
        self._interval = interval
        self._parts = [_trimmed(part) for part in parts]
        self._infinite = min(1.0, math.fsum(part.count * part.infinite for part in parts) * (1 + 1e-12))
        self._laws: list[Law] = [
            ((part.first + np.arange(part.mass.size, dtype=np.float64)) * interval, part.mass, part.count)
            for part in self._parts
        ]
        self._rough = [_thinned(losses, mass, count) for losses, mass, count in self._laws]
        self._largest = max(float(np.abs(losses).max(initial=0.0)) for losses, _, _ in self._laws)
        self._known: dict[float, _Tilted] = {}

    def delta_at(self, epsilon: float) -> float:
        """Return a δ at ``epsilon``, rounded up."""
        tilt = tilt_towards(epsilon, self._rough)
        tilted = self._known.get(tilt)
        if tilted is None or not tilted.holds(epsilon):
            tilted = self._tilted(tilt, epsilon)
            self._known = {tilt: tilted}
        return min(1.0, self._infinite + tilted.tail(epsilon))

    def _tail_bound(self, tilt: float, high: float, step: float, enough: float) -> float:
        """Return the logarithm of a bound on the mass above ``high``: Chernoff's best at a few tilts."""
        guesses: list[tuple[float, float]] = []
        for factor in _FACTORS:
            tried = tilt + factor * step
            guesses.append((self._log_mean(tried, self._rough) - tried * high, tried))
            if guesses[-1][0] <= enough:
                break
        tried = min(guesses)[1]
        return min(0.0, self._log_mean(tried, self._laws) - tried * high)

    def _wraps_little(self, tilt: float, low: float, size: int, step: float) -> bool:
        """Return whether the mass below the window, which is counted at its top, is negligible there.

        It would raise δ, never lower it.
        """
        if tilt * size * self._interval > 40.0:
            return True
        norm = self._log_mean(tilt, self._rough)
        tried = (factor * step for factor in _FACTORS)
        return any(self._log_mean(tilt - less, self._rough) + less * low <= norm - 25.0 for less in tried)

    def _log_mean(self, tilt: float, laws: list[Law]) -> float:
        """Return K(tilt), the logarithm of the mean of ``exp(tilt * loss)``."""
        total = 0.0
        for losses, mass, count in laws:
            exponent = tilt * losses
            top = float(exponent.max())
            total += count * (top + math.log(float(mass @ np.exp(exponent - top))))
        return total

    def _tilted(self, tilt: float, epsilon: float) -> "_Tilted":
        """Convolve the tilted law in a window around ``epsilon`` that is wide enough."""
        log_norm, mean, variance = _moments(tilt, self._laws)
        sd = math.sqrt(variance) + self._interval
        size, low, beyond = 0, 0, 0.0
        for width in _WIDTHS:
            low = math.floor((min(mean, epsilon) - width * sd) / self._interval)
            high = math.ceil((max(mean, epsilon) + width * sd) / self._interval)
            size = high - low + 1
            enough = log_norm - tilt * epsilon - 35.0
            beyond = self._tail_bound(tilt, high * self._interval, width / sd, enough)
            whole = beyond <= enough and self._wraps_little(tilt, low * self._interval, size, width / sd)
            if whole or 2 * size > _MOST_POINTS:
                break
        size = int(next_fast_len(size, real=True) or size)
        powers, error = self._powers(tilt, size)
        law = np.maximum(np.roll(np.asarray(irfft(powers, size)), -low % size), 0.0)
        each = float(2 * np.sum(error + _transform_error(size) * np.abs(powers))) / size
        return _Tilted(
            tilt=tilt,
            log_norm=log_norm + self._rounding(tilt),
            losses=(low + np.arange(size, dtype=np.float64)) * self._interval,
            law=law + each,
            beyond=math.exp(beyond),
        )

    def _rounding(self, tilt: float) -> float:
        """Return a bound on the relative error of a product of tilted masses."""
        steps = math.fsum(part.count for part in self._parts)
        return steps * UNIT_ROUNDOFF * (64 + 8 * tilt * self._largest)

    def _powers(self, tilt: float, size: int) -> tuple[NDArray[np.complex128], FloatArray]:
        """Return the transform of the convolution, and bounds on its errors, each of shape (size // 2 + 1,).

        With m the modulus of a computed value plus its error e, the power N is off by ``N e m**(N - 1)``.
        """
        logarithm = np.zeros(size // 2 + 1, dtype=np.complex128)
        bound, relative = np.zeros(size // 2 + 1), np.zeros(size // 2 + 1)
        each = _transform_error(size) + 64 * UNIT_ROUNDOFF
        for part, (losses, mass, count) in zip(self._parts, self._laws, strict=True):
            exponent = tilt * losses
            weights = mass * np.exp(exponent - exponent.max())
            index = (part.first + np.arange(mass.size)) % size
            transform = np.asarray(rfft(np.bincount(index, weights=weights / weights.sum(), minlength=size)))
            with np.errstate(divide="ignore", invalid="ignore"):
                logarithm += count * np.log(transform)
            modulus = np.abs(transform) + each
            bound += count * np.log(modulus)
            relative += count * each / modulus
        with np.errstate(invalid="ignore"):
            powers = np.exp(logarithm)
        return np.where(np.isfinite(powers), powers, 0.0), np.exp(bound) * relative


def tilt_towards(epsilon: float, laws: list[Law]) -> float:
    """Return about the s at which the tilted mean of the total loss is ε, a power of ``2**0.25``; or 0."""
    most = 600.0 / max(1e-300, *(float(np.abs(losses).max(initial=0.0)) for losses, _, _ in laws))

    def short(tilt: float) -> float:
        return _moments(tilt, laws)[1] - epsilon

    if short(0.0) >= 0.0:
        return 0.0
    if short(most) <= 0.0:
        return most
    exact = float(root_scalar(short, bracket=(0.0, most), rtol=1e-3, xtol=1e-12 * most).root)
    return min(most, 2.0 ** (math.floor(4 * math.log2(exact) + 0.5) / 4)) if exact > 0 else 0.0


def _moments(tilt: float, laws: list[Law]) -> tuple[float, float, float]:
    """Return K(tilt), and mean and variance of the tilted total loss."""
    total = [0.0, 0.0, 0.0]
    for losses, mass, count in laws:
        exponent = tilt * losses
        top = float(exponent.max())
        weights = mass * np.exp(exponent - top)
        norm = float(weights.sum())
        mean = float(weights @ losses) / norm
        variance = float(weights @ (losses - mean) ** 2) / norm
        for k, value in enumerate((top + math.log(norm), mean, variance)):
            total[k] += count * value
    return total[0], total[1], total[2]


def _transform_error(size: int) -> float:
    """Return a bound on the error of each output of a Fourier transform, for inputs that sum to 1.

    Each input takes part in ``log2(size)`` stages, each of which multiplies and adds (Higham 2002, section
    24.1); 16 roundings a stage are several times what a butterfly of radix up to 11 costs.
    """
    return 16 * UNIT_ROUNDOFF * math.log2(size)


def _thinned(losses: FloatArray, mass: FloatArray, count: int) -> Law:
    """Return about the same law on fewer points, for searches that need not be exact."""
    group = max(1, mass.size // _ROUGH_POINTS)
    if group == 1:
        return losses, mass, count
    starts = np.arange(0, mass.size, group)
    sums = np.add.reduceat(mass, starts)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.add.reduceat(mass * losses, starts) / sums
    kept = sums > 0.0
    return means[kept], sums[kept], count


def _trimmed(part: LossGrid) -> LossGrid:
    used = np.flatnonzero(part.mass > 0.0)
    if used.size == 0:
        return LossGrid(0, np.array([1.0]), part.infinite, part.count)
    low, high = int(used[0]), int(used[-1])
    return LossGrid(part.first + low, part.mass[low : high + 1], part.infinite, part.count)


@dataclass(frozen=True, slots=True, eq=False)
class _Tilted:
    """A convolution of tilted laws, in a window; see `Convolution`."""

    tilt: float
    log_norm: float
    losses: FloatArray
    law: FloatArray
    beyond: float

    def holds(self, epsilon: float) -> bool:
        """Whether ``epsilon`` lies in the middle of the window."""
        low, high = self.losses[0], self.losses[-1]
        return bool(low + 0.35 * (high - low) <= epsilon <= low + 0.65 * (high - low))

    def tail(self, epsilon: float) -> float:
        """Return the mean of ``max(0, 1 − exp(ε − l))`` over finite losses, rounded up."""
        first = int(np.searchsorted(self.losses, epsilon, side="right"))
        above = self.losses[first:] - epsilon
        mean = float(self.law[first:] @ (np.exp(-self.tilt * above) * -np.expm1(-above)))
        scale = math.exp(min(700.0, self.log_norm - self.tilt * epsilon))
        return mean * scale * (1 + 1e-12) + self.beyond
