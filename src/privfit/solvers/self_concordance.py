"""Self-concordance: how fast a Hessian can change, and so how long a Newton step may be.

A convex ``f`` with Hessian ``H`` is (gamma, nu)-self-concordant if for all u and v
``|u' D^3f[v] u| <= gamma |u|_H^2 |v|_H^(nu-2) |v|^(3-nu)``
(Sun and Tran-Dinh 2019, *Generalized self-concordant functions*, definition 2). For a loss ``rho`` of one
number this is ``|rho'''| <= gamma rho''`` with nu = 2 and ``|rho'''| <= gamma (rho'')^(3/2)`` with nu = 3.
"""

import math

from privfit._checks import FloatArray, in_range, positive
from privfit.problem.objective import Problem


def along_rows(gamma: float, norm_bound: float) -> float:
    """Return the gamma of ``w(x) rho(y - x'theta)``, rho of the second kind, for rows of this norm.

    The weights of Mallows multiply both sides of the inequality, so only ``norm(x)`` of rows with
    ``w(x) > 0`` counts. For the weights of Schweppe, ``rho((y - x'theta) v(x))``, give the bound on
    ``v(x) norm(x)`` (Avella-Medina, Bradshaw and Loh 2023, appendix C.3).
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


def turning_at(problem: Problem, hessian: FloatArray) -> float:
    """Return about how fast the mean curvature changes along the linear predictor, relative to itself.

    Known of one predictor with a constant in encoded coordinates, where the first entry of the Hessian (q, q)
    is the mean curvature; 0 for others.
    """
    mean = float(hessian[0, 0])
    if problem.basis is not None or not problem.has_intercept or problem.loss.n_outputs > 1 or mean <= 0.0:
        return 0.0
    return problem.loss.turning(mean)
