"""Descent whose estimates are shrunk by empirical Bayes at every step; the default without inference."""

import math
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, final

import numpy as np

from privfit._checks import FloatArray, in_range, positive, whole
from privfit.losses.base import AbstractLoss
from privfit.losses.typical import curvatures_along, typical
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.problem.schedule import growing_shares, planned_release, signal_of
from privfit.solvers.base import AbstractSolver, Solution, keep_scale_positive, precision_average
from privfit.solvers.curvature import model_hessian
from privfit.solvers.geometry import STRETCH, Frame, Marginals, squared_length, standardised, whitened
from privfit.solvers.requirements import need_convex, need_smooth
from privfit.solvers.shrinkage import posterior_mean
from privfit.solvers.sizes import LEAST_UNCUT, best_cut
from privfit.solvers.whitened import SMALLEST_SPREAD

_SATURATION = 225.0
"""``n mu**2 / d`` from which on rows are weighted down less, as noise is small beside the sampling error."""

_SPREAD_OF_ODDS = 4.0
"""Believable variance of the linear predictor of a binary response or a count."""

_SIZE_SHARE = 0.015
"""Part of the squared budget that buys a look at the lengths of rows, or the sizes of gradients."""

_MOMENTUM = 0.7
"""Part of the last move that a step starts further on (Nesterov 2004, section 2.2)."""

_FALLBACK = 0.35
"""Size at which gradients are cut where noise hides the sizes, relative to that of the largest slope."""

_LEAST_CURVATURE = 0.02
"""Smallest mean curvature, relative to its bound, that steps are made for."""

_MOST_STEPS = 100
"""For losses whose curvature bound is far from what is typical."""


