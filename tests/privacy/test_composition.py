import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy.budget import Budget, gdp_delta, gdp_epsilon
from privfit.privacy.composition import (
    ApproximateEvent,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    _gdp_of_pure,
    compose,
)


def test_gaussian_events_compose_in_closed_form_rounded_up():
    rng = np.random.default_rng(4)
    for size in (1, 2, 7, 100):
        mus = rng.lognormal(sigma=2, size=size)
        mu = compose(GaussianEvent(m) for m in mus).mu
        exact = sum(Fraction(m) ** 2 for m in mus)
        assert Fraction(math.nextafter(mu, 0)) ** 2 < exact <= Fraction(mu) ** 2
    assert compose([GaussianEvent(0.3)]).mu == 0.3
    assert compose([GaussianEvent(0.25)] * 16).mu == 1.0


def test_gaussian_composition_has_the_gaussian_curve():
    guarantee = compose([GaussianEvent(0.3), GaussianEvent(0.4)])
    for delta in (1e-300, 1e-9, 0.1):
        assert guarantee.epsilon_at(delta) == gdp_epsilon(guarantee.mu, delta)
        assert guarantee.delta_at(1.0) == gdp_delta(guarantee.mu, 1.0)


MIXTURES = [
    (0.0, [(0.1, 0.0)] * 10),
    (0.0, [(0.1, 1e-8)] * 10),
    (0.0, [(1.0, 0.0), (0.5, 0.0), (0.05, 1e-7)]),
    (0.5, [(0.3, 0.0)]),
    (0.5, [(0.3, 0.0)] * 4 + [(0.2, 1e-7)]),
    (0.05, [(0.001, 0.0)] * 5),
    (3.0, [(1.0, 1e-6)] * 3),
    (12.0, [(1.0, 1e-6)] * 3),
]


@pytest.mark.parametrize(("mu", "pairs"), MIXTURES)
def test_mixed_composition_is_an_upper_bound_and_tight(mu, pairs, exact_delta):
    events = [PureEvent(e) if d == 0 else ApproximateEvent(e, d) for e, d in pairs]
    events += [GaussianEvent(mu / math.sqrt(3))] * 3 if mu > 0 else []
    guarantee = compose(events)
    assert guarantee.mu is None
    total = sum(e for e, _ in pairs) + mu**2 / 2
    for epsilon in np.linspace(0, total + 5 * mu, 23):
        exact, bound = exact_delta(mu, pairs, epsilon), guarantee.delta_at(epsilon)
        assert bound >= exact - 1e-15
        assert bound <= 1.02 * exact + 1e-11 or epsilon >= 0.99 * total
    for delta in (1e-9, 1e-6, 1e-3):
        epsilon = guarantee.epsilon_at(delta)
        if math.isfinite(epsilon):
            assert guarantee.delta_at(epsilon) <= delta
            assert exact_delta(mu, pairs, epsilon) <= delta


def test_mixed_composition_agrees_with_dp_accounting():
    from dp_accounting.pld.common import DifferentialPrivacyParameters
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism, from_privacy_parameters

    for mu, size, count in ((0.5, 0.3, 4), (1.0, 0.01, 50), (0.2, 0.1, 20)):
        theirs = from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-4).compose(
            from_privacy_parameters(DifferentialPrivacyParameters(size, 0.0), 1e-4).self_compose(count)
        )
        ours = compose([GaussianEvent(mu)] + [PureEvent(size)] * count)
        for epsilon in (0.0, 0.3, 1.0, 2.0):
            delta = theirs.get_delta_for_epsilon(epsilon)
            assert 0.98 * delta <= ours.delta_at(epsilon) <= 1.001 * delta


def test_order_does_not_matter():
    events = [PureEvent(0.3), GaussianEvent(0.5), ApproximateEvent(0.1, 1e-8), PureEvent(0.2)]
    assert compose(events) == compose(reversed(events))


def test_every_event_costs():
    events = [GaussianEvent(0.3), PureEvent(0.2), ApproximateEvent(0.1, 1e-8), GaussianEvent(0.1)]
    costs = [compose(events[: k + 1]).epsilon_at(1e-6) for k in range(4)]
    assert np.all(np.diff(costs) > 0)


def test_pure_events_exhaust_a_pure_budget_exactly_in_decimals():
    assert compose([PureEvent(0.1)] * 10).within(Budget(1.0))
    assert compose([PureEvent(0.1)] * 3).within(Budget(0.3))
    assert not compose([PureEvent(0.1)] * 11).within(Budget(1.0))
    assert not compose([PureEvent(0.1)] * 10).within(Budget(math.nextafter(1.0, 0.0)))
    assert compose([PureEvent(0.1)] * 10).epsilon_at(0.0) == 1.0
    assert compose([PureEvent(0.1)] * 10).delta_at(1.0) == 0.0


