"""Which method ``solver="auto"`` stands for, from public facts alone."""

from privfit.privacy.budget import Budget
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers.base import AbstractSolver
from privfit.solvers.empirical_bayes import EmpiricalBayesDescent
from privfit.solvers.whitened import WhitenedGradientDescent
from privfit.solvers.whitened_perturbation import WhitenedObjectivePerturbation


def usual(*, inference: bool) -> AbstractSolver:
    """Return the method without bias where inference is wanted, and else the one with the least error."""
    return WhitenedGradientDescent() if inference else EmpiricalBayesDescent()


def automatic(problem: Problem, budget: Budget, *, inference: bool) -> AbstractSolver:
    """Return the method that suits a problem and a budget.

    Releases under a pure budget cost parts of epsilon, not of its square. So one perturbed minimiser beats
    any number of gradients there, with inference or without.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    budget : Budget
    inference : bool
    """
    if budget.notion == "pure" and perturbable(problem):
        return WhitenedObjectivePerturbation()
    return usual(inference=inference)


def perturbable(problem: Problem) -> bool:
    """Return whether `WhitenedObjectivePerturbation` can serve a problem."""
    loss = problem.loss
    return (
        problem.relation is Relation.REPLACE
        and problem.unit is None
        and not loss.has_scale
        and loss.target_kind != "class"
        and loss.constants.smooth
        and loss.convex
        and loss.proven
    )
