"""Constants and budgets whose powers are no numbers are refused before anything is spent."""

import numpy as np
import pytest

import privfit as pf
from privfit.errors import Incompatible, InvalidArgument


def table(n=400):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 2))
    return x, x[:, 0] + rng.normal(size=n)


REFUSED = [
    (pf.LinearRegression, {"l2": 1e51}, InvalidArgument, r"^l2 must lie in \[0, 1e\+50\]"),
    (pf.LinearRegression, {"norm_bound": 1e-100}, InvalidArgument, "^norm_bound must lie in"),
    (pf.LinearRegression, {"norm_bound": 1e100}, InvalidArgument, "^norm_bound must lie in"),
    (pf.LinearRegression, {"residual_bound": 1e200}, InvalidArgument, "^residual_bound must lie in"),
    (pf.HuberRegressor, {"threshold": 1e300}, InvalidArgument, "^threshold must lie in"),
    (pf.HuberRegressor, {"scale": 1e-300}, InvalidArgument, "^threshold must lie in"),
    (pf.QuantileRegressor, {"width": 1e100}, InvalidArgument, "^width must lie in"),
    (pf.LinearRegression, {"epsilon": 1.0, "delta": 1e-310}, Incompatible, "^budget: mu=0 is too small"),
    (pf.LinearRegression, {"budget": pf.Budget.gdp(1e-100)}, Incompatible, "^budget: mu=1e-100 is too"),
    (pf.LinearRegression, {"epsilon": 1e-300, "delta": 0.0}, Incompatible, "^budget: epsilon=1e-300 is"),
    (
        pf.LinearRegression,
        {"solver": pf.solvers.NoisyNewton(n_steps=1500)},
        Incompatible,
        "^budget: the part",
    ),
    (
        pf.LinearRegression,
        {"solver": pf.solvers.NoisyGradientDescent(n_steps=3, growth=1e300)},
        Incompatible,
        "^budget: the part of a release",
    ),
]


@pytest.mark.parametrize("inference", [True, False])
@pytest.mark.parametrize("refused", REFUSED, ids=lambda one: f"{one[0].__name__}-{one[1]}")
def test_what_no_power_of_is_a_number_is_refused(refused, inference, tmp_path):
    estimator, given, error, message = refused
    ledger = pf.Ledger(tmp_path / "account.db")
    model = estimator(**given, inference=inference, ledger=ledger, dataset="people")
    with pytest.raises(error, match=message):
        model.fit(*table())
    assert not ledger.export()["reservations"]


@pytest.mark.parametrize(
    "solver",
    [
        pf.solvers.WhitenedGradientDescent,
        pf.solvers.EmpiricalBayesDescent,
        pf.solvers.NoisyGradientDescent,
        pf.solvers.ProjectedNoisyGradientDescent,
        pf.solvers.ClippedGradientDescent,
        pf.solvers.NoisyNewton,
    ],
)
def test_steps_that_no_plan_can_list_are_refused(solver):
    solver(n_steps=10**6)
    with pytest.raises(InvalidArgument, match="n_steps must be at most 1000000, got 1000001"):
        solver(n_steps=10**6 + 1)


def test_steps_on_sampled_rows_have_little_noise_under_any_budget():
    x, y = table()
    given = {"solver": "noisy-sgd", "inference": False, "random_state": 0}
    usual, *large = (
        pf.LogisticRegression(epsilon=one, **given).fit(x, y > 0).coef_ for one in (1e6, 1e12, 1.7e308)
    )
    for found in large:
        np.testing.assert_array_equal(found, usual)
