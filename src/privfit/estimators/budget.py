"""The budget that the arguments of a fit declare."""

from privfit.errors import InvalidArgument
from privfit.privacy.budget import Budget

EPSILON, DELTA = 1.0, 1e-6
"""Defaults of estimators and formula functions."""


def choose_budget(epsilon: float, delta: float, budget: Budget | None, *, usual: float = EPSILON) -> Budget:
    """Return the budget that arguments declare together; ``usual`` is the default of ``epsilon``.

    Raises
    ------
    InvalidArgument
        If an argument is outside its range, or ``budget`` stands beside an epsilon or delta of its own.
    """
    if budget is None:
        return Budget(epsilon, delta)
    if not isinstance(budget, Budget):
        raise InvalidArgument(f"budget must be a privfit.Budget, got {type(budget).__name__}")
    if epsilon != usual or delta != DELTA:
        raise InvalidArgument("budget stands in place of epsilon and delta; give one or the other")
    return budget
