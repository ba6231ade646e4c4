"""Exact draws from a log-concave law on a lattice in a ball, by rejection from tangents on boxes.

The exponent g of the density ``exp(-g)`` is convex, so on each box of a partition it lies above its tangent
at one point. A point of the box is drawn from ``exp(-tangent)``, coordinate by coordinate, and accepted with
probability ``exp(-(g - tangent))``; every accepted point has the law ``exp(-g)``, whatever the partition
(Gilks and Wild 1992, *Adaptive rejection sampling*, in one dimension). Boxes where points were rejected are
split, so that acceptance grows until a point is accepted. Nothing is assumed but convexity: kinks do not
matter.

The points are those of a public lattice, at which g is a plain function of the rows: the law that is drawn
from is discrete, and its probabilities are right but for `lattice_margin`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.privacy.mechanisms import NoiseSource

IntArray: TypeAlias = NDArray[np.int64]

Exponent: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]
"""``g(points)`` of shape (m, p): values (m,) and subgradients (m, p)."""

_SLACK = 2.0**-10
"""Lowers every tangent, so that the rounding of its slope cannot lift it above g."""

_FEWEST, _MOST = 16, 512
"""Proposals that are evaluated in one pass."""


@dataclass(frozen=True, slots=True)
class Lattice:
    """The points ``step * j``, j whole, in the ball of radius ``step * 2**bits``."""

    size: int
    step: float
    bits: int

    @property
    def reach(self) -> int:
        """Largest index of a coordinate."""
        return 2**self.bits

    def holds(self, index: IntArray) -> NDArray[np.bool_]:
        """Return which rows of ``index`` (m, p) are points in the ball."""
        return (index * index).sum(axis=1) <= self.reach**2


@dataclass(frozen=True, slots=True)
class _Boxes:
    """Boxes ``low <= j <= high`` (K, p) and a tangent each: at ``anchor``, ``value``, ``slope`` per index."""

    low: IntArray
    high: IntArray
    anchor: IntArray
    value: FloatArray
    slope: FloatArray

    @property
    def count(self) -> int:
        return self.value.size

    def log_mass(self) -> FloatArray:
        """Return the logarithm of the sum of ``exp(-tangent)`` over the points of each box."""
        nearest = np.where(self.slope >= 0, self.low, self.high)
        best = self.value + (self.slope * (nearest - self.anchor)).sum(axis=1)
        return log_geometric(np.abs(self.slope), self.high - self.low + 1).sum(axis=1) - best

    def tangent(self, box: IntArray, index: IntArray) -> FloatArray:
        """Return the tangents of the boxes at points of theirs."""
        return self.value[box] + (self.slope[box] * (index - self.anchor[box])).sum(axis=1)

    def draw(self, box: IntArray, noise: NoiseSource) -> IntArray:
        """Return one point of each of the boxes, shape (m, p), of law ``exp(-tangent)``."""
        slope, low, high = self.slope[box], self.low[box], self.high[box]
        steps = draw_geometric(np.abs(slope), high - low + 1, noise)
        return np.where(slope >= 0, low + steps, high - steps)

    def with_split(self, taken: IntArray, children: "_Boxes") -> "_Boxes":
        """Return the boxes with those of number ``taken`` replaced."""
        kept = np.ones(self.count, dtype=bool)
        kept[taken] = False
        return _Boxes(*(np.concatenate([getattr(self, f)[kept], getattr(children, f)]) for f in _FIELDS))


_FIELDS = ("low", "high", "anchor", "value", "slope")


def draw_from_ball(exponent: Exponent, lattice: Lattice, noise: NoiseSource) -> FloatArray:
    """Return a point of the lattice, of probability proportional to ``exp(-g)``.

    Parameters
    ----------
    exponent : callable
        Convex on the ball; never asked outside of it.
    lattice : Lattice
    noise : NoiseSource

    Returns
    -------
    array of shape (p,)

    Notes
    -----
    The number of passes is random and depends on the rows; see ``docs/solvers/exponential.md``.
    """
    whole = np.full((1, lattice.size), lattice.reach, dtype=np.int64)
    boxes = _with_tangents(-whole, whole, exponent, lattice)
    while True:
        proposals = min(_MOST, max(_FEWEST, boxes.count // 4))
        box = pick(boxes.log_mass(), proposals, noise)
        index = boxes.draw(box, noise)
        patience = -np.log(fine_uniform(proposals, noise))
        inside = lattice.holds(index)
        value, gradient = np.full(proposals, np.inf), np.zeros(index.shape)
        if inside.any():
            value[inside], gradient[inside] = exponent(index[inside] * lattice.step)
        excess = value - boxes.tangent(box, index) + _SLACK
        accepted = np.flatnonzero(excess < patience)
        if accepted.size:
            return index[accepted[0]] * lattice.step
        bend = np.abs((gradient * lattice.step - boxes.slope[box]) * (index - boxes.anchor[box]))
        bend[~inside] = 0.0
        boxes = _split(boxes, box, bend, exponent, lattice)


def _split(
    boxes: _Boxes, box: IntArray, bend: FloatArray, exponent: Exponent, lattice: Lattice
) -> _Boxes:
    """Halve the boxes that proposals were drawn from, each where its tangent failed most."""
    taken, first = np.unique(box, return_index=True)
    low, high, bend = boxes.low[taken], boxes.high[taken], bend[first]
    length = high - low
    bend = np.where(length > 0, bend, -1.0)
    axis = np.where(bend.max(axis=1) > 0, bend.argmax(axis=1), length.argmax(axis=1))
    row = np.arange(taken.size)
    splits = length[row, axis] > 0
    taken, low, high, axis = taken[splits], low[splits], high[splits], axis[splits]
    row = np.arange(taken.size)
    middle = (low[row, axis] + high[row, axis]) // 2
    upper, lower = low.copy(), high.copy()
    upper[row, axis], lower[row, axis] = middle + 1, middle
    children = np.concatenate([low, upper]), np.concatenate([lower, high])
    return boxes.with_split(taken, _with_tangents(*children, exponent, lattice))


def _with_tangents(low: IntArray, high: IntArray, exponent: Exponent, lattice: Lattice) -> _Boxes:
    """Return boxes with tangents at their centres, or at the point of the ball towards them; none outside."""
    meets = lattice.holds(np.clip(0, low, high))
    low, high = low[meets], high[meets]
    center = (low + high) // 2
    norm = np.sqrt((center.astype(np.float64) ** 2).sum(axis=1))
    shrink = np.minimum(1.0, lattice.reach / np.maximum(norm, 1.0))[:, None]
    anchor = np.where(lattice.holds(center)[:, None], center, np.trunc(center * shrink * (1 - 2.0**-40)))
    anchor = anchor.astype(np.int64)
    value, gradient = exponent(anchor * lattice.step)
    return _Boxes(low, high, anchor, value, gradient * lattice.step)


def log_geometric(rate: FloatArray, count: IntArray) -> FloatArray:
    """Return ``log(sum(exp(-rate * i) for i in range(count)))``, elementwise; rates are at least 0."""
    tiny = rate < 1e-300
    safe = np.where(tiny, 1.0, rate)
    return np.where(tiny, np.log(count), np.log(np.expm1(-safe * count) / np.expm1(-safe)))


def draw_geometric(rate: FloatArray, count: IntArray, noise: NoiseSource) -> IntArray:
    """Return whole numbers below ``count`` of probability proportional to ``exp(-rate * i)``, elementwise.

    The distribution function is inverted from whichever end is nearer, so that neither end is cut off.
    """
    shape = rate.shape
    uniform = fine_uniform(rate.size, noise).reshape(shape)
    from_above = noise.integers(2, rate.size).reshape(shape) == 1
    half = 0.5 * uniform
    tiny = rate < 1e-300
    safe = np.where(tiny, 1.0, rate)
    whole = -np.expm1(-safe * count)
    near = -np.log1p(-half * whole)
    beyond = np.maximum(np.exp(-safe * count) + half * whole, 5e-324)
    passed = np.minimum((1.0 - half) * whole, 0.5)
    far = np.where(beyond > 0.5, -np.log1p(-passed), -np.log(beyond))
    drawn = np.where(from_above, far, near) / safe
    even = np.where(from_above, 1.0 - half, half) * count
    return np.clip(np.floor(np.where(tiny, even, drawn)), 0, count - 1).astype(np.int64)


def pick(log_weights: FloatArray, times: int, noise: NoiseSource) -> IntArray:
    """Return ``times`` indices of probability proportional to ``exp(log_weights)``, independent.

    The index with the earliest of exponential arrival times is picked; small times, which decide about rare
    indices, have full relative precision.
    """
    centered = log_weights - log_weights.max()
    likely = np.flatnonzero(centered > -200.0)  # the others have arrival times beyond any that is drawn
    arrival = -np.log1p(-fine_uniform(times * likely.size, noise)).reshape(times, likely.size)
    return likely[np.argmin(np.log(arrival) - centered[likely], axis=1)]


def fine_uniform(size: int, noise: NoiseSource) -> FloatArray:
    """Return ``size`` numbers in (0, 1), with full relative precision down to 2**-53 and steps of 2**-106."""
    coarse, fine = noise.uniform(2 * size).reshape(2, size)
    return np.clip(coarse + 2.0**-53 * fine, 2.0**-107, 1.0 - 2.0**-53)
