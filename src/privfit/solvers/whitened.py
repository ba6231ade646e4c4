"""Noisy descent in coordinates whitened by private moments; the default with inference."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np

from privfit._checks import MOST_RELEASES, FloatArray, in_range, optional, positive, whole
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease, Release
from privfit.problem.schedule import held_to, planned_release, planned_releases, signal_of
from privfit.solvers.base import (
    AbstractSolver,
    MatrixShares,
    Solution,
    Step,
    floored_inverse,
    keep_scale_positive,
    precision_average,
    take_step,
)
from privfit.solvers.counts import count_looks, held_to_counts, look_share, moment_share
from privfit.solvers.course import Course, Matrices, usual_growth
from privfit.solvers.far_levels import Levels, at_bounds, led_to_levels
from privfit.solvers.geometry import planned_geometry, released_geometry
from privfit.solvers.hessian_model import SMALLEST_SPREAD, HessianModel, View, limited, norm_limit
from privfit.solvers.looks import led_by_residuals, look_shares, put_right
from privfit.solvers.matrix_shares import matrix_shares
from privfit.solvers.norms import longest_hidden, longest_norm, outliers, room_for
from privfit.solvers.requirements import need_convex, need_smooth
from privfit.solvers.residual_bounds import widest
from privfit.solvers.row_bound import generosity, least_norm, signal_of_bread, squared_bound, whole_norm
from privfit.solvers.secant import corrected, steepness
from privfit.solvers.slack import slack_at
from privfit.solvers.steep_rows import steep_rows_held
from privfit.solvers.widths import has_widths, narrowed_to, narrowest

_MOMENT_NOISE = 0.05
"""Spectral norm of the noise in the second moment, in variances of a standardised column, up to which no row
is weighted down in it."""

_ROOM_FOR_UNSEEN = 2.75
"""How many times the longest norm that noise shows rows with declared bounds may have and count in full."""


@final
@dataclass(frozen=True, slots=True)
class WhitenedGradientDescent(AbstractSolver):
    """Gradients in coordinates in which the columns have unit variance and no correlation.

    Means and mean squares of the columns and the response, and one second moment of the standardised rows,
    give whitened coordinates ``z = P'x``, ``P ~ S^(-1/2)``, the constant predictor to start from, and a
    model of the Hessian. In these coordinates rows get Mallows weights ``min(1, c**2 / norm(z)**2)``. That
    bounds the gradient by ``c`` with few rows weighted down, gives the noise the shape of the problem, and
    resolves the bread with little budget. How long rows are is looked at too, so that ``c`` need not be
    larger than the longest.

    The first half of the gradients only lead the way. After each of them the later ones are combined to an
    estimate whose noise is known, and the next is asked for where that estimate, shrunk as far as noise hides
    it, leads. Then rows are turned so that the Hessian there is even: along strong signals, where a logit's
    Hessian is small, rows become longer, and noise counts less; and rows that are steep whatever their
    response are weighted down, see `privfit.problem.steep.SteepRows`. Then a Hessian is released, drawn
    towards the model as far as noise hides the difference, and the second half of the gradients is asked for
    where Newton steps with it lead, without shrinkage; what gradients say of it on the way, beyond noise,
    corrects it. So they arrive even where the model is wrong. Inference takes one Newton step from them all.

    With enough rows a random sample of them leads the way, and matrices come from another one, as large as
    noise asks; the last gradients ask all rows. If a bread follows they go by the model, and `far_levels`.

    Parameters
    ----------
    n_steps : int, optional
        All of them ask all rows. By default ``2 log(n mu / p)``, rounded, between 6 and 30; with enough rows
        six steps that ask a random sample of them, and four more, see `privfit.solvers.course.Course`.
    marginal_share, geometry_share, norm_share, count_share, residual_share, hessian_share : float
        Parts of the squared budget that buy the marginals, the second moment (by default 0.10, for counts
        0.07), the looks at the norms, the look at how large counts are, where the response is one (by default
        0.01 to 0.05, by rows and budget), the looks at residuals by which a quantile's smoothing or the bound
        of least squares is chosen (by default 0.03, for a bound up to 0.2), and the Hessian of the last
        steps, where one is asked for.
    spread : float, optional
        ``c**2 / p``. By default ``c`` is as long as the longest rows that can be seen, but no longer than
        noise allows, see `privfit.solvers.row_bound`. Where a schema bounds the rows ``c`` is longer than
        those rows where bounds let others be so: as long as a usual row with one number at its declared
        bound, but no longer than the longest is likely to be, and up to 2.75 times as long.
    growth : float, optional
        The squared budgets of K steps grow by its K-th root a step. Default ``n mu / 10`` within 36 and 250,
        and 36 for a loss with a scale, which the first steps have to find. With 250 the last has 100 (6
        steps) to 208 times (30 steps) that of the first. Without effect where a sample leads the way.

    Notes
    -----
    *Guarantee.* mu-GDP by composition of marginals, one or two matrices, two to six histograms and K
    gradients. Bases, and what part of the rows is sampled, are functions of earlier releases; the Mallows
    weights bound every row in them, so all sensitivities are known beforehand. See `Oracle.sample` for
    samples, and `Oracle.change_loss` for bounds on counts and residuals that looks at them lower, and for
    smoothing that is narrowed.

    The estimate is an M-estimator with weights that are fixed given the released basis. For a correctly
    specified model it estimates the same coefficients as the unweighted one.

    References
    ----------
    Mallows 1975, *On some topics in robustness*, for the weights; Kamath, Li, Singhal and Ullman 2019,
    *Privately learning high-dimensional distributions*, for private preconditioning; Brillinger 1982 for the
    model of the Hessian; Stephens 2017 for where gradients are asked.
    """

    n_steps: int | None = None
    marginal_share: float = 0.02
    geometry_share: float | None = None
    norm_share: float = 0.02
    count_share: float | None = None
    residual_share: float | None = None
    hessian_share: float = 0.04
    spread: float | None = None
    growth: float | None = None

    sums_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(whole, 1, MOST_RELEASES, n_steps=self.n_steps)
        for part in ("marginal", "geometry", "norm", "count", "residual", "hessian"):
            name = f"{part}_share"
            optional(in_range, 0.0, 0.3, closed="neither", **{name: getattr(self, name)})
        optional(positive, spread=self.spread)
        optional(positive, growth=self.growth)

    @property
    def name(self) -> str:
        """Name."""
        return "whitened gradient descent"

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan a look at counts, marginals, looks at norms, a second moment, a Hessian, and gradients."""
        need_smooth(problem, "WhitenedGradientDescent")
        need_convex(problem, "WhitenedGradientDescent")
        signal = allowance.signal(problem.size)
        course = self._courses(problem, signal)[0]
        counts = count_looks(problem, self.count_share or look_share(problem, signal))
        residuals = look_shares(problem, signal, self.residual_share)
        fixed = [
            *counts.values(),
            self.marginal_share,
            self.geometry_share or moment_share(problem),
            *[self.norm_share / course.looks] * course.looks,
        ]
        hessians = [] if course.samples and allowance.beside else [self.hessian_share]
        fixed += [*residuals, *hessians]
        rest = 1.0 - math.fsum(fixed)
        parts = iter(allowance.split([*fixed, *(part * rest for part in course.shares)]))
        for_counts = [next(parts) for _ in counts]
        for_marginals, for_moment, for_norms, *others = parts
        for_looks, others = others[: course.looks - 1], others[course.looks - 1 :]
        for_residuals, others = others[: len(residuals)], others[len(residuals) :]
        for_hessians, for_steps = others[: len(hessians)], others[len(hessians) :]
        final = self.final_problem(problem, ())
        return (
            *planned_releases(problem, counts, for_counts),
            *planned_geometry(
                problem, for_marginals=for_marginals, for_norms=for_norms, for_moment=for_moment
            ),
            *(planned_release(final, "norms", part) for part in for_looks),
            *(planned_release(final, "residuals", part) for part in for_residuals),
            *(planned_release(final, "hessian", part) for part in for_hessians),
            *(planned_release(final, "gradient", part) for part in for_steps),
        )

    def final_problem(self, problem: Problem, releases: tuple[PlannedRelease, ...]) -> Problem:
        """Return the problem with the bound that holds in the final coordinates, scaled to suit it."""
        del releases
        return narrowest(widest(limited(problem, None)))

    def matrix_shares(self, problem: Problem, allowance: Allowance) -> MatrixShares:
        """Return as much as shows the bread clearly, and suits the noise that there is beside the meat."""
        return matrix_shares(self.final_problem(problem, ()), allowance)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Release the geometry, then the gradients."""
        signal = signal_of(oracle.plan.solver_releases, problem.size)
        courses = self._courses(problem, signal)
        planned = oracle.remaining("gradient"), oracle.remaining("norms")
        course = next(one for one in courses if (len(one.shares), one.looks) == planned)
        problem = held_to_counts(problem, oracle)
        problem, marginals, frame = released_geometry(
            problem, oracle, part_of=course.leading_part, moment_noise=_MOMENT_NOISE
        )
        problem, marginals = led_by_residuals(problem, oracle, marginals, frame, marginals.counting * signal)
        return _Descent(self, oracle, course, HessianModel(problem, frame, marginals)).run()

    def _courses(self, problem: Problem, mu: float) -> tuple[Course, Course]:
        """Return the course that suits, and the other one: roundings of ``mu`` may have it planned."""
        even = Course.even(self._steps(problem, mu), self.growth or usual_growth(problem, mu))
        sampled = Course.sampled(problem, mu)
        suits = self.n_steps is None and sampled.leading_part(0.0) < 1.0
        return (sampled, even) if suits else (even, sampled)

    def _steps(self, problem: Problem, mu: float) -> int:
        if self.n_steps is not None:
            return self.n_steps
        signal = problem.n_rows * min(mu, 1e12) / problem.n_linear
        return min(max(round(2.0 * math.log(max(signal, 1.0))), 6), 30)


@dataclass(frozen=True, slots=True, eq=False)
class _Led:
    """Where late gradients lead, (q,); the inverse Hessian that led there, (q, q); sd of their noise."""

    to: FloatArray
    inverse: FloatArray
    sd: float


@dataclass(frozen=True, slots=True, eq=False)
class _Descent:
    """The gradients of one fit."""

    solver: WhitenedGradientDescent
    oracle: Oracle
    course: Course
    model: HessianModel

    @property
    def problem(self) -> Problem:
        """The problem in encoded coordinates."""
        return self.model.problem

    def run(self) -> Solution:
        """Ask for the planned gradients, the later ones in the metric of the model of the Hessian."""
        even = np.eye(self.problem.n_coef)
        start = self._tight(even) if self.course.samples else self._sized(even, self.model.start)
        steps, point, led = self._lead(start, len(self.course.leading))
        self.oracle.sample(1.0)
        problem, point = put_right(self.problem, self.oracle, self.model.frame, point, self._signal, led=led)
        turn, descent = self.model.whitening(point), self._with(problem)
        return descent._narrowed(turn, point)._end(steps, turn, point)

    def _end(self, steps: list[Step], turn: FloatArray, point: FloatArray) -> Solution:
        """Take the last steps along rows ``turn' z`` from a point in whitened coordinates."""
        view = self._sized(turn, point)
        at = view.inwards(point)
        view = steep_rows_held(view, at, self.oracle)
        part = self._matrix_part(view, at)
        later, led = self._arrive(view, at, part)
        last = (*steps, *later)[-2 * self.course.n_late :]
        about = self.model.dispersion(self._shrunk(view, led)), view.bend, view.expected(led.to)
        ends = at_bounds(self.model)
        known = {"moments": view.moments, "full": view.full}
        return Solution(view.problem, led.to, last, (), "one-step", part, *about, ends, **known)

    def _narrowed(self, turn: FloatArray, point: FloatArray) -> "_Descent":
        """Go on with a width of smoothing that suits the residuals at a point in whitened coordinates."""
        if not has_widths(self.problem):
            return self
        view = View.within(self.model, turn, 1.0)
        self.oracle.change_basis(view.problem)
        return self._with(narrowed_to(self.problem, self.oracle, view.inwards(point), self._signal))

    def _with(self, problem: Problem) -> "_Descent":
        return self if problem is self.problem else replace(self, model=replace(self.model, problem=problem))

    @property
    def _signal(self) -> float:
        """Signal of the solver's budget, where noise is as much larger as rows count for less."""
        return self.model.marginals.counting * signal_of(self.oracle.plan.solver_releases, self.problem.size)

    def _lead(self, view: View, count: int) -> tuple[list[Step], FloatArray, FloatArray]:
        """Take the first steps, each from the last estimate shrunk as far as noise hides it.

        Return them, and the last estimate in whitened coordinates, shrunk and as it is.
        """
        self.oracle.change_basis(view.problem)
        steps: list[Step] = []
        point = far = self.model.start
        unasked = np.zeros((self.problem.size, self.problem.size))
        for _ in range(count):
            steps.append(take_step(view.problem, self.oracle, view.inwards(point), unasked))
            led = _led(view, steps, view.hessian)
            point, far = self._shrunk(view, led), view.outwards(led.to)
        return steps, point, far

    def _arrive(self, view: View, at: FloatArray, part: float) -> tuple[list[Step], _Led]:
        """Take the last steps from ``at``, by a Hessian there; all in the view's coordinates."""
        self.oracle.change_basis(view.problem)
        released, levels = self._hessian(view, at, part), Levels.of(self.model)
        hessian = view.hessian(at) if released is None else released
        inverse = floored_inverse(hessian, 0.0)
        steps: list[Step] = []
        led = _Led(at, inverse, 0.0)
        for _ in self.course.arriving:
            steps.append(take_step(view.problem, self.oracle, led.to, inverse))
            hessian = corrected(hessian, *steps[-2:]) if len(steps) > 1 else hessian
            led = _led(view, steps, lambda _, seen=hessian: seen, secants=steps)
            if released is None and levels is not None:
                led = replace(led, to=led_to_levels(levels, view, steps, led.to))
        return steps, led

    def _hessian(self, view: View, at: FloatArray, part: float) -> FloatArray | None:
        """Return a released Hessian of a part of the rows for the last steps, or None if none was planned."""
        if all(release.kind != "hessian" for release in self.oracle.plan.solver_releases):
            return None
        self.oracle.sample(part)
        released = self.oracle.release("hessian", at)
        self.oracle.sample(1.0)
        return view.drawn(released)

    def _shrunk(self, view: View, led: _Led) -> FloatArray:
        """Return the posterior mean, in whitened coordinates, of where late gradients lead."""
        phi, n = view.outwards(led.to), self.problem.n_linear
        if led.sd > 0.0:
            base, spread = self.model.start[:n], led.sd * view.each @ led.inverse[:n]
            phi[:n] = base + self.model.shrunk(phi[:n] - base, spread @ spread.T, self.model.frame.seen)
        return phi

    def _matrix_part(self, view: View, at: FloatArray) -> float:
        """Return the part of the rows that Hessians and the meat may be found from."""
        if not self.course.samples:
            return 1.0
        n, planned = self.problem.n_linear, self.oracle.plan.releases
        bread = float(np.mean(np.diag(view.hessian(at))[:n]))
        bread_noise = (
            held_to(one, view.problem.sensitivity("hessian")).sd for one in planned if one.kind == "hessian"
        )
        expected = Matrices(
            squared_norm=norm_limit(self.problem) ** 2 / float(np.mean(np.sum(view.turn**2, axis=0))),
            bread=bread,
            meat=bread * self.model.dispersion(view.outwards(at)),
            bread_noise=min(bread_noise),
            meat_noise=max((release.sd for release in planned if release.kind == "meat"), default=0.0),
            size=n,
        )
        return expected.part(self.problem.n_rows)

    def _tight(self, turn: FloatArray) -> View:
        """Return coordinates in which rows longer than the mean are weighted down: noise is least there.

        It keeps long rows, along which little is known, from being led far away.
        """
        return View.within(self.model, turn, math.sqrt(View(self.model, turn).dimension))

    def _sized(self, turn: FloatArray, about: FloatArray) -> View:
        """Look at the norms of the rows ``turn' z`` and return coordinates along them, in a unit to suit."""
        even = View(self.model, turn)
        usual = 0.5 * math.sqrt(even.dimension)
        self.oracle.change_basis(View.within(self.model, turn, usual).problem)
        norms = self.oracle.release("norms", np.array(self.problem.start))
        limit, whole = self._limits(even, about, norms, usual)
        full = 0.5 * limit / usual if limit < whole else math.inf
        return replace(View.within(self.model, turn, limit), full=full)

    def _limits(self, even: View, about: FloatArray, norms: Release, usual: float) -> tuple[float, float]:
        """Return the norm beyond which rows of a view are weighted down, and one that none is beyond."""
        dimension = even.dimension
        longest, (far, share) = usual * longest_norm(norms), outliers(norms)
        hidden = usual * longest_hidden(norms, self.problem.n_rows)
        unseen = min(_ROOM_FOR_UNSEEN * longest, hidden, even.possible)
        room, least = room_for(usual * far, share, dimension), math.sqrt(SMALLEST_SPREAD * dimension)
        whole = whole_norm(self.problem, least, longest=longest, unseen=unseen, room=room)
        if self.solver.spread is not None:
            return math.sqrt(self.solver.spread * self.problem.n_coef), whole
        least = least_norm(self.problem, whole, least, self._signal)
        return max(min(self._allowed(dimension, room, about), whole), least), whole

    def _allowed(self, dimension: float, room: float, about: FloatArray) -> float:
        """Return the largest norm that noise allows, with room for levels and residuals about a point."""
        of_slope, of_curvature = slack_at(self.problem.loss, self.model.marginals.response)
        slack = of_slope, of_curvature, generosity(self.model, about, of_slope)
        bread = signal_of_bread(self.oracle.plan, self._signal, self.model.marginals.counting)
        return math.sqrt(
            squared_bound(self.problem, dimension, room, signal=self._signal, bread=bread, slack=slack)
        )


def _led(
    view: View,
    steps: list[Step],
    hessian_at: Callable[[FloatArray], FloatArray],
    secants: list[Step] | None = None,
) -> _Led:
    """Return where a Newton step from the later half of the steps leads, the Hessian as steep as they say.

    ``secants`` say how steep it is, the later half by default.
    """
    late, n = [step.seen for step in steps[len(steps) // 2 :]], view.problem.n_linear
    mean = precision_average(late)
    hessian = hessian_at(mean.at)
    root = np.ones(len(hessian))  # from both sides, or with a scale the matrix would not stay positive
    looked = late if secants is None else [step.seen for step in secants]
    root[:n] = math.sqrt(steepness(hessian[:n, :n], looked))
    inverse = floored_inverse(root[:, None] * hessian * root, 0.0)
    step = -inverse @ mean.gradient
    part = view.length(mean.at, step)
    to = keep_scale_positive(view.problem, mean.at + part * step, mean.at)
    return _Led(to, part * inverse, mean.sd)
