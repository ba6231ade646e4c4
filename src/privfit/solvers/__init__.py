"""Solvers: immutable configuration, used as ``solver=...`` or by ``plan`` and ``run``."""

from privfit.errors import InvalidArgument
from privfit.solvers.base import AbstractSolver, Solution, Step
from privfit.solvers.exponential import ExponentialMechanism
from privfit.solvers.gradient import NoisyGradientDescent
from privfit.solvers.newton import NoisyNewton
from privfit.solvers.reference import NonPrivate
from privfit.solvers.regularised_exponential import RegularisedExponentialMechanism
from privfit.solvers.whitened import WhitenedGradientDescent

__all__ = [
    "AbstractSolver",
    "ExponentialMechanism",
    "NoisyGradientDescent",
    "NoisyNewton",
    "NonPrivate",
    "RegularisedExponentialMechanism",
    "Solution",
    "Step",
    "WhitenedGradientDescent",
    "resolve",
]

BY_NAME: dict[str, AbstractSolver] = {
    "auto": WhitenedGradientDescent(),
    "exponential-mechanism": ExponentialMechanism(),
    "gradient-descent": NoisyGradientDescent(),
    "newton": NoisyNewton(),
    "non-private": NonPrivate(),
    "regularised-exponential-mechanism": RegularisedExponentialMechanism(),
    "whitened": WhitenedGradientDescent(),
}
"""Solvers that the command line and ``solver="..."`` know by name, with their defaults."""


def resolve(solver: object) -> AbstractSolver:
    """Return the solver behind a name or an instance.

    Raises
    ------
    InvalidArgument
        If it is neither.
    """
    if isinstance(solver, AbstractSolver):
        return solver
    if isinstance(solver, str) and solver in BY_NAME:
        return BY_NAME[solver]
    raise InvalidArgument(
        f"solver must be one of {', '.join(BY_NAME)} or an instance from privfit.solvers; got {solver!r}"
    )
