import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from privfit.errors import InvalidArgument
from privfit.privacy.curves import gdp_delta, gdp_epsilon, gdp_mu, pair_delta, smallest_epsilon, zcdp_delta

EPSILONS = np.logspace(-4, 6, 40)
DELTAS = np.concatenate([np.logspace(-300, -12, 8), np.logspace(-11, -1, 9), [0.5, 0.9, 0.999999]])

REFERENCE = [  # mu, epsilon, delta in 300 digits (mpmath)
    (1e-6, 0, 3.9894228040141604e-7),
    (1e-6, 2e-5, 1.3700261949227876e-96),
    (1e-4, 3e-3, 1.6344065040237211e-203),
    (0.01, 0.2, 1.5140791334826107e-92),
    (0.3, 1, 5.4887496446129366e-5),
    (0.49999, 3, 3.3982734407397869e-10),
    (0.5, 3, 3.4009117356735288e-10),
    (1, 0, 0.38292492254802621),
    (1, 37, 1.4764695344425281e-293),
    (2, 1, 0.50986166005467015),
    (10, 80, 0.001010969051618483),
    (100, 6000, 6.9204018544273569e-24),
    (1000, 536000, 4.0371700779954504e-284),
    (1419, 1e6, 0.9999991132615791),
    (1e4, 50350000, 1.1209840535197341e-268),
]


@pytest.mark.parametrize(("mu", "epsilon", "exact"), REFERENCE)
def test_gdp_delta_matches_many_digits_from_above(mu, epsilon, exact):
    delta = gdp_delta(mu, epsilon)
    assert delta >= exact * (1 - 2e-16)
    assert delta == pytest.approx(exact, rel=1e-10 if mu <= 1000 else 1e-9, abs=0.0)


def test_gdp_delta_covers_the_rounding_of_large_terms_that_cancel():
    """There the exponent is off by a relative 1e-10; the value has 22 digits (mpmath)."""
    delta = gdp_delta(1e5, 5002818819.357151)
    assert delta >= 4.079132361874212993575e-175
    assert delta == pytest.approx(4.079132361874212993575e-175, rel=1e-8, abs=0.0)


@pytest.mark.parametrize(("mu", "epsilon"), [(60.0, 0.0), (1e3, 1.0), (1e6, 0.0)])
def test_gdp_delta_is_a_probability(mu, epsilon):
    assert gdp_delta(mu, epsilon) == 1.0


CONCENTRATED = [  # rho, epsilon, the minimum over all orders in 50 digits (mpmath)
    (0.5, 5.0, 2.8961228093847950149e-6),
    (0.001, 0.5, 1.352390961512962162e-30),
    (10.0, 120.0, 2.5922365152137395375e-133),
    (300.0, 1200.0, 1.3195236720293386474e-294),
    (1000.0, 2200.0, 1.5637988755500124996e-157),
    (1e4, 15000.0, 1.9691018361610573103e-272),
    (1e-6, 0.05, 5.5513421377289460408e-277),
    (1e5, 105000.0, 6.3905236906885239506e-28),
    (1e6, 1001000.0, 0.77544749206360138601),
    (3e5, 310000.0, 5.9136140549605180413e-37),
]


@pytest.mark.parametrize(("rho", "epsilon", "exact"), CONCENTRATED)
def test_zcdp_delta_matches_many_digits_from_above(rho, epsilon, exact):
    assert exact <= zcdp_delta(rho, epsilon) <= exact * (1 + 2e-11)


def test_pair_delta_matches_many_digits_from_above():
    rng = np.random.default_rng(9)
    with localcontext(prec=50):
        for epsilon, delta, share in zip(
            rng.lognormal(0.0, 2.0, 300), rng.uniform(0.0, 1.0, 300), rng.uniform(0.0, 1.0, 300), strict=True
        ):
            top, at = Decimal(epsilon).exp(), Decimal(share * epsilon).exp()
            exact = Decimal(delta) + (1 - Decimal(delta)) * (top - at) / (1 + top)
            found = Decimal(pair_delta(epsilon, delta, share * epsilon))
            assert exact <= found <= exact * (1 + Decimal("1e-14"))
    assert pair_delta(1e3, 0.9, 0.0) == 1.0


def test_gdp_delta_is_the_divergence_of_two_normals_and_its_exponent_is_epsilon():
    mu, epsilon = 1.3, 0.7
    excess = quad(lambda t: norm.pdf(t - mu) - math.exp(epsilon) * norm.pdf(t), epsilon / mu + mu / 2, 40)[0]
    assert gdp_delta(mu, epsilon) == pytest.approx(excess, rel=1e-7)
    upper, lower = norm.cdf(-epsilon / mu + mu / 2), norm.cdf(-epsilon / mu - mu / 2)
    assert gdp_delta(mu, epsilon) == pytest.approx(upper - math.exp(epsilon) * lower, rel=1e-12)
    misprint = upper - math.exp(mu) * lower  # as printed in Avella Medina, Bradshaw and Loh
    assert gdp_delta(mu, epsilon) > 1.2 * misprint


def test_gdp_mu_never_exceeds_delta_over_the_grid():
    for epsilon in EPSILONS:
        for delta in DELTAS:
            mu = gdp_mu(epsilon, delta)
            assert gdp_delta(mu, epsilon) <= delta
            assert gdp_delta(mu * (1 + 1e-8), epsilon) > delta