def test_advanced_composition_beats_basic_where_delta_allows(exact_delta):
    guarantee = compose([PureEvent(0.01)] * 400)
    assert guarantee.epsilon_at(0.0) == 4.0
    assert guarantee.epsilon_at(1e-6) < 1.0
    exact = exact_delta(0.0, [(0.01, 0.0)] * 400, 1.0)
    assert exact <= guarantee.delta_at(1.0) <= exact_delta(0.0, [(0.01, 0.0)] * 400, 0.99)


def test_approximate_events_may_use_basic_composition():
    assert compose([ApproximateEvent(0.1, 1e-7)] * 10).within(Budget(1.0, 1e-6))
    assert not compose([ApproximateEvent(0.1, 1e-7)] * 11).within(Budget(1.0, 1e-6))
    assert compose([ApproximateEvent(0.1, 1e-7)] * 10).epsilon_at(9e-7) == math.inf


@pytest.mark.parametrize(
    "budget",
    [Budget(1.0, 1e-6), Budget(8.0, 1e-9), Budget.gdp(0.7), Budget.zcdp(0.3), Budget.zcdp(1 / 3)],
    ids=repr,
)
def test_gaussian_budget_is_exhausted_exactly(budget):
    assert compose([GaussianEvent(budget.mu)]).within(budget)
    assert compose([GaussianEvent(budget.mu / 2)] * 4).within(budget)
    assert not compose([GaussianEvent(budget.mu * (1 + 1e-9))]).within(budget)
    assert not compose([GaussianEvent(budget.mu), GaussianEvent(1e-3 * budget.mu)]).within(budget)


def test_within_is_literal_over_a_grid():
    for epsilon in (0.1, 1.0, 5.0):
        for delta in (1e-9, 1e-5):
            for share in (0.2, 0.7, 0.999, 1.0, 1.001, 1.5):
                mu = share * Budget(epsilon, delta).mu
                guarantee = compose([GaussianEvent(mu / 2)] * 4)
                assert guarantee.within(Budget(epsilon, delta)) == (share <= 1)
                if guarantee.within(Budget(epsilon, delta)):
                    assert gdp_delta(guarantee.mu, epsilon) <= delta


def test_no_gaussian_release_is_pure():
    assert not compose([GaussianEvent(1e-9)]).within(Budget(100.0))
    assert not compose([ApproximateEvent(0.1, 1e-12)]).within(Budget(100.0))


def test_failures_never_fit_concentrated_budgets():
    for budget in (Budget.gdp(100), Budget.zcdp(100)):
        assert not compose([ApproximateEvent(0.1, 1e-12)]).within(budget)


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 4.0, 30.0, 1e4])
def test_pure_events_in_gdp_and_zcdp_budgets(epsilon):
    event = compose([PureEvent(epsilon)])
    assert event.within(Budget.zcdp(epsilon**2 / 2 * (1 + 1e-12)))
    assert not event.within(Budget.zcdp(epsilon**2 / 2 * (1 - 1e-12)))
    low, high = 1e-6, 1e6
    while high / low > 1 + 1e-9:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if event.within(Budget.gdp(middle)) else (middle, high)
    # Randomised response must not be more distinguishable than the Gaussian pair, at any epsilon.
    truth = 1 / (1 + math.exp(-epsilon))
    for at in np.linspace(0, epsilon, 50):
        assert gdp_delta(high, at) >= truth * -math.expm1(at - epsilon) * (1 - 1e-9)
    assert gdp_delta(high, 0.0) == pytest.approx(math.tanh(epsilon / 2), rel=1e-6)


PURE_AS_GAUSSIAN = [  # epsilon, -2 * the normal quantile of 1 / (1 + exp(epsilon)), in 60 digits (mpmath)
    (1e-300, 1.253314137315500282615e-300),
    (1e-17, 1.253314137315500340873e-17),
    (1e-9, 1.253314137315500329244e-9),
    (1e-3, 0.00125331411490187517977),
    (0.5, 0.6238925920985081920499),
    (0.9, 1.112321423075347040904),
    (1.0, 1.232035385344900972856),
    (4.0, 4.194478085560340381452),
    (30.0, 14.71533363001752484606),
]


@pytest.mark.parametrize(("epsilon", "mu"), PURE_AS_GAUSSIAN)
def test_a_pure_event_costs_its_gaussian_equivalent_and_a_little_more(epsilon, mu):
    """Many tiny ones must not be free; the equivalent is rounded up by more than its computation is off."""
    events = [PureEvent(epsilon)] * 4
    assert compose(events).within(Budget.gdp(2 * mu * (1 + 2e-12)))
    assert not compose(events).within(Budget.gdp(2 * mu * (1 + 1e-13)))
    assert not compose(events).within(Budget.gdp(2 * mu))


