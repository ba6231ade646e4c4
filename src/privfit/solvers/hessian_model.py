"""A model of the Hessian from released moments, and coordinates that are even in it."""

import math
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from privfit._checks import FloatArray
from privfit.losses.typical import curvatures_along, typical, typical_curvature
from privfit.problem.kept import kept
from privfit.problem.objective import Problem
from privfit.problem.plan import Release
from privfit.problem.steep import SteepRows
from privfit.solvers.base import Moments, noise_norm, raised_eigenvalues
from privfit.solvers.curvature import model_hessian
from privfit.solvers.drawn import drawn_towards
from privfit.solvers.geometry import DAMPING, STRETCH, Frame, Marginals, farthest
from privfit.solvers.shrinkage import likelier_mean

SMALLEST_SPREAD = 1.2
"""Squared norm, relative to its mean, below which no row is weighted down."""

_SPREAD_OF_ODDS, _SPREAD_OF_COUNTS = 4.0, 0.5
"""Believable variances of the linear predictors of a binary response or a class, and of a count."""

_LEAST_CURVATURE = 0.02
"""Smallest mean curvature, relative to its bound, that steps are made for."""

_NEAR, _GROWS = 0.5, 1.5
"""Change of linear predictors up to which the curvature is taken for even, and by how much it may grow."""

_STRIDE, _MOST_STRIDES = 0.75, 12
"""In which a longer change is looked along."""

_LEAST_EVEN = 0.1
"""Smallest eigenvalue, relative to the mean, of a model of the Hessian."""


@dataclass(frozen=True, eq=False)
class HessianModel:
    """The Hessian at any point in the whitened coordinates of ``frame``, from released quantities alone.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    frame : Frame
    marginals : Marginals
    smallest : float
        Smallest curvature, relative to the mean one, that the model may claim.

    Notes
    -----
    That of `privfit.solvers.curvature.model_hessian` for binary responses, counts and classes; a multiple
    of the identity for losses of residuals, whose errors are taken for normal with the variance that the
    predictors leave of the response's. A heuristic: it decides where gradients are asked and in which
    coordinates, not what the reported estimate and its covariance are.
    """

    problem: Problem
    frame: Frame
    marginals: Marginals
    smallest: float = _LEAST_EVEN

    @cached_property
    def start(self) -> FloatArray:
        """The constant predictor, shape (q,)."""
        theta = self.marginals.start(self.problem)
        phi, n = theta.copy(), self.problem.n_linear
        rows = theta[:n].reshape(-1, self.problem.n_coef)
        phi[:n] = np.linalg.solve(self.frame.basis, rows.T).T.ravel()
        return phi

    @property
    def energy(self) -> float:
        """Variance of the linear predictor that is believable."""
        loss = self.problem.loss
        if loss.target_kind == "numeric":
            return self.marginals.response.sd**2
        return _SPREAD_OF_COUNTS if loss.target_kind == "count" else _SPREAD_OF_ODDS * loss.n_outputs

    def at(self, phi: FloatArray) -> FloatArray:
        """Return the Hessian of the coefficients at ``phi`` (q,), without the ridge, (n_linear, n_linear)."""
        return self._at(phi.tobytes())

    @kept
    def _at(self, values: bytes) -> FloatArray:
        """Return it at a parameter by its bytes: steps, rows that are steep and matrices ask for the same."""
        loss, n, phi = self.problem.loss, self.problem.n_linear, np.frombuffer(values)
        if loss.target_kind == "numeric":
            return self._usual_curvature(phi) * np.eye(n)
        curvatures = partial(curvatures_along, loss, least=_LEAST_CURVATURE)
        rows = phi[:n].reshape(-1, self.problem.n_coef)
        found = model_hessian(curvatures, rows, self.frame.center, smallest=self.smallest)
        return self.marginals.counting * found

    @cached_property
    def alike(self) -> FloatArray:
        """What turns coefficients that are alike for all that is known into those of the frame, (p, p).

        Those of numbers per standard deviation, and effects of levels; less of them along directions that
        noise hides in the second moment.
        """
        frame, first = self.frame, int(self.problem.has_intercept)
        alike, others = np.eye(len(frame.basis)), (slice(first, None), slice(first, None))
        alike[others] = np.linalg.solve(frame.basis[others], self.marginals.alike(self.problem)[others])
        alike[first:] *= math.sqrt((len(alike) - first) / max(float(np.sum(alike[first:] ** 2)), 1e-12))
        return frame.seen @ alike

    def as_seen(self, phi: FloatArray) -> FloatArray:
        """Return the Hessian at ``phi`` (q,), for losses of residuals with the second moment that is seen.

        Along directions that noise hides whitened rows are shorter than 1 in root mean square, and the
        curvature is less. Taken for 1, it would make steps too short to arrive. Where nothing is declared of
        the columns it is, as rare levels are longer than what is seen of them.
        """
        if self.problem.loss.target_kind != "numeric" or not self.problem.indicators:
            return self.at(phi)
        roots, vectors = np.linalg.eigh(self.frame.seen)
        curvature = self._usual_curvature(phi) * np.maximum(roots**2, self.smallest)
        return (vectors * curvature) @ vectors.T

    def shrunk(self, away: FloatArray, noise: FloatArray, alike: FloatArray) -> FloatArray:
        """Return the posterior mean of coefficients less the constant predictor's, (n_linear,).

        Parameters
        ----------
        away : array of shape (n_linear,)
            With noise.
        noise : array of shape (n_linear, n_linear)
            Its covariance.
        alike : array of shape (p, p)
            What turns coefficients that are alike for all that is known into those of the frame. Where the
            estimate contradicts that, coefficients of the frame are taken to be alike, as far as it is seen.
        """
        contrasts = self.problem.loss.contrasts
        return likelier_mean(
            away, noise, contrasts, energy=self.energy, alike=alike, otherwise=self.frame.seen
        )

    def whitening(self, phi: FloatArray) -> FloatArray:
        """Return ``T`` (p, p) such that the Hessian at ``phi`` is about a multiple of I for ``T'z``.

        With several predictors that is so for the mean of their blocks.
        """
        p = self.problem.n_coef
        blocks = self.at(phi).reshape(-1, p, self.problem.loss.n_outputs, p)
        mean = np.mean([blocks[k, :, k] for k in range(len(blocks))], axis=0)
        values, vectors = np.linalg.eigh(mean)
        usual = float(np.mean(values))
        return (vectors * np.sqrt(usual / np.maximum(values, self.smallest * usual))) @ vectors.T

    def dispersion(self, phi: FloatArray) -> float:
        """Return about how many times the Hessian the mean squared gradient at ``phi`` (q,) is, or 0."""
        curvature, score = typical(self.problem.loss, residual=self._residual(phi))
        return score / curvature if curvature > 0.0 else 0.0

    @cached_property
    def _curvature_in_scales(self) -> float:
        """Mean curvature times the scale of a loss that has one, at residuals of that scale."""
        return typical_curvature(self.problem.loss, residual=1.0)

    def _usual_curvature(self, phi: FloatArray) -> float:
        """Return the mean curvature of a loss of residuals, over all rows."""
        loss, counting = self.problem.loss, self.marginals.counting
        if loss.has_scale:
            return counting * self._curvature_in_scales / float(phi[-1])
        curvature = typical_curvature(loss, residual=self._residual(phi))
        return counting * max(curvature, _LEAST_CURVATURE * loss.constants.curvature)

    def _residual(self, phi: FloatArray) -> float:
        """Return the residual standard deviation; the scale where there is one."""
        if self.problem.loss.has_scale:
            return float(phi[-1])
        spread = self.marginals.response.sd
        _, explained = predictor_moments(self.frame, phi[: self.problem.n_coef])
        return math.sqrt(max(spread**2 - explained, 0.05 * spread**2))


