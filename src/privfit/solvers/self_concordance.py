"""Self-concordance: how fast a Hessian can change, and so how long a Newton step may be.

A convex ``f`` with Hessian ``H`` is (gamma, nu)-self-concordant if for all u and v
``|u' D^3f[v] u| <= gamma |u|_H^2 |v|_H^(nu-2) |v|^(3-nu)``
(Sun and Tran-Dinh 2019, *Generalized self-concordant functions*, definition 2). For a loss ``rho`` of one
number this is ``|rho'''| <= gamma rho''`` with nu = 2 and ``|rho'''| <= gamma (rho'')^(3/2)`` with nu = 3.
"""

import math

import numpy as np

from privfit._checks import FloatArray, IntArray, in_range, positive
from privfit.problem.objective import Problem

SECOND_ORDER = 0.25
"""By what part a logit's curvature at even odds falls short, for the squared change of the predictor."""


def along_rows(gamma: float, norm_bound: float) -> float:
    """Return the gamma of ``w(x) rho(y - x'theta)``, rho of the second kind, for rows of this norm.

    The weights of Mallows multiply both sides of the inequality, so only ``norm(x)`` of rows with
    ``w(x) > 0`` counts. For the weights of Schweppe, ``rho((y - x'theta) v(x))``, give the bound on
    ``v(x) norm(x)`` (Avella-Medina, Bradshaw and Loh 2023, lemmas 2 and 3).
    """
    gamma = in_range(0.0, math.inf, closed="left", gamma=gamma)
    return gamma * positive(norm_bound=norm_bound)


def second_kind(gamma: float, curvature: float) -> float:
    """Return the gamma of the second kind of a loss of the third: ``gamma * sqrt(curvature)``.

    From ``(rho'')^(3/2) <= sqrt(curvature) rho''``, with ``curvature`` the largest second derivative.
    """
    gamma = in_range(0.0, math.inf, closed="left", gamma=gamma)
    return gamma * math.sqrt(positive(curvature=curvature))


def self_concordance(problem: Problem) -> float | None:
    """Return the gamma of an objective, of the second kind; None if its loss is not self-concordant.

    A ridge leaves it as it is. Rows are taken to be no longer than the norm bound, as they are where a schema
    bounds them (`Problem.bounded`). Longer ones, which Mallows weights make count less, could raise it; then
    the damping that rests on it is a rule of thumb. It decides no guarantee of privacy.
    """
    constants = problem.loss.constants
    gamma = constants.self_concordance
    if gamma is None and constants.self_concordance_3 is not None:
        gamma = second_kind(constants.self_concordance_3, constants.curvature)
    return None if gamma is None else along_rows(gamma, problem.norm_bound)


def places_of_constants(problem: Problem) -> IntArray:
    """Return the places of the constants of all predictors in the parameter, (m,), where there are some."""
    return np.arange(0, problem.n_linear, problem.n_coef)


def mean_curvature(problem: Problem, hessian: FloatArray) -> float:
    """Return the mean curvature that a Hessian (q, q) tells, in encoded coordinates beside a constant.

    It is the entry of the constant, or the mean of those of several predictors; 0 where it tells none.
    """
    if problem.basis is not None or not problem.has_intercept:
        return 0.0
    constants = places_of_constants(problem)
    return max(float(np.mean(hessian[constants, constants])), 0.0)


def turning_at(problem: Problem, hessian: FloatArray) -> float:
    """Return about how fast the mean curvature changes along the linear predictor, relative to itself.

    Where the loss says no more it is as much as any row's may. 0 where no mean curvature is known.
    """
    mean, loss = mean_curvature(problem, hessian), problem.loss
    if mean == 0.0:
        return 0.0
    return loss.turning(mean) if loss.n_outputs == 1 and loss.turning(0.0) > 0.0 else loss.bending
