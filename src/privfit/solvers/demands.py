"""What solvers ask of a loss, and the sentences that say so."""

from privfit.errors import Incompatible
from privfit.problem.objective import Problem


def need_smooth(problem: Problem, solver: str) -> None:
    """Raise `Incompatible` for a loss with kinks."""
    loss = problem.loss
    if not loss.constants.smooth:
        raise Incompatible(
            f"solver: {solver} needs a loss without kinks, and {loss.name} has some; take {loss.smoothed}, "
            "or solver=ProjectedNoisyGradientDescent() with inference=False"
        )


def need_convex(problem: Problem, solver: str) -> None:
    """Raise `Incompatible` for a loss that may have several minima."""
    loss = problem.loss
    if not loss.convex:
        raise Incompatible(
            f"solver: {solver} needs a convex loss, and {loss.name} is none; take RandomRoundSGD(), "
            "or NoisyGradientDescent() with inference=False"
        )