@final
@dataclass(frozen=True, slots=True)
class EmpiricalBayesDescent(AbstractSolver):
    """Noise-aware shrinkage at every step, in coordinates that released moments have whitened.

    Means and mean squares of the columns and the response are released first, then the lengths and the second
    moment of the standardised rows, then K bounded gradients. After every gradient all that is known is
    combined to an
    estimate whose noise is known, which is shrunk towards the constant predictor by empirical Bayes; the next
    gradient is asked for there. So noise in directions without signal is removed rather than followed.

    Made for prediction: the estimate has less error than an unshrunk one, but it is biased, and no standard
    errors follow from it. With inference it is the point that Newton steps start from.

    Parameters
    ----------
    n_steps : int, optional
        Default ``min(4.5 L, 6 + 2 L)`` with ``L = log(n mu / p)``, rounded, between 1 and 40: with little
        budget for many columns a few gradients say all that can be known. With a pure budget
        ``1 + L / 2``, at most 6.
    marginal_share, geometry_share : float
        Parts of the squared budget that buy the marginals and the second moment.
    growth : float
        Ratio of the squared budgets of the last and the first step.
    spread : float
        ``c**2 / d`` where privacy noise dominates: rows are weighted down beyond a norm of ``c`` in whitened
        coordinates, where ``d`` is their effective dimension. It grows with the budget.

    Notes
    -----
    *Guarantee.* That of the allowance, by composition of a vector, a histogram of lengths, a matrix and K
    vectors, and of two histograms of sizes where residuals are cut. Every later query depends on the rows
    through its bounded
    terms alone; coordinates, points and clips are functions of earlier releases.

    References
    ----------
    Künsch, Stefanski and Carroll 1989 for the bounded gradients; Stephens 2017 for the prior; Efron 2010,
    *Large-scale inference*, for empirical Bayes.
    """

    releases_a_point: ClassVar[bool] = True

    n_steps: int | None = None
    marginal_share: float = 0.05
    geometry_share: float = 0.14
    growth: float = 12.0
    spread: float = 0.5

    def __post_init__(self) -> None:
        if self.n_steps is not None:
            whole(n_steps=self.n_steps)
        in_range(0.0, 0.5, closed="neither", marginal_share=self.marginal_share)
        in_range(0.0, 0.5, closed="neither", geometry_share=self.geometry_share)
        positive(growth=self.growth)
        positive(spread=self.spread)

    @property
    def name(self) -> str:
        """Name."""
        return "empirical-Bayes descent"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan marginals, lengths, a second moment, looks at sizes of residuals, and a gradient a step."""
        need_smooth(problem, "EmpiricalBayesDescent")
        need_convex(problem, "EmpiricalBayesDescent")
        n_steps = self._steps(problem, allowance)
        steps = growing_shares(n_steps, self.growth ** (1.0 / max(n_steps - 1, 1)))
        looks = [_SIZE_SHARE] * min(n_steps, 2) if _cuts_residuals(problem) else []
        rest = 1.0 - self.marginal_share - self.geometry_share - _SIZE_SHARE - math.fsum(looks)
        fixed = [self.marginal_share, _SIZE_SHARE, self.geometry_share]
        shares = [*fixed, *looks, *(part * rest for part in steps)]
        for_marginals, for_lengths, for_moment, *parts = allowance.split(shares)
        final = whitened(problem, None)
        return (
            planned_release(problem, "marginals", for_marginals),
            planned_release(final, "lengths", for_lengths),
            planned_release(standardised(problem, None), "second_moment", for_moment),
            *(planned_release(final, "sizes", part) for part in parts[: len(looks)]),
            *(planned_release(final, "bounded_gradient", part) for part in parts[len(looks) :]),
        )

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem in whitened coordinates with Mallows weights, in which inference goes on."""
        del releases
        return _weighted(problem, None)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Release the geometry, then take the planned steps."""
        start = np.array(problem.start)
        marginals = Marginals.of(problem, oracle.release("marginals", start))
        standard, unit = marginals.standardising(problem), float(problem.n_coef)
        oracle.change_basis(whitened(problem, standard / math.sqrt(unit)))
        size = squared_length(oracle.release("lengths", start), unit)
        oracle.change_basis(standardised(problem, standard / math.sqrt(size)))
        moment = oracle.release("second_moment", start)
        frame = Frame.of(problem, standard, moment, marginals=marginals, size=size)
        signal = signal_of(oracle.plan.solver_releases, problem.size)
        bound = self._relative_bound(problem, frame, min(signal, 1e12))
        final = _weighted(problem, frame.basis)
        descent = _Descent(problem, final, oracle, frame, marginals, bound)
        parameter = descent.run()
        if oracle.remaining("meat"):
            oracle.change_basis(final)
        return Solution(final, parameter, (), (), "point")

    def _relative_bound(self, problem: Problem, frame: Frame, mu: float) -> float:
        """Return ``c**2 / d``: rows are weighted down beyond the norm ``c``."""
        relative = problem.n_rows * mu**2 / (frame.dimension * _SATURATION)
        return min(self.spread * max(relative, 1.0) ** (2.0 / 3.0), problem.n_rows / frame.dimension)

    def _steps(self, problem: Problem, allowance: Allowance) -> int:
        if self.n_steps is not None:
            return self.n_steps
        log = self._log_signal(problem, allowance.signal(problem.size))
        if allowance.pure:  # every step costs a part of epsilon, not of its square
            return int(np.clip(round(1.0 + 0.5 * log), 1, 6))
        usual = int(np.clip(round(min(4.5 * log, 6.0 + 2.0 * log)), 1, 40))
        return min(math.ceil(usual * problem.loss.slack[1]), max(usual, _MOST_STEPS))

    def _log_signal(self, problem: Problem, mu: float) -> float:
        return math.log(max(problem.n_rows * min(mu, 1e12) / problem.n_linear, 1.0))


def _cuts_residuals(problem: Problem) -> bool:
    return problem.loss.symmetric and not problem.loss.has_scale


def _weighted(problem: Problem, basis: FloatArray | None) -> Problem:
    bound = math.sqrt(SMALLEST_SPREAD * problem.n_coef)
    return replace(problem.bounded_by(bound, STRETCH * bound), basis=basis)


@dataclass(frozen=True, slots=True, eq=False)
class _Seen:
    """A released gradient in whitened coordinates, the ridge's included, and the sd of its noise."""

    at: FloatArray
    gradient: FloatArray
    sd: float


