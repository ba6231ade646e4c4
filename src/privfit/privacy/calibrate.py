"""The least noise of sampled steps that a budget allows, other releases beside them."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

from privfit.errors import Incompatible
from privfit.privacy.budget import Budget
from privfit.privacy.composition import Event, GaussianEvent, SampledGaussianEvent, compose
from privfit.privacy.sampling import SMALLEST_DELTA, Steps, clt_mu

_PRECISION: Final = 1e-3
"""Relative precision of the ratio: what more bisection would save in noise."""

_ROUGH_PRECISION: Final = 0.01

_RANGE: Final = (1e-6, 30.0)
"""Ratios that are tried."""

_MOST_EPSILON: Final = 300.0
"""Largest ε at which steps are accounted for beside other releases: beyond, rounding hides what is left."""


@lru_cache(maxsize=64)
def calibrate_sampled(
    event: SampledGaussianEvent, budget: Budget, beside: tuple[Event, ...]
) -> SampledGaussianEvent:
    """Return the event with the largest ratio, so the least noise, that fits into a budget.

    Parameters
    ----------
    event : SampledGaussianEvent
        Its ratio is ignored.
    budget : Budget
        An (ε, δ) budget.
    beside : tuple of Event
        What else the budget has to pay for.

    Raises
    ------
    Incompatible
        If nothing is left for the steps, or the budget is beyond what can be accounted for.

    Notes
    -----
    *Guarantee.* ``compose([result, *beside]).within(budget)`` literally. The ratio is within a relative 1e-3
    of the largest. Deterministic, so that a plan made again is the same.
    """
    if beside and budget.epsilon > _MOST_EPSILON:
        raise Incompatible(
            f"budget: an epsilon above {_MOST_EPSILON:g} is beyond the accounting of sampled rows beside "
            "other releases; ask for a smaller one, for inference=False, or for a solver that asks all rows"
        )
    if budget.delta < SMALLEST_DELTA:
        raise Incompatible(
            f"budget: a delta below {SMALLEST_DELTA:g} is beyond the accounting of sampled rows; ask for a "
            "larger one, or for a solver that asks all rows"
        )

    def fits(ratio: float) -> bool:
        return compose([replace(event, ratio=ratio), *beside]).within(budget)

    def surely_fits(ratio: float) -> bool:
        composed = compose([replace(event, ratio=ratio), *beside])
        return composed.delta_at(budget.epsilon, rough=True) <= budget.delta

    low = _largest(surely_fits, _first_guess(event, budget, beside), 1.2, _ROUGH_PRECISION)
    return replace(event, ratio=_largest(fits, low, 1.02, _PRECISION))


def _largest(fits: Callable[[float], bool], guess: float, factor: float, precision: float) -> float:
    """Return about the largest ratio that fits, searched for from a guess in steps of ``factor``."""
    low, high = guess, math.inf
    while not fits(low):
        low, high = low / factor, low
        if low < _RANGE[0]:
            raise Incompatible("budget: nothing is left for the solver's steps; ask for a larger one")
    while math.isinf(high):
        if low * factor > _RANGE[1]:
            return low
        if fits(low * factor):
            low *= factor
        else:
            high = low * factor
    while high > low * (1 + precision):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _first_guess(event: SampledGaussianEvent, budget: Budget, beside: tuple[Event, ...]) -> float:
    """Return the ratio by the central limit theorem."""
    spent = math.fsum(other.mu**2 for other in beside if isinstance(other, GaussianEvent))
    whole = min(budget.mu, 1e100) ** 2
    wanted = math.sqrt(max(1e-4 * whole, whole - spent))

    def steps(ratio: float) -> Steps:
        return Steps(event.scheme, event.relation == "add_remove", ratio, event.rate, event.steps)

    return _crossing(lambda ratio: clt_mu(steps(ratio)) <= wanted, *_RANGE)


def _crossing(below: Callable[[float], bool], low: float, high: float) -> float:
    for _ in range(40):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if below(middle) else (low, middle)
    return low
