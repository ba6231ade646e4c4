"""Costs that are chosen by earlier outcomes: no choice goes beyond the grant, and little is given away."""

import math

import numpy as np
import pytest
from scipy.special import expit, ndtr

import privfit as pf
from privfit.errors import BudgetExceeded
from privfit.privacy.budget import Budget
from privfit.privacy.composition import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    compose,
)
from privfit.privacy.curves import gdp_delta
from privfit.privacy.filters import Account

GRANT = Budget(1.0, 1e-6)
WALK = SampledGaussianEvent("poisson", "replace", 0.02, 0.01, 50)


def gaussian_at(mu, epsilon):
    """Return the exact δ of μ-GDP at ε, which may be negative."""
    return ndtr(-epsilon / mu + mu / 2.0) - np.exp(epsilon) * ndtr(-epsilon / mu - mu / 2.0)


def pure_at(loss, epsilon):
    """Return the exact δ of randomised response at ε, which may be negative."""
    inside = expit(loss) - np.exp(epsilon) * expit(-loss)
    return np.where(epsilon >= loss, 0.0, np.where(epsilon <= -loss, -np.expm1(epsilon), inside))


def continuations(account):
    """Return the δ curves of the largest Gaussian and the largest pure event that an account admits."""
    found = []
    for kind, curve in ((GaussianEvent, gaussian_at), (PureEvent, pure_at)):
        low, high = 0.0, 10.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if account.admits((kind(middle),)) else (low, middle)
        if low > 1e-9:
            found.append(lambda epsilon, curve=curve, low=low: curve(low, epsilon))
    return found


def after_a_gaussian(mu, epsilon, curves):
    """Return the δ of an analyst who goes on by the curve that is largest for the outcome."""
    z = np.linspace(-12.0, 14.0, 200_001)
    density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
    left = epsilon - (mu * z + 0.5 * mu * mu)
    best = np.max([curve(left) for curve in curves], axis=0)
    return float(np.sum(density * best) * (z[1] - z[0]))


def after_randomised_response(loss, epsilon, curves):
    return sum(
        chance * max(float(curve(epsilon - sign * loss)) for curve in curves)
        for sign, chance in ((1, expit(loss)), (-1, expit(-loss)))
    )


def test_who_goes_on_as_outcomes_suit_exceeds_what_each_choice_costs():
    """The reason: both ways are within the grant if they are planned, and twice beyond it by choice."""
    ways = [
        lambda left: pure_at(0.815, left),
        lambda left: gaussian_at(0.2313, left),
    ]
    for second in (PureEvent(0.815), GaussianEvent(0.2313)):
        assert compose([GaussianEvent(0.05), second]).within(GRANT)
    assert all(after_a_gaussian(0.05, 1.0, [way]) < 1.001e-6 for way in ways)
    assert after_a_gaussian(0.05, 1.0, ways) > 1.9e-6
    assert not Account(GRANT, [(GaussianEvent(0.05),)]).admits((PureEvent(0.815),))


@pytest.mark.parametrize("budget", [GRANT, Budget(0.3, 1e-3), Budget(3.0, 1e-9)])
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_no_choice_of_what_is_admitted_goes_beyond_the_grant(budget, part):
    first = part * budget.mu
    curves = continuations(Account(budget, [(GaussianEvent(first),)]))
    found = after_a_gaussian(first, budget.epsilon, curves)
    assert 0.98 * budget.delta < found < 1.001 * budget.delta
    loss = part * budget.epsilon
    account = Account(budget, [(PureEvent(loss),)])
    found = after_randomised_response(loss, budget.epsilon, continuations(account))
    assert found <= budget.delta
    assert account.admits((PureEvent(0.999 * (budget.epsilon - loss)),))


def test_what_is_planned_before_any_outcome_may_cost_all_there_is():
    mixed = (GaussianEvent(0.05), PureEvent(0.815))
    assert Account(GRANT, []).admits(mixed)
    assert Account(GRANT, []).admits((WALK, GaussianEvent(0.1)))
    assert not Account(GRANT, [mixed]).admits((GaussianEvent(1e-3),))
    assert Account(GRANT, []).followed_by(()).admits(mixed)
    assert not Account(GRANT, []).followed_by((GaussianEvent(0.05),)).admits((PureEvent(0.815),))


