"""Sums that are turned to other coordinates afterwards, and when rounding allows that."""

import math

import numpy as np

from privfit._checks import UNIT_ROUNDOFF, FloatArray
from privfit.data.reduction import slab_terms, summation_error

TURNING_EPSILON = float(np.finfo(np.longdouble).eps)
"""Spacing of the numbers in which sums of vectors are turned: ``2**-63`` where processors have such, else
``2**-52``."""

_MOST_OFF = 0.5
"""How far a product with a computed inverse may be from the identity."""


def for_each(times: int, matrix: FloatArray) -> FloatArray:
    """Return the matrix that applies one to each of so many parts of a vector."""
    return matrix if times == 1 else np.asarray(np.kron(np.eye(times), matrix), dtype=np.float64)


def turned_rows(rows: FloatArray, basis: FloatArray) -> FloatArray:
    """Return ``rows @ basis`` of few rows, as exactly as `vector_rounding` says."""
    wide = rows.astype(np.longdouble) @ basis.astype(np.longdouble)
    return wide.astype(np.float64)


def vector_rounding(order: int) -> float:
    """Return what `turned_rows` takes from a row at most, relative to its norm and the basis' spectral norm.

    Parameters
    ----------
    order : int
        Rows and columns p of the basis.

    Notes
    -----
    ``p / 2`` spacings, relative to the Frobenius norm of the basis (Higham 2002, *Accuracy and Stability of
    Numerical Algorithms*, section 3.5), which is at most ``sqrt(p)`` spectral ones; a spare factor 2 covers
    terms of higher order.
    """
    return order**1.5 * TURNING_EPSILON


def matrix_rounding(basis: FloatArray, *, n_rows: int, most_rows: int, term: float, width: int) -> float:
    """Return how much further rounding can take two sums ``S`` apart, once turned to ``basis.T @ S @ basis``.

    Parameters
    ----------
    basis : array of shape (q, q)
    n_rows : int
        Half the largest number of terms.
    most_rows : int
        Number that the rows of any table do not exceed.
    term : float
        Bound on the Frobenius norm of a row's term in ``S``.
    width : int
        Numbers of a row, see `privfit.data.reduction.slabs`.

    Notes
    -----
    *Guarantee.* The rounding of the sum, ``E``, becomes ``basis.T @ E @ basis``, at most ``norm(E)`` times
    the squared spectral norm of the basis. Two products of order q take at most ``2 q 2**-53`` of ``norm(S)``
    times its squared Frobenius norm (Higham 2002, section 3.5); a spare factor 2 covers terms of higher
    order.
    """
    summing = summation_error(most_rows, slab_terms(width)) * _spectral(basis) ** 2
    turning = 2.0 * (2 * len(basis)) * UNIT_ROUNDOFF * float(np.vdot(basis, basis))
    return 2.0 * (summing + turning) * (2 * n_rows) * term


def longest_row(basis: FloatArray, norm_bound: float, *, constant: bool) -> float:
    """Return a bound on the norm of weighted rows ``x`` with ``norm(basis.T @ x) <= norm_bound``.

    Parameters
    ----------
    basis : array of shape (p, p)
    norm_bound : float
    constant : bool
        Whether the first number of a row is known to be at most 1. The basis may then say little of it.

    Returns
    -------
    float
        ``inf`` where the basis is too close to a singular one to tell.

    Notes
    -----
    Of ``z = basis.T @ x`` the last numbers are ``B' x' + x_0 b``, where ``B`` is the basis without its first
    row and column and ``b`` the rest of that row. So ``norm(x') <= norm(inv(B)) (norm(z) + norm(b))``.
    """
    if not constant:
        return norm_bound * _inverse_norm(basis)
    others = _inverse_norm(basis[1:, 1:]) * (norm_bound + float(np.linalg.norm(basis[0, 1:])))
    return math.hypot(1.0, others)


def _spectral(matrix: FloatArray) -> float:
    """Return a bound on the spectral norm: found without iterations, so that it holds."""
    sizes = np.abs(matrix)
    one, infinity = sizes.sum(axis=0).max(), sizes.sum(axis=1).max()
    return float(min(np.linalg.norm(matrix), math.sqrt(one * infinity))) * (1.0 + 1e-9)


def _inverse_norm(matrix: FloatArray) -> float:
    """Return a bound on the spectral norm of the inverse.

    If ``Q`` was found, and ``norm(matrix @ Q - I) <= off``, that is at most ``norm(Q) / (1 - off)``.
    """
    if not matrix.size:
        return 0.0
    try:
        found = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    except np.linalg.LinAlgError:
        return math.inf
    with np.errstate(all="ignore"):
        rounding = len(matrix) * 2.0**-52 * np.linalg.norm(matrix) * np.linalg.norm(found)
        off = float(np.linalg.norm(matrix @ found - np.eye(len(matrix))) + rounding)
        return _spectral(found) / (1.0 - off) if off < _MOST_OFF else math.inf
