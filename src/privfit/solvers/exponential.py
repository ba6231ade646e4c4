"""The exponential mechanism."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import SIZES, FloatArray, finite_numbers, in_range, optional
from privfit.errors import Incompatible, InvalidArgument
from privfit.losses.score import AbstractScore
from privfit.privacy.allowance import Allowance
from privfit.privacy.composition import PureEvent, compose
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.procedures.exponential_candidates import ExponentialSelection
from privfit.procedures.exponential_draw import ExponentialDraw
from privfit.procedures.score import LossScore, lattice_margin
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.requirements import (
    need_compiled,
    need_convex,
    need_no_scale,
    need_one_predictor,
    need_proven,
)

MOST_COLUMNS = 6
"""Columns up to which a draw from a ball takes seconds, not hours; see ``docs/solvers/exponential.md``."""

_NUMERIC_RADIUS, _BINARY_RADIUS = 2.0, 4.0


@final
@dataclass(frozen=True, slots=True)
class ExponentialMechanism(AbstractSolver):
    """Draw the answer itself, with density proportional to ``exp(-rate * objective)``. Pure privacy.

    In up to 6 columns the draw is from a ball, by exact rejection sampling; over public ``candidates`` it
    is an exact selection, in any dimension.

    Parameters
    ----------
    radius : float, optional
        Of the feasible ball in encoded coordinates. A public guess of how large the coefficients can be: the
        noise grows with it. Default: 4 for binary responses, and for others 1 for the intercept alone, within
        declared bounds, else 2.
    candidates : array of shape (m, p), optional
        Public points in encoded coordinates, one of which is selected, instead of the ball.
    score : AbstractScore, optional
        With candidates: what to compare them by, e.g. ``losses.ZeroOne()``. Default: the loss.

    Notes
    -----
    *Guarantee.* epsilon-differentially private (McSherry and Talwar 2007, Theorem 6), with
    ``rate = epsilon / (2 D)`` under ``replace`` and ``epsilon / D`` under ``add_remove``, D the range of
    a row's loss on the feasible set, which every row is held to. Under an (epsilon, delta) budget the largest
    epsilon is used that fits into the budget beside the releases for inference.

    References
    ----------
    McSherry and Talwar 2007, *Mechanism design via differential privacy*; Bassily, Smith and Thakurta 2014,
    *Private empirical risk minimization*, section 3.
    """

    radius: float | None = None
    candidates: Sequence[Sequence[float]] | FloatArray | None = None
    score: AbstractScore | None = None

    releases_a_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(in_range, *SIZES, radius=self.radius)
        if self.score is not None and not isinstance(self.score, AbstractScore):
            raise InvalidArgument("score must be an instance of AbstractScore, e.g. losses.ZeroOne()")
        if self.candidates is None:
            if self.score is not None:
                raise InvalidArgument("score needs candidates: only these can be compared by any score")
            return
        if self.radius is not None:
            raise InvalidArgument("radius and candidates exclude each other: give one feasible set")
        object.__setattr__(self, "candidates", _as_points(self.candidates))

    @property
    def name(self) -> str:
        """Name with the feasible set."""
        if self.candidates is not None:
            by = "" if self.score is None else f" by {self.score.name}"
            return f"exponential mechanism, {len(self.candidates)} candidates{by}"
        return "exponential mechanism" + ("" if self.radius is None else f", radius {self.radius:g}")

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one draw."""
        need_no_scale(problem, "the exponential mechanism")
        need_one_predictor(problem, "the exponential mechanism")
        if math.isinf(allowance.amount):
            raise Incompatible(
                "solver: the exponential mechanism draws at random and has no version without noise; "
                "use NonPrivate()"
            )
        self._check_set(problem)
        if self.candidates is not None and allowance.beside:
            raise Incompatible(
                "inference: a candidate need not be near the minimum, which intervals start from; "
                "fit with inference=False, or leave out candidates"
            )
        epsilon = largest_epsilon(allowance)
        procedure = self._procedure(problem, epsilon)
        if isinstance(procedure, ExponentialDraw):
            _need_margin(problem, procedure)
        return (procedure.planned(problem),)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Carry out the planned draw."""
        planned = oracle.plan.solver_releases[0]
        procedure = self._procedure(problem, planned.epsilon or 0.0)
        drawn = oracle.carry_out(procedure, np.zeros(problem.size))
        return Solution.of_point(problem, drawn.value)

    def expected_excess(self, problem: Problem, allowance: Allowance, *, level: float | None = None) -> float:
        """Return a bound on the objective at the answer, above its minimum on the feasible set.

        Parameters
        ----------
        problem : Problem
        allowance : Allowance
        level : float, optional
            A bound that holds with this probability, in (0, 1), instead of one on the expectation.

        Returns
        -------
        float
            In the unit of the mean loss. It holds for every table.

        Notes
        -----
        With ``kappa = rate * n``, the expectation is at most ``p / kappa`` on a convex set and
        ``log(m) / kappa`` for m candidates; the excess exceeds t with probability at most
        ``(kappa t / p)**p exp(p - kappa t)`` for ``kappa t > p``, and ``m exp(-kappa t)``. Proofs in
        ``docs/solvers/exponential.md``. With the range ``2 G R`` of a G-Lipschitz loss on a ball of radius R
        the first is ``4 p G R / (epsilon n)``: Bassily, Smith and Thakurta (2014), Theorem 3.2, without the
        logarithm.
        """
        optional(in_range, 0.0, 1.0, closed="neither", level=level)
        planned = self.plan(problem, allowance)[0]
        if planned.epsilon is None:
            raise Incompatible("allowance: a bound on the excess needs a finite budget")
        procedure = self._procedure(problem, planned.epsilon)
        if isinstance(procedure, ExponentialDraw):
            kappa = procedure.rate(problem) * problem.n_rows
            return (problem.size if level is None else _gamma_tail(problem.size, 1.0 - level)) / kappa
        kappa = planned.epsilon / planned.sensitivity
        return (math.log(len(procedure.candidates)) - (0.0 if level is None else math.log1p(-level))) / kappa

    def _procedure(self, problem: Problem, epsilon: float) -> ExponentialSelection | ExponentialDraw:
        if self.candidates is not None:
            points = tuple(tuple(map(float, point)) for point in self.candidates)
            return ExponentialSelection(epsilon, points, self.score or LossScore(problem.loss))
        return ExponentialDraw(epsilon, self.radius or default_radius(problem))

    def _check_set(self, problem: Problem) -> None:
        p = problem.n_coef
        if self.candidates is not None:
            if self.score is None:
                need_compiled(problem, "the exponential mechanism")
            if len(self.candidates[0]) != p:
                raise InvalidArgument(
                    f"candidates must have one number per encoded column ({p}, the intercept first), "
                    f"got {len(self.candidates[0])}"
                )
            if self.score is not None and self.score.target_kind != problem.loss.target_kind:
                raise Incompatible(
                    f"score: {self.score.name} compares predictions of a {self.score.target_kind} response, "
                    f"and that of {problem.loss.name} is {problem.loss.target_kind}"
                )
            return
        need_convex(problem, "the exponential mechanism on a ball (candidates= takes any loss)")
        need_proven(problem, "the exponential mechanism on a ball (candidates= takes any loss)")
        if p > MOST_COLUMNS:
            raise Incompatible(
                f"solver: the exponential mechanism on a ball is drawn exactly in up to {MOST_COLUMNS} "
                f"encoded columns, and there are {p}; give candidates=, or use "
                "RegularisedExponentialMechanism(strength=...), OutputPerturbation() or solver='auto'"
            )


def default_radius(problem: Problem) -> float:
    """Return the radius of the feasible ball where none is given."""
    if problem.loss.target_kind == "binary":
        return _BINARY_RADIUS
    alone = problem.n_coef == 1 and problem.bounded and not problem.penalised[0]
    return 1.0 if alone else _NUMERIC_RADIUS


def largest_epsilon(allowance: Allowance) -> float:
    """Return the largest epsilon, to 1 %, of a pure release that fits into the allowance.

    A Gaussian allowance is a part of a budget that has to pay for other releases too: the epsilon is the
    largest that the whole budget has room for beside them.

    Notes
    -----
    *Guarantee.* ``compose([PureEvent(epsilon), *beside]).within(budget)`` literally.
    """
    if allowance.pure:
        return allowance.amount
    budget = allowance.budget
    if budget is None:
        raise Incompatible("allowance: a pure release beside others needs a declared budget")

    def fits(epsilon: float) -> bool:
        return compose([PureEvent(epsilon), *allowance.beside]).within(budget)

    low = allowance.amount
    while not fits(low):
        low *= 0.8
        if low < 1e-9:
            raise Incompatible("budget: it has no room for a pure release beside the inference; raise it")
    high = low * 1.25
    while fits(high):
        low, high = high, 1.25 * high
    while high > 1.01 * low:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _gamma_tail(size: int, failure: float) -> float:
    """Return x > size with ``(x / size)**size exp(size - x) <= failure``."""
    target = -math.log(failure)
    low, high = float(size), size + target + math.sqrt(2.0 * size * target) + 1.0
    for _ in range(100):
        middle = 0.5 * (low + high)
        bound = middle - size - size * math.log(middle / size)
        low, high = (low, middle) if bound >= target else (middle, high)
    return high


def _need_margin(problem: Problem, procedure: ExponentialDraw) -> None:
    margin = lattice_margin(problem.size, procedure.bits(problem))
    if procedure.epsilon < 100.0 * margin:
        raise Incompatible(
            f"budget: epsilon={procedure.epsilon:.3g} is too small against the rounding of a draw; raise it"
        )


def _as_points(candidates: object) -> tuple[tuple[float, ...], ...]:
    points = finite_numbers(candidates)
    if points is None or points.ndim != 2 or points.size == 0 or np.abs(points).max() > SIZES[1]:
        raise InvalidArgument(
            "candidates must be a finite array of shape (m, p), with m and p at least 1 and no number beyond "
            f"{SIZES[1]:g}"
        )
    if not points.any():
        raise InvalidArgument("candidates must not all be 0: there is nothing to choose")
    return tuple(tuple(point) for point in points.tolist())
