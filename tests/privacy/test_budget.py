import copy
import json
import math
import pickle
import sys
from fractions import Fraction

import numpy as np
import pytest

from privfit.errors import Incompatible, InvalidArgument
from privfit.privacy import budget as module
from privfit.privacy.budget import Budget, gdp_delta, gdp_mu

BUDGETS = [
    Budget(1.0),
    Budget(1.0, 1e-6),
    Budget(0.3, 0.2),
    Budget.gdp(0.5),
    Budget.zcdp(0.1),
]


def test_declared_numbers_and_notions():
    assert [b.notion for b in BUDGETS] == ["pure", "approximate", "approximate", "gdp", "zcdp"]
    assert (Budget(1.0, 1e-6).epsilon, Budget(1.0, 1e-6).delta) == (1.0, 1e-6)
    assert Budget(2).delta == 0.0
    assert Budget.zcdp(0.1).rho == 0.1
    assert Budget.gdp(0.5).mu == 0.5


@pytest.mark.parametrize(
    ("budget", "name"),
    [
        (Budget.gdp(1), "epsilon"),
        (Budget.gdp(1), "delta"),
        (Budget.gdp(1), "rho"),
        (Budget.zcdp(1), "epsilon"),
        (Budget.zcdp(1), "delta"),
        (Budget(1), "rho"),
        (Budget(1, 1e-6), "rho"),
    ],
)
def test_numbers_of_another_notion_are_refused_with_a_remedy(budget, name):
    with pytest.raises(Incompatible, match="epsilon_at"):
        getattr(budget, name)


def test_mu_of_each_notion_is_on_the_safe_side():
    assert Budget(1.0).mu == 0.0
    for epsilon in np.logspace(-4, 6, 11):
        for delta in (1e-300, 1e-9, 1e-5, 0.3):
            mu = Budget(epsilon, delta).mu
            assert mu == gdp_mu(epsilon, delta) > 0
            assert gdp_delta(mu, epsilon) <= delta
    extremes = 5e-324, 1e-300, 1e308, sys.float_info.max  # twice the last two overflow
    for rho in [0.1, 0.5, 1 / 3, 2.0, *extremes, *np.random.default_rng(3).lognormal(size=50)]:
        mu = Budget.zcdp(rho).mu
        assert Fraction(mu) ** 2 <= 2 * Fraction(rho) < Fraction(math.nextafter(mu, math.inf)) ** 2


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_epsilon_at_inverts_delta_at_literally(budget):
    for delta in (0.0, 1e-300, 1e-12, 1e-6, 0.01, 0.21, 0.9):
        epsilon = budget.epsilon_at(delta)
        if math.isfinite(epsilon):
            assert budget.delta_at(epsilon) <= delta
        if 1e-6 < epsilon < math.inf and budget.delta_at(0.0) > delta > 0:
            assert budget.delta_at(epsilon * (1 - 1e-6)) > delta or budget.notion == "pure"
    deltas = [budget.delta_at(e) for e in np.linspace(0, 5, 300)]
    assert all(0 <= d <= 1 for d in deltas)
    assert np.all(np.diff(deltas) <= 0)


def test_a_pair_implies_itself_and_nothing_with_a_smaller_delta():
    budget = Budget(1.0, 1e-6)
    assert budget.epsilon_at(1e-6) == 1.0
    assert budget.delta_at(1.0) == 1e-6
    assert budget.epsilon_at(1e-7) == math.inf
    assert budget.delta_at(50.0) == 1e-6
    assert Budget(1.0).epsilon_at(0.0) == 1.0
    assert Budget(1.0).delta_at(1.0) == 0.0
    assert Budget.gdp(1).epsilon_at(0.0) == math.inf
    assert Budget(1e6, 1e-300).delta_at(1e6 - 10) == pytest.approx(-math.expm1(-10))


def test_notions_are_ordered_as_theory_says():
    for mu in (0.01, 0.3, 2.0):
        gdp, zcdp = Budget.gdp(mu), Budget.zcdp(mu**2 / 2)
        for delta in (1e-10, 1e-5):
            assert gdp.epsilon_at(delta) < zcdp.epsilon_at(delta) < 1.25 * gdp.epsilon_at(delta)
            assert Budget(gdp.epsilon_at(delta), delta).mu == pytest.approx(mu, rel=1e-9)


def test_budgets_are_values():
    assert Budget(1, 1e-6) == Budget(1.0, 1e-6) != Budget(1.0)
    assert Budget.gdp(1) != Budget.zcdp(1) != Budget(1)
    assert len({*BUDGETS, *BUDGETS}) == len(BUDGETS)
    for budget in BUDGETS:
        assert eval(repr(budget)) == budget  # noqa: S307
        assert pickle.loads(pickle.dumps(budget)) == copy.deepcopy(budget) == budget  # noqa: S301
        assert Budget.from_dict(json.loads(json.dumps(budget.to_dict()))) == budget
        assert "privacy" in budget.describe()
        with pytest.raises(AttributeError):
            budget.notion = "pure"


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"notion": "gdp"},
        {"notion": "gdp", "mu": 1, "rho": 1},
        {"notion": "pure", "epsilon": 1, "delta": 0.1},
        {"notion": "renyi", "alpha": 2, "epsilon": 1},
        {"notion": "zcdp", "rho": -1},
        [],
    ],
)
def test_malformed_dictionaries_are_refused(data):
    with pytest.raises(InvalidArgument):
        Budget.from_dict(data)


@pytest.mark.parametrize("bad", [0, -1, math.nan, math.inf, True, "1", None])
def test_positive_arguments_are_checked(bad):
    for make in (Budget, Budget.gdp, Budget.zcdp):
        with pytest.raises(InvalidArgument) as caught:
            make(bad)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("bad", [-1e-9, 1, 1.5, math.nan, True, "0", None])
def test_delta_is_checked(bad):
    with pytest.raises(InvalidArgument, match="delta must"):
        Budget(1.0, bad)
    with pytest.raises(InvalidArgument, match="delta must"):
        Budget.gdp(1.0).epsilon_at(bad)


@pytest.mark.parametrize("delta", [0.0, 1e-300, 0.5, 0.7, 1 - 2.0**-53])
def test_every_probability_below_one_can_be_declared(delta):
    assert Budget(1.0, delta).delta == delta


@pytest.mark.parametrize("bad", [-1e-9, math.nan, math.inf, True, "0"])
@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_epsilon_of_a_curve_is_checked(budget, bad):
    with pytest.raises(InvalidArgument, match="epsilon must"):
        budget.delta_at(bad)


def test_module_offers_the_gaussian_curve():
    assert {"gdp_delta", "gdp_epsilon", "gdp_mu"} <= set(module.__all__)
