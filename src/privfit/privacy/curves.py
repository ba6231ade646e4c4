"""Privacy curves δ(ε) of the notions of privacy, and their inverses, every one rounded to the safe side."""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import erfcx, ndtr

from privfit._checks import UNIT_ROUNDOFF, FloatArray, in_range, positive

_TINY: Final = 1e-320
"""Added to every δ, because a positive δ must not underflow to 0."""

_SMALLEST_DELTA: Final = 1e-307
"""Below it doubles lose digits; inversions then answer "impossible", which is the safe side."""

_FAR: Final = 39.0
"""Beyond it the normal density is below ``_TINY``."""

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


def gdp_delta(mu: float, epsilon: float) -> float:
    """Return the δ at ``epsilon`` of a μ-GDP mechanism, rounded up.

    Parameters
    ----------
    mu : float
        At least 0; 0 is the mechanism that ignores its data.
    epsilon : float
        At least 0.

    Raises
    ------
    InvalidArgument
        If an argument is not a number in its range.

    Notes
    -----
    *Guarantee.* An upper bound on ``Φ(−ε/μ + μ/2) − exp(ε) Φ(−ε/μ − μ/2)`` (Balle and Wang 2018, Theorem 8;
    Dong, Roth and Su 2022, Corollary 2.13), too large by a relative 1e-10 at most wherever it exceeds 1e-300
    and ``mu <= 1000``.

    The difference is taken between Mills ratios ``R(t) = Φ(−t) / φ(t)``, since ``exp(ε) φ(x + μ) = φ(x)``
    with ``x = ε/μ − μ/2``; for a small μ, where that cancels too, ``R(x) − R(x + μ)`` is the integral of ``1
    − t R(t)``.
    """
    mu = in_range(0.0, math.inf, closed="left", mu=mu)
    epsilon = in_range(0.0, math.inf, closed="left", epsilon=epsilon)
    if mu == 0.0:
        return 0.0
    x = epsilon / mu - mu / 2
    if x > _FAR:
        return _TINY
    density = math.exp(-x * x / 2) / math.sqrt(2 * math.pi)
    if mu < 0.5:
        t = x + mu * (_NODES + 1) / 2
        delta = density * mu * float(_WEIGHTS @ (1 - t * _mills(t))) / 2
    elif x > 0:
        delta = density * float(_mills(x) - _mills(x + mu))
    else:
        delta = float(ndtr(-x)) - density * float(_mills(x + mu))
    # x carries its terms' rounding
    slack = 8 * UNIT_ROUNDOFF * (32 + max(x, 1.0) * (epsilon / mu + mu / 2 + abs(x)))
    return min(1.0, delta * (1 + slack) + _TINY)


def _mills(t: float | FloatArray) -> FloatArray:
    return math.sqrt(math.pi / 2) * erfcx(np.asarray(t) / math.sqrt(2))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Return the smallest ε at which a μ-GDP mechanism has a δ of at most ``delta``; ``inf`` for ``delta=0``.

    Raises
    ------
    InvalidArgument
        If ``mu`` is not positive and finite, or ``delta`` not in [0, 1).

    Notes
    -----
    *Guarantee.* ``gdp_delta(mu, gdp_epsilon(mu, delta)) <= delta`` literally.
    """
    mu = positive(mu=mu)
    return smallest_epsilon(lambda epsilon: gdp_delta(mu, epsilon), delta)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ that implies (ε, δ)-differential privacy; 0 for ``delta=0``.

    Raises
    ------
    InvalidArgument
        If ``epsilon`` is not positive and finite, or ``delta`` not in [0, 1).

    Notes
    -----
    *Guarantee.* ``gdp_delta(gdp_mu(epsilon, delta), epsilon) <= delta`` literally.
    """
    epsilon = positive(epsilon=epsilon)
    delta = in_range(0.0, 1.0, closed="left", delta=delta)
    return 0.0 if delta < _SMALLEST_DELTA else _largest_mu(epsilon, delta)


