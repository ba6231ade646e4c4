"""Descent whose estimates are shrunk by empirical Bayes at every step; the default without inference."""

import math
from dataclasses import dataclass, field, replace
from typing import ClassVar, final

import numpy as np

from privfit._checks import MOST_RELEASES, FloatArray, in_range, optional, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, ReleaseKind
from privfit.problem.schedule import growing_shares, planned_release, planned_releases, signal_of
from privfit.solvers.base import (
    AbstractSolver,
    Seen,
    Solution,
    keep_scale_positive,
    precision_average,
    with_loss,
)
from privfit.solvers.combination import OFF, OFF_WHERE_CURVED, combined, later_half
from privfit.solvers.counts import count_looks, held_to_counts, share_to_see
from privfit.solvers.curvature import SMALLEST_PART
from privfit.solvers.geometry import ROOM, Marginals, planned_geometry, released_geometry, whitened
from privfit.solvers.hessian_model import HessianModel, limited
from privfit.solvers.looks import median_shares
from privfit.solvers.norms import best_limit
from privfit.solvers.requirements import need_convex, need_smooth, need_unpenalised
from privfit.solvers.residual_bounds import WHOLE, has_bound, led_to_median, widest
from privfit.solvers.secant import steepness
from privfit.solvers.sizes import LEAST_UNCUT, Sizes
from privfit.solvers.widths import has_widths, led_by_quantile, narrowed_to, narrowest

_SATURATION, _CLEAR = 160.0, 4.0
"""``n mu**2 / d`` from which on rows are weighted down less, as noise is small beside the sampling error, and
how many times as much it is where a look at the norms of whitened rows pays."""

_LEAST_SIGNAL, _SHORTER = 1e-3, 0.1
"""Signal down to which the bound on rows falls, and by which power of it: few directions stand out there."""

_LOOK_SHARE = 0.015
"""Part of the squared budget that buys a look at norms of rows, sizes of gradients, or how those lean."""

_EASY, _LEAST_EASED = 0.01, 0.2
"""``p**1.5 / (n mu)`` below which geometry takes less of the budget in proportion, as its noise is small, and
the least part of its usual shares."""

_MOMENTUM = 0.7
"""Part of the last move that a step starts further on (Nesterov 2004, section 2.2)."""

_STRIDE = 0.5
"""How far a step may move log means: their curvature grows so fast that a longer one may lead far away."""

_FALLBACK = 0.35
"""Size at which gradients are cut where noise hides the sizes, relative to that of the largest slope."""

_LEADING = 0.25
"""Part of the usual squared lean that counts where cut gradients only lead the way."""

_STEPS_WITH_CUTS, _MOST_STEPS = 28, 100
"""Steps where residuals are cut, as these converge slowly, unless there is hardly any budget, and the most of
them, for losses whose curvature bound is far from what is typical."""


