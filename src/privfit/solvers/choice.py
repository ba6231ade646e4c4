"""Which method ``solver="auto"`` stands for, from public facts alone."""

from privfit.errors import Incompatible
from privfit.losses import Logistic, SmoothedQuantile
from privfit.privacy.budget import Budget
from privfit.privacy.relation import Relation
from privfit.problem.objective import Problem
from privfit.solvers.base import AbstractSolver
from privfit.solvers.empirical_bayes import EmpiricalBayesDescent
from privfit.solvers.requirements import need_minimiser, need_sums
from privfit.solvers.whitened import WhitenedGradientDescent
from privfit.solvers.whitened_perturbation import WhitenedObjectivePerturbation

_FEW, _LITTLE, _FEW_ROWS, _DELTA_BUYS = 3, 600.0, 300, 3.5
"""Most columns of a logit, and signal ``n mu`` times these, or rows, for which pure releases tell more than
Gaussian ones; and the epsilon over mu from which on: with a larger delta Gaussian releases have less noise
(`experiments/few_columns.py`)."""

MOST_NOISE = 0.05
"""``q**1.5 / (n epsilon)`` up to which a minimiser is not shrunk where rows are replaced: for a logit the
linear predictors of usual rows then have noise of a standard deviation of about 0.8. A row more or less asks
for half as much."""


def usual(*, inference: bool) -> AbstractSolver:
    """Return the method without bias where inference is wanted, and else the one with the least error."""
    return WhitenedGradientDescent() if inference else EmpiricalBayesDescent()


def automatic(
    problem: Problem, budget: Budget, *, inference: bool, alone: bool
) -> tuple[AbstractSolver, Budget]:
    """Return the method that suits a problem and a budget, and what of the budget it spends.

    Releases under a pure budget cost parts of epsilon, not of its square. So one perturbed minimiser beats
    any number of gradients there, with inference or without. Without, its estimate is not shrunk: where noise
    may be as large as signals usually are, shrinkage at every step is worth more than less noise.

    With few rows and columns these releases tell more than Gaussian ones of the same epsilon, too: their
    noise grows with the number of columns, and is free of delta. So intervals of logits have it there, and
    spend no delta. Where other fits are to be composed with this one Gaussian releases cost less.

    Parameters
    ----------
    problem : Problem
        In encoded coordinates.
    budget : Budget
    inference : bool
    alone : bool
        Whether nothing that a ledger adds up, or that precedes the fit, has a part in its budget.
    """
    if not perturbable(problem) or _smooths_better(problem):
        return usual(inference=inference), budget
    if budget.notion == "approximate" and inference and alone and _few(problem, budget):
        return WhitenedObjectivePerturbation(), Budget(budget.epsilon)
    pure = budget.notion == "pure" and (inference or _clear(problem, budget.epsilon))
    return WhitenedObjectivePerturbation() if pure else usual(inference=inference), budget


def perturbable(problem: Problem) -> bool:
    """Return whether `WhitenedObjectivePerturbation` can serve a problem."""
    solver = WhitenedObjectivePerturbation()
    try:
        need_minimiser(problem, solver.name)
        need_sums(problem, solver)
    except Incompatible:
        return False
    return True


def _smooths_better(problem: Problem) -> bool:
    """Return whether gradients choose a quantile's smoothing better than one minimiser does.

    With a row more or less, where they have half the noise, too (`experiments/private_number.py`).
    """
    return isinstance(problem.loss, SmoothedQuantile) and problem.relation is Relation.ADD_REMOVE


def _few(problem: Problem, budget: Budget) -> bool:
    """Return whether a logit within declared bounds has so few rows and columns that delta buys nothing.

    Of units of several rows there is no such study.
    """
    if not problem.bounded or not isinstance(problem.loss, Logistic) or problem.unit is not None:
        return False
    n = problem.n_rows
    little = n <= _FEW_ROWS or n * budget.mu * problem.size <= _LITTLE
    return little and problem.size <= _FEW and budget.epsilon >= _DELTA_BUYS * budget.mu


def _clear(problem: Problem, epsilon: float) -> bool:
    """Return whether a perturbed minimiser has little noise beside usual signals."""
    moved = problem.relation.vector_sensitivity(0.5)
    return moved * problem.size**1.5 <= MOST_NOISE * problem.n_rows * epsilon