@lru_cache(maxsize=1024)
def _largest_mu(epsilon: float, delta: float) -> float:
    def fits(mu: float) -> bool:
        return gdp_delta(mu, epsilon) <= delta

    low = high = 1.0
    while not fits(low):
        low /= 2
    while fits(high):
        high *= 2
    return _boundary(fits, low, high)[0]


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Return the smallest δ at ``epsilon`` that ρ-zCDP implies by way of its Rényi divergences, rounded up.

    Raises
    ------
    InvalidArgument
        If ``rho`` is not positive and finite, or ``epsilon`` not in [0, inf).

    Notes
    -----
    *Guarantee.* An upper bound on ``min over α > 1 of exp((α−1)(αρ−ε)) / (α−1) · (1 − 1/α)^α``
    (Canonne, Kamath and Steinke 2020, Proposition 12). The logarithm is evaluated at ``u = α − 1`` as
    ``u (αρ − ε − log(1 + 1/u)) − log(1 + u)``; it is convex in u, and any u gives a valid bound.
    """
    rho = positive(rho=rho)
    epsilon = in_range(0.0, math.inf, closed="left", epsilon=epsilon)

    def falling(u: float) -> bool:
        return (2 * u + 1) * rho - epsilon < math.log1p(1 / u)

    low, high = 1e-300, 1e300
    u = _boundary(falling, low, high)[0] if falling(low) else low
    terms = ((1 + u) * rho, epsilon, math.log1p(1 / u))
    exponent = u * (terms[0] - terms[1] - terms[2]) - math.log1p(u)
    slack = 8 * UNIT_ROUNDOFF * (1 + u * sum(terms) + math.log1p(u))
    return min(1.0, math.exp(min(0.0, exponent + slack)) * (1 + 4 * UNIT_ROUNDOFF) + _TINY)


def pair_delta(epsilon: float, delta: float, at: float) -> float:
    """Return the δ at ε = ``at`` that (``epsilon``, ``delta``)-differential privacy implies, rounded up.

    Raises
    ------
    InvalidArgument
        If an argument is outside ``epsilon > 0``, ``0 <= delta < 1``, ``at >= 0``.

    Notes
    -----
    *Guarantee.* ``delta`` where ``at >= epsilon``, else an upper bound on
    ``δ + (1 − δ) (exp(ε) − exp(at)) / (1 + exp(ε))``, which is attained: by randomised response that fails
    with probability δ, of which all (ε, δ) mechanisms are post-processings (Kairouz, Oh and Viswanath 2015).
    """
    epsilon = positive(epsilon=epsilon)
    delta = in_range(0.0, 1.0, closed="left", delta=delta)
    at = in_range(0.0, math.inf, closed="left", epsilon=at)
    if at >= epsilon:
        return delta
    step = -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))
    return min(1.0, (delta + (1 - delta) * step) * (1 + 16 * UNIT_ROUNDOFF))


def smallest_epsilon(
    delta_at: Callable[[float], float], delta: float, *, tolerance: float = 4 * UNIT_ROUNDOFF
) -> float:
    """Return the smallest ε with ``delta_at(ε) <= delta``, or ``inf`` if there is none.

    Parameters
    ----------
    delta_at : callable
        A privacy curve: a decreasing function from [0, inf) to [0, 1].
    delta : float
        In [0, 1).
    tolerance : float
        Relative precision of the result.

    Notes
    -----
    *Guarantee.* ``delta_at(result) <= delta`` literally, if the result is finite.
    """
    delta = in_range(0.0, 1.0, closed="left", delta=delta)
    if delta_at(0.0) <= delta:
        return 0.0
    high = 1.0
    while delta_at(high) > delta:
        high *= 2
        if high > 1e15:
            return math.inf
    return _boundary(lambda epsilon: delta_at(epsilon) > delta, 0.0, high, tolerance)[1]


def _boundary(
    predicate: Callable[[float], bool], low: float, high: float, tolerance: float = 4 * UNIT_ROUNDOFF
) -> tuple[float, float]:
    """Narrow ``low`` (true) and ``high`` (false) until they agree to a relative ``tolerance``."""
    while high - low > tolerance * high:
        middle = math.sqrt(low) * math.sqrt(high) if 0 < low < high / 4 else low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if predicate(middle) else (low, middle)
    return low, high
