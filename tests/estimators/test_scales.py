"""Scales that a fit buys: what they cost, what they are worth, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

import privfit as pf
from privfit.errors import PlanViolation
from privfit.estimators.options import BoughtBounds, FitOptions
from privfit.estimators.scales import PRIVATE
from privfit.privacy.composition import compose
from privfit.privacy.mechanisms import make_source
from privfit.problem.plan import PlannedRelease, Release

N = 20_000
SEEDED = {"epsilon": 4.0, "random_state": 3, "scale": PRIVATE}
BUDGETS = {
    "pure": pf.Budget(6.0),
    "pair": pf.Budget(2.0, 1e-6),
    "gdp": pf.Budget.gdp(0.8),
    "zcdp": pf.Budget.zcdp(0.3),
}
SLOPES = np.array([0.03, 2e-5, 0.05])
"""Effects of ages, incomes and years, each about 0.5 standard deviations of a logit."""


def predictors(n=N, seed=0):
    rng = np.random.default_rng(seed)
    return np.column_stack(
        [rng.normal(50, 15, n), rng.gamma(4.0, 8_000.0, n), rng.integers(1980, 2021, n).astype(float)]
    )


def eta_of(x):
    return (x - [50.0, 32_000.0, 2000.0]) @ SLOPES


@pytest.fixture(scope="module")
def rows():
    x = predictors()
    rng = np.random.default_rng(1)
    eta = eta_of(x)
    return {
        "x": x,
        "numeric": 900.0 + 100.0 * (eta + rng.normal(size=N)),
        "binary": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(int),
        "count": rng.poisson(np.exp(0.5 * eta)).astype(float),
    }


ESTIMATORS = {
    "linear": (pf.LinearRegression, "numeric", {}, 100.0),
    "huber": (pf.HuberRegressor, "numeric", {}, 100.0),
    "quantile": (pf.QuantileRegressor, "numeric", {}, 100.0),
    "logistic": (pf.LogisticRegression, "binary", {}, 1.0),
    "poisson": (pf.PoissonRegressor, "count", {"count_bound": 20.0}, 0.5),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_columns_in_any_unit_are_fitted(rows, name):
    """Within five standard errors each: a false alarm in 1e-5 over all, but for the fixed seeds."""
    cls, response, options, unit = ESTIMATORS[name]
    model = cls(**options, **SEEDED).fit(rows["x"], rows[response])
    slopes, errors = model.coef_.ravel(), model.result_.bse.to_numpy()[1:]
    assert np.all(np.abs(slopes - unit * SLOPES) < 5 * errors)
    assert np.all(errors < 0.2 * unit * SLOPES)


@pytest.mark.parametrize("name", BUDGETS)
def test_looks_and_fit_are_within_the_budget_together(rows, name):
    budget = BUDGETS[name]
    result = pf.LogisticRegression(budget=budget, scale=PRIVATE).fit(rows["x"], rows["binary"]).result_
    looks = [release for release in result.plan.releases if release.kind == "places"]
    assert len(looks) == 3
    assert result.plan.solver_releases[:3] == tuple(looks)
    assert [release.planned for release in result.releases[:3]] == looks
    assert compose(result.plan.events).within(budget)
    whole, part = compose(result.plan.events), compose([look.event for look in looks])
    spent = (
        part.epsilon_at(0.0) / whole.epsilon_at(0.0)
        if name == "pure"
        else (part.gaussian / whole.gaussian) ** 2
    )
    share = 0.25 if name == "pure" else 0.1
    assert share * (1 - 1e-6) < spent < share * (1 + 1e-6)


def test_a_larger_share_buys_looks_with_less_noise(rows):
    plans = [
        pf.LogisticRegression(scale=PRIVATE, scale_share=share).fit(rows["x"], rows["binary"]).result_.plan
        for share in (0.2, 0.8)
    ]
    assert plans[0].releases[0].sd / plans[1].releases[0].sd == pytest.approx(2.0, rel=1e-5)


def test_without_noise_the_fit_is_that_without_bounds(rows):
    x = (rows["x"] - rows["x"].mean(axis=0)) / rows["x"].std(axis=0)
    options = {"solver": "non-private", "norm_bound": 1e6}
    plain = pf.LogisticRegression(**options).fit(x, rows["binary"])
    bought = pf.LogisticRegression(solver="non-private", scale=PRIVATE).fit(rows["x"], rows["binary"])
    np.testing.assert_allclose(bought.coef_ * rows["x"].std(axis=0), plain.coef_, rtol=1e-5)
    assert not bought.result_.private
    assert bought.result_.releases == ()


def test_labels_and_counts_are_not_looked_at(rows):
    sizes = {}
    for name in ("logistic", "poisson", "linear"):
        cls, response, options, _ = ESTIMATORS[name]
        plan = cls(**options, **SEEDED).fit(rows["x"], rows[response]).result_.plan
        sizes[name] = plan.releases[0].size
    assert sizes["logistic"] == sizes["poisson"] == 0.75 * sizes["linear"]


def test_a_saved_result_predicts_the_same(rows, tmp_path):
    model = pf.LinearRegression(**SEEDED).fit(rows["x"], rows["numeric"])
    read = pf.FitResult.from_json(model.result_.to_json())
    new = predictors(5, seed=9)
    np.testing.assert_array_equal(read.predict(new), model.result_.predict(new))
    np.testing.assert_allclose(read.predict(new), model.predict(new), rtol=1e-12)
    np.testing.assert_allclose(model.predict(new), 900 + 100 * eta_of(new), atol=40.0)
    assert read.plan == model.result_.plan


def test_rows_that_are_predicted_are_clamped_as_in_the_fit(rows):
    model = pf.LinearRegression(**SEEDED).fit(rows["x"], rows["numeric"])
    far = np.array([[1e12, 32_000.0, 2000.0], [2e12, 32_000.0, 2000.0]])
    first, second = model.predict(far)
    assert first == second
    assert np.isfinite(first)


def test_a_fit_without_intercept_is_scaled_about_zero():
    rng = np.random.default_rng(2)
    x = rng.gamma(4.0, 100.0, (N, 2))
    y = x @ [3.0, 1.0] + 200.0 * rng.normal(size=N)
    model = pf.LinearRegression(fit_intercept=False, **SEEDED).fit(x, y)
    assert model.intercept_ == 0.0
    np.testing.assert_allclose(model.coef_, [3.0, 1.0], atol=0.2)


def test_missing_bounds_of_a_schema_are_filled_in(rows):
    x = rows["x"]
    table = pd.DataFrame({"age": x[:, 0], "income": x[:, 1], "sex": "f", "wage": rows["numeric"]})
    table.loc[::2, "sex"] = "m"
    draft = {
        "age": {"type": "numeric", "lower": 0, "upper": 110},
        "income": {"type": "numeric", "lower": 0},
        "sex": {"type": "categorical", "levels": ["f", "m"]},
        "wage": {"type": "numeric", "target": True},
    }
    model = pf.LinearRegression(schema=draft, **SEEDED).fit(table)
    half_widths = dict(zip(model.result_.form.columns, model.result_.form.half_widths, strict=True))
    assert half_widths["age"] == 55.0
    assert 40_000 < 2 * half_widths["income"] < 300_000
    assert model.result_.plan.releases[0].size == 2 * 209
    assert np.all(np.isfinite(model.predict(table.iloc[:3])))
    read = pf.FitResult.from_json(model.result_.to_json())
    np.testing.assert_array_equal(read.predict(table.iloc[:3]), model.result_.predict(table.iloc[:3]))


def test_the_bound_on_counts_can_be_learned(rows):
    table = {
        "age": rows["x"][:, 0],
        "income": rows["x"][:, 1],
        "year": rows["x"][:, 2],
        "visits": rows["count"],
    }
    draft = {name: {"type": "numeric"} for name in table} | {"visits": {"type": "numeric", "lower": 0}}
    model = pf.PoissonRegressor(schema=draft, **SEEDED).fit(table, "visits")
    assert np.all(np.abs(model.coef_ - 0.5 * SLOPES) < 5 * model.result_.bse.to_numpy()[1:])
    bound = model.result_.encoder.design.target.count_bound
    assert rows["count"].max() / 2 < bound < 20 * rows["count"].max()
    with pytest.raises(pf.SchemaError, match=r"'visits'.*declare lower, of at least 0"):
        pf.PoissonRegressor(schema=draft | {"visits": {"type": "numeric"}}, **SEEDED).fit(table, "visits")


def test_people_are_protected_in_the_looks_too(rows):
    groups = np.repeat(np.arange(N // 4), 4)
    model = pf.LogisticRegression(scale=PRIVATE, epsilon=4.0).fit(rows["x"], rows["binary"], groups=groups)
    assert model.result_.plan.unit == "groups"
    looks = [release for release in model.result_.plan.releases if release.kind == "places"]
    alone = pf.LogisticRegression(scale=PRIVATE, epsilon=4.0).fit(rows["x"], rows["binary"])
    ratio = looks[0].sensitivity / alone.result_.plan.releases[0].sensitivity
    assert ratio == pytest.approx(4.0, rel=1e-3)


def test_a_ledger_has_an_entry_for_each(rows, tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget(2.0, 1e-6))
    options = {"epsilon": 2.0, "delta": 1e-6, "scale": PRIVATE, "ledger": ledger, "dataset": "people"}
    result = pf.LogisticRegression(**options).fit(rows["x"], rows["binary"]).result_
    spends = ledger.export()["reservations"]
    assert [spend["note"] for spend in spends] == ["bounds of columns", result.plan.model]
    assert all(spend["committed_at"] for spend in spends)
    assert compose(result.plan.events).within(ledger.granted("people"))


def test_an_account_that_cannot_pay_for_the_fit_pays_for_no_look(rows, tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget(1.0, 1e-6))
    options = {"epsilon": 2.0, "scale": PRIVATE, "ledger": ledger, "dataset": "people"}
    with pytest.raises(pf.BudgetExceeded) as refused:
        pf.LogisticRegression(**options).fit(rows["x"], rows["binary"])
    assert ledger.export()["reservations"] == []
    spent = str(refused.value).split("of which was spent: ")[1].split(". ")[0]
    with pytest.raises(pf.BudgetExceeded) as too_much:
        pf.LogisticRegression(epsilon=2.0, ledger=ledger, dataset="people").fit(rows["x"], rows["binary"])
    assert f"of which was spent: {spent}" in str(too_much.value)


def test_a_column_that_noise_hides_is_named(rows):
    with pytest.raises(pf.TooLittleData, match="'x0', 'x1', 'x2'"):
        pf.LogisticRegression(epsilon=0.01, scale=PRIVATE).fit(rows["x"][:200], rows["binary"][:200])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scale": 2.0}, "scale must be None or 'private'"),
        ({"scale": "public"}, "scale"),
        ({"scale": PRIVATE, "norm_bound": 2.0}, "norm_bound"),
        ({"scale": PRIVATE, "scale_share": 0.0}, "scale_share"),
        ({"scale": PRIVATE, "scale_share": 1.0}, "scale_share"),
        ({"scale": PRIVATE, "scale_share": "half"}, "scale_share"),
    ],
)
def test_other_scales_are_refused(rows, options, message):
    with pytest.raises(pf.InvalidArgument, match=message):
        pf.LogisticRegression(**options).fit(rows["x"], rows["binary"])


def test_a_schema_that_lacks_nothing_is_refused(rows):
    schema = {
        "a": {"type": "numeric", "lower": 0, "upper": 1},
        "y": {"type": "numeric", "lower": 0, "upper": 1},
    }
    with pytest.raises(pf.InvalidArgument, match="no numeric column of the schema lacks"):
        pf.LinearRegression(schema=schema, scale=PRIVATE).fit({"a": [0.5] * 50, "y": [0.5] * 50}, "y")


def test_a_stream_is_read_once_and_not_looked_at():
    stream = pf.RowStream([(np.ones((5, 1)), np.ones(5))], n_rows=5, columns=["a"])
    model = pf.LogisticRegression(scale=PRIVATE, inference=False, solver=pf.solvers.OnlineToBatch())
    with pytest.raises(pf.InvalidArgument, match="read once"):
        model.fit(stream)


def test_a_public_residual_scale_stays_one(rows):
    x = (rows["x"] - rows["x"].mean(axis=0)) / rows["x"].std(axis=0)
    y = (rows["numeric"] - 900.0) / 100.0
    assert pf.HuberRegressor(scale=0.9, random_state=0).fit(x, y).scale_ == 0.9
    bought = pf.HuberRegressor(**SEEDED).fit(rows["x"], rows["numeric"])
    assert 80.0 < bought.scale_ < 140.0


def test_arguments_are_those_of_scikit_learn():
    model = clone(pf.PoissonRegressor(scale=PRIVATE, scale_share=0.2, count_bound=5.0))
    assert (model.scale, model.scale_share) == (PRIVATE, 0.2)


def test_looks_that_were_taken_are_charged():
    """Options of a fit that would be planned as if its looks had cost nothing cannot be made."""
    look = PlannedRelease("places", 3, 1.0, 0.2, 5.0)
    bought = BoughtBounds((Release(look, np.zeros(1), np.zeros(3)),), make_source(0), ())
    budget = pf.Budget.gdp(0.5)
    charged = FitOptions(budget=budget, before=(look,), bought=bought)
    assert charged.allowance.amount == pytest.approx(np.sqrt(0.5**2 - 0.2**2))
    for before in ((), (look, look), (PlannedRelease("places", 3, 1.0, 0.1, 10.0),)):
        with pytest.raises(PlanViolation, match="the looks that were taken"):
            FitOptions(budget=budget, before=before, bought=bought)