def test_gaussian_costs_are_exhausted_exactly_and_hold_pure_ones():
    account = Account(GRANT, [(GaussianEvent(0.6 * GRANT.mu),)])
    assert account.admits((GaussianEvent(0.7999 * GRANT.mu),))
    assert not account.admits((GaussianEvent(0.8001 * GRANT.mu),))
    half = (GaussianEvent(0.5 * GRANT.mu),)
    assert Account(GRANT, [half] * 3).admits(half)  # to the last digit
    assert account.admits((PureEvent(0.1),))
    assert not account.admits((PureEvent(0.2),))  # as of 0.25 mu
    for other in (ApproximateEvent(0.01, 1e-12), WALK):
        assert not account.admits((other,))


def test_pure_costs_add_up_to_epsilon():
    account = Account(GRANT, [(PureEvent(0.4),), (PureEvent(0.3),)])
    assert account.admits((PureEvent(0.3),))
    assert not account.admits((PureEvent(0.31),))
    assert not account.admits((GaussianEvent(1e-3),))  # they count as more than all of the grant's mu


def test_after_pairs_epsilon_and_delta_add_up():
    account = Account(GRANT, [(ApproximateEvent(0.4, 5e-7),)])
    assert account.admits((ApproximateEvent(0.6, 5e-7),))
    assert not account.admits((ApproximateEvent(0.61, 5e-7),))
    assert not account.admits((ApproximateEvent(0.1, 5.1e-7),))
    assert account.admits((PureEvent(0.6),))
    largest = Budget(0.6, GRANT.delta / 8.0).mu
    assert account.admits((GaussianEvent(0.9999 * largest),))
    assert not account.admits((GaussianEvent(1.0001 * largest),))
    assert not account.admits((GaussianEvent(50.0),))


def test_what_has_no_finite_pair_does_not_follow():
    account = Account(Budget(5.0, 0.9), [(ApproximateEvent(0.1, 0.1),)])
    assert account.admits((ApproximateEvent(0.1, 0.6),))
    for delta in (0.5, 0.6):  # certain failure, and beyond
        assert not account.admits((ApproximateEvent(0.1, delta),) * 2)
    assert not account.admits((GaussianEvent(0.1), ApproximateEvent(0.1, 0.2)))  # at an eighth of 0.9


def test_steps_on_sampled_rows_count_by_their_epsilon_at_an_eighth_of_delta():
    cost = compose([WALK]).epsilon_at(GRANT.delta / 8.0)
    account = Account(GRANT, [(WALK,)])
    assert account.admits((PureEvent(0.9999 * (1.0 - cost)),))
    assert not account.admits((PureEvent(1.0001 * (1.0 - cost)),))
    eight = Account(Budget(10.0, 1e-6), [(WALK,)] * 7)
    assert eight.admits((WALK,))
    assert not Account(Budget(10.0, 1e-6), [(WALK,)] * 8).admits((WALK,))


@pytest.mark.parametrize("budget", [Budget.gdp(0.5), Budget.zcdp(0.125), Budget(1.0)])
def test_other_grants_are_sums_already(budget):
    account = Account(budget, [(PureEvent(0.1),), (PureEvent(0.1),)])
    for new in (PureEvent(0.2), PureEvent(0.5), PureEvent(0.9), GaussianEvent(0.4), GaussianEvent(0.5)):
        whole = compose([PureEvent(0.1), PureEvent(0.1), new])
        assert account.admits((new,)) == whole.within(budget)


def test_a_ledger_says_why_and_what_is_left(tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    for name in ("gaussian", "pure"):
        ledger.grant(name, GRANT)
    ledger.reserve("gaussian", [GaussianEvent(0.05)])
    with pytest.raises(BudgetExceeded, match="Planned at once they would fit"):
        ledger.reserve("gaussian", [PureEvent(0.815)])
    with pytest.raises(BudgetExceeded) as caught:
        ledger.reserve("gaussian", [PureEvent(2.0)])
    assert "Planned at once" not in str(caught.value)
    left = ledger.remaining("gaussian")
    assert gdp_delta(math.hypot(0.05, left.mu), 1.0) <= 1e-6
    ledger.reserve("pure", [PureEvent(0.7)])
    assert ledger.remaining("pure").epsilon == pytest.approx(0.3)
    ledger.reserve("pure", [PureEvent(0.3)])
    assert ledger.remaining("pure") is None


def test_looks_are_not_paid_for_a_fit_that_may_not_follow_them(tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", Budget(2.0, 1e-5))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2000, 2))
    model = pf.LogisticRegression(
        1.0, solver="noisy-sgd", inference=False, scale="private", ledger=ledger, dataset="people"
    )
    with pytest.raises(BudgetExceeded):
        model.fit(x, rng.random(2000) < 0.5)
    assert ledger.remaining("people") == Budget(2.0, 1e-5)
