"""From the options of a budget to the budget."""

import typer

from privfit.cli.request import BudgetText
from privfit.privacy.budget import Budget

EPSILON, DELTA = 1.0, 1e-6
"""Budget of a command line that names none."""


def budget_from(text: BudgetText, *, usual: float = EPSILON) -> Budget:
    """Return the budget that options state, the ``usual`` epsilon and `DELTA` where they are silent."""
    if text.mu is not None:
        return Budget.gdp(text.mu)
    if text.rho is not None:
        return Budget.zcdp(text.rho)
    epsilon = usual if text.epsilon is None else text.epsilon
    return Budget(epsilon, DELTA if text.delta is None else text.delta)


def explicit_budget(text: BudgetText) -> Budget:
    """Return the budget that options state in full: what is granted must have been meant."""
    if text.mu is None and text.rho is None and (text.epsilon is None or text.delta is None):
        raise typer.BadParameter("give --epsilon and --delta (0 if pure), or --mu, or --rho")
    return budget_from(text)
