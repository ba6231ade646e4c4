"""The public numbers of an exponential mechanism: how much one row can move the scores, and the rate."""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, final

from privfit.data.reduction import summation_error
from privfit.losses.base import AbstractLoss, ScalarFunction
from privfit.losses.score import AbstractScore
from privfit.problem.objective import Problem

_ROUNDING = 1.0 + 2.0**-40
"""Covers the products in this module."""


@final
@dataclass(frozen=True)
class LossScore(AbstractScore):
    """A loss as a score."""

    loss: AbstractLoss
    target_kind: ClassVar[Literal["numeric", "binary", "count"]] = "numeric"

    @property
    def value(self) -> ScalarFunction:
        """Compiled value of the loss."""
        return self.loss.functions.value

    @property
    def name(self) -> str:
        """Name of the loss."""
        return self.loss.name

    @property
    def parameters(self) -> tuple[float, float]:
        """Those of the loss."""
        return self.loss.parameters

    def span(self, radius: float) -> float:
        """Span of the loss."""
        return self.loss.span(radius)


def score_range(problem: Problem, span: float) -> float:
    """Return a bound on ``sup h - inf h`` for the difference h of the summed scores of neighbouring tables.

    Parameters
    ----------
    problem : Problem
    span : float
        Range that every row's term is held to, weight included.

    Notes
    -----
    *Guarantee.* ``2 * span`` where a row is replaced and ``span`` where one is added or removed, plus what
    rounding can change: each computed sum is within ``r = summation_error * n * span / 2`` of the exact
    sum of the same terms, so that h is off by at most ``2 r`` either way.
    """
    n = 2 * problem.n_rows
    rounding = 4.0 * summation_error(n) * n * 0.5 * span
    return (problem.relation.vector_sensitivity(span) + rounding) * _ROUNDING


def range_over_ball(problem: Problem, radius: float) -> float:
    """Return the range that rows are held to on a ball: over ``abs(eta) <= norm_bound * radius``.

    A row of weight w < 1 reaches ``abs(eta) <= norm_bound * radius / sqrt(w)``, and its term is w times the
    loss: the same bound where ``span(c a) <= c**2 span(a)`` for ``c >= 1``, as for every span that is at
    most linear. Another is held to this range, at a cost in accuracy.
    """
    return problem.loss.span(problem.norm_bound * radius) * _ROUNDING


_SPARE_BITS = 6


def lattice_bits(steepest: float, radius: float) -> int:
    """Return b such that the exponent changes by at most ``2**-6`` between neighbours on the lattice.

    The spacing is ``radius * 2**-b``; b is between 6 and 30.

    Parameters
    ----------
    steepest : float
        Bound on the norm of the exponent's gradient.
    radius : float
        Of the feasible ball.
    """
    return min(30, _SPARE_BITS + max(0, math.ceil(math.log2(steepest * radius))))


def lattice_margin(size: int, bits: int) -> float:
    """Return the relative error that rounding can make in the probability of a point of the lattice.

    A draw is a float with a relative rounding of a few times ``2**-53`` of the radius in each coordinate, in
    a cell that is ``2**-bits`` radii wide; exponents are rounded to less than ``2**-31``. This is an
    estimate with room to spare, not a proof.
    """
    return size * 2.0 ** (bits - 46) + 2.0**-30
