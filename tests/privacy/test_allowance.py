"""How a budget becomes an allowance and is split."""

import math

import pytest

from privfit.errors import Incompatible
from privfit.privacy.allowance import Allowance
from privfit.privacy.budget import Budget
from privfit.privacy.composition import GaussianEvent, PureEvent, compose

SHARES = [1.0, 4.0, 0.5]


@pytest.mark.parametrize(
    "budget", [Budget(1.0, 1e-6), Budget(0.1), Budget(8.0), Budget.gdp(0.7), Budget.zcdp(0.2)], ids=repr
)
def test_parts_of_a_budget_compose_to_within_it_and_waste_nothing(budget):
    whole = Allowance.of(budget)
    parts = whole.split(SHARES)
    assert compose([part.event for part in parts]).within(budget)
    assert whole.pure == (budget.notion == "pure")
    total = math.fsum(part.amount for part in parts) if whole.pure else math.hypot(*[p.amount for p in parts])
    assert whole.amount * (1 - 1e-9) < total <= whole.amount
    assert parts[1].amount / parts[0].amount == pytest.approx(2.0)
    assert all(part.budget == budget for part in parts)


@pytest.mark.parametrize(
    "budget", [Budget(1.0, 1e-6), Budget(0.1), Budget(8.0), Budget.gdp(0.7), Budget.zcdp(0.2)], ids=repr
)
@pytest.mark.parametrize("share", [1e-3, 0.1, 0.9])
def test_what_is_left_composes_with_what_was_spent_to_within_the_budget(budget, share):
    whole = Allowance.of(budget)
    spent = [part.event for part in whole.split([share, share, 1.0])[:2]]
    amounts = [event.epsilon if whole.pure else event.mu for event in spent]
    left = whole.after(amounts, spent)
    assert compose([*spent, left.event]).within(budget)
    assert not compose([*spent, left.event, left.event]).within(budget)
    assert left.beside == tuple(spent)
    total = math.fsum([*amounts, left.amount]) if whole.pure else math.hypot(*amounts, left.amount)
    assert whole.amount * (1 - 1e-9) < total <= whole.amount


def test_nothing_is_taken_from_an_allowance_without_limit():
    assert Allowance.unlimited().after([0.5], [GaussianEvent(0.5)]) == Allowance.unlimited()


def test_an_allowance_without_limit_stays_so():
    parts = Allowance.unlimited().split(SHARES)
    assert [part.amount for part in parts] == [math.inf] * 3
    assert parts[0].event is None
    assert Allowance.gaussian(math.inf).event is None


def test_what_stands_beside_is_kept():
    other = [GaussianEvent(0.3), PureEvent(0.1)]
    allowance = Allowance.of(Budget(1.0, 1e-6)).next_to(other)
    assert allowance.beside == tuple(other)
    assert allowance.split([1.0])[0].beside == tuple(other)


def test_the_signal_of_a_pure_allowance_has_the_noise_of_one_release():
    assert Allowance.of(Budget(2.0)).signal(8) == pytest.approx(2.0 / 3.0)
    assert Allowance.gaussian(2.0).signal(8) == 2.0


@pytest.mark.parametrize(("make", "unit"), [(Budget, "epsilon"), (Budget.gdp, "mu")])
def test_budgets_below_1e_25_are_refused_in_their_own_unit(make, unit):
    assert Allowance.of(make(1e-25)).amount == 1e-25
    with pytest.raises(Incompatible, match=f"^budget: {unit}=9.9e-26 is too small"):
        Allowance.of(make(9.9e-26))
