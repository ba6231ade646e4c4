r"""What releases on sampled rows cost: the worst pair of each, and the law of its privacy loss.

Everywhere ``r`` is the largest change of a step's sum over the noise's standard deviation, H_r(α) the
hockey-stick divergence of N(r, 1) from N(0, 1), and the noise is scaled to 1. A step's outcome is seen
together with everything before it, so the pairs below hold given the past, and dominating pairs of steps may
be multiplied (Zhu, Dong and Wang 2022, theorem 10). A change of less than r is dominated by one of r: shrink
N(r, 1) and add noise.

One row of n, replace
---------------------
Let γ = 1/n, let R be the mixture of the other rows' outcomes, and A and B the outcomes of the differing row:
``P = (1−γ)R + γA`` and ``Q = (1−γ)R + γB``. By advanced joint convexity (Balle, Barthe and Gaboardi 2018,
theorem 2), with ``α' = 1 + γ(α−1)``, ``α >= 1``, ``β = α'/α``::

    H_α'(P‖Q) = γ H_α(A ‖ (1−β)R + βB) <= γ H_r(α) =: h(α')

since each component of R, and B, lies within r of A. Below α' = 1, ``H_α'(P‖Q) = 1 − α' + α' H_1/α'(Q‖P)
<= 1 − α' + α' h(1/α') =: h(α')``. This h is convex: on either side as H_r is, and at 1 because its slope
jumps by ``(1−γ)(2Φ(r/2) − 1) >= 0``. So it is the curve of a pair itself, which is then symmetric and
dominates. Its loss has, above 0, the law of ``log(1−γ+γ exp(y))`` with ``y > 0`` the loss of N(r, 1) against
N(0, 1); below 0 the mirror image; and the mass of the jump at 0. This is ``C_γ(G_r)`` of Dong, Roth and Su
(2022, section 4).

Poisson sampling, replace
-------------------------
Given who else is drawn, ``P = (1−q)N(0, I) + q N(a, I)`` and ``Q = (1−q)N(0, I) + q N(b, I)``, where each of
a and b is a row's term: ``norm(a), norm(b) <= r/2``. The worst pair is ``a = −b`` on a line. For any event S
with ``N(0, I)(S) = Φ(z)``, the lemma of Neyman and Pearson gives ``N(a, I)(S) <= Φ(z + r/2)`` and ``N(b,
I)(S) >= Φ(z − r/2)``, and so for every α::

    P(S) − αQ(S) <= (1−q)(1−α)Φ(z) + qΦ(z + r/2) − αqΦ(z − r/2)

which is the value of the half-line ``{x > −z}`` for ``N(r/2, 1)`` and ``N(−r/2, 1)``. Take the supremum over
S. With ``q = 1`` this is the Gaussian release.

Poisson sampling, add or remove
-------------------------------
``(1−q)N(0, 1) + q N(r, 1)`` against N(0, 1), and the other way round; all steps have the same direction
(Zhu, Dong and Wang 2022, theorem 11; Google's dp-accounting computes the same).
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np
from scipy.special import ndtr, ndtri

from privfit._checks import FloatArray
from privfit.privacy.loss_grid import (
    LARGEST_LOSS,
    Cells,
    Convolution,
    Law,
    LossGrid,
    connect_dots,
    tilt_towards,
)

Scheme: TypeAlias = Literal["one", "poisson", "all"]

SMALLEST_DELTA: Final = 1e-100
"""Below it the curve is not tight: a thousandth of it is the least that is cut off."""

_TAILS: Final = (1e-17, 1e-35, 1e-69, 1e-3 * SMALLEST_DELTA)
"""Probabilities of the losses, of steps alike together, that may count as infinite: the first that is small
beside δ."""

_SMALL: Final = 1e-3
"""Part of δ that they may be."""

_UNDERFLOW: Final = 1e-300
"""Added to every δ, because a positive δ must not underflow to 0."""

_LARGEST_EPSILON: Final = 1e6
"""Beyond it the δ at it is given, which is more: a grid up to there would take any memory."""

_BLUR: Final = {False: 1e-3, True: 0.05}
"""Relative variance that the grid may add to the loss, for a final and for a rough answer."""

_RAISE: Final = {False: 0.01, True: 0.2}
"""Alternatively, relative amount by which that may raise δ."""

_SCALE_POINTS: Final = {False: 2**18, True: 2**14}
"""Most points between 0 and the ε that is asked for."""

_POINTS: Final = {False: (2**14, 2**21), True: (2**11, 2**17)}
"""Fewest and most points that 20 standard deviations of the total loss are laid out on."""


@dataclass(frozen=True, slots=True)
class Steps:
    """Noisy sums over sampled rows, all alike.

    Parameters
    ----------
    scheme : {"one", "poisson", "all"}
        One row; each row independently; all rows, which is the Gaussian release.
    one_sided : bool
        Whether the neighbour has a row more or less, rather than another row.
    ratio : float
        ``r`` above.
    rate : float
        ``γ`` or ``q`` above; 1 for ``"all"``.
    count : int
    """

    scheme: Scheme
    one_sided: bool
    ratio: float
    rate: float
    count: int

    def __post_init__(self) -> None:
        if self.rate == 1.0 and self.scheme != "all":
            object.__setattr__(self, "scheme", "all")

    @property
    def asymmetric(self) -> bool:
        """Whether adding and removing a row differ."""
        return self.scheme == "poisson" and self.one_sided


class SampledCurve:
    """The privacy curve of sampled steps, Gaussian releases and (ε, δ) releases together.

    Parameters
    ----------
    steps : tuple of Steps
    pairs : tuple of (float, float)
        (ε, δ) of the other releases.
    scale : float
        About the ε that is asked for: the grid is chosen to be tight there.
    rough : bool
        Whether to use a coarser grid: a faster and somewhat larger bound.
    tail : float
        About the probability of the largest losses of steps alike, together, that count as infinite.

    Notes
    -----
    *Guarantee.* `delta_at` is an upper bound, errors of the grid, of truncation and of rounding included.

    It exceeds the exact value by about a part in 100, or what a relative 5e-4 more signal would do, and
    ``tail``, where the total loss is about normal or its law fits into a few million points. Of few steps at
    a small rate with a large ratio it does neither: losses near ε count in small parts of the rate, and the
    largest are many times as large. What lies beyond the window is then bounded by Chernoff's inequality
    alone, and the bound may be thousands of times what is exact.
    """

    def __init__(
        self,
        steps: tuple[Steps, ...],
        pairs: tuple[tuple[float, float], ...],
        *,
        scale: float,
        rough: bool,
        tail: float,
    ) -> None:
        interval = _interval(steps, pairs, scale=scale, rough=rough, tail=tail)
        directions = (False, True) if any(part.asymmetric for part in steps) else (False,)
        self._directions = []
        for added in directions:
            grids = [_step_grid(part, interval, added=added, tail=tail) for part in steps]
            grids += [_pair_grid(*pair, interval, pairs.count(pair)) for pair in dict.fromkeys(pairs)]
            self._directions.append(Convolution(grids, interval))

    def delta_at(self, epsilon: float) -> float:
        """Return a δ at ``epsilon``."""
        return max(direction.delta_at(epsilon) for direction in self._directions)


def sampled_delta(
    epsilon: float,
    steps: tuple[Steps, ...],
    pairs: tuple[tuple[float, float], ...],
    *,
    scale: float,
    rough: bool,
) -> float:
    """Return a δ at ``epsilon`` of these releases together; the smaller it is, the less is cut off.

    Parameters
    ----------
    epsilon : float
    steps, pairs, scale, rough
        As in `SampledCurve`.

    Notes
    -----
    *Guarantee.* An upper bound.
    """
    delta, epsilon, scale = 1.0, min(epsilon, _LARGEST_EPSILON), min(scale, _LARGEST_EPSILON)
    for tail in _TAILS:
        curve = sampled_curve(steps, pairs, scale=scale, rough=rough, tail=tail)
        delta = min(delta, curve.delta_at(epsilon))
        if delta >= tail / _SMALL or not steps:
            break
    return min(1.0, delta + _UNDERFLOW)


@lru_cache(maxsize=8)
def sampled_curve(
    steps: tuple[Steps, ...],
    pairs: tuple[tuple[float, float], ...],
    *,
    scale: float,
    rough: bool,
    tail: float,
) -> SampledCurve:
    """Return the curve of these releases together; the last few are kept."""
    return SampledCurve(steps, pairs, scale=scale, rough=rough, tail=tail)


def clt_mu(steps: Steps) -> float:
    """Return the μ that the central limit theorem gives: an approximation, not a bound.

    Dong, Roth and Su (2022), theorem 5 and corollary 5.4, for one row; for Poisson sampling the standard
    deviation of the loss, to second order in the rate.
    """
    r, root = steps.ratio, steps.rate * math.sqrt(steps.count)
    if steps.scheme == "all":
        return r * root
    if steps.scheme == "one":
        square = math.exp(min(600.0, r * r)) * ndtr(1.5 * r) + 3 * ndtr(-0.5 * r) - 2
        return math.sqrt(2.0 * max(0.0, float(square))) * root
    if steps.one_sided:
        return math.sqrt(math.expm1(min(600.0, r * r))) * root
    return 2.0 * math.sqrt(math.sinh(min(600.0, r * r / 4))) * root


@np.errstate(over="ignore", divide="ignore", invalid="ignore")
def _masses(steps: Steps, losses: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return P- and Q-mass between neighbouring losses, which increase from 0 or, if one-sided, anywhere."""
    r, rate = steps.ratio, steps.rate
    if steps.scheme == "all":
        x = losses / r
        return _between(x - r / 2), _between(x + r / 2)
    if steps.scheme == "one":
        x = np.log1p(np.expm1(losses) / rate) / r
        inner = _between(x + r / 2)
        return (1 - rate) * inner + rate * _between(x - r / 2), inner
    if steps.one_sided:
        x = np.log(np.maximum(np.expm1(losses) + rate, 0.0) / rate) / r + r / 2
        inner = _between(x)
        return (1 - rate) * inner + rate * _between(x - r), inner
    # The root u = exp(r x / 2) > 0 of q c u**2 - (1 - q)(e**l - 1) u - e**l q c, with c = exp(-r**2 / 8).
    linear, c = (1 - rate) * np.expm1(losses), rate * math.exp(-r * r / 8)
    u = (linear + np.sqrt(linear**2 + 4 * c * c * np.exp(losses))) / (2 * c)
    x = 2 * np.log(u) / r
    x[0] = max(float(x[0]), 0.0)
    inner = (1 - rate) * _between(x)
    return inner + rate * _between(x - r / 2), inner + rate * _between(x + r / 2)


