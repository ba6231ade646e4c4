"""The meat of the sandwich, drawn towards a multiple of the bread as far as noise hides the difference."""

from dataclasses import replace

import numpy as np

from privfit._checks import FloatArray
from privfit.inference.covariance import Bread
from privfit.losses import Logistic, Multinomial, Poisson
from privfit.losses.base import AbstractLoss
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.solvers.base import entry_units, quadratic_forms
from privfit.solvers.drawn import Drawn, drawn_towards

_MOST = 0.5
"""Standard deviations of its noise by which what the meat says of a coefficient is drawn down at most."""


def centred(release: Release, problem: Problem) -> Release:
    """Return a released meat less the square of the mean score that a ridge leaves.

    At the minimiser of a penalised risk the mean score is minus the gradient of the penalty, which the point
    tells without a release. Scores vary about that mean: the mean of their squares is their variance and its
    square (White 1982, for the minimiser of any risk). It was asked near the minimiser.
    """
    mean = problem.ridge @ release.at
    return replace(release, value=release.value - np.outer(mean, mean))


def meat_from(
    release: Release, bread: Bread, n_linear: int, *, least: float = 0.0, shared: bool = False
) -> Drawn:
    """Return the posterior mean of the meat, made positive semi-definite.

    Parameters
    ----------
    release : Release
        Of kind ``"meat"``.
    bread : Bread
        At the same point.
    n_linear : int
        Number of coefficients. Entries of a scale, which is the last parameter, are taken as they are.
    least : float
        Smallest multiple of the bread that the meat is drawn towards; see `least_multiple`.
    shared : bool
        Whether rows count by shares.

    Notes
    -----
    Where a model is right, the meat is a multiple of the bread (the information identity; the variance
    of the errors for least squares; ``tau (1 - tau)`` over the density for a quantile). The bread is
    resolved better, as its sensitivity is smaller. So the meat is drawn towards a multiple of it as far as
    noise hides the difference, see `privfit.solvers.drawn.drawn_towards`; as noise vanishes it is the
    released one, whatever the model.

    Shares enter the meat squared and the bread once. So where rows count by them, ``least`` is only the
    largest multiple that a right model can have: that of persons who count in full and whose rows agree.
    That of independent rows is smaller by the share of a row, which nothing tells but the meat.
    """
    sd, q, n = release.sd, release.value.shape[0], n_linear
    if sd == 0.0:
        exact = _positive_in_any_units(release.value)
        return Drawn(exact, exact, np.eye(q), np.zeros((q, q)))
    drawn = drawn_towards(bread.matrix[:n, :n], release.value, sd, least=least, generous=shared)
    return replace(drawn, matrix=_positive(drawn.matrix))


def shortfall(release: Release, meat: Drawn, directions: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return by how much the drawn meat falls short of the released one in some directions, and its noise.

    Parameters
    ----------
    release : Release
    meat : Drawn
        What `meat_from` makes of it.
    directions : array of shape (k, q)

    Returns
    -------
    short : array of shape (k,)
        What ``u'Qu`` lacks for a row ``u``, of the released one less half a standard deviation of its noise.
    variance : array of shape (k,)
        Of ``u'Qu`` once that is added.

    Notes
    -----
    The prior has one spread for all entries. Where the errors along one direction vary far more than along
    the others, its entries are drawn as if they were noise, and are many if it is no axis. The noise
    in ``u'Qu`` is that of one number, whatever the number of columns. So a coefficient is protected by
    limited translation (Efron and Morris 1972).
    """
    variance = meat.variance(directions)
    if release.sd == 0.0:
        return np.zeros(len(directions)), variance
    noise = release.sd * np.sum(directions**2, axis=1)
    seen, drawn = (quadratic_forms(directions, each) for each in (release.value, meat.matrix))
    short = np.maximum(seen - _MOST * noise - drawn, 0.0)
    return short, np.where(short > 0.0, np.maximum(noise**2, variance), variance)


def least_multiple(loss: AbstractLoss, dispersion: float) -> float:
    """Return the smallest multiple of the bread that meat which noise hides is taken for.

    Parameters
    ----------
    loss : AbstractLoss
    dispersion : float
        What the solver's releases say about it, see `privfit.solvers.base.Solution`; not looked at unless the
        loss is one of residuals.

    Notes
    -----
    Where a likelihood is right the meat is the bread, and it is larger where responses vary more: 1. For
    losses of residuals, whose errors do not depend on the row, it is the mean squared slope over the
    mean curvature, which the spread that is left of the response tells. Rows that are weighted down enter
    the meat with the square of their weight, so that along long rows, which may be all that noise shows,
    the multiple is smaller. What is hidden is not to be thought smaller than the model says: too wide is the
    safe side.
    """
    if isinstance(loss, Logistic | Multinomial | Poisson):
        return 1.0
    return dispersion if loss.target_kind == "numeric" else 0.0


def _positive_in_any_units(matrix: FloatArray) -> FloatArray:
    """Return an exact matrix without negative eigenvalues; a small column is no rounding of a large one."""
    units = entry_units(matrix)
    return _positive(matrix / units) * units


def _positive(matrix: FloatArray) -> FloatArray:
    values, vectors = np.linalg.eigh(matrix)
    return (vectors * np.maximum(values, 0.0)) @ vectors.T
