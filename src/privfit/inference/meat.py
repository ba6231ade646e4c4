"""The meat of the sandwich, drawn towards a multiple of the bread as far as noise hides the difference."""

from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.problem.plan import Release
from privfit.solvers.drawn import Drawn, drawn_towards


def meat_from(release: Release, bread: Bread, n_linear: int) -> Drawn:
    """Return the posterior mean of the meat, made positive semi-definite.

    Parameters
    ----------
    release : Release
        Of kind ``"meat"``.
    bread : Bread
        At the same point.
    n_linear : int
        Number of coefficients. Entries of a scale, which is the last parameter, are taken as they are.

    Notes
    -----
    Where a model is right, the meat is a multiple of the bread (the information identity; the variance
    of the errors for least squares; ``tau (1 - tau)`` over the density for a quantile). The bread is
    resolved better, as its sensitivity is smaller. So the meat is drawn towards a multiple of it as far as
    noise hides the difference, see `privfit.solvers.drawn.drawn_towards`; as noise vanishes it is the
    released one, whatever the model.
    """
    sd, q, n = release.sd, release.value.shape[0], n_linear
    if sd == 0.0:
        return Drawn(_positive(release.value), np.eye(q), np.zeros((q, q)))
    drawn = drawn_towards(bread.matrix[:n, :n], release.value, sd)
    return replace(drawn, matrix=_positive(drawn.matrix))


def _positive(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
