"""Levels of factors whose rows respond far otherwise than others': where their own slopes vanish."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.losses import AbstractLoss
from privfit.losses.typical import curvatures_along, slopes_along
from privfit.solvers.base import Step
from privfit.solvers.hessian_model import HessianModel, View
from privfit.solvers.levels import moves_of_levels

_FAR = 2.0
"""Ratio of the curvatures of a level's rows and of all from which on the level is far."""

_CLEAR = 2.0
"""Standard deviations of noise that a mean slope is off where a Newton step leads, if a level is moved."""

_OFF = 0.1
"""How far a change of a mean slope may be off the model's, relative to it."""

_FARTHEST, _PARTS = 3.0, 60
"""Largest change of predictors that is looked for, and parts that twice of it is divided into."""

_INSIDE = 0.01
"""What the mean square of a number that is always at a declared bound may lack of 1."""

_BEYOND = 30.0
"""Size of predictors beyond which slopes that end no longer change."""

_NODES, _CHANCE = np.polynomial.hermite_e.hermegauss(9)
_CHANCE = _CHANCE / _CHANCE.sum()


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """The levels of all factors, m of them, as far as releases show them.

    Parameters
    ----------
    moves : array of shape (m, p)
        What moves the predictors of a level's rows by 1, and no others.
    rows : array of shape (m, p)
        Their mean row.
    shares : array of shape (m,)
        Of the rows that count.
    together : array of shape (m, m)
        Shares within a factor: row i holds those of the levels of the factor of level i.
    """

    moves: FloatArray
    rows: FloatArray
    shares: FloatArray
    together: FloatArray

    @classmethod
    def of(cls, model: HessianModel) -> "Levels | None":
        """Return those of a problem with one predictor that its curvature depends on, or None."""
        problem, marginals = model.problem, model.marginals
        depends = problem.loss.target_kind != "numeric" and problem.loss.n_outputs == 1
        if not (problem.has_intercept and problem.indicators and depends):
            return None
        factors = [_of_indicators(places, model) for places in problem.factors]
        factors += [_of_ends(place, model) for place in _at_ends(model)]
        if not factors:
            return None
        moves = np.concatenate([factor.moves for factor in factors])
        rows = np.concatenate([factor.rows for factor in factors])
        own = np.repeat(np.arange(len(factors)), [len(factor.moves) for factor in factors])
        shares = np.maximum(moves @ _mean_row(model), max(marginals.noise, 1e-12))
        together = np.where(own[:, None] == own, shares, 0.0)
        return cls(moves, rows, marginals.counting * shares, together / together.sum(axis=1, keepdims=True))

    def within(self, eta: FloatArray, variance: float) -> FloatArray:
        """Return standard deviations (m,) of predictors in levels: of their variance, what means (m,) leave.

        The means differ between the levels of a factor.
        """
        between = np.sum(self.together * (eta - (self.together @ eta)[:, None]) ** 2, axis=1)
        return np.sqrt(np.maximum(variance - between, 0.0))

    def changes(self, lacking: FloatArray, far: NDArray[np.bool_]) -> FloatArray:
        """Return by how much to move the far levels (k of m) for their mean predictors to change so, (k,).

        Levels of two factors share rows. All that is added to the diagonal keeps the system dominated by it:
        what is lacking is not known well enough to divide it among levels that are nearly the same.
        """
        shared = (self.rows @ self.moves.T)[np.ix_(far, far)]
        dominated = shared + np.diag(np.abs(shared).sum(axis=1) - 1.0)
        return np.asarray(np.linalg.solve(dominated, lacking[far]), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class _Factor:
    """Moves and mean rows of the levels of a factor, the one without an indicator first; (k, p) each."""

    moves: FloatArray
    rows: FloatArray

    @classmethod
    def of(cls, moves: FloatArray, places: list[int], own: FloatArray, model: HessianModel) -> "_Factor":
        """Return that with these moves, whose own columns have these values in its levels, (k, places).

        The mean row of a level is the second moment times its move, divided by its share: as far as noise
        lets the moment be seen, and the mean of all rows for the rest.
        """
        frame = model.frame
        whitened = np.linalg.solve(frame.basis, moves.T).T
        seen = whitened @ frame.seen
        share = np.maximum(np.sum(seen**2, axis=1, keepdims=True), 1e-300)
        part = share / np.maximum(np.sum(whitened**2, axis=1, keepdims=True), 1e-300)
        rows = np.clip(np.linalg.solve(frame.basis.T, (seen @ frame.seen).T).T / share, -1.0, 1.0)
        rows = part * rows + (1.0 - part) * _mean_row(model)
        rows[:, 0], rows[:, places] = 1.0, own
        return cls(moves, rows)


def _of_indicators(places: tuple[int, ...], model: HessianModel) -> _Factor:
    """Return the factor with indicators in these places."""
    moves, own = moves_of_levels(places, model.problem.n_coef), np.eye(1 + len(places))[:, 1:]
    return _Factor.of(moves, list(places), own, model)


def _of_ends(place: int, model: HessianModel) -> _Factor:
    """Return that of a number which is -1 or 1 in every row."""
    moves, own = np.zeros((2, model.problem.n_coef)), np.array([[-1.0], [1.0]])
    moves[:, 0], moves[:, [place]] = 0.5, 0.5 * own
    return _Factor.of(moves, [place], own, model)


def _at_ends(model: HessianModel) -> list[int]:
    """Return the places of numbers that are at their declared bounds, -1 and 1, in nearly all rows.

    Their mean square is 1.
    """
    marginals, numbers = model.marginals, ~np.array(model.problem.indicators)
    lacking = 1.0 - marginals.mean**2 - marginals.variance
    return np.flatnonzero(numbers & (lacking < _INSIDE + marginals.floor)).tolist()


def _mean_row(model: HessianModel) -> FloatArray:
    mean = model.marginals.mean.copy()
    mean[0] = 1.0
    return mean


def led_to_levels(view: View, steps: Sequence[Step], to: FloatArray) -> FloatArray:
    """Return where a Newton step leads, (q,), with far levels moved to where their own slopes vanish.

    Parameters
    ----------
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

    Slopes are taken for those of predictors that are normal about that of a mean row of the level. Where
    gradients are asked is all that this decides, not what is estimated from them.
    """
    problem, levels = view.problem, Levels.of(view.model)
    if levels is None or problem.basis is None:
        return to
    center, variance = _predictors(view, to)
    eta = levels.rows @ problem.coefficients(to)
    spread = levels.within(eta, variance)
    inwards = np.linalg.solve(problem.basis, levels.moves.T).T
    points = np.array([problem.coefficients(step.release.at) for step in steps]) @ levels.rows.T
    slopes = _mean_slopes(problem.loss, np.vstack([points, eta]), spread)
    wanted, noise = _wanted(steps, slopes[:-1], inwards / levels.shares[:, None])
    clear = np.abs(wanted - slopes[-1]) > _CLEAR * noise
    if not clear.any():
        return to
    at = _where(problem.loss, wanted, noise, points[-1], spread)
    usual = _mean_curvatures(problem.loss, np.array([center]), np.array([math.sqrt(variance)]))
    ratio = _mean_curvatures(problem.loss, at, spread) / usual
    far = clear & (np.abs(np.log(ratio)) > math.log(_FAR))
    return to + levels.changes(at - eta, far) @ inwards[far]


def _predictors(view: View, phi: FloatArray) -> tuple[float, float]:
    """Return mean and variance of the linear predictors of all rows at ``phi``."""
    phi, center = view.outwards(phi), view.model.frame.center
    mean = float(phi @ center)
    return mean, max(float(phi @ phi) - mean**2, 0.0)


def _wanted(steps: Sequence[Step], slopes: FloatArray, along: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the mean slopes that levels have where theirs vanish, (m,), and the noise in them, (m,).

    Both without the part of the response, as ``slopes`` at the points of the steps, (K, m); a gradient times
    ``along`` (m, q) tells the mean slope of a level with that part. It counts by the precision of its noise,
    and of what the model may get wrong between its point and the last.
    """
    sds = np.array([step.release.sd for step in steps])[:, None] * np.linalg.norm(along, axis=1)
    said = slopes - np.array([step.release.value for step in steps]) @ along.T
    precision = 1.0 / np.maximum(sds**2 + (_OFF * (slopes - slopes[-1])) ** 2, 1e-30)
    parts = precision / precision.sum(axis=0)
    return np.sum(parts * said, axis=0), np.sqrt(np.sum((parts * sds) ** 2, axis=0))


def _where(
    loss: AbstractLoss, wanted: FloatArray, noise: FloatArray, start: FloatArray, spread: FloatArray
) -> FloatArray:
    """Return where mean slopes are the wanted ones, (m,), within `_FARTHEST` of the start.

    Noise does not lead nearer to the ends of all slopes than it is large.
    """
    least, most = slopes_along(loss, np.array([-_BEYOND, _BEYOND]))
    aims = np.clip(wanted, least + noise, most - noise)
    changes = np.linspace(-_FARTHEST, _FARTHEST, _PARTS + 1)
    found = _mean_slopes(loss, start + changes[:, None], spread)
    return start + np.array([np.interp(aim, each, changes) for aim, each in zip(aims, found.T, strict=True)])


def _mean_slopes(loss: AbstractLoss, eta: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the mean slopes of predictors that are normal about ``eta`` (..., m), with spreads (m,)."""
    at = eta[..., None] + spread[:, None] * _NODES
    return slopes_along(loss, at.ravel()).reshape(at.shape) @ _CHANCE


def _mean_curvatures(loss: AbstractLoss, eta: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the mean curvatures of predictors that are normal about ``eta`` (m,), with spreads (m,)."""
    at = eta[:, None] + spread[:, None] * _NODES
    return curvatures_along(loss, at.reshape(1, -1), least=1e-9).reshape(at.shape) @ _CHANCE
