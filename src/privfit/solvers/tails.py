"""How far the tail of a distribution reaches beyond what noise lets be seen of it."""

import math

_HEAVIER = 0.5
"""Exponent of the tail that is hidden, relative to the one that is shown: log-normal tails get heavier."""

_LEAST_POWER, _MOST_POWER = 0.3, 1.0
"""Exponents of tails that are believed; 1 is the exponential law's."""

_SHARPEST = 2.0
"""Exponent that is believed of a tail that is seen to end; the normal law's."""


def tail_bound(
    usual: float, size: float, hidden: float, excess: float, *, heavier: float = _HEAVIER
) -> float:
    """Return about the bound that sizes exceed by so much in the mean, ``size`` at least.

    Parameters
    ----------
    usual, size : float
        Sizes that a half and a share ``hidden`` of the rows exceed.
    hidden, excess : float
    heavier : float
        Exponent of the tail beyond ``size``, relative to the one that the two sizes show.
    """
    power = min(max(heavier * _shown(usual, 0.5, size, hidden), _LEAST_POWER), _MOST_POWER)
    return _stretched(size, hidden, power, excess)


def end_bound(inner: float, share: float, outer: float, hidden: float, excess: float) -> float:
    """Return `tail_bound` of a tail that is seen to fall from a share beyond one size to less beyond another.

    Parameters
    ----------
    inner, outer : float
        Sizes that a ``share`` and at most a share ``hidden`` of the rows exceed.
    share, hidden, excess : float
    """
    power = min(max(_HEAVIER * _shown(inner, share, outer, hidden), _LEAST_POWER), _SHARPEST)
    return _stretched(outer, hidden, power, excess)


def _shown(near: float, more: float, far: float, less: float) -> float:
    """Return ``k`` of a survival function ``exp(-(r / a)**k)`` with these values at two sizes."""
    return math.log(math.log(less) / math.log(more)) / math.log(max(far / near, 1.01))


def _stretched(size: float, hidden: float, power: float, excess: float) -> float:
    """Return the bound where ``exp(-(r / a)**k)`` is ``hidden`` at a size.

    The mean excess is ``a / k t**(1 / k - 1) exp(-t)`` at ``B = a t**(1 / k)``, for large ``t``.
    """
    far, inverse = math.log(1.0 / hidden), 1.0 / power
    scale, t = size / far**inverse, far
    for _ in range(20):
        t = max(math.log(scale * inverse / excess) + (inverse - 1.0) * math.log(t), far)
    return scale * t**inverse