@final
@dataclass(frozen=True, slots=True)
class EmpiricalBayesDescent(AbstractSolver):
    """Noise-aware shrinkage at every step, in coordinates that released moments have whitened.

    Means and mean squares of the columns and the response are released first, then the norms and the second
    moment of the standardised rows, then K bounded gradients. After every gradient all that is known is
    combined to an estimate whose noise is known, which is shrunk towards the constant predictor by empirical
    Bayes; the next gradient is asked for there. So noise in directions without signal is not followed.

    Made for prediction: the estimate has less error than an unshrunk one, but it is biased, and no standard
    errors follow from it. With inference it is the point that Newton steps start from.

    Parameters
    ----------
    n_steps : int, optional
        Default ``min(4.5 L, 6 + 2 L)`` with ``L = log(n mu / p)``, rounded, between 1 and 40, or ``min(9 L,
        max(6 + 2 L, 28))`` where residuals are cut, times the loss's ``slack`` of curvatures, up to 100: with
        little budget a few gradients say all that can be known. With a pure budget ``1 + L / 2``, at most 6.
    marginal_share, geometry_share : float
        Parts of the squared budget that buy the marginals and the second moment; less where the budget is
        large for the number of columns.
    growth : float
        Ratio of the squared budgets of the last and the first step.
    spread : float
        ``c**2 / d`` at a middling budget, with which it grows: rows are weighted down beyond a norm of ``c``
        in whitened coordinates, where ``d`` is their effective dimension.

    Notes
    -----
    *Guarantee.* That of the allowance, by composition of a vector, one or two histograms of norms, a matrix
    and K vectors, and of two histograms of sizes, two of residuals and a vector more, or two of residuals,
    where these are cut or smoothed, or one of counts and one of exposures. Later queries depend on rows by
    their bounded terms alone; coordinates, points, clips, widths and bounds are functions of releases before.

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
    spread: float = 0.4

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(whole, 1, MOST_RELEASES, n_steps=self.n_steps)
        in_range(0.0, 0.5, closed="neither", marginal_share=self.marginal_share)
        in_range(0.0, 0.5, closed="neither", geometry_share=self.geometry_share)
        positive(growth=self.growth)
        positive(spread=self.spread)

    @property
    def name(self) -> str:
        """Name."""
        return "empirical-Bayes descent"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan looks at counts, norms and sizes, marginals, a second moment, and gradients."""
        need_smooth(problem, "EmpiricalBayesDescent")
        need_convex(problem, "EmpiricalBayesDescent")
        n_steps = self._steps(problem, allowance)
        look, count = _planned_looks(problem, allowance, n_steps)
        looks, signal = [_LOOK_SHARE] * count, min(allowance.signal(problem.size), 1e12)
        counts = count_looks(problem, share_to_see(problem, signal))
        leans = [_LOOK_SHARE] if _looks_at_lean(problem, n_steps) else []
        eased = _eased(problem, allowance)
        geometry = [eased * self.marginal_share, _LOOK_SHARE, eased * self.geometry_share]
        room = 1.0 - math.fsum([*counts.values(), *geometry, *looks, *leans])
        medians = median_shares(problem, signal, room)
        fixed, rest = [*counts.values(), *medians, *geometry], room - math.fsum(medians)
        steps = [part * rest for part in growing_shares(n_steps, self.growth ** (1.0 / max(n_steps - 1, 1)))]
        steps[n_steps // 2 : n_steps // 2] = leans
        left = iter(allowance.split([*fixed, *looks, *steps]))
        for_counts, for_medians = [next(left) for _ in counts], [next(left) for _ in medians]
        for_marginals, for_norms, for_moment, *parts = left
        final = whitened(problem, None)
        return (
            *planned_releases(problem, counts, for_counts),
            *planned_geometry(
                problem, for_marginals=for_marginals, for_norms=for_norms, for_moment=for_moment
            ),
            *(planned_release(final, "residuals", part) for part in for_medians),
            *(planned_release(final, look, part) for part in parts[: len(looks)]),
            *(planned_release(final, "bounded_gradient", part) for part in parts[len(looks) :]),
        )

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem in whitened coordinates with Mallows weights, in which inference goes on."""
        del releases
        need_unpenalised(problem, "EmpiricalBayesDescent")
        return narrowest(limited(problem, None))

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Release the geometry, then take the planned steps."""
        problem = held_to_counts(problem, oracle)
        problem, marginals, frame = released_geometry(problem, oracle, basis_of=Marginals.level_coding)
        problem, marginals = led_by_quantile(problem, oracle, marginals, frame)
        marginals = led_to_median(problem, oracle, marginals, frame)
        signal = marginals.counting * signal_of(oracle.plan.solver_releases, problem.size)
        bound = self._relative_bound(problem, frame.dimension, min(signal, 1e12))
        wide = with_loss(problem, oracle, widest(problem).loss)
        model = HessianModel(wide, frame, marginals, smallest=SMALLEST_PART)
        descent = _Descent(oracle, model, bound, signal)
        parameter = descent.run()
        final = with_loss(descent.final, oracle, problem.loss) if has_bound(problem) else descent.final
        if oracle.remaining("meat"):
            oracle.change_basis(final)
        return Solution.of_point(final, parameter)

    def _relative_bound(self, problem: Problem, dimension: float, mu: float) -> float:
        """Return ``c**2 / d``."""
        relative = max(_relative_signal(problem, dimension, mu), _LEAST_SIGNAL)
        power = 2.0 / 3.0 if relative > 1.0 else _SHORTER
        return min(self.spread * relative**power, problem.n_rows / dimension)

    def _steps(self, problem: Problem, allowance: Allowance) -> int:
        if self.n_steps is not None:
            return self.n_steps
        signal = problem.n_rows * min(allowance.signal(problem.size), 1e12)
        log = math.log(max(signal / problem.n_linear, 1.0))
        if allowance.pure:  # every step costs a part of epsilon, not of its square
            return int(np.clip(round(1.0 + 0.5 * log), 1, 6))
        fast, slow = 4.5 * log, 6.0 + 2.0 * log
        if _cuts_residuals(problem):
            fast, slow = 2.0 * fast, max(slow, _STEPS_WITH_CUTS)
        usual = int(np.clip(round(min(fast, slow)), 1, 40))
        return min(math.ceil(usual * problem.loss.slack[1]), max(usual, _MOST_STEPS))


def _cuts_residuals(problem: Problem) -> bool:
    return problem.loss.symmetric and not problem.loss.has_scale


def _looks_at_residuals(problem: Problem) -> bool:
    return _cuts_residuals(problem) or has_widths(problem)


def _looks_at_lean(problem: Problem, n_steps: int) -> bool:
    return _cuts_residuals(problem) and n_steps > 1


def _relative_signal(problem: Problem, dimension: float, mu: float) -> float:
    return problem.n_rows * min(mu, 1e12) ** 2 / (dimension * _SATURATION)


def _planned_looks(problem: Problem, allowance: Allowance, n_steps: int) -> tuple[ReleaseKind, int]:
    """Return at what whitened rows are looked before gradients are asked, and how often."""
    if _looks_at_residuals(problem):
        return "residuals" if has_widths(problem) else "sizes", min(n_steps, 2)
    signal = _relative_signal(problem, problem.n_coef, allowance.signal(problem.size))
    return "norms", int(signal > _CLEAR)


def _eased(problem: Problem, allowance: Allowance) -> float:
    """Return the part of their usual shares that marginals and second moment get."""
    signal = problem.n_rows * min(allowance.signal(problem.size), 1e12)
    return float(np.clip(problem.n_coef**1.5 / (_EASY * signal), _LEAST_EASED, 1.0))


@dataclass(slots=True, eq=False)
class _Descent:
    """The steps of one fit. All that it holds is released."""

    oracle: Oracle
    model: HessianModel
    relative_bound: float
    signal: float
    uncut: float = 1.0
    seen: list[Seen] = field(default_factory=list)
    ridge: FloatArray = field(init=False)
    """Second derivative of the ridge in whitened coordinates, shape (n_linear, n_linear)."""

    def __post_init__(self) -> None:
        self.ridge = self.final.ridge[: self.problem.n_linear, : self.problem.n_linear]

    @property
    def problem(self) -> Problem:
        """The problem in encoded coordinates."""
        return self.model.problem

    @property
    def final(self) -> Problem:
        """The problem in whitened coordinates."""
        return limited(self.problem, self.model.frame.basis)

    def run(self) -> FloatArray:
        """Take the planned steps and return the parameter in whitened coordinates."""
        base = phi = previous = self.model.start
        unit, total = 1.0, len(self._planned)
        for step in range(total):
            if step == 0 or (step == total // 2 and _looks_at_residuals(self.problem)):
                if step > 0:
                    self._narrow(phi)
                unit = self._change_unit(phi)
            self.seen.append(self._released(self._extrapolated(phi, previous), unit, self.uncut))
            previous, phi = phi, self._combined(base, phi)
        return phi

    def _narrow(self, phi: FloatArray) -> None:
        """Go on with a width that suits the residuals, where the loss is one that is smoothed."""
        if has_widths(self.problem):
            self.oracle.change_basis(whitened(self.problem, self.model.frame.basis))
            problem = narrowed_to(self.problem, self.oracle, phi, self.signal)
            self.model = replace(self.model, problem=problem)

    def _change_unit(self, phi: FloatArray) -> float:
        """Go to coordinates in which terms have norm at most 1, and return how long these units are."""
        frame, slope = self.model.frame, self.problem.loss.constants.slope
        bound = math.sqrt(self.relative_bound * frame.dimension) * slope
        if _cuts_residuals(self.problem):
            bound = self._size_bound(phi, bound)
        elif self.oracle.remaining("norms"):
            bound = slope * self._norm_limit(phi, bound / slope)
        self.oracle.change_basis(whitened(self.problem, frame.basis / bound, slope=slope))
        return 1.0 / bound

    def _size_bound(self, phi: FloatArray, fallback: float) -> float:
        """Return the size at which gradients are cut, and take note of the part of rows that are not."""
        frame, slope = self.model.frame, self.problem.loss.constants.slope
        self.oracle.change_basis(whitened(self.problem, frame.basis))
        release = self.oracle.release("sizes", phi)
        sizes = Sizes.of(release, dimension=frame.dimension, n_rows=self.problem.n_rows)
        usual = _FALLBACK / (WHOLE if has_bound(self.problem) else 1.0)
        low = fallback * usual if sizes is None else sizes.median.size * slope
        found = self._cut_at(phi, low) if self.seen else None
        if sizes is None:
            self.uncut = LEAST_UNCUT
            return low
        lean = _LEADING * sizes.usual_lean if found is None else self._lean(sizes, found)
        cut = sizes.best_cut(self._noise_to_come, lean)
        self.uncut = cut.uncut
        return cut.size * slope

    def _cut_at(self, phi: FloatArray, size: float) -> Seen:
        """Ask for a gradient that is cut at a size."""
        slope = self.problem.loss.constants.slope
        self.oracle.change_basis(whitened(self.problem, self.model.frame.basis / size, slope=slope))
        return self._released(phi, 1.0 / size, 1.0)

    def _lean(self, sizes: Sizes, found: Seen) -> float:
        """Return how errors lean, from a gradient that is cut at the median size.

        It was asked where gradients that are cut further out are 0 but for their noise.
        """
        slope, uncut = self.problem.loss.constants.slope, sizes.median.uncut
        before = precision_average(self._late).sd
        distance = found.gradient[: self.problem.n_linear] / (slope * uncut)
        sd = math.hypot(found.sd / uncut, before) / slope
        return sizes.lean(float(distance @ distance), sd)

    def _norm_limit(self, phi: FloatArray, usual: float) -> float:
        """Return the norm beyond which rows are weighted down: the usual one, or less if rows are short."""
        self.oracle.change_basis(whitened(self.problem, self.model.frame.basis / usual))
        curvature = float(np.mean(np.diag(self.model.at(phi))))
        limit = best_limit(
            self.oracle.release("norms", phi),
            noise=self._noise_to_come,
            dimension=self.model.frame.dimension,
            n_rows=self.problem.n_rows,
            scatter=min(curvature / self.problem.loss.constants.slope**2, 1.0),  # equal for a likelihood
        )
        return usual if limit is None else usual * min(ROOM * limit, 1.0)

    @property
    def _noise_to_come(self) -> float:
        """Return the sd of the noise in the last gradients combined, in units of the cut."""
        planned = [one.sd for one in self._planned]
        late = np.array(planned[len(planned) // 2 :])
        return 0.0 if late.min() == 0.0 else float(1.0 / math.sqrt(np.sum(1.0 / late**2)))

    @property
    def _planned(self) -> list[PlannedRelease]:
        """The gradients that are steps: all but the one in their midst that shows how errors lean."""
        planned = [one for one in self.oracle.plan.solver_releases if one.kind == "bounded_gradient"]
        if _looks_at_lean(self.problem, len(planned) - 1):
            del planned[(len(planned) - 1) // 2]
        return planned

    @property
    def _counted(self) -> list[Seen]:
        """Gradients that the estimate is found from: all of them, unless the loss changes half-way."""
        return self._late if has_widths(self.problem) else self.seen

    @property
    def _late(self) -> list[Seen]:
        return later_half(self.seen)

    def _extrapolated(self, phi: FloatArray, previous: FloatArray) -> FloatArray:
        """Go on beyond ``phi``, away from ``previous``, where steps are those of a bound on the curvature."""
        point = phi.copy()
        if _cuts_residuals(self.problem):
            p = self.problem.n_coef
            point[:p] += _MOMENTUM * (phi[:p] - previous[:p])
        return point

    def _released(self, phi: FloatArray, unit: float, uncut: float) -> Seen:
        """Ask for a gradient where the oracle's coordinates have this unit and this part is not cut."""
        n = self.problem.n_linear
        at = phi.copy()
        at[:n] /= unit
        release = self.oracle.release("bounded_gradient", at)
        gradient = release.value.copy()
        gradient[:n] /= unit * uncut
        gradient[:n] += self.ridge @ phi[:n]
        return Seen(phi, gradient, release.sd / (unit * uncut))

    def _combined(self, base: FloatArray, previous: FloatArray) -> FloatArray:
        """Return the shrunk estimate that the gradients give."""
        n, loss = self.problem.n_linear, self.problem.loss
        off = OFF if loss.target_kind == "numeric" else OFF_WHERE_CURVED
        best = combined(self._counted, self._hessian(previous), about=previous, off=off)
        hessian = self._hessian(best.at)
        inverse = np.linalg.inv(steepness(hessian, self._late) * hessian)
        raw = best.at[:n] - inverse @ best.gradient[:n] - base[:n]
        if best.sd > 0:
            raw = self.model.shrunk(raw, best.sd**2 * inverse @ inverse, self.model.alike)
        phi = np.concatenate([base[:n] + raw, best.at[n:]])
        if loss.target_kind == "count":
            move = phi - previous
            phi = previous + min(_STRIDE / max(float(np.linalg.norm(move)), _STRIDE), 1.0) * move
        if loss.has_scale:
            phi[-1] -= best.gradient[-1] * best.at[-1] / loss.constants.scale_curvature
        return keep_scale_positive(self.problem, phi, previous)

    def _hessian(self, phi: FloatArray) -> FloatArray:
        """Return a Hessian at ``phi`` from released quantities, shape (n_linear, n_linear)."""
        return self.model.as_seen(phi) + self.ridge
