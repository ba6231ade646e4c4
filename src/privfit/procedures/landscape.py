"""Public bounds on a smooth convex objective with a ridge, and the objective itself on the rows."""

import math
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from privfit._checks import UNIT_ROUNDOFF, FloatArray
from privfit.errors import PlanViolation
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.problem.rows import Rows

_CROWD = {Relation.REPLACE: 1.0, Relation.ADD_REMOVE: 2.0}
"""Most rows, or units, over their public number: see `privfit.problem.queries.BoundedQuery`."""


def fully_penalised(problem: Problem, l2: float | None = None) -> Problem:
    """Return the problem with the ridge on every coefficient, the intercept included.

    Parameters
    ----------
    problem : Problem
    l2 : float, optional
        Ridge weight, if another one than the problem's.

    Notes
    -----
    Without a penalty on the intercept the objective is not strongly convex, whatever the weight.
    """
    weight = problem.l2 if l2 is None else l2
    return replace(problem, l2=weight, penalised=(True,) * problem.n_coef)


@final
@dataclass(frozen=True, slots=True)
class Landscape:
    """What is publicly known of ``F(w) = mean of the rows + (l2 |w|**2 + w'Pw) / 2 + tilt'w``.

    Parameters
    ----------
    size : int
        Number of coefficients.
    slope : float
        Bound on the norm of a row's gradient, ridge excluded.
    curvature : float
        Bound on the trace of a row's Hessian, ridge excluded. What is said of a row holds for the rows of a
        privacy unit together.
    l2 : float
        Second derivative of the ridge, the same in all directions.
    sensitivity : float
        How far the computed mean gradients of two neighbouring tables can be apart at one point, the
        rounding of their sums included.
    n_rows : int
    start : tuple of float
        Public point that every method starts from.
    tilt : float
        Bound on the norm of the linear term.
    penalty : float
        Bound on the largest eigenvalue of the positive semi-definite ``P``.
    stretch : float
        Bound on how much longer than in these coordinates rows and points may be, together, in those that
        predictors are computed in.
    directions : int
        In how many directions a row can have curvature: one for each predictor, and all for the rows of a
        unit together.
    relation : Relation
        Which tables are neighbours.
    crowd : float
        Bound on the number of rows, or units, over ``n_rows``.
    """

    size: int
    slope: float
    curvature: float
    l2: float
    sensitivity: float
    n_rows: int
    start: tuple[float, ...]
    tilt: float = 0.0
    penalty: float = 0.0
    stretch: float = 1.0
    directions: int = 1
    relation: Relation = Relation.REPLACE
    crowd: float = 1.0

    @classmethod
    def of(
        cls, problem: Problem, *, tilt: float = 0.0, penalty: float = 0.0, stretch: float = 1.0
    ) -> "Landscape":
        """Return the bounds on a problem, with its ridge on every coefficient."""
        if problem.loss.has_scale:
            raise PlanViolation("a minimiser is released without a scale")
        if problem.basis is not None and stretch == 1.0:
            raise PlanViolation("in other coordinates than the encoded ones rounding needs their stretch")
        return cls(
            size=problem.size,
            slope=problem.gradient_bound,
            curvature=problem.loss.trace * problem.norm_bound**2,
            l2=problem.l2,
            sensitivity=problem.sensitivity("gradient"),
            n_rows=problem.n_rows,
            start=problem.start,
            tilt=tilt,
            penalty=penalty,
            stretch=stretch,
            directions=problem.loss.n_outputs if problem.unit is None else problem.size,
            relation=problem.relation,
            crowd=_CROWD[problem.relation],
        )

    @property
    def steepest(self) -> float:
        """Largest norm of the mean gradient of the rows."""
        return self.crowd * self.slope

    @property
    def smoothness(self) -> float:
        """Largest eigenvalue of the Hessian, ridges included."""
        return self.crowd * self.curvature + self.penalty + self.l2

    @property
    def longest_step(self) -> float:
        """``2 / (l2 + smoothness)``: up to it a gradient step contracts distances by ``1 - step * l2``."""
        return 2.0 / (self.crowd * self.curvature + self.penalty + 2.0 * self.l2)

    @property
    def reach(self) -> float:
        """Bound on the distance from the start to the minimiser; ``inf`` without a ridge."""
        pull = self.steepest + self.tilt + (self.l2 + self.penalty) * math.hypot(*self.start)
        return pull / self.l2 if self.l2 > 0 else math.inf

    def rounding(self, radius: float) -> float:
        """Return how far a computed mean gradient can be off within ``radius`` of the origin.

        The sum is off by its share of ``sensitivity``. A predictor is off by a relative ``size * 2**-53`` of
        ``norm(x) * radius`` in any order of its terms (Higham 2002, section 3.1), which a row's curvature
        turns into a slope; a slope function is taken to be accurate to 64 units of its bound.
        """
        exact = self.relation.vector_sensitivity(self.slope) / self.n_rows
        summed = 0.5 * max(0.0, self.sensitivity - exact)
        predictor = 1.01 * (self.size + 4) * self.crowd * self.curvature * self.stretch * radius
        if self.stretch > 1.0:  # the point is turned first
            predictor *= 2.0
        ridges = 8.0 * self.l2 + 2.0 * (self.size + 4) * self.penalty
        rest = 64.0 * self.steepest + ridges * radius + 8.0 * self.tilt
        return (summed + UNIT_ROUNDOFF * (predictor + rest)) * (1.0 + 1e-9)

    def update_rounding(self, radius: float, step_size: float) -> float:
        """Return how far one step, projection included, can end from where exact arithmetic would."""
        length = step_size * (self.steepest + self.tilt + (self.l2 + self.penalty) * radius)
        return 16.0 * (1.0 + self.size * UNIT_ROUNDOFF) * UNIT_ROUNDOFF * (radius + length)


@final
class Objective:
    """Exact, secret derivatives of a ridged objective with a linear term.

    Parameters
    ----------
    problem : Problem
        With its ridge on every coefficient.
    rows : Rows
    tilt : array of shape (size,), optional
        Linear term.
    ridge : array of shape (size, size), optional
        Second derivative of a further ridge.
    """

    __slots__ = ("_problem", "_ridge", "_rows", "_tilt")

    def __init__(
        self, problem: Problem, rows: Rows, tilt: FloatArray | None = None, ridge: FloatArray | None = None
    ) -> None:
        self._problem, self._rows = problem, rows
        self._tilt = np.zeros(problem.size) if tilt is None else tilt
        self._ridge = np.zeros((problem.size, problem.size)) if ridge is None else ridge

    def __repr__(self) -> str:
        return "Objective(<private rows>)"

    def __reduce__(self) -> str:
        raise TypeError("an objective holds private rows and cannot be pickled")

    @property
    def crowd(self) -> float:
        """The number of rows, or units, over the public one."""
        return self._rows.n_units / self._problem.n_rows

    def gradient(self, at: FloatArray) -> FloatArray:
        """Return the gradient, shape (size,)."""
        return self._rows.mean("gradient", at) + self._problem.l2 * at + self._ridge @ at + self._tilt

    def hessian(self, at: FloatArray) -> FloatArray:
        """Return the Hessian, shape (size, size)."""
        return self._rows.mean("hessian", at) + self._problem.l2 * np.eye(at.size) + self._ridge