@pytest.mark.parametrize("epsilon", [5e-324, 1e-322, 1e-318, 1e-316])
def test_a_pure_event_too_small_for_all_digits_costs_no_less_than_its_gaussian_equivalent(epsilon):
    """That is ``sqrt(pi / 2)`` times ``epsilon`` towards 0, between two neighbouring floats here."""
    exact = Fraction(epsilon) * Fraction("1.253314137315500251")
    enough = float(exact)
    if Fraction(enough) < exact:
        enough = math.nextafter(enough, 1.0)
    assert not compose([PureEvent(epsilon)]).within(Budget.gdp(math.nextafter(enough, 0.0)))
    assert compose([PureEvent(epsilon)]).within(Budget.gdp(enough + 1e-319))


def test_gaussian_and_pure_events_share_gdp_and_zcdp_budgets_by_their_squares():
    both = compose([GaussianEvent(3.0), PureEvent(1.0)])
    pure = -2 * ndtri(1 / (1 + math.e))
    assert both.within(Budget.gdp(math.hypot(3.0, pure) * (1 + 1e-9)))
    assert not both.within(Budget.gdp(math.hypot(3.0, pure) * (1 - 1e-9)))
    assert both.within(Budget.zcdp(5.0))  # (9 + 1) / 2
    assert not both.within(Budget.zcdp(5.0 * (1 - 1e-12)))


@pytest.mark.parametrize("budget", [Budget.gdp(100.0), Budget.zcdp(100.0), Budget(100.0)], ids=repr)
def test_one_release_that_can_fail_is_enough_to_leave_budgets_without_failures(budget):
    assert not compose([PureEvent(0.1), ApproximateEvent(0.1, 1e-9)]).within(budget)
    assert compose([PureEvent(0.1), PureEvent(0.1)]).within(budget)


def test_releases_that_fail_nearly_always_promise_nothing_and_no_more_than_that():
    for share in (0.5, 0.6):
        twice = compose([ApproximateEvent(200.0, share)] * 2)
        assert twice.delta_at(0.0) == twice.delta_at(600.0) == 1.0
    mixed = compose([GaussianEvent(5.0), ApproximateEvent(301.0, 0.9)])
    assert mixed.delta_at(0.0) == mixed.delta_at(301.0) == 1.0
    assert 0.9 <= mixed.delta_at(600.0) <= 0.9 + 1e-12


def test_epsilon_is_asked_at_a_probability_below_one():
    for wrong in (1.0, 1.5, -1e-9, math.nan):
        with pytest.raises(InvalidArgument):
            compose([PureEvent(1.0)]).epsilon_at(wrong)


def test_the_sum_of_losses_is_no_smaller_than_it_prints():
    """0.1 and 1e-17 are more than 0.1, which is the nearest float."""
    both = compose([PureEvent(0.1), PureEvent(1e-17)])
    assert both.epsilon_at(0.0) == math.nextafter(0.1, 1.0)
    assert not both.within(Budget(0.1))


def test_basic_composition_adds_probabilities_upwards():
    """Beyond the reach of numerical composition."""
    for delta in np.random.default_rng(6).uniform(0.01, 0.3, 60):
        found = compose([GaussianEvent(5.0), ApproximateEvent(301.0, delta)]).delta_at(310.0)
        exact = Fraction(float(delta)) + Fraction(gdp_delta(5.0, math.nextafter(9.0, 0.0)))
        assert exact <= Fraction(found) <= exact * (1 + Fraction(1, 10**15))


def test_huge_losses_fall_back_to_basic_composition():
    guarantee = compose([GaussianEvent(50.0), PureEvent(1.0)])
    assert guarantee.epsilon_at(1e-6) == pytest.approx(1 + gdp_epsilon(50.0, 1e-6))
    assert compose([PureEvent(5e5)] * 2).epsilon_at(0.0) == 1e6


def test_a_huge_gaussian_release_beside_others_costs_what_basic_composition_says():
    """Numerical composition, which would take seconds, counts all losses as infinite."""
    found = compose([GaussianEvent(1000.0), PureEvent(1.0)]).delta_at(501_000.0)
    assert found == pytest.approx(gdp_delta(1000.0, 500_999.0), rel=1e-9)


def test_nothing_released_costs_nothing():
    guarantee = compose([])
    assert (guarantee.mu, guarantee.delta_at(0.0), guarantee.epsilon_at(0.0)) == (0.0, 0.0, 0.0)
    assert all(
        guarantee.within(b) for b in (Budget(1e-9), Budget(1, 1e-9), Budget.gdp(1e-9), Budget.zcdp(1e-9))
    )
    assert guarantee.describe() == "nothing released"