def _between(x: FloatArray) -> FloatArray:
    """Return the standard normal probabilities between neighbours of the increasing ``x``."""
    low, high = x[:-1], x[1:]
    return np.maximum(np.where(low > 0, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)), 0.0)


def _edge(steps: Steps, tail: float) -> float:
    """Return a loss above which the P-mass is at most ``tail``."""
    r, rate = steps.ratio, steps.rate
    if steps.scheme == "one":
        # The P-mass above is at most twice that of the row's own outcome, times the rate, or of the others'.
        x = max(-float(ndtri(min(0.5, tail / (2 * rate)))) + r / 2, -float(ndtri(min(0.5, tail / 2))) - r / 2)
        return float(np.log1p(rate * np.expm1(min(700.0, r * max(x, 1e-3)))))
    if steps.scheme == "all":
        return r * (r / 2 - float(ndtri(tail)))
    shift = r if steps.one_sided else r / 2
    x = max(shift - float(ndtri(min(0.5, tail / (2 * rate)))), -float(ndtri(tail / 2)))
    up = rate * math.exp(min(700.0, shift * x - shift**2 / 2))
    if steps.one_sided:
        return math.log1p(up - rate) if up > rate else up
    return math.log1p(up - rate) - math.log1p(rate * math.expm1(-shift * x - shift**2 / 2))


