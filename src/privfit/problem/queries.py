"""Queries with a bound on every row's contribution, and the sensitivity that follows from it."""

import math
from dataclasses import dataclass

from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, summation_error
from privfit.errors import Incompatible
from privfit.losses.base import AbstractLoss
from privfit.privacy.relation import Relation
from privfit.problem.plan import SHARES, ReleaseKind
from privfit.problem.turning import vector_rounding

_ROUNDING = 1.0 + 2.0**-40
"""Covers the division by n and the products in this module."""

_ROOM, _MOST_ROOM = 2.0**-31, 2.0**-10
"""Part of the sensitivity of a matrix, for each row and at most, that turning it after the sum may take."""

MATRICES = ("hessian", "second_moment", "meat")
"""Kinds that release a symmetric matrix."""


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A sum over rows in which no row's contribution exceeds a public bound.

    Where rows count by shares, what is said of a row holds for the rows of a privacy unit together: see
    `privfit.data.shares.ShareRule`.

    Parameters
    ----------
    kind : str
        Gradients sum vectors ``(v, t)``, a secant numbers, marginals vectors ``v``, the kinds in `SHARES`
        indicators, those in `MATRICES` positive semi-definite matrices ``A``, mostly ``a a'``.
    size : int
        Length of the released vector; for a (q, q) matrix its ``q * (q + 1) / 2`` free entries.
    bound : float
        ``sup norm(v)``, or the supremum of the Frobenius norm of ``A``, ``norm(a)**2`` for ``a a'``.
    side : tuple of float
        ``(low, high)`` with ``low <= t <= high`` and ``low <= 0 <= high``; ``(0, 0)`` without a scale.
    summed : float
        Bound on a row's term in the sum that is computed, in the unit of the released mean: larger than
        ``bound`` where a change of basis follows the sum. It only enters the bound on rounding.
    turned : int
        Order of the change of a row's basis that follows the sum, or may follow it; 0 without. Matrices keep
        `room` for its rounding.
    apart : float
        Bound on ``norm(v - w)`` for the vectors of two rows, where it is less than twice ``bound``.

    Notes
    -----
    *Guarantee.* `sensitivity` bounds the L2 (matrices: Frobenius) distance of the computed means of any
    two neighbouring tables, the rounding of the parallel sum included. For matrices under ``replace`` it
    rests on ``|A - B|_F**2 = |A|**2 + |B|**2 - 2 tr(AB) <= 2 bound**2``, as ``tr(AB) >= 0`` for positive
    semi-definite ``A`` and ``B``; so does that of shares, whose L1 distance, for pure releases, is at most
    ``2 bound``: a row's shares are not negative and add up to ``bound`` at most.
    """

    kind: ReleaseKind
    size: int
    bound: float
    side: tuple[float, float] = (0.0, 0.0)
    summed: float = 0.0
    turned: int = 0
    apart: float = math.inf

    def sensitivity(
        self, relation: Relation, n_rows: int, *, pure: bool = False, most_rows: int | None = None
    ) -> float:
        """Return the sensitivity of the sum divided by ``n_rows``.

        Parameters
        ----------
        relation : Relation
            Which tables are neighbours.
        n_rows : int
            Public number of rows; under ``ADD_REMOVE`` only a public scale, within a factor 2 of which
            the number of rows must lie for the bound on rounding.
        pure : bool
            Whether it is for a pure release: then that of shares is in the L1 norm.
        most_rows : int, optional
            Number that the rows of any table do not exceed, where several can belong to one unit and
            ``n_rows`` counts units; by default ``2 * n_rows``.
        """
        low, high = self.side
        if pure and self.kind in SHARES:
            exact = relation.vector_sensitivity(self.bound)
        elif self.kind in MATRICES or self.kind in SHARES:
            exact = relation.outer_sensitivity(self.bound) + self.room(relation, n_rows)
        elif relation is Relation.REPLACE:
            exact = math.hypot(min(relation.vector_sensitivity(self.bound), self.apart), high - low)
        else:
            exact = math.hypot(relation.vector_sensitivity(self.bound), max(-low, high))
        largest = math.hypot(max(self.bound, self.summed), max(-low, high))
        grouped = self.kind in ("gradient", "bounded_gradient", "marginals")
        terms = GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS if grouped else CHUNK_ROWS
        return mean_sensitivity(
            exact,
            largest=largest,
            n_rows=n_rows,
            terms=terms,
            most_rows=most_rows,
            turned=0 if self.kind in MATRICES else self.turned,
        )

    def room(self, relation: Relation, n_rows: int) -> float:
        """Return what `sensitivity` holds for the rounding of a matrix that is turned after the sum.

        See `privfit.problem.turning.matrix_rounding`.
        """
        part = min(_ROOM * n_rows, _MOST_ROOM) if self.turned else 0.0
        return part * relation.outer_sensitivity(self.bound)


def mean_sensitivity(
    exact: float,
    *,
    largest: float,
    n_rows: int,
    terms: int = CHUNK_ROWS,
    most_rows: int | None = None,
    turned: int = 0,
) -> float:
    """Return the sensitivity of a computed mean from that of the exact sum.

    Parameters
    ----------
    exact : float
        Sensitivity of the sum in exact arithmetic.
    largest : float
        Bound on the norm of a row's term.
    n_rows : int
        Public number of rows that the sum is divided by; see `BoundedQuery.sensitivity`.
    terms : int
        Additions that a term takes part in within a chunk.
    most_rows : int, optional
        See `BoundedQuery.sensitivity`.
    turned : int
        Order of a change of basis that follows the sum, whose spectral norm ``largest`` then includes.

    Notes
    -----
    *Guarantee.* Holds for sums by `RowSource.sum`, whose rounding `summation_error` bounds: it is relative to
    the sum of the norms of the terms, which is at most ``2 * n_rows * largest`` for rows and for units.
    `privfit.problem.turning.vector_rounding` bounds that of a product which follows.
    """
    relative = summation_error(2 * n_rows if most_rows is None else most_rows, terms)
    relative += vector_rounding(turned)
    rounding = 2.0 * relative * (2 * n_rows) * largest
    return (exact + rounding) / n_rows * _ROUNDING


def need_hessian(loss: AbstractLoss) -> None:
    """Raise unless the loss has a Hessian that is a sum of positive parts.

    Raises
    ------
    Incompatible
    """
    if not loss.constants.smooth:
        raise Incompatible(
            f"loss: {loss.name} has kinks, so it has no Hessian for Newton steps or standard errors; "
            f"take {loss.smoothed}, or solver=ProjectedNoisyGradientDescent() with inference=False"
        )
    if not loss.convex:
        raise Incompatible(
            f"loss: {loss.name} is not convex, so its Hessian is no sum of positive parts, as Newton "
            "steps and standard errors need; take NoisyGradientDescent() with inference=False, "
            "or RandomRoundSGD()"
        )
