import pytest

from privfit.errors import BudgetExceeded
from privfit.privacy.budget import Budget
from privfit.privacy.composition import ApproximateEvent, GaussianEvent, PureEvent, compose
from privfit.privacy.ledger import Ledger
from privfit.privacy.words import cost_in_words, remainder_in_words

GRANT = Budget(3.0, 1e-6)


@pytest.mark.parametrize("spent", [0.01, 0.2368, 0.5, 0.62])
def test_what_is_said_to_fit_does_and_a_thousandth_more_does_not(tmp_path, spent):
    ledger = Ledger(tmp_path / "account.db")
    ledger.grant("people", GRANT)
    ledger.reserve("people", [GaussianEvent(spent)])
    words = remainder_in_words(ledger.remaining("people"), GRANT)
    largest = float(words.partition("ε up to ")[2].split()[0])
    ledger.check("people", [GaussianEvent(Budget(largest, 1e-6).mu)])
    with pytest.raises(BudgetExceeded, match=r"ε = .* at δ = 1e-06 does not fit"):
        ledger.check("people", [GaussianEvent(Budget(1.002 * largest, 1e-6).mu)])


@pytest.mark.parametrize("grant", [Budget.gdp(2.0), Budget.zcdp(2.0), Budget(2.0), GRANT], ids=str)
@pytest.mark.parametrize("spent", [0.1234567, 0.4444449, 0.6])
def test_what_is_said_to_be_left_is(tmp_path, grant, spent):
    event = PureEvent if grant.notion == "pure" else GaussianEvent
    ledger = Ledger(tmp_path / "account.db")
    ledger.grant("people", grant)
    ledger.reserve("people", [event(spent)])
    said = float(remainder_in_words(ledger.remaining("people"), grant).partition("-")[0])
    mu = Budget.zcdp(said).mu if grant.notion == "zcdp" else said
    ledger.check("people", [event(mu)])
    with pytest.raises(BudgetExceeded):
        ledger.check("people", [event(1.002 * mu)])


@pytest.mark.parametrize("number", [0.1234567, 2.00001, 7.0])
def test_numbers_of_a_cost_are_no_less_than_they_are(number):
    for events, said in (
        ([GaussianEvent(number)], lambda words: words.partition("-")[0]),
        ([ApproximateEvent(number, 1.23456e-7)], lambda words: words[1:].partition(",")[0]),
    ):
        assert number <= float(said(compose(events).describe())) < 1.001 * number


def test_a_cost_is_rounded_up():
    cost = compose([GaussianEvent(0.5)])
    said = float(cost_in_words(cost, GRANT).partition("ε = ")[2].split()[0])
    assert cost.epsilon_at(1e-6) <= said < 1.001 * cost.epsilon_at(1e-6)


def test_other_grants_keep_their_notion():
    assert remainder_in_words(None, GRANT) == "nothing"
    for budget in (Budget(1.0), Budget.gdp(0.5), Budget.zcdp(0.1)):
        assert remainder_in_words(budget, budget) == budget.describe()
        cost = compose([GaussianEvent(0.5)])
        assert cost_in_words(cost, budget) == cost.describe()
