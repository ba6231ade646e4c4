"""The neighbouring relation, and the sensitivity of a sum under it."""

import math
from enum import StrEnum

from privfit._checks import positive
from privfit.errors import InvalidArgument


class Relation(StrEnum):
    """Which two data sets a guarantee cannot tell apart.

    ``REPLACE`` exchanges one row for another; the number of rows is public. ``ADD_REMOVE`` adds or removes
    one row; the number of rows is private, and a mean is a sum divided by a public scale.
    """

    REPLACE = "replace"
    ADD_REMOVE = "add_remove"

    @classmethod
    def _missing_(cls, value: object) -> "Relation":
        raise InvalidArgument(f"relation must be one of replace, add_remove; got {value!r}")

    def vector_sensitivity(self, bound: float) -> float:
        """Return the L2 sensitivity of a sum of one vector per row.

        Parameters
        ----------
        bound : float
            Largest L2 norm of a row's vector. The result is in the same unit.

        Raises
        ------
        InvalidArgument
            If ``bound`` is not positive and finite, or so large that the sensitivity overflows.

        Notes
        -----
        *Guarantee.* At least ``2 * bound`` (replace) or ``bound`` (add or remove) in exact arithmetic.
        """
        bound = positive(bound=bound)
        return _finite(2.0 * bound if self is Relation.REPLACE else bound)

    def outer_sensitivity(self, bound: float) -> float:
        r"""Return the Frobenius sensitivity of a sum of ``a aᵀ`` over the rows.

        Parameters
        ----------
        bound : float
            Largest **squared** L2 norm of a row's ``a``. The result is in the same unit.

        Raises
        ------
        InvalidArgument
            If ``bound`` is not positive and finite, or so large that the sensitivity overflows.

        Notes
        -----
        *Guarantee.* At least ``sqrt(2) * bound`` (replace) or ``bound`` (add or remove), rounded up. For
        replace, ``‖aaᵀ − bbᵀ‖² = |a|⁴ + |b|⁴ − 2 (aᵀb)² <= 2 bound²``, with equality for orthogonal rows of
        full length. Avella Medina, Bradshaw and Loh (2023), Lemma 1, omit the factor ``sqrt(2)``.
        """
        bound = positive(bound=bound)
        if self is Relation.ADD_REMOVE:
            return bound
        return _finite(math.nextafter(math.sqrt(2.0) * bound, math.inf))

    def describe(self, unit: str | None = None) -> str:
        """Return what neighbours differ in, in words.

        Parameters
        ----------
        unit : str, optional
            Name of the column that identifies the privacy unit; by default every row is one.
        """
        who = "one row" if unit is None else f"all rows of one value of {unit}"
        return f"{who} replaced" if self is Relation.REPLACE else f"{who} added or removed"


def _finite(sensitivity: float) -> float:
    if not math.isfinite(sensitivity):
        raise InvalidArgument("bound must be smaller: the sensitivity overflows")
    return sensitivity