def _step_grid(steps: Steps, interval: float, *, added: bool, tail: float) -> LossGrid:
    """Return the law of a step's loss on the grid."""
    top = min(LARGEST_LOSS, _edge(steps, tail / (2 * steps.count))) + interval
    last = math.ceil(top / interval)
    if not steps.asymmetric:
        p, q = _masses(steps, np.arange(last + 1.0) * interval)
        upper = Cells(0, p, q)
        infinite = _beyond(steps, last * interval)
        atom = max(0.0, 1.0 - float(p.sum()) - float(q.sum()) - infinite)
        # Mass that the grid loses at its lower end counts at 0, which is more.
        return connect_dots(
            [upper, upper.mirrored()], interval=interval, atom=atom, infinite=infinite, count=steps.count
        )
    first = math.floor(math.log1p(-steps.rate) / interval)
    p, q = _masses(steps, np.arange(first, last + 1.0) * interval)
    cells = Cells(first, p, q)
    if added:
        cells = cells.mirrored()
        infinite = 0.0
    else:
        infinite = _beyond(steps, last * interval)
    atom = max(0.0, 1.0 - float(cells.p.sum()) - infinite)
    return connect_dots([cells], interval=interval, atom=atom, infinite=infinite, count=steps.count)


def _beyond(steps: Steps, loss: float) -> float:
    """Return the P-mass above a loss."""
    p, _ = _masses(steps, np.array([loss, math.inf]))
    return float(p[0]) * (1 + 1e-9)