def predictor_moments(frame: Frame, point: FloatArray) -> tuple[float, float]:
    """Return the mean and the variance of the linear predictor of a point (p,), by what a frame tells."""
    mean, constant = float(frame.center @ point), float(frame.center @ frame.center)
    square = float(point @ point)
    return mean, max(square - mean**2 / constant, 0.0) if constant > 0.0 else square


def noise_of_bound(problem: Problem, mu: float) -> float:
    """Return what each standard deviation of a bound adds to a standard error, relative to that of sampling.

    Noise in a mean gradient does, with signal ``mu``, by a bound on slopes and rows up to `norm_limit`.
    """
    return 2.0 * math.sqrt(SMALLEST_SPREAD * problem.n_coef / problem.n_rows) / mu


def norm_limit(problem: Problem) -> float:
    """Return the norm that rows are weighted down beyond; coordinates are scaled to what that shall mean."""
    return math.sqrt(SMALLEST_SPREAD * problem.n_coef)


def limited(problem: Problem, basis: FloatArray | None, *, stretch: float = STRETCH) -> Problem:
    """Return the problem in coordinates in which rows are bounded by `norm_limit`."""
    limit = norm_limit(problem)
    return problem.bounded_by(limit, limit * stretch, basis)


@dataclass(frozen=True, eq=False)
class View:
    """Coordinates ``T'z`` of the whitened rows, in which rows are bounded by `norm_limit`.

    Parameters
    ----------
    model : HessianModel
    turn : array of shape (p, p)
        ``T``, invertible.
    steep : SteepRows, optional
        By what rows are weighted down further.
    full : float
        Norm up to which rows count in full, over that of usual rows; ``inf`` if no row seems to be beyond.
    """

    model: HessianModel
    turn: FloatArray
    steep: SteepRows | None = None
    full: float = math.inf

    @classmethod
    def within(cls, model: HessianModel, turn: FloatArray, bound: float) -> "View":
        """Return the multiple of ``T'z`` in which rows of norm ``bound`` are at the limit."""
        return cls(model, turn * (norm_limit(model.problem) / bound))

    @cached_property
    def problem(self) -> Problem:
        """The problem in these coordinates."""
        problem = limited(self.model.problem, self.model.frame.basis @ self.turn)
        return problem if self.steep is None else replace(problem, steep=self.steep)

    @property
    def dimension(self) -> float:
        """The expected squared norm of a row."""
        return self.model.frame.dimension * float(np.mean(np.sum(self.turn**2, axis=0)))

    @property
    def possible(self) -> float:
        """About how long rows that noise hides can be, by declared bounds; 0 without."""
        if not self.model.problem.bounded:
            return 0.0
        extreme = farthest(self.model.problem, self.model.marginals, self.model.frame.basis @ self.turn)
        return math.hypot(extreme, math.sqrt(max(self.dimension - 1.0, 0.0)))

    @cached_property
    def each(self) -> FloatArray:
        """``T`` for each linear predictor, shape (n_linear, n_linear)."""
        return self.model.problem.each_output(self.turn)

    def inwards(self, phi: FloatArray) -> FloatArray:
        """Return a parameter in whitened coordinates in these, shape (q,)."""
        n, found = self.each.shape[0], phi.copy()
        found[:n] = np.linalg.solve(self.each, phi[:n])
        return found

    def outwards(self, phi: FloatArray) -> FloatArray:
        """Return a parameter in these coordinates in whitened ones, shape (q,)."""
        n, found = self.each.shape[0], phi.copy()
        found[:n] = self.each @ phi[:n]
        return found

    def hessian(self, phi: FloatArray) -> FloatArray:
        """Return the model's Hessian at ``phi`` in these coordinates, ridge included, shape (q, q)."""
        n, q, loss = self.problem.n_linear, self.problem.size, self.problem.loss
        whole = np.zeros((q, q))
        whole[:n, :n] = self.expected(phi)
        if loss.has_scale:
            whole[-1, -1] = self.model.marginals.counting * loss.constants.scale_curvature / phi[-1]
        return whole + self.problem.ridge

    def expected(self, phi: FloatArray) -> FloatArray:
        """Return that of the coefficients alone, without the ridge, shape (n_linear, n_linear)."""
        return self.each.T @ self.model.at(self.outwards(phi)) @ self.each

    def length(self, at: FloatArray, step: FloatArray) -> float:
        """Return what part of a Newton step to take: less than 1 where the curvature grows on the way.

        With that at its start a step goes too far: from a mean of 1 to one of 10 a log mean would move by 9.
        It ends where the model's curvature, added up on the way by the midpoint rule, has used up the
        gradient; and where it has changed linear predictors by 9.
        """
        loss = self.model.problem.loss
        if loss.target_kind == "numeric":
            return 1.0
        along = step[: len(self.each)]
        distance = float(np.linalg.norm(self.each @ along))
        if distance <= _NEAR:
            return 1.0
        left = float(along @ self.expected(at) @ along)
        if loss.constants.curvature * distance**2 <= _GROWS * left:
            return 1.0
        part = 1.0 / math.ceil(distance / _STRIDE)
        ends = np.arange(1, _MOST_STRIDES + 1) * part
        for end in ends[ends < 1.0 + 0.5 * part]:
            used = part * float(along @ self.expected(at + (end - 0.5 * part) * step) @ along)
            if used >= left:
                return float(end) - part * (1.0 - left / used)
            left -= used
        return min(float(ends[-1]), 1.0)

    @property
    def bend(self) -> FloatArray | None:
        """What `Solution.bend` is; None with several predictors or a scale.

        The predictors of rows change by about the length of a difference in whitened coordinates.
        """
        bend = self.model.problem.loss.bend
        return None if bend == 0.0 or self.problem.size > self.problem.n_coef else bend * self.turn

    def moments(self) -> Moments:
        """Return those of the rows in these coordinates: 1 where whitened, with what was added for noise."""
        root = self.model.frame.seen @ self.turn
        second = root.T @ root
        return Moments(second, (self.turn.T @ self.turn - second) / DAMPING)

    def drawn(self, release: Release) -> FloatArray:
        """Return a released Hessian, drawn towards the model's as far as noise hides them, shape (q, q).

        Its eigenvalues are positive, ridge included.
        """
        n, scale = self.problem.n_linear, self.problem.split(release.at)[1]
        value, sd = release.value / scale, release.sd / scale
        if sd == 0.0:
            return value + self.problem.ridge
        model = self.expected(release.at)
        drawn = drawn_towards(model, value, sd)
        values, vectors = np.linalg.eigh(drawn.matrix)
        left = noise_norm(math.sqrt(float(np.mean(np.diag(drawn.left)))), n) * float(np.mean(np.diag(model)))
        kept = raised_eigenvalues(values, 0.5 * left)
        return (vectors * kept) @ vectors.T + self.problem.ridge