def test_gdp_epsilon_never_exceeds_delta_over_the_grid():
    for mu in np.logspace(-6, 4, 30):
        for delta in DELTAS:
            epsilon = gdp_epsilon(mu, delta)
            assert gdp_delta(mu, epsilon) <= delta
            if epsilon > 1e-8 * mu:
                assert gdp_delta(mu, epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize(
    ("epsilon", "delta", "mu"),
    [(1, 1e-5, 0.2681), (1, 1e-6, 0.2367), (2, 1e-5, 0.5016), (0.5, 1e-5, 0.1422)],
)
def test_gdp_mu_known_values(epsilon, delta, mu):
    assert gdp_mu(epsilon, delta) == pytest.approx(mu, abs=5e-5)


def test_gdp_curve_is_monotone():
    for mu in np.logspace(-3, 3, 13):
        deltas = [gdp_delta(mu, epsilon) for epsilon in np.linspace(0, mu**2 + 8 * mu, 200)]
        assert np.all(np.diff(deltas) <= 0)
    mus = [gdp_mu(epsilon, 1e-6) for epsilon in EPSILONS]
    assert np.all(np.diff(mus) > 0)
    mus = [gdp_mu(1.0, delta) for delta in DELTAS]
    assert np.all(np.diff(mus) > 0)


def test_classical_gaussian_formula_fails_at_large_epsilon():
    def actual(epsilon, delta):
        sd = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        return gdp_delta(1 / sd, epsilon)

    assert actual(1, 3e-6) < 3e-6
    assert actual(20, 3e-6) == pytest.approx(5e-4, rel=0.2)
    assert actual(40, 3e-6) == pytest.approx(0.11, rel=0.1)


def test_gdp_edges():
    assert gdp_delta(0.0, 0.0) == 0.0
    assert gdp_delta(1.0, 1e9) > 0.0
    assert gdp_mu(1.0, 0.0) == 0.0
    assert gdp_epsilon(1.0, 0.0) == math.inf
    assert gdp_epsilon(1.0, 0.5) == 0.0


def test_zcdp_delta_is_the_minimum_over_orders():
    for rho in (1e-6, 1e-3, 0.1, 1.0, 30.0):
        for epsilon in (rho / 2, rho + math.sqrt(rho), rho + 6 * math.sqrt(rho), rho + 30 * math.sqrt(rho)):
            alpha = 1 + np.logspace(-6, 8, 400_001)
            log = (alpha - 1) * (alpha * rho - epsilon) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)
            best = min(1.0, math.exp(log.min()))
            delta = zcdp_delta(rho, epsilon)
            assert delta == pytest.approx(best, rel=1e-6)
            assert delta <= best * (1 + 1e-9)


def test_zcdp_is_weaker_than_the_gaussian_of_the_same_rho_but_not_by_much():
    for rho in np.logspace(-8, 3, 23):
        for z in (0.5, 2, 5, 20):
            epsilon = rho + z * math.sqrt(2 * rho)
            gaussian, concentrated = gdp_delta(math.sqrt(2 * rho), epsilon), zcdp_delta(rho, epsilon)
            assert gaussian * (1 - 1e-9) <= concentrated <= 40 * gaussian


def test_zcdp_delta_extremes():
    assert zcdp_delta(1e6, 1.0) == 1.0
    assert 0 < zcdp_delta(1e-12, 1e6) < 1e-300
    assert zcdp_delta(0.1, 1.0) == pytest.approx(0.008933245771818475, rel=1e-9)


def test_pair_delta_is_the_divergence_of_failing_randomised_response():
    for epsilon, delta in ((1.0, 1e-6), (0.1, 0.0), (3.0, 0.2), (700.0, 1e-9)):
        truth = (1 - delta) / (1 + math.exp(-epsilon))
        p, q = np.array([delta, truth, 1 - delta - truth, 0]), np.array([0, 1 - delta - truth, truth, delta])
        for at in (0.0, epsilon / 3, 0.9 * epsilon):
            exact = np.maximum(0, p - math.exp(at) * q).sum()
            assert pair_delta(epsilon, delta, at) == pytest.approx(exact, rel=1e-9, abs=1e-15)
        assert pair_delta(epsilon, delta, epsilon) == delta
        assert pair_delta(epsilon, delta, 2 * epsilon) == delta


def test_smallest_epsilon_of_a_curve_that_never_gets_there_is_infinite():
    assert smallest_epsilon(lambda epsilon: 0.1, 0.05) == math.inf
    assert smallest_epsilon(lambda epsilon: 0.1, 0.1) == 0.0


@pytest.mark.parametrize("bad", [-1.0, math.nan, math.inf, True, "1", None])
def test_arguments_are_checked(bad):
    for call in (
        lambda: gdp_delta(bad, 1.0),
        lambda: gdp_delta(1.0, bad),
        lambda: gdp_mu(bad, 1e-6),
        lambda: gdp_mu(1.0, bad),
        lambda: gdp_epsilon(bad, 1e-6),
        lambda: gdp_epsilon(1.0, bad),
        lambda: zcdp_delta(bad, 1.0),
        lambda: zcdp_delta(1.0, bad),
        lambda: pair_delta(bad, 0.0, 1.0),
        lambda: pair_delta(1.0, bad, 1.0),
        lambda: pair_delta(1.0, 0.0, bad),
    ):
        with pytest.raises(InvalidArgument):
            call()