def _pair_grid(epsilon: float, delta: float, interval: float, count: int) -> LossGrid:
    """Return the law of the loss of randomised response that fails with probability ``delta``."""
    high, low = (1 - delta) / (1 + math.exp(-epsilon)), (1 - delta) / (1 + math.exp(epsilon))
    cell = Cells(math.floor(epsilon / interval), np.array([high]), np.array([low]))
    return connect_dots([cell, cell.mirrored()], interval=interval, atom=0.0, infinite=delta, count=count)


def _interval(
    steps: tuple[Steps, ...],
    pairs: tuple[tuple[float, float], ...],
    *,
    scale: float,
    rough: bool,
    tail: float,
) -> float:
    """Return a distance of the grid's points that is fine against what each release loses.

    Moving a loss l to its neighbours at a distance h adds a variance of at most ``h**2 / 4`` and ``|l| h``,
    and with a tilt of s raises δ by about ``s**2 / 2`` times the sum.
    """
    laws = [_outline(part, 1e5 * tail) for part in steps]
    laws += [(np.array([-epsilon, epsilon]), np.array([0.5, 0.5]), 1) for epsilon, _ in pairs]
    spreads = [(math.sqrt(float(mass @ losses**2)), count) for losses, mass, count in laws]
    sizes = [(float(mass @ np.abs(losses)), count) for losses, mass, count in laws]
    total = math.sqrt(math.fsum(count * spread**2 for spread, count in spreads))
    tilt = tilt_towards(scale, laws)
    allowed = max(_BLUR[rough] * total**2, 2 * _RAISE[rough] / max(tilt, 1e-9) ** 2 if tilt > 0 else 0.0)
    interval, least = (20 * max(total, 0.02 * scale) / points for points in _POINTS[rough])
    least = max(least, scale / _SCALE_POINTS[rough])
    while interval > least:
        if math.fsum(count * min(interval**2 / 6, size * interval) for size, count in sizes) <= allowed:
            break
        interval /= 1.25
    return max(interval, least)


def _outline(steps: Steps, tail: float) -> Law:
    """Return roughly the law of a step's loss."""
    top = min(LARGEST_LOSS, _edge(steps, tail))
    losses: FloatArray = np.append(0.0, np.geomspace(1e-9 * top, top, 3000))
    if steps.asymmetric:
        losses = np.concatenate([math.log1p(-steps.rate) * np.linspace(1, 0, 1000, endpoint=False), losses])
    p, q = _masses(steps, losses)
    middle = 0.5 * (losses[1:] + losses[:-1])
    if not steps.asymmetric:
        middle, p = np.concatenate([-middle[::-1], middle]), np.concatenate([q[::-1], p])
    rest = max(0.0, 1.0 - float(p.sum()))
    return np.append(middle, 0.0), np.append(p, rest), steps.count
