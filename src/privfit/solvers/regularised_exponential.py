"""The regularised exponential mechanism."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from privfit._checks import SIZES, in_range, optional
from privfit.errors import Incompatible
from privfit.privacy.allowance import Allowance
from privfit.problem.objective import Problem
from privfit.problem.oracle import Oracle
from privfit.problem.plan import PlannedRelease
from privfit.procedures.regularised_draw import (
    RegularisedBallDraw,
    RegularisedGaussianDraw,
    largest_mean_curvature,
)
from privfit.procedures.score import lattice_margin
from privfit.solvers.base import AbstractSolver, Solution
from privfit.solvers.exponential import MOST_COLUMNS, default_radius
from privfit.solvers.requirements import (
    need_convex,
    need_gaussian,
    need_no_scale,
    need_one_predictor,
    need_proven,
    need_smooth,
)

LEAST_ACCEPTANCE = 1e-3
"""Smallest public bound on the acceptance of a Gaussian proposal that is not refused."""


@final
@dataclass(frozen=True, slots=True)
class RegularisedExponentialMechanism(AbstractSolver):
    """Draw the answer with density proportional to ``exp(-k (objective + strength * norm(theta)**2 / 2))``.

    In up to 6 columns the draw is from a ball. With more it is from the whole space, by Gaussian proposals,
    and refused where public bounds say that these would hardly ever be accepted.

    Parameters
    ----------
    strength : float, optional
        Weight of the regulariser, the intercept included. Default: what balances the bounds on its bias and
        on the noise for a solution of norm ``radius``. With more than 6 columns that is mostly too little for
        proposals to be accepted; the refusal names what is enough.
    radius : float, optional
        Public guess of the norm of the solution in encoded coordinates, and the feasible ball in up to 6
        columns. Defaults as in `ExponentialMechanism`.

    Notes
    -----
    *Guarantee.* mu-GDP with ``mu = s sqrt(k / strength)``, s the sensitivity of the mean gradient:
    ``2 G / n`` where a row is replaced (Gopi, Lee and Liu 2022, Theorem 4.1). The expected excess of the
    regularised objective is at most ``p / k``.

    References
    ----------
    Gopi, Lee and Liu 2022, *Private convex optimization via exponential mechanism*.
    """

    strength: float | None = None
    radius: float | None = None

    releases_a_point: ClassVar[bool] = True

    def __post_init__(self) -> None:
        optional(in_range, *SIZES, strength=self.strength)
        optional(in_range, *SIZES, radius=self.radius)

    @property
    def name(self) -> str:
        """Name with the strength."""
        return "regularised exponential mechanism" + (
            "" if self.strength is None else f", strength {self.strength:g}"
        )

    def plan(self, problem: Problem, allowance: Allowance) -> tuple[PlannedRelease, ...]:
        """Plan one draw."""
        method = "the regularised exponential mechanism"
        need_gaussian(allowance, method)
        need_no_scale(problem, method)
        need_one_predictor(problem, method)
        need_convex(problem, method)
        need_proven(problem, method)
        if math.isinf(allowance.amount):
            raise Incompatible(f"solver: {method} has no version without noise; use NonPrivate()")
        procedure = self._procedure(problem, allowance.amount)
        if isinstance(procedure, RegularisedBallDraw):
            if procedure.mu < 1e3 * lattice_margin(problem.size, procedure.bits(problem)):
                raise Incompatible("budget: mu is too small against the rounding of a draw; raise it")
        else:
            need_smooth(problem, f"{method} in more than {MOST_COLUMNS} columns")
            _need_acceptance(problem, procedure)
            _need_exactness(problem, procedure)
        return (procedure.planned(problem),)

    def run(self, problem: Problem, oracle: Oracle) -> Solution:
        """Carry out the planned draw."""
        procedure = self._procedure(problem, oracle.plan.solver_releases[0].mu)
        drawn = oracle.carry_out(procedure, np.zeros(problem.size))
        return Solution.of_point(problem, drawn.value)

    def _procedure(self, problem: Problem, mu: float) -> RegularisedBallDraw | RegularisedGaussianDraw:
        radius = self.radius or default_radius(problem)
        balanced = math.sqrt(2.0 * problem.size) * problem.sensitivity("gradient") / (mu * radius)
        strength = self.strength or balanced
        if problem.n_coef <= MOST_COLUMNS:
            return RegularisedBallDraw(mu, strength, radius)
        return RegularisedGaussianDraw(mu, strength)


def _need_acceptance(problem: Problem, procedure: RegularisedGaussianDraw) -> None:
    """Refuse where a draw would take very long, by a bound from public facts alone."""
    if procedure.acceptance(problem) >= LEAST_ACCEPTANCE:
        return
    enough = largest_mean_curvature(problem) / math.expm1(-2.0 * math.log(LEAST_ACCEPTANCE) / problem.size)
    raise Incompatible(
        f"solver: with strength={procedure.strength:.3g} in {problem.size} columns, a proposal of the "
        f"regularised exponential mechanism may be accepted less than once in {1 / LEAST_ACCEPTANCE:.0f} "
        f"times; give strength= at least {math.nextafter(enough, math.inf) * 1.001:.4g}, at most "
        f"{MOST_COLUMNS} columns, or use OutputPerturbation() or solver='auto'"
    )


def _need_exactness(problem: Problem, procedure: RegularisedGaussianDraw) -> None:
    """Refuse where the rounding of the exponent is not small, by a bound from public facts alone."""
    rounding = procedure.rounding(problem)
    if procedure.mu >= 1e3 * rounding.mu and rounding.below <= 1.0:
        return
    raise Incompatible(
        f"solver: with {problem.n_rows} rows and mu={procedure.mu:.3g}, the rounding of an exponent of the "
        f"regularised exponential mechanism in more than {MOST_COLUMNS} columns is not small enough for its "
        "guarantee; use OutputPerturbation() or solver='auto'"
    )
