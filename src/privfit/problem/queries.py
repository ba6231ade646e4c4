"""Queries with a bound on every row's contribution, and the sensitivity that follows from it."""

import math
from dataclasses import dataclass

from privfit.data.reduction import CHUNK_ROWS, GROUP_ROWS, summation_error
from privfit.privacy.relation import Relation
from privfit.problem.plan import ReleaseKind

_ROUNDING = 1.0 + 2.0**-40
"""Covers the division by n and the products in this module."""

MATRICES = ("hessian", "second_moment", "meat")
"""Kinds that release a symmetric matrix."""

SHARES = ("sizes", "norms", "counts", "residuals")
"""Means of indicators of classes; those of different classes are orthogonal."""


@dataclass(frozen=True, slots=True)
class BoundedQuery:
    """A sum over rows in which no row's contribution exceeds a public bound.

    Where rows count by shares, what is said of a row holds for the rows of a privacy unit together: see
    `privfit.data.shares.ShareRule`.

    Parameters
    ----------
    kind : str
        Gradients sum vectors ``(v, t)``, a secant numbers, marginals vectors ``v``, sizes, norms, counts and
        residuals indicators, the others positive semi-definite matrices ``A``, mostly ``a a'``.
    size : int
        Length of the released vector; for a (q, q) matrix its ``q * (q + 1) / 2`` free entries.
    bound : float
        ``sup norm(v)``, or the supremum of the Frobenius norm of ``A``, ``norm(a)**2`` for ``a a'``.
    side : tuple of float
        ``(low, high)`` with ``low <= t <= high`` and ``low <= 0 <= high``; ``(0, 0)`` without a scale.
    summed : float
        Bound on a row's term in the sum that is computed, in the unit of the released mean: larger than
        ``bound`` where a change of basis follows the sum. It only enters the bound on rounding.

    Notes
    -----
    *Guarantee.* `sensitivity` bounds the L2 (matrices: Frobenius) distance of the computed means of any
    two neighbouring tables, the rounding of the parallel sum included. For matrices under ``replace`` it
    rests on ``|A - B|_F**2 = |A|**2 + |B|**2 - 2 tr(AB) <= 2 bound**2``, as ``tr(AB) >= 0`` for positive
    semi-definite ``A`` and ``B``.
    """

    kind: ReleaseKind
    size: int
    bound: float
    side: tuple[float, float] = (0.0, 0.0)
    summed: float = 0.0

    def sensitivity(self, relation: Relation, n_rows: int, *, most_rows: int | None = None) -> float:
        """Return the sensitivity of the sum divided by ``n_rows``.

        Parameters
        ----------
        relation : Relation
            Which tables are neighbours.
        n_rows : int
            Public number of rows; under ``ADD_REMOVE`` only a public scale, within a factor 2 of which
            the number of rows must lie for the bound on rounding.
        most_rows : int, optional
            Number that the rows of any table do not exceed, where several can belong to one unit and
            ``n_rows`` counts units; by default ``2 * n_rows``.
        """
        low, high = self.side
        if self.kind in MATRICES or self.kind in SHARES:
            exact = relation.outer_sensitivity(self.bound)
        elif relation is Relation.REPLACE:
            exact = math.hypot(relation.vector_sensitivity(self.bound), high - low)
        else:
            exact = math.hypot(relation.vector_sensitivity(self.bound), max(-low, high))
        largest = math.hypot(max(self.bound, self.summed), max(-low, high))
        grouped = self.kind in ("gradient", "bounded_gradient", "marginals")
        terms = GROUP_ROWS + CHUNK_ROWS // GROUP_ROWS if grouped else CHUNK_ROWS
        return mean_sensitivity(exact, largest=largest, n_rows=n_rows, terms=terms, most_rows=most_rows)


def mean_sensitivity(
    exact: float, *, largest: float, n_rows: int, terms: int = CHUNK_ROWS, most_rows: int | None = None
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

    Notes
    -----
    *Guarantee.* Holds for sums by `RowSource.sum`, whose rounding `summation_error` bounds: it is relative to
    the sum of the norms of the terms, which is at most ``2 * n_rows * largest`` for rows and for units.
    """
    relative = summation_error(2 * n_rows if most_rows is None else most_rows, terms)
    rounding = 2.0 * relative * (2 * n_rows) * largest
    return (exact + rounding) / n_rows * _ROUNDING
