"""Norms of rows in other coordinates, and the weights that bound them there."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar, final

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray, IntArray
from privfit.data import norm_loops
from privfit.data.blocks import Pick
from privfit.data.caps import SlopeBounds
from privfit.data.clamp import SHRINK, SMALLEST_NORMAL
from privfit.data.coded import CodedMatrix, Matrix, by_code, numbers_of
from privfit.data.reduction import slabs
from privfit.data.room import AbstractRoom

_COARSE = 2.0**-9
"""Part of a norm that rounding in single precision may add to it; rows of which it could be more are worked
out in double precision."""


@final
class BasisNorms:
    """Upper bounds on ``norm(basis.T @ x)`` and on ``norm(basis) * norm(x)`` (spectral norm) of rows.

    Parameters
    ----------
    basis : array of shape (p, p)
        Public matrix.

    Notes
    -----
    *Guarantee.* Both bounds hold for the rows as they are stored, but for a few roundings, which `SHRINK`
    covers; and times `factor_to` for another basis, where it returns a number.

    Of rows written out, ``R x`` is computed, ``R`` the triangular factor of ``basis.T``, by half the products
    of ``basis.T @ x``. What rounding can take from its norm is at most ``p * 2**-52 * norm(x) * norm(basis)``
    (Frobenius norm; Higham 2002, *Accuracy and Stability of Numerical Algorithms*, section 3.5) and is added
    back. Its square is off by at most ``norm(x)**2`` times the norm of
    ``D = basis @ basis.T - R.T @ R``, however well ``R`` was found. To first order, rounding takes at most
    ``(p + 5) * 2**-52 * norm(basis)**2`` from ``D`` where that is computed; twice the larger of this, a
    little more, and of what is computed is added. Of rows by code with k entries, much fewer than p,
    ``x' M x`` with ``M = basis @ basis.T`` is summed from ``k (k + 1) / 2`` products. To first order,
    rounding takes ``p * 2**-53`` of the sizes of its terms from an entry of ``M``, and
    ``(k (k + 1) / 2 + 3) * 2**-53`` from the sum. These sizes are together at most
    ``norm(x)**2 * norm(basis)**2`` (Cauchy and Schwarz); twice what that makes is added back. That is enough
    where a basis only scales and shifts columns, too: the square, multiplied out, is three sums of k, k and
    p terms, of sizes that are together at most twice as much, and rounding takes ``(k + p + 6) * 2**-53`` of
    them.

    Rows that are kept in float32 are turned in it, too, by ``R`` over the Frobenius norm of the basis. By the
    same section that takes at most ``(p + 1) * 2**-24 * norm(x)`` from the norm, and adding up the squares
    ``(p / 16 + 3) * 2**-24`` of it; all of which is added back. Numbers that are too small for it take less
    than ``norm(x) * 2**-34`` as long as ``norm(x)`` is at least ``2**-40``.

    Another basis is off from a multiple of this one by a relative ``2**-46`` at most in the Frobenius norm,
    which is 64 times ``2**-52``, and at most thrice that in a square; it is added, too, and to the spectral
    norm.
    """

    def __init__(self, basis: FloatArray) -> None:
        self._basis = basis
        with np.errstate(over="ignore", invalid="ignore"):
            self._frobenius = float(np.linalg.norm(basis))
            self._spectral = float(np.linalg.svd(basis, compute_uv=False)[0])
            self._form = basis @ basis.T
            self._root = np.asarray(np.linalg.qr(basis.T, mode="r"))
            self._off = self._distance(self._root)
        scaled = np.array_equal(basis[1:, 1:], np.diag(np.diag(basis)[1:])) and not basis[1:, 0].any()
        self._shifts = (np.diag(basis).copy(), np.append(0.0, basis[0, 1:])) if scaled else None

    @cached_property
    def _double(self) -> tuple[NDArray[Any], IntArray]:
        """What loops in double precision read; found where it is asked for, as few bases need both."""
        return norm_loops.by_blocks(self._root, "float64")

    @cached_property
    def _single(self) -> tuple[NDArray[Any], IntArray]:
        """What loops in single precision read, over the Frobenius norm of the basis."""
        return norm_loops.by_blocks(self._root / self._frobenius, "float32")

    def _distance(self, root: FloatArray) -> float:
        """Return a bound on ``norm(root.T @ root - basis @ basis.T) / norm(basis)**2``."""
        unit = self._frobenius or 1.0
        basis, root = self._basis / unit, root / unit
        found = float(np.linalg.norm(root.T @ root - basis @ basis.T))
        return 2.0 * max(found, (len(basis) + 8) * 2.0**-52)

    @property
    def size(self) -> int:
        """Entries of the basis."""
        return self._basis.size

    def factor_to(self, basis: FloatArray) -> float | None:
        """Return how many times this basis another one of its shape is; None if it is no multiple."""
        if self._frobenius == 0.0:
            return None
        with np.errstate(all="ignore"):
            factor = float(np.vdot(self._basis / self._frobenius, basis)) / self._frobenius
            off = np.linalg.norm(basis - factor * self._basis)
            return abs(factor) if off <= 2.0**-46 * abs(factor) * self._frobenius else None

    def fill(self, x: Matrix, found: "RowNorms") -> None:
        """Fill in both bounds for finite rows, as many as there is room for."""
        size, length = found.size, found.reach
        with np.errstate(over="ignore", invalid="ignore"):
            if by_code(x) and self._shifts is not None and x.layout.constant:
                size[:], length[:] = self._by_code(x, self._shifted_codes(x, *self._shifts))
            elif by_code(x) and 4 * x.entries < x.shape[1]:
                size[:], length[:] = self._by_code(x, x.quadratic(self._form))
            elif self._shifts is not None and not by_code(x):
                numbers, constant = numbers_of(x)
                norm_loops.moved_squares(np.ascontiguousarray(numbers), constant, *self._shifts, length, size)
                self._raise(size, length)
            else:
                self._written_out(x, size, length)
            length *= self._spectral + 2.0**-46 * self._frobenius

    def _written_out(self, x: Matrix, size: FloatArray, length: FloatArray) -> None:
        if by_code(x):
            for rows in slabs(slice(0, length.size), x.shape[1]):
                self._in_double(x[rows].dense(), 0, size[rows], length[rows])
            return
        numbers, constant = numbers_of(x)
        numbers = np.ascontiguousarray(numbers)
        if numbers.dtype == np.float64:
            self._in_double(numbers, constant, size, length)
        else:
            self._in_single(numbers, constant, size, length)

    def _in_double(self, numbers: NDArray[Any], constant: int, size: FloatArray, length: FloatArray) -> None:
        norm_loops.turned_squares(numbers, constant, *self._double, length, size)
        self._raise(size, length, off=self._off)

    def _in_single(self, numbers: NDArray[Any], constant: int, size: FloatArray, length: FloatArray) -> None:
        room = (1.1 * len(self._basis) + 64) * 2.0**-24
        limits = np.array([room / _COARSE, 2.0**-80, 2.0**80])
        norm_loops.turned_squares_single(numbers, constant, *self._single, limits, length, size)
        coarse = np.flatnonzero(size < 0.0)
        again = RowNorms(np.empty(coarse.size), np.empty(coarse.size))
        self._in_double(numbers[coarse], constant, again.size, again.reach)
        rooms = np.array([self._frobenius, room * self._frobenius, self._off * self._frobenius**2])
        norm_loops.raise_norms(size, length, rooms)
        size[coarse], length[coarse] = again.size, again.reach

    def _raise(self, size: FloatArray, length: FloatArray, off: float = 0.0) -> None:
        """Turn squared norms into norms; rounding, and squares that are off, cannot exceed ``size``."""
        room = (len(self._basis) + 64) * 2.0**-52 * self._frobenius
        norm_loops.raise_norms(size, length, np.array([1.0, room, off * self._frobenius**2]))

    @staticmethod
    def _shifted_codes(x: CodedMatrix, scale: FloatArray, shift: FloatArray) -> FloatArray:
        """Return the squared norms of ``scale * x + shift``, multiplied out: rows have few entries."""
        return x.square_dots(scale * scale) + 2.0 * (x @ (scale * shift)) + shift @ shift

    def _by_code(self, x: CodedMatrix, square: FloatArray) -> tuple[FloatArray, FloatArray]:
        length = np.sqrt(x.squared_norms())
        terms = x.shape[1] + x.entries * (x.entries + 1) // 2 + 3 + 192
        room = terms * 2.0**-52 * self._frobenius**2 * (length * length)
        return np.sqrt(np.maximum(square, 0.0) + room), length


@final
@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RowNorms:
    """What `BasisNorms` says of all rows of a table; private.

    Parameters
    ----------
    size, reach : array of shape (n,)
        Bounds on ``norm(basis.T @ x)``, and on ``norm(basis) * norm(x)``.
    """

    size: FloatArray
    reach: FloatArray

    @classmethod
    def blank(cls, n_rows: int, room: AbstractRoom) -> "RowNorms":
        """Return arrays to be filled."""
        return cls(room.new(n_rows), room.new(n_rows))

    def picked(self, pick: Pick) -> "RowNorms":
        """Return those of the rows that ``pick`` takes of an array."""
        return RowNorms(pick(self.size), pick(self.reach))

    def __sizeof__(self) -> int:
        """Return the bytes of the arrays, by which workers judge how full they are."""
        return self.size.nbytes + self.reach.nbytes


@final
@dataclass(frozen=True, slots=True)
class BasisBounds:
    """What rows are weighted down to in other coordinates.

    Parameters
    ----------
    norm_bound : float
        Bound on ``sqrt(weight) * norm(basis.T @ x)``.
    amplification : float
        Bound on ``sqrt(weight) * norm(x) * norm(basis)`` (spectral norm), for the rounding of sums.
    slopes : SlopeBounds, optional
        By what rows are weighted down further.
    """

    norm_bound: float
    amplification: float
    slopes: SlopeBounds | None = None

    def fill(self, norms: RowNorms, factor: float, before: FloatArray, out: FloatArray) -> None:
        """Fill ``out`` (n,) with ``min(1, (norm_bound / size)**2, (amplification / reach)**2)``.

        ``size`` and ``reach`` are ``factor`` times those of the rows. Both bounds hold in exact arithmetic.
        Rows beyond any number weigh 0, and so do those that weighed 0 ``before``.
        """
        limits = np.array([factor, self.norm_bound, self.amplification, SHRINK, SMALLEST_NORMAL])
        norm_loops.fill_weights(norms.size, norms.reach, limits, before, out)


Found = TypeVar("Found")


@final
class LastNorms(Generic[Found]):
    """What was found of all rows in the last basis that was asked for; it serves the multiples of that."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: tuple[BasisNorms, Found] | None = None

    def of(self, pick: Callable[[Found], Found]) -> "LastNorms[Found]":
        """Return what is known of some of the rows."""
        some: LastNorms[Found] = LastNorms()
        some._known = None if self._known is None else (self._known[0], pick(self._known[1]))
        return some

    def within(
        self, basis: FloatArray, measure: Callable[[BasisNorms, Found | None], Found]
    ) -> tuple[Found, float]:
        """Return what is known of all rows, and how many times that their norms in a basis are.

        Parameters
        ----------
        basis : array of shape (p, p)
        measure : callable
            ``measure(norms, old)`` looks at all rows in another basis; ``old`` is not needed any more.
        """
        known, self._known = self._known, None  # nothing is known until all of it is measured
        factor = None if known is None else known[0].factor_to(basis)
        if known is None or factor is None:
            norms = BasisNorms(basis)
            known, factor = (norms, measure(norms, None if known is None else known[1])), 1.0
        self._known = known
        return known[1], factor
