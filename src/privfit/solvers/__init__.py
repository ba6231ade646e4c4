"""Solvers: immutable configuration, used as ``solver=...`` or by ``plan`` and ``run``."""

from privfit.errors import InvalidArgument
from privfit.solvers.base import AbstractSolver, Solution, Step
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
    "resolve",
]

BY_NAME: dict[str, AbstractSolver] = {
    "adassp": AdaSSP(),
    "auto": WhitenedGradientDescent(),
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
}
"""Solvers that the command line and ``solver="..."`` know by name, with their defaults."""


def resolve(solver: object, *, inference: bool) -> AbstractSolver:
    """Return the solver behind a name or an instance.

    ``"auto"`` is the method without bias where inference is wanted, and else the one with the least error.

    Raises
    ------
    InvalidArgument
        If it is neither.
    """
    if isinstance(solver, AbstractSolver):
        return solver
    if solver == "auto" and not inference:
        return EmpiricalBayesDescent()
    if isinstance(solver, str) and solver in BY_NAME:
        return BY_NAME[solver]
    raise InvalidArgument(
        f"solver must be one of {', '.join(BY_NAME)} or an instance from privfit.solvers; got {solver!r}"
    )
