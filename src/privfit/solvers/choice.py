"""Which method ``solver="auto"`` stands for, from public facts alone."""

from privfit.errors import Incompatible
from privfit.privacy.budget import Budget
from privfit.problem.objective import Problem
from privfit.solvers.base import AbstractSolver
from privfit.solvers.empirical_bayes import EmpiricalBayesDescent
from privfit.solvers.requirements import need_minimiser, need_sums
from privfit.solvers.whitened import WhitenedGradientDescent
from privfit.solvers.whitened_perturbation import WhitenedObjectivePerturbation

MOST_NOISE = 0.05
"""``q**1.5 / (n epsilon)`` up to which a minimiser is not shrunk: for a logit the linear predictors of usual
rows then have noise of a standard deviation of about 0.8."""


def usual(*, inference: bool) -> AbstractSolver:
    """Return the method without bias where inference is wanted, and else the one with the least error."""
    return WhitenedGradientDescent() if inference else EmpiricalBayesDescent()


def automatic(problem: Problem, budget: Budget, *, inference: bool) -> AbstractSolver:
    """Return the method that suits a problem and a budget.

    Releases under a pure budget cost parts of epsilon, not of its square. So one perturbed minimiser beats
    any number of gradients there, with inference or without. Without, its estimate is not shrunk: where noise
    may be as large as signals usually are, shrinkage at every step is worth more than less noise.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    budget : Budget
    inference : bool
    """
    if budget.notion != "pure" or not perturbable(problem):
        return usual(inference=inference)
    clear = inference or _clear(problem, budget.epsilon)
    return WhitenedObjectivePerturbation() if clear else usual(inference=inference)


def perturbable(problem: Problem) -> bool:
    """Return whether `WhitenedObjectivePerturbation` can serve a problem."""
    solver = WhitenedObjectivePerturbation()
    try:
        need_minimiser(problem, solver.name)
        need_sums(problem, solver)
    except Incompatible:
        return False
    return True


def _clear(problem: Problem, epsilon: float) -> bool:
    """Return whether a perturbed minimiser has little noise beside usual signals."""
    return problem.size**1.5 <= MOST_NOISE * problem.n_rows * epsilon
