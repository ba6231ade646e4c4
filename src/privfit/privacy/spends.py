"""What a spend may be given as: events of a plan, or what an analysis elsewhere promises."""

from collections.abc import Iterable

from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy.budget import Budget
from privfit.privacy.composition import ApproximateEvent, Event, GaussianEvent, PureEvent, compose


def events_of(spend: Iterable[Event] | Budget) -> tuple[Event, ...]:
    """Return the events of a spend, at least one.

    Raises
    ------
    Incompatible
        If an event is of an unknown type, or the spend is a zCDP budget.
    InvalidArgument
        If there is no event.
    """
    if isinstance(spend, Budget):
        return (_promised(spend),)
    if not isinstance(spend, Iterable):
        raise InvalidArgument(
            "events must be a list of events, such as plan.events of a result, or a Budget that an analysis "
            f"elsewhere keeps to, got {type(spend).__name__}"
        )
    events = tuple(spend)
    if not events:
        raise InvalidArgument("events must not be empty: there is nothing to reserve")
    compose(events)
    return events


def _promised(budget: Budget) -> Event:
    """Return the event about which no more is known than that it keeps to a budget."""
    if budget.notion == "gdp":
        return GaussianEvent(budget.mu)
    if budget.notion == "zcdp":
        raise Incompatible(
            "events: what keeps to a zCDP budget need not add up as Gaussian releases do; give the "
            "Budget(epsilon, delta) that follows from it, with epsilon from its epsilon_at(delta)"
        )
    return ApproximateEvent(budget.epsilon, budget.delta) if budget.delta else PureEvent(budget.epsilon)
