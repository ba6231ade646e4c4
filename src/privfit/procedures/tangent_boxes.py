"""Exact draws from a log-concave density on a ball, by rejection from tangents on boxes.

The exponent g of the density ``exp(-g)`` is convex, so on each box of a partition it lies above its tangent
at one point. A point of the box is drawn from ``exp(-tangent)``, coordinate by coordinate, and accepted with
probability ``exp(-(g - tangent))``; every accepted point has the density ``exp(-g)``, whatever the partition
(Gilks and Wild 1992, *Adaptive rejection sampling*, in one dimension). Boxes where points were rejected are
split, so that acceptance grows until a point is accepted. Nothing is assumed but convexity: kinks do not
matter. The coordinates z of the boxes (`Frame`) and the partition that is started from only save time.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit.privacy.mechanisms import NoiseSource

Exponent: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""``g(points)`` of shape (m, p): values (m,) and subgradients (m, p)."""

_SLACK = 2.0**-10
"""Lowers every tangent, so that the rounding of its slope cannot lift it above g."""

_FEWEST, _MOST = 8, 512
"""Proposals that are evaluated in one pass."""


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """Coordinates ``theta = center + turn @ z`` in which the density has about unit width, in a ball.

    Parameters
    ----------
    center : array of shape (p,)
        A point of the ball, near the mode.
    turn : array of shape (p, p)
        Orthogonal columns.
    radius : float
        Of the ball around 0 in which theta lies.
    """

    center: FloatArray
    turn: FloatArray
    radius: float

    def points(self, z: FloatArray) -> FloatArray:
        """Return the theta of points z, shape (m, p)."""
        return self.center + z @ self.turn.T

    def coordinates(self, theta: FloatArray) -> FloatArray:
        """Return the z of points theta, shape (m, p)."""
        return (theta - self.center) @ self.turn / (self.turn**2).sum(axis=0)

    def holds(self, theta: FloatArray) -> NDArray[np.bool_]:
        """Return which points lie in the ball."""
        return (theta * theta).sum(axis=1) <= self.radius**2

    def towards(self, theta: FloatArray) -> FloatArray:
        """Return the points, those outside of the ball moved to it."""
        norm = np.sqrt((theta * theta).sum(axis=1))
        shrink = np.minimum(1.0, self.radius / np.maximum(norm, 1e-300) * (1 - 2.0**-40))
        return theta * shrink[:, None]

    def meets(self, low: FloatArray, high: FloatArray) -> NDArray[np.bool_]:
        """Return which boxes of z have points in the ball: the axes being orthogonal, by the nearest to 0."""
        middle = self.coordinates(np.zeros((1, self.center.size)))
        nearest = self.points(np.clip(middle, low, high))
        return (nearest * nearest).sum(axis=1) <= self.radius**2 * (1 + 2.0**-40)

    def extent(self) -> tuple[FloatArray, FloatArray]:
        """Return the smallest box of z around the ball."""
        middle = self.coordinates(np.zeros((1, self.center.size)))[0]
        reach = self.radius / np.sqrt((self.turn**2).sum(axis=0)) * (1 + 2.0**-40)
        return middle - reach, middle + reach


@dataclass(frozen=True, slots=True, eq=False)
class _Boxes:
    """Boxes ``low <= z <= high`` (K, p) with a tangent each: at ``anchor``, with ``value`` and ``slope``."""

    low: FloatArray
    high: FloatArray
    anchor: FloatArray
    value: FloatArray
    slope: FloatArray
    log_mass: FloatArray

    @classmethod
    def over(cls, low: FloatArray, high: FloatArray, exponent: Exponent, frame: Frame) -> "_Boxes":
        """Return those boxes that meet the ball, with tangents at their middle, or near it in the ball."""
        meets = frame.meets(low, high)
        low, high = low[meets], high[meets]
        theta = frame.towards(frame.points(0.5 * (low + high)))
        value, gradient = exponent(theta)
        anchor, slope = frame.coordinates(theta), gradient @ frame.turn
        nearest = np.where(slope >= 0, low, high)
        height = value + (slope * (nearest - anchor)).sum(axis=1)
        mass = log_exponential(np.abs(slope), high - low).sum(axis=1) - height
        return cls(low, high, anchor, value, slope, mass)

    @property
    def count(self) -> int:
        return self.log_mass.size

    def tangent(self, box: IntArray, z: FloatArray) -> FloatArray:
        """Return the tangents of boxes at a point of each."""
        return self.value[box] + (self.slope[box] * (z - self.anchor[box])).sum(axis=1)

    def draw(self, box: IntArray, noise: NoiseSource) -> FloatArray:
        """Return one point of each of the boxes, shape (m, p), of density ``exp(-tangent)``."""
        slope, low, high = self.slope[box], self.low[box], self.high[box]
        steps = draw_exponential(np.abs(slope), high - low, noise)
        return np.where(slope >= 0, low + steps, high - steps)

    def without(self, taken: IntArray) -> "_Boxes":
        """Return all boxes but these."""
        kept = np.ones(self.count, dtype=bool)
        kept[taken] = False
        return _Boxes(*(part[kept] for part in self._parts()))

    def and_also(self, others: "_Boxes") -> "_Boxes":
        """Return these boxes and the others."""
        pairs = zip(self._parts(), others._parts(), strict=True)
        return _Boxes(*(np.concatenate(pair) for pair in pairs))

    def _parts(self) -> tuple[FloatArray, ...]:
        return self.low, self.high, self.anchor, self.value, self.slope, self.log_mass


