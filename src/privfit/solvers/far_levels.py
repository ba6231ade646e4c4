"""Levels of factors whose rows respond far otherwise than others': where their own slopes vanish."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.losses.means import AbstractMeans
from privfit.solvers.base import Step
from privfit.solvers.curvature import normal_nodes
from privfit.solvers.hessian_model import HessianModel, View
from privfit.solvers.levels import moves_of

_FAR = 2.0
"""Ratio of the curvatures of a level's rows and of all from which on the level is far."""

_CLEAR = 2.0
"""Standard deviations of noise that a mean is off where a Newton step leads, if a level is moved."""

_OFF = 0.1
"""How far a change of a mean may be off the model's, relative to it."""

_FARTHEST = 3.0
"""Largest change of a predictor from where it was asked for."""

_ROUNDS = 6
"""In which predictors are found: what is off by the spread of rows falls by at least half in each."""

_DIRECTIONS = 3
"""Directions in which predictors of several outputs vary within a level, at most."""

_INSIDE = 0.1
"""What the mean square of a number that is always at a declared bound may lack of 1, noise included, relative
to its mean's distance from a bound: of one near a bound that is nowhere else it lacks twice that."""


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The levels of all factors, L of them, as far as releases show them.

    Parameters
    ----------
    moves : array of shape (L, p)
        What moves the predictors of a level's rows by 1, and no others.
    rows : array of shape (L, p)
        Their mean row.
    shares : array of shape (L,)
        Of the rows that count.
    factor : int array of shape (L,)
        Number of the factor that a level belongs to, from 0 on.
    """

    moves: FloatArray
    rows: FloatArray
    shares: FloatArray
    factor: NDArray[np.int64]

    @classmethod
    def of(cls, model: HessianModel) -> "Levels | None":
        """Return those of a model; None without any, without an intercept, and for losses without means."""
        problem, marginals = model.problem, model.marginals
        bounds = at_bounds(model)
        moves = moves_of(problem, bounds)
        if problem.loss.means is None or not moves.size:
            return None
        shares = np.maximum(moves @ _mean_row(model), max(marginals.noise, 1e-12))
        factors = [*problem.factors, *((place,) for place in bounds)]
        own = np.repeat(np.arange(len(factors)), [1 + len(places) for places in factors])
        rows = _mean_rows(moves, model)
        for one, places in enumerate(factors):
            numbers = one >= len(problem.factors)
            known = [[-1.0], [1.0]] if numbers else np.eye(1 + len(places))[:, 1:]
            rows[np.ix_(own == one, places)] = known
        return cls(moves, rows, marginals.counting * shares, own)

    def within(self, eta: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return points (m, L, N), and their chances (N,), that stand for predictors less a level's mean.

        Of the covariance (m, m) of all predictors they have what their means ``eta`` (m, L) leave: these
        differ between the levels of a factor.
        """
        points, chance = normal_nodes(min(len(covariance), _DIRECTIONS))
        found = np.empty((*eta.shape, points.shape[1]))
        for one in range(int(self.factor[-1]) + 1):
            of = self.factor == one
            parts = self.shares[of] / self.shares[of].sum()
            away = eta[:, of] - (eta[:, of] @ parts)[:, None]
            values, vectors = np.linalg.eigh(covariance - (parts * away) @ away.T)
            spread = vectors * np.sqrt(np.maximum(values, 0.0))
            found[:, of] = (spread[:, -len(points) :] @ points)[:, None]
        return found, chance

    def changes(self, lacking: FloatArray, far: NDArray[np.bool_]) -> FloatArray:
        """Return by how much to move far levels, (m, k), for mean predictors (m, L) to change as they lack.

        Levels of two factors share rows. All that is added to the diagonal keeps the system dominated by it:
        what is lacking is not known well enough to divide it among levels that are nearly the same.
        """
        shared = (self.rows @ self.moves.T)[np.ix_(far, far)]
        dominated = shared + np.diag(np.abs(shared).sum(axis=1) - 1.0)
        return np.asarray(np.linalg.solve(dominated, lacking[:, far].T).T, dtype=np.float64)


def _mean_rows(moves: FloatArray, model: HessianModel) -> FloatArray:
    """Return the mean rows of levels, (L, p), their own columns aside.

    That of a level is the second moment times its move, divided by its share: as far as noise lets the moment
    be seen, and the mean of all rows for the rest.
    """
    frame = model.frame
    whitened = np.linalg.solve(frame.basis, moves.T).T
    seen = whitened @ frame.seen
    share = np.maximum(np.sum(seen**2, axis=1, keepdims=True), 1e-300)
    part = share / np.maximum(np.sum(whitened**2, axis=1, keepdims=True), 1e-300)
    found = np.clip(np.linalg.solve(frame.basis.T, (seen @ frame.seen).T).T / share, -1.0, 1.0)
    rows = part * found + (1.0 - part) * _mean_row(model)
    rows[:, 0] = 1.0
    return rows


