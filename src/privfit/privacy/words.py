"""What an account spent, has left and hides, in words: in μ, which adds up, and in ε, which people know."""

from decimal import ROUND_FLOOR, Context

from privfit.privacy.budget import Budget
from privfit.privacy.composition import Guarantee, round_up
from privfit.privacy.relation import Relation

_FLOOR = Context(prec=4, rounding=ROUND_FLOOR)


def cost_in_words(cost: Guarantee, grant: Budget) -> str:
    """Return a cost, with its ε at the δ of the grant if that is an (ε, δ) pair; rounded up."""
    words = cost.describe()
    if grant.notion != "approximate" or (not cost.gaussian and not cost.sampled):
        return words
    return f"{words}, ε = {round_up(cost.epsilon_at(grant.delta))} at δ = {grant.delta:.4g}"


def neighbours_in_words(relation: str | None, unit: str | None) -> str:
    """Return what a reservation hides; ``relation`` is None in those that did not store it."""
    if relation is None:
        return "a change that an earlier version of privfit did not write down"
    return Relation(relation).describe(unit)


def remainder_in_words(left: Budget | None, grant: Budget) -> str:
    """Return what is left of a grant, with the largest ε at its δ that a further fit can have; rounded down.

    Notes
    -----
    *Guarantee.* A release that is planned for that ε and δ fits: their μ is at most what is left.
    """
    if left is None:
        return "nothing"
    if grant.notion != "approximate" or left.notion != "gdp":
        return _rounded_down(left).describe()
    largest = _FLOOR.create_decimal(repr(left.epsilon_at(grant.delta)))
    while largest > 0 and Budget(float(largest), grant.delta).mu > left.mu:
        largest = _FLOOR.next_minus(largest)
    fits = f", a fit with ε up to {float(largest):.4g} at δ = {grant.delta:.4g}" if largest > 0 else ""
    return f"{_rounded_down(left).describe()}{fits}"


def _rounded_down(left: Budget) -> Budget:
    """Return a budget of one number with 4 significant digits, no more than it is; other ones as they are."""
    match left.notion:
        case "gdp":
            return Budget.gdp(float(_FLOOR.create_decimal(repr(left.mu))))
        case "zcdp":
            return Budget.zcdp(float(_FLOOR.create_decimal(repr(left.rho))))
        case "pure":
            return Budget(float(_FLOOR.create_decimal(repr(left.epsilon))))
        case "approximate":
            return left
