"""Bread and meat as a fit asks for them, and what they say of sampling errors."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from privfit._checks import FloatArray
from privfit.inference.arrival import bent_too_far
from privfit.inference.combine import Anchor, Estimate, anchor, one_step
from privfit.inference.covariance import Bread, average_hessian, bread_from, debiased, spread
from privfit.inference.curved_rows import largest_curvature
from privfit.inference.exact_bread import exact_bread
from privfit.inference.meat import centred, least_multiple, meat_from, shortfall
from privfit.inference.sandwich import residual_rows, sandwich, satterthwaite, with_tails, with_variance
from privfit.problem.oracle import Oracle
from privfit.problem.plan import Release
from privfit.solvers.base import Solution
from privfit.solvers.drawn import Drawn

_ROUNDS = 3
"""Rounds in which the middle of a step is found."""


@dataclass(frozen=True, slots=True, eq=False)
class Asked:
    """Bread and meat of a solution.

    Parameters
    ----------
    center : array of shape (q,)
        Where they were asked.
    around : Anchor or None
        Where the Newton step to the estimate begins, of methods without a last iterate to report.
    bread, on_the_way, at_end : Bread
        As it was asked; half-way along that step and at its end, as a model moves it there. Without a model
        all are the same.
    meat : Drawn
    released : Release
        The meat as it was released, about the mean score that a ridge leaves.
    rows : float
        Rows less coefficients, see `residual_rows`.
    sampling : array of shape (q, q)
        Sampling covariance of the estimate.
    most_curved : float or None
        What curvatures of rows were cut to in the bread, see `largest_curvature`.
    """

    center: FloatArray
    around: Anchor | None
    bread: Bread
    on_the_way: Bread
    at_end: Bread
    meat: Drawn
    released: Release
    rows: float
    sampling: FloatArray
    most_curved: float | None

    def sampling_of(self, reported: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the sampling covariance of coefficients ``reported @ theta``, (k, k), and its second part.

        The latter, (k,), is what noise hides of the meat along each of them.
        """
        covariance = reported @ spread(debiased(self.sampling, self.at_end), self.at_end) @ reported.T
        short, of_meat = shortfall(self.released, self.meat, reported @ self.at_end.inverse)
        return with_variance(covariance, short / self.rows), of_meat

    def bent_too_far(self, reported: FloatArray, variance: FloatArray) -> NDArray[np.bool_]:
        """Return along which of them, (k,), the step hangs on what a model says of its way."""
        if self.around is None:
            return np.zeros(len(reported), dtype=np.bool_)
        return bent_too_far(
            self.around, reported, bread=self.bread, on_the_way=self.on_the_way, variance=variance
        )

    def freedom(
        self,
        reported: FloatArray,
        estimate: Estimate,
        *,
        of_meat: FloatArray,
        noise: FloatArray,
        total: FloatArray,
    ) -> FloatArray:
        """Return the degrees of freedom of variances ``total``, (k,), of which noise makes ``noise``.

        Of each variance, and of the covariance matrix along each coefficient, (2, k).
        """
        along = reported @ self.at_end.inverse
        dof = satterthwaite(
            reported,
            bread=self.at_end,
            meat=self.meat,
            of_meat=np.stack([of_meat, self.meat.variance(along)]),
            sampling=self.sampling,
            total=total,
            rows=self.rows,
        )
        return with_tails(dof, estimate.steps, noise / total)


def ask(solution: Solution, oracle: Oracle, *, half_way: bool) -> Asked:
    """Ask for bread and meat.

    Parameters
    ----------
    solution : Solution
    oracle : Oracle
    half_way : bool
        Whether to ask half-way to where the solver's steps lead, if they do, and not at the solution itself.
    """
    problem = solution.problem
    around = anchor(solution.late) if solution.report == "one-step" else None
    center = 0.5 * (around.theta + solution.theta) if half_way and around is not None else solution.theta
    oracle.sample(solution.part)
    most = largest_curvature(solution, center, oracle)
    if most is not None:
        oracle.cut_curvatures(most)
    hessian, uncentred = oracle.release_matrices(center)
    released = centred(uncentred, problem)
    bread = _bread(solution, [*solution.curvature, hessian])
    meat = _meat(solution, bread, released)
    on_the_way, at_end = bread, bread
    if solution.model is not None and around is not None:
        on_the_way, at_end = _along_the_step(solution.model, around, bread, center)
    rows = residual_rows(problem.n_rows, problem.n_coef)
    sampling = sandwich(at_end, meat, rows)
    return Asked(center, around, bread, on_the_way, at_end, meat, released, rows, sampling, most)


def _bread(solution: Solution, hessians: Sequence[Release]) -> Bread:
    problem = solution.problem
    if solution.bound is None:
        return bread_from(problem, hessians, solution.expected)
    hessian, _ = average_hessian(problem, hessians)
    return exact_bread(hessian + problem.ridge, solution.bound, problem.loss.constants.curvature)


def _meat(solution: Solution, bread: Bread, released: Release) -> Drawn:
    problem = solution.problem
    least, shared = least_multiple(problem.loss, solution.dispersion), not problem.shares.plain
    return meat_from(released, bread, problem.n_linear, least=least, shared=shared)


def _along_the_step(
    model: Callable[[FloatArray], FloatArray], around: Anchor, bread: Bread, center: FloatArray
) -> tuple[Bread, Bread]:
    """Return the bread half-way of the step and at its end, as a model moves it there from ``center``.

    Of the way what noise explains does not count.
    """
    here, half = model(center), bread
    for _ in range(_ROUNDS):
        half = bread.moved(here, model(around.theta + 0.5 * _way(around, half)))
    return half, bread.moved(here, model(around.theta + _way(around, half)))


def _way(around: Anchor, bread: Bread) -> FloatArray:
    """Return the step from late points, (q,), less the part of it that noise explains."""
    step = one_step(around, bread)
    way = step.theta - around.theta
    return max(1.0 - float(np.trace(step.cov_noise)) / max(float(way @ way), 1e-300), 0.0) * way
