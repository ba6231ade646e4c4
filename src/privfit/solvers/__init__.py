"""Solvers: immutable configuration, used as ``solver=...`` or by ``plan`` and ``run``."""

from privfit.errors import InvalidArgument
from privfit.privacy.budget import Budget
from privfit.problem.objective import Problem
from privfit.solvers.base import AbstractSolver, Solution, Step
from privfit.solvers.choice import automatic, usual
from privfit.solvers.clipped import ClippedGradientDescent
from privfit.solvers.damping import (
    AbstractDamping,
    Backtracking,
    ConstantStep,
    FixedDamping,
    RidgeTwoStep,
    SelfConcordantDamping,
)
from privfit.solvers.empirical_bayes import EmpiricalBayesDescent
from privfit.solvers.exponential import ExponentialMechanism
from privfit.solvers.gradient import NoisyGradientDescent
from privfit.solvers.newton import NoisyNewton
from privfit.solvers.noisy_sgd import NoisySGD
from privfit.solvers.objective_perturbation import ObjectivePerturbation
from privfit.solvers.online_to_batch import OnlineToBatch
from privfit.solvers.output_perturbation import OutputPerturbation
from privfit.solvers.projected import ProjectedNoisyGradientDescent
from privfit.solvers.random_round import RandomRoundSGD
from privfit.solvers.reference import NonPrivate
from privfit.solvers.regularised_exponential import RegularisedExponentialMechanism
from privfit.solvers.statistics import AdaSSP, SufficientStatistics
from privfit.solvers.whitened import WhitenedGradientDescent
from privfit.solvers.whitened_perturbation import WhitenedObjectivePerturbation

__all__ = [
    "AbstractDamping",
    "AbstractSolver",
    "AdaSSP",
    "Backtracking",
    "ClippedGradientDescent",
    "ConstantStep",
    "EmpiricalBayesDescent",
    "ExponentialMechanism",
    "FixedDamping",
    "NoisyGradientDescent",
    "NoisyNewton",
    "NoisySGD",
    "NonPrivate",
    "ObjectivePerturbation",
    "OnlineToBatch",
    "OutputPerturbation",
    "ProjectedNoisyGradientDescent",
    "RandomRoundSGD",
    "RegularisedExponentialMechanism",
    "RidgeTwoStep",
    "SelfConcordantDamping",
    "Solution",
    "Step",
    "SufficientStatistics",
    "WhitenedGradientDescent",
    "WhitenedObjectivePerturbation",
    "resolve",
]

AUTO = "auto"
"""The name that leaves the choice of a solver to the library."""

BY_NAME: dict[str, AbstractSolver] = {
    "adassp": AdaSSP(),
    AUTO: WhitenedGradientDescent(),
    "clipped-gradient-descent": ClippedGradientDescent(),
    "empirical-bayes": EmpiricalBayesDescent(),
    "exponential-mechanism": ExponentialMechanism(),
    "gradient-descent": NoisyGradientDescent(),
    "newton": NoisyNewton(),
    "noisy-sgd": NoisySGD(),
    "non-private": NonPrivate(),
    "objective-perturbation": ObjectivePerturbation(),
    "online-to-batch": OnlineToBatch(),
    "output-perturbation": OutputPerturbation(),
    "projected-gradient-descent": ProjectedNoisyGradientDescent(),
    "random-round": RandomRoundSGD(),
    "regularised-exponential-mechanism": RegularisedExponentialMechanism(),
    "sufficient-statistics": SufficientStatistics(),
    "whitened": WhitenedGradientDescent(),
    "whitened-objective-perturbation": WhitenedObjectivePerturbation(),
}
"""Solvers that the command line and ``solver="..."`` know by name, with their defaults."""


def resolve(solver: object, *, inference: bool) -> AbstractSolver:
    """Return the solver behind a name or an instance.

    ``"auto"`` is `privfit.solvers.choice.usual`: what it stands for in a fit depends on the problem and the
    budget, too, see `privfit.solvers.choice.automatic`.

    Raises
    ------
    InvalidArgument
        If it is neither.
    """
    if isinstance(solver, AbstractSolver):
        return solver
    if solver == AUTO:
        return usual(inference=inference)
    if isinstance(solver, str) and solver in BY_NAME:
        return BY_NAME[solver]
    raise InvalidArgument(
        f"solver must be one of {', '.join(BY_NAME)} or an instance from privfit.solvers; got {solver!r}"
    )


def settle(
    solver: object, problem: Problem, budget: Budget, *, inference: bool, alone: bool = True
) -> tuple[AbstractSolver, Budget]:
    """Return the solver of a fit, and what it spends of the budget, from public facts and the budget.

    Raises
    ------
    InvalidArgument
        If ``solver`` is neither a name nor an instance.
    """
    if solver == AUTO:
        return automatic(problem, budget, inference=inference, alone=alone)
    return resolve(solver, inference=inference), budget
