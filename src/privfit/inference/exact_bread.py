"""The bread without noise: told apart from rounding whatever the units of the columns."""

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import ROUNDING, VANISHED, Bread
from privfit.solvers.base import column_sizes, raised_eigenvalues

_BESIDE_OTHERS = 1e-8
"""Curvature in a direction, in units of its bound and of the largest in these units, below which a minimum
at infinity was followed. There it is as small as the slope, which ends at the solver's tolerance over the
root of the share of rows that have it: at 1e-11 for a level of one row in a hundred, at 1e-9 for one in a
million.
"""

LARGEST_ROUNDED_PART = 1e-8
"""Part of a coefficient's squared direction that may be undetermined: only rounding turns directions, so that
what is not determined has no part in coefficients that are."""


def exact_bread(hessian: FloatArray, bound: FloatArray, curvature: float) -> Bread:
    """Return the bread from an exact Hessian and a bound on it.

    Parameters
    ----------
    hessian : array of shape (q, q)
        Ridge included.
    bound : array of shape (n_linear, n_linear)
        The Hessian if every row had the loss's largest curvature, ridge included; it says nothing of a scale,
        which is the last parameter.
    curvature : float
        The largest of the loss.

    Notes
    -----
    In coordinates in which the bound has a diagonal of 1, directions in which its eigenvalue is below
    `ROUNDING` are those of collinear columns. In the others curvature has vanished where it is below
    `VANISHED` in units of the bound, or far below that of others in these units: of counts, whose bound may
    be far above their means, it is small in all directions. So a column that hardly varies within its
    declared bounds counts like any other.
    """
    whole = np.diag(np.diag(hessian))
    whole[: len(bound), : len(bound)] = bound
    sizes = column_sizes(whole)
    units = np.outer(sizes, sizes)
    values, vectors = np.linalg.eigh(hessian / units)
    raised = raised_eigenvalues(values, ROUNDING * VANISHED * curvature)
    return Bread(
        matrix=(vectors * raised) @ vectors.T * units,
        inverse=(vectors / raised) @ vectors.T / units,
        sd=0.0,
        unresolved=_undetermined(hessian / units, whole / units),
        sizes=sizes,
        largest_hidden=LARGEST_ROUNDED_PART,
    )


def _undetermined(hessian: FloatArray, bound: FloatArray) -> FloatArray:
    """Return orthonormal directions, (q, m), that the rows do not determine."""
    values, vectors = np.linalg.eigh(bound)
    collinear = values <= ROUNDING * float(values[-1])
    root = vectors[:, ~collinear] / np.sqrt(values[~collinear])
    parts, along = np.linalg.eigh(root.T @ hessian @ root)
    vanished = root @ along[:, parts < max(VANISHED, _BESIDE_OTHERS * float(parts.max(initial=0.0)))]
    return np.linalg.qr(np.column_stack([vectors[:, collinear], vanished]))[0]