@dataclass(slots=True, eq=False)
class _Descent:
    """The steps of one fit from the encoded ``problem``; ``final`` is that in whitened coordinates.

    All that it holds is released.
    """

    problem: Problem
    final: Problem
    oracle: Oracle
    frame: Frame
    marginals: Marginals
    relative_bound: float
    uncut: float = 1.0
    seen: list[_Seen] = field(default_factory=list)

    def run(self) -> FloatArray:
        """Take the planned steps and return the parameter in whitened coordinates."""
        base = self._whitened(self.marginals.start(self.problem))
        phi = previous = base
        unit, total = 1.0, self.oracle.remaining("bounded_gradient")
        for step in range(total):
            if step == 0 or (step == total // 2 and _cuts_residuals(self.problem)):
                unit = self._change_unit(phi)
            self._ask(self._extrapolated(phi, previous), unit)
            previous, phi = phi, self._combined(base, phi)
        return phi

    def _whitened(self, theta: FloatArray) -> FloatArray:
        phi = theta.copy()
        n = self.problem.n_linear
        rows = theta[:n].reshape(-1, self.problem.n_coef)
        phi[:n] = np.linalg.solve(self.frame.basis, rows.T).T.ravel()
        return phi

    def _residual(self, phi: FloatArray) -> float:
        """Return the residual scale that is left of a numeric response's at ``phi``."""
        if self.problem.loss.has_scale:
            return float(phi[-1])
        p, center, spread = self.problem.n_coef, self.frame.center, self.marginals.response.sd
        constant = center @ center
        explained = phi[:p] @ phi[:p] - ((phi[:p] @ center) ** 2 / constant if constant > 0 else 0.0)
        return math.sqrt(max(spread**2 - explained, 0.05 * spread**2))

    def _change_unit(self, phi: FloatArray) -> float:
        """Go to coordinates in which terms have norm at most 1, and return how long these units are."""
        bound = math.sqrt(self.relative_bound * self.frame.dimension) * self.problem.loss.constants.slope
        if _cuts_residuals(self.problem):
            bound = self._size_bound(phi, bound)
        self.oracle.change_basis(whitened(self.problem, self.frame.basis / bound))
        return 1.0 / bound

    def _size_bound(self, phi: FloatArray, fallback: float) -> float:
        """Return the size at which gradients are cut, and take note of the part of rows that are not."""
        self.oracle.change_basis(whitened(self.problem, self.frame.basis))
        cut = best_cut(
            self.oracle.release("sizes", phi),
            noise=self._noise_to_come,
            dimension=self.frame.dimension,
            n_rows=self.problem.n_rows,
        )
        self.uncut = LEAST_UNCUT if cut is None else cut.uncut
        return fallback * _FALLBACK if cut is None else cut.size * self.problem.loss.constants.slope

    def _extrapolated(self, phi: FloatArray, previous: FloatArray) -> FloatArray:
        """Go on beyond ``phi``, away from ``previous``, where steps are those of a bound on the curvature."""
        point = phi.copy()
        if _cuts_residuals(self.problem):
            p = self.problem.n_coef
            point[:p] += _MOMENTUM * (phi[:p] - previous[:p])
        return point

    def _ask(self, phi: FloatArray, unit: float) -> None:
        n = self.problem.n_linear
        at = phi.copy()
        at[:n] /= unit
        release = self.oracle.release("bounded_gradient", at)
        gradient = release.value.copy()
        gradient[:n] /= unit
        gradient[:n] += self._ridge @ phi[:n]
        self.seen.append(_Seen(phi, gradient, release.planned.sd / unit))

    @property
    def _noise_to_come(self) -> float:
        """Return the sd of the noise in the last gradients combined, in units of the cut."""
        planned = [one.sd for one in self.oracle.plan.solver_releases if one.kind == "bounded_gradient"]
        late = np.array(planned[len(planned) // 2 :])
        return 0.0 if late.min() == 0.0 else float(1.0 / math.sqrt(np.sum(1.0 / late**2)))

    @property
    def _energy(self) -> float:
        """Return the variance of the linear predictor that is believable."""
        numeric = self.problem.loss.target_kind == "numeric"
        return self.marginals.response.sd**2 if numeric else _SPREAD_OF_ODDS * self.problem.loss.n_outputs

    @property
    def _ridge(self) -> FloatArray:
        """Second derivative of the ridge in whitened coordinates, shape (n_linear, n_linear)."""
        n = self.problem.n_linear
        return self.final.ridge[:n, :n]

    def _combined(self, base: FloatArray, previous: FloatArray) -> FloatArray:
        """Return the shrunk estimate that the later half of the gradients gives."""
        late = self.seen[len(self.seen) // 2 :]
        at, gradient, sd = precision_average(
            [one.at for one in late], [one.gradient for one in late], [one.sd for one in late]
        )
        n, loss = self.problem.n_linear, self.problem.loss
        inverse = np.linalg.inv(self._hessian(at))
        raw = at[:n] - inverse @ gradient[:n] - base[:n]
        phi = at.copy()
        if sd > 0:
            raw = posterior_mean(raw, sd**2 * inverse @ inverse, loss.contrasts, energy=self._energy)
        phi[:n] = base[:n] + raw
        if loss.has_scale:
            phi[-1] -= gradient[-1] * at[-1] / loss.constants.scale_curvature
        return keep_scale_positive(self.problem, phi, previous)

    def _hessian(self, phi: FloatArray) -> FloatArray:
        """Return a Hessian at ``phi`` from released quantities, shape (n_linear, n_linear)."""
        p, loss = self.problem.n_coef, self.problem.loss
        if loss.target_kind == "numeric":
            usual = _usual_curvature(loss, self._residual(phi))
            return usual * self.uncut * np.eye(p) + self._ridge
        curvatures = partial(curvatures_along, loss, least=_LEAST_CURVATURE)
        rows = phi[: self.problem.n_linear].reshape(-1, p)
        return model_hessian(curvatures, rows, self.frame.center) + self._ridge


def _usual_curvature(loss: AbstractLoss, residual: float) -> float:
    """Return the curvature of a loss of residuals on this scale."""
    if loss.has_scale:
        return typical(loss, residual=1.0)[0] / residual
    return max(typical(loss, residual=residual)[0], _LEAST_CURVATURE * loss.constants.curvature)