def test_description_names_every_part():
    words = compose(
        [GaussianEvent(0.5), PureEvent(0.1), PureEvent(0.1), ApproximateEvent(0.2, 1e-8)]
    ).describe()
    assert "0.5-Gaussian" in words
    assert "and 0.2-differential privacy and" in words
    assert "(0.2, 1e-08)" in words


def test_a_gdp_budget_is_exhausted_to_the_last_digit_by_pure_events_too():
    mu = _gdp_of_pure(0.7)
    assert compose([PureEvent(0.7)]).within(Budget.gdp(mu))
    assert not compose([PureEvent(0.7)]).within(Budget.gdp(math.nextafter(mu, 0.0)))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([0.05466, 0.06634, 0.379], "0.5"),
        ([0.1] * 3, "0.3"),
        ([0.25], "0.25"),
        ([0.5, 4e-6], "0.5001"),
        ([1e308, 1e308], "inf"),
    ],
)
def test_pure_events_are_described_by_their_total_rounded_up(events, said):
    assert compose(map(PureEvent, events)).describe() == f"{said}-differential privacy"


@pytest.mark.parametrize("event", [None, 0.5, "gaussian", ("gaussian", 0.5), Budget(1.0), object()])
def test_unknown_events_are_refused(event):
    with pytest.raises(Incompatible, match="cannot be composed"):
        compose([GaussianEvent(0.1), event])


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1"])
def test_events_check_their_numbers(bad):
    for make in (GaussianEvent, PureEvent, lambda e: ApproximateEvent(e, 1e-6)):
        with pytest.raises(InvalidArgument):
            make(bad)
    with pytest.raises(InvalidArgument):
        ApproximateEvent(1.0, 1.0)
    with pytest.raises(InvalidArgument, match="overflows"):
        compose([GaussianEvent(1e200)])


@pytest.mark.parametrize("mu", [5e-324, 1e-310, 1e-200, 1e-160, 1.5, 1e140])
def test_a_single_gaussian_costs_itself_whatever_its_size(mu):
    assert compose([GaussianEvent(mu)]).gaussian == mu
    twice = compose([GaussianEvent(mu)] * 2).gaussian
    assert 2 * Fraction(mu) ** 2 <= Fraction(twice) ** 2 <= 4 * Fraction(mu) ** 2


TINY = (5e-324, 1e-310, 1e-150)


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize("kind", [GaussianEvent, PureEvent, lambda size: ApproximateEvent(size, size)])
def test_an_event_too_small_for_its_square_or_inverse_composes(kind, tiny):
    """It costs next to nothing, beside another one or alone, and fits wherever the other one fits."""
    other = PureEvent(0.3)
    together = compose([kind(tiny), other, kind(tiny)])
    alone = compose([other])
    for epsilon in (0.0, 0.1, 0.3, 1.0):
        assert alone.delta_at(epsilon) <= together.delta_at(epsilon) <= alone.delta_at(epsilon) + 1e-9
    assert together.epsilon_at(1e-7) == pytest.approx(0.3, abs=1e-3)
    assert together.within(Budget(0.31, 1e-6))
    assert not together.within(Budget(0.29, 1e-6))
    assert compose([kind(tiny)] * 3).within(Budget(1e-3, 1e-6))


@pytest.mark.parametrize("beside", [[], [GaussianEvent(1.0)]])
@pytest.mark.parametrize("huge", [1e308, 1.7976931348623157e308])
def test_a_loss_beyond_all_floats_is_infinite(huge, beside):
    together = compose([PureEvent(huge), PureEvent(huge), *beside])
    assert together.delta_at(1e308) == 1.0
    assert together.epsilon_at(0.5) == math.inf
    for budget in (Budget(1e308), Budget(1.0, 0.5), Budget.gdp(1e3), Budget.zcdp(1e3)):
        assert not together.within(budget)


def test_events_take_what_is_in_their_range_and_nothing_else():
    assert ApproximateEvent(1.0, 0.7).delta == 0.7
    assert math.copysign(1.0, ApproximateEvent(1.0, -0.0).delta) == 1.0
    assert SampledGaussianEvent("poisson", "add_remove", 1.0, 0.01, 5).rate == 0.01
    assert SampledGaussianEvent("one", "replace", 1.0, 1.0, 5).steps == 5
    with pytest.raises(Incompatible, match="one row per step"):
        SampledGaussianEvent("one", "add_remove", 1.0, 0.01, 5)
    for wrong in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(InvalidArgument):
            SampledGaussianEvent("poisson", "replace", 1.0, wrong, 5)
    for wrong in (1.0, -1e-9, math.nan):
        with pytest.raises(InvalidArgument):
            ApproximateEvent(1.0, wrong)