def at_bounds(model: HessianModel) -> tuple[int, ...]:
    """Return the places of numbers that are at their declared bounds, -1 and 1, in nearly all rows.

    Their mean square is 1. A mean that noise has put on a bound or beyond it shows no rows at the other, and
    may be that of a number whose declared range is far wider than its values.
    """
    marginals, indicators = model.marginals, model.problem.indicators
    if not indicators:
        return ()
    inside = 1.0 - np.abs(marginals.mean)
    lacking = 1.0 - marginals.mean**2 - marginals.variance + marginals.floor
    found = ~np.array(indicators) & (inside > 0.0) & (lacking < _INSIDE * inside)
    return tuple(np.flatnonzero(found).tolist())


def _mean_row(model: HessianModel) -> FloatArray:
    mean = model.marginals.mean.copy()
    mean[0] = 1.0
    return mean


def led_to_levels(levels: Levels, view: View, steps: Sequence[Step], to: FloatArray) -> FloatArray:
    """Return where a Newton step leads, (q,), with far levels moved to where their own slopes vanish.

    Parameters
    ----------
    levels : Levels
    view : View
    steps : sequence of Step
        The last ones, in the view's coordinates.
    to : array of shape (q,)
        Where a Newton step leads.

    Notes
    -----
    The rows of a level share an indicator. The gradient along it over the share of these rows is their mean
    slope: for a logit the mean of ``p - y``, which tells the mean of ``y``. From there their predictor is
    found at once. A Newton step takes the curvature for even, but that of a level with few positives is a
    fraction of others', and it would take a step for each unit of log odds.

    Means are those of predictors that are normal about that of a mean row of the level. Where gradients are
    asked is all that this decides, not what is estimated from them.
    """
    problem, means = view.problem, view.problem.loss.means
    if means is None or problem.basis is None:
        return to
    points = [_predictors(view, step.release.at, levels) for step in steps]
    eta = _predictors(view, to, levels)
    nodes, chance = levels.within(eta, _covariance(view, to))
    *at_points, expected = (_averaged(means, each, nodes, chance) for each in (*points, eta))
    inwards = np.linalg.solve(problem.basis, levels.moves.T).T
    wanted, noise = _wanted(means, steps, np.array(at_points), inwards / levels.shares[:, None])
    clear = np.abs(wanted - expected) > _CLEAR * noise
    aim = np.where(clear, np.maximum(wanted, noise), expected)
    usual = expected @ levels.shares / levels.shares.sum()
    ratio = means.variance(aim) / np.maximum(means.variance(usual), 1e-300)[:, None]
    apart = np.abs(np.log(np.maximum(ratio, 1e-300))) > math.log(_FAR)
    far = np.any(clear & apart, axis=0)
    if not far.any():
        return to
    found = eta
    for _ in range(_ROUNDS):
        found = found + means.predictors(aim) - means.predictors(_averaged(means, found, nodes, chance))
        found = np.clip(found, points[-1] - _FARTHEST, points[-1] + _FARTHEST)
    return to + (levels.changes(found - eta, far) @ inwards[far]).ravel()


def _predictors(view: View, phi: FloatArray, levels: Levels) -> FloatArray:
    """Return the predictors of the mean rows of levels, (m, L)."""
    theta = view.problem.coefficients(phi).reshape(-1, view.problem.n_coef)
    return theta @ levels.rows.T


def _covariance(view: View, phi: FloatArray) -> FloatArray:
    """Return the covariance of the linear predictors of all rows at ``phi``, (m, m)."""
    center = view.model.frame.center
    rows = view.outwards(phi)[: view.problem.n_linear].reshape(-1, center.size)
    mean = rows @ center
    return rows @ rows.T - np.outer(mean, mean)


def _averaged(means: AbstractMeans, eta: FloatArray, nodes: FloatArray, chance: FloatArray) -> FloatArray:
    """Return the mean responses (K, L) of rows whose predictors are at nodes (m, L, N) about ``eta``."""
    return means.at(eta[..., None] + nodes) @ chance


def _wanted(
    means: AbstractMeans, steps: Sequence[Step], at_points: FloatArray, along: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the mean responses of levels as gradients tell them, and the noise in these, (K, L) each.

    Parameters
    ----------
    means : AbstractMeans
    steps : sequence of S Step
    at_points : array of shape (S, K, L)
        What the model expects at their points.
    along : array of shape (L, p)
        What a gradient of an output is multiplied by to tell the mean slope of a level.

    Notes
    -----
    What a gradient says counts by the precision of its noise, and of what the model may get wrong between its
    point and the last.
    """
    lift, lengths = means.lift, np.linalg.norm(along, axis=1)
    slopes = [step.release.value.reshape(-1, along.shape[1]) @ along.T for step in steps]
    said = at_points - np.array([lift @ each for each in slopes])
    unit = np.linalg.norm(lift, axis=1)[:, None] * lengths
    noise = np.array([step.release.sd * unit for step in steps])
    precision = 1.0 / np.maximum(noise**2 + (_OFF * (at_points - at_points[-1])) ** 2, 1e-30)
    parts = precision / precision.sum(axis=0)
    return np.sum(parts * said, axis=0), np.sqrt(np.sum((parts * noise) ** 2, axis=0))