def draw_from_ball(exponent: Exponent, frame: Frame, noise: NoiseSource) -> FloatArray:
    """Return a point of the ball with density proportional to ``exp(-g)``.

    Parameters
    ----------
    exponent : callable
        Convex on the ball; never asked outside of it.
    frame : Frame
    noise : NoiseSource

    Returns
    -------
    array of shape (p,)

    Notes
    -----
    The number of passes is random and depends on the rows; see ``docs/solvers/exponential.md``.
    """
    boxes = _Boxes.over(*_shells(*frame.extent()), exponent, frame)
    while True:
        box = pick(boxes.log_mass, min(_MOST, max(_FEWEST, boxes.count // 8)), noise)
        z = boxes.draw(box, noise)
        patience = -np.log(fine_uniform(box.size, noise))
        theta = frame.points(z)
        inside = frame.holds(theta)
        value, gradient = np.full(box.size, np.inf), np.zeros(z.shape)
        if inside.any():
            value[inside], gradient[inside] = exponent(theta[inside])
        accepted = np.flatnonzero(value - boxes.tangent(box, z) + _SLACK < patience)
        if accepted.size:
            return theta[accepted[0]]
        bend = np.abs((gradient @ frame.turn - boxes.slope[box]) * (z - boxes.anchor[box]))
        bend[~inside] = (boxes.high - boxes.low)[box][~inside]
        boxes = _split(boxes, box, bend, exponent, frame)


def _shells(low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return boxes that fill ``low <= z <= high``: ``abs(z) <= 2`` and shells that double in width."""
    low, high = low.copy(), high.copy()
    lows, highs = [], []
    width = 2.0 ** np.ceil(np.log2(max(float(np.abs([low, high]).max()), 4.0)))
    while width > 2.0:
        width /= 2.0
        for axis in range(low.size):
            if high[axis] > width:
                cut = low.copy()
                cut[axis] = high_now = max(width, low[axis])
                lows.append(cut)
                highs.append(high.copy())
                high[axis] = high_now
            if low[axis] < -width:
                cut = high.copy()
                cut[axis] = low_now = min(-width, high[axis])
                lows.append(low.copy())
                highs.append(cut)
                low[axis] = low_now
    return np.array([*lows, low]), np.array([*highs, high])


def _split(boxes: _Boxes, box: IntArray, bend: FloatArray, exponent: Exponent, frame: Frame) -> _Boxes:
    """Halve the boxes that proposals came from, each along the axis where its tangent failed most."""
    taken, first = np.unique(box, return_index=True)
    low, high, axis = boxes.low[taken], boxes.high[taken], bend[first].argmax(axis=1)
    row = np.arange(taken.size)
    middle = 0.5 * (low[row, axis] + high[row, axis])
    upper, lower = low.copy(), high.copy()
    upper[row, axis] = lower[row, axis] = middle
    halves = np.concatenate([low, upper]), np.concatenate([lower, high])
    return boxes.without(taken).and_also(_Boxes.over(*halves, exponent, frame))


def log_exponential(rate: FloatArray, length: FloatArray) -> FloatArray:
    """Return the logarithm of the integral of ``exp(-rate * t)`` over [0, length], elementwise."""
    small = rate * length < 1e-300
    safe = np.where(small, 1.0, rate)
    with np.errstate(divide="ignore"):
        return np.log(np.where(small, length, -np.expm1(-safe * length) / safe))


def draw_exponential(rate: FloatArray, length: FloatArray, noise: NoiseSource) -> FloatArray:
    """Return points of [0, length] with density proportional to ``exp(-rate * t)``, elementwise.

    The distribution function is inverted from whichever end is nearer, so that neither end is cut off.
    """
    shape = rate.shape
    half = 0.5 * fine_uniform(rate.size, noise).reshape(shape)
    from_above = noise.integers(2, rate.size).reshape(shape) == 1
    small = rate * length < 1e-300
    safe = np.where(small, 1.0, rate)
    whole = -np.expm1(-safe * length)
    near = -np.log1p(-half * whole)
    beyond = np.maximum(np.exp(-safe * length) + half * whole, 5e-324)
    far = np.where(beyond > 0.5, -np.log1p(-np.minimum((1.0 - half) * whole, 0.5)), -np.log(beyond))
    drawn = np.where(from_above, far, near) / safe
    even = np.where(from_above, 1.0 - half, half) * length
    return np.clip(np.where(small, even, drawn), 0.0, length)


def pick(log_weights: FloatArray, times: int, noise: NoiseSource) -> IntArray:
    """Return ``times`` indices of probability proportional to ``exp(log_weights)``, independent.

    The index with the earliest of exponential arrival times is picked; small times, which decide about rare
    indices, have full relative precision.
    """
    centered = log_weights - log_weights.max()
    likely = np.flatnonzero(centered > -100.0)  # the others have arrival times beyond any that is drawn
    arrival = -np.log1p(-fine_uniform(times * likely.size, noise)).reshape(times, likely.size)
    return likely[np.argmin(np.log(arrival) - centered[likely], axis=1)]


def fine_uniform(size: int, noise: NoiseSource) -> FloatArray:
    """Return ``size`` numbers in (0, 1), with full relative precision down to 2**-53 and steps of 2**-106."""
    coarse, fine = noise.uniform(2 * size).reshape(2, size)
    return np.clip(coarse + 2.0**-53 * fine, 2.0**-107, 1.0 - 2.0**-53)
