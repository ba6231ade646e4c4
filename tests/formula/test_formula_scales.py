"""Fits by formula that learn the bounds which the schema lacks."""

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.privacy.composition import compose

N = 20_000
SEEDED = {"epsilon": 4.0, "random_state": 3, "scale": "private"}
DRAFT = {
    "age": {"type": "numeric"},
    "income": {"type": "numeric", "lower": 0},
    "sex": {"type": "categorical", "levels": ["f", "m"]},
    "spare": {"type": "numeric"},
    "wage": {"type": "numeric"},
    "high": {"type": "categorical", "levels": ["no", "yes"]},
    "visits": {"type": "numeric", "lower": 0},
    "bounded": {"type": "numeric", "lower": 0, "upper": 1},
}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    age, income = rng.normal(45.0, 12.0, N).round(), np.exp(10.0 + 0.7 * rng.normal(size=N))
    sex = rng.choice(["f", "m"], N)
    eta = 0.05 * (age - 45.0) + 0.8 * (np.log1p(income) - 10.0) + 0.5 * (sex == "m")
    return {
        "age": age,
        "income": income,
        "sex": sex,
        "spare": rng.normal(size=N),
        "wage": 20.0 + eta + rng.normal(size=N),
        "high": np.where(eta + rng.logistic(size=N) > 0.0, "yes", "no"),
        "visits": rng.poisson(np.exp(0.5 * eta)),
    }


MODELS = {
    "ols": (pf.ols, "wage", 1.0),
    "huber": (pf.huber, "wage", 1.0),
    "quantile": (pf.quantile, "wage", 1.0),
    "logit": (pf.logit, "high", 1.0),
    "poisson": (pf.poisson, "visits", 0.5),
}


@pytest.mark.parametrize("name", MODELS)
def test_terms_are_computed_within_learned_bounds(people, name):
    """Within five standard errors each: a false alarm in 1e-5 over all, but for the fixed seeds."""
    function, response, unit = MODELS[name]
    result = function(f"{response} ~ age + np.log1p(income) + C(sex)", people, schema=DRAFT, **SEEDED)
    truth, errors = unit * np.array([0.05, 0.8, 0.5]), result.bse.to_numpy()[1:]
    assert np.all(np.abs(result.params.to_numpy()[1:] - truth) < 5 * errors)
    assert np.all(errors < 0.2 * unit)


def test_a_margin_is_fitted_too(people):
    result = pf.svm("high ~ age + C(sex)", people, schema=DRAFT, **SEEDED)
    assert result.params["age"] > 5 * result.bse["age"]


def test_only_columns_of_the_formula_are_looked_at(people):
    result = pf.ols("wage ~ age + C(sex)", people, schema=DRAFT, epsilon=4.0, scale="private")
    looks = [release for release in result.plan.releases if release.kind == "places"]
    sizes = {
        term: pf.ols(f"wage ~ {term}", people, schema=DRAFT, **SEEDED).plan.releases[0].size
        for term in ("age", "age + income", "C(sex) + age:income")
    }
    assert looks[0].size == sizes["age"] == sizes["age + income"] * 2 // 3
    assert sizes["C(sex) + age:income"] == sizes["age + income"]
    assert len(looks) == 3
    assert compose(result.plan.events).within(pf.Budget(4.0, 1e-6))
    assert result.private


def test_the_response_keeps_bounds_that_are_declared(people):
    draft = DRAFT | {"wage": {"type": "numeric", "lower": 10, "upper": 30}}
    result = pf.ols("wage ~ age", people, schema=draft, **SEEDED)
    assert result.encoder.design.target.half_width == 10.0


def test_a_saved_result_predicts_the_same(people):
    result = pf.ols("wage ~ age + I(age**2) + np.log1p(income):C(sex)", people, schema=DRAFT, **SEEDED)
    new = {"age": [30.0, 1e9], "income": [2e4, 5e4], "sex": ["m", "f"]}
    np.testing.assert_array_equal(pf.FitResult.from_json(result.to_json()).predict(new), result.predict(new))
    assert np.all(np.isfinite(result.predict(new)))


def test_without_noise_the_fit_is_that_within_all_rows(people):
    wide = DRAFT | {
        "age": {"type": "numeric", "lower": people["age"].min() - 10, "upper": people["age"].max() + 10},
        "income": {"type": "numeric", "lower": 0, "upper": 2 * people["income"].max()},
        "spare": {"type": "numeric", "lower": -9, "upper": 9},
        "wage": {"type": "numeric", "lower": -50, "upper": 100},
        "visits": {"type": "numeric", "lower": 0, "upper": 500},
    }
    formula = "wage ~ age + np.sqrt(income)"
    bought = pf.ols(formula, people, schema=DRAFT, scale="private", solver="non-private")
    plain = pf.ols(formula, people, schema=wide, solver="non-private", residual_bound=1e3)
    np.testing.assert_allclose(bought.params, plain.params, rtol=1e-6)


def test_people_and_weights_keep_their_roles(people):
    table = people | {"person": np.arange(N) // 4, "w": np.ones(N)}
    draft = DRAFT | {
        "person": {"type": "identifier"},
        "w": {"type": "numeric", "lower": 0, "upper": 2},
    }
    result = pf.ols("wage ~ age", table, schema=draft, unit="person", weights="w", **SEEDED)
    assert result.plan.unit == "person"
    assert abs(result.params["age"] - 0.05) < 5 * result.bse["age"]


def test_a_ledger_has_an_entry_for_each_and_pays_for_all_or_nothing(people, tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget(2.0, 1e-6))
    options = {"schema": DRAFT, "scale": "private", "ledger": ledger, "dataset": "people"}
    with pytest.raises(pf.BudgetExceeded):
        pf.ols("wage ~ age", people, epsilon=3.0, **options)
    assert ledger.export()["reservations"] == []
    result = pf.ols("wage ~ age", people, epsilon=2.0, **options)
    notes = [spend["note"] for spend in ledger.export()["reservations"]]
    assert notes == ["bounds of columns", result.plan.model]


@pytest.mark.parametrize(
    ("formula", "options", "error", "message"),
    [
        ("wage ~ np.log(income)", {}, pf.FormulaError, "not finite on all of the declared bounds"),
        ("wage ~ np.exp(age)", {}, pf.FormulaError, "not finite on all of the declared bounds"),
        ("wage ~ nobody", {}, pf.FormulaError, "nobody"),
        ("wage ~ age", {"unit": "spare"}, pf.SchemaError, "unit='spare': its bounds are not learned"),
        ("wage ~ age", {"weights": "income"}, pf.SchemaError, "weights='income': its bounds are not learned"),
        ("wage ~ age", {"scale": None, "scale_share": 2.0}, pf.InvalidArgument, "scale_share"),
        ("wage ~ age", {"scale": 2.0}, pf.InvalidArgument, "scale must be None or 'private'"),
        ("wage ~ age", {"scale": "public"}, pf.InvalidArgument, "scale must be None or 'private'"),
        ("wage ~ age", {"scale_share": 1.0}, pf.InvalidArgument, "scale_share"),
        ("wage ~ age", {"scale": None}, pf.SchemaError, r"lower is missing.*scale=\"private\".*learn_bounds"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_read(formula, options, error, message, tmp_path):
    """The data are a file that is not there."""
    with pytest.raises(error, match=message):
        pf.ols(formula, tmp_path / "nowhere.csv", schema=DRAFT, **({"scale": "private"} | options))


def test_a_draft_serves_formulas_that_read_none_of_its_open_columns(people):
    options = {"scale": "private", "epsilon": 4.0, "random_state": 3}
    result = pf.logit("high ~ C(sex)", people, schema=DRAFT, **options)
    assert all(release.kind != "places" for release in result.plan.releases)
    schema = DRAFT | _within(people)
    plain = pf.logit("high ~ C(sex)", people, schema=schema, epsilon=4.0, random_state=3)
    np.testing.assert_array_equal(result.params, plain.params)
    with pytest.raises(pf.InvalidArgument, match="no numeric column of the schema lacks"):
        pf.logit("high ~ C(sex)", people, schema=schema, **options)


def test_bounds_are_shown_and_kept(people):
    result = pf.ols("wage ~ age + np.log1p(income)", people, schema=DRAFT, **SEEDED)
    age, income, wage = result.form.learned
    assert (age.name, income.name, wage.name, income.lower) == ("age", "income", "wage", 0.0)
    known = result.encoder.facts.schema
    for one in result.form.learned:
        assert (one.lower, one.upper) == (known[one.name].lower, known[one.name].upper)
    line = f"Bounds learned within the budget, to which values are moved: age {age.lower:g} to"
    assert line in " ".join(str(result.summary()).split())
    read = pf.FitResult.from_json(result.to_json())
    assert read.form.learned == result.form.learned
    assert str(read.summary()) == str(result.summary())
    plain = pf.ols("wage ~ age", people, schema=DRAFT | _within(people), random_state=0)
    assert plain.form.learned == ()
    assert "learned within" not in str(plain.summary())


@pytest.fixture
def account(tmp_path):
    """A ledger that nothing may be spent from in the test."""
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget(4.0, 1e-6))
    yield ledger
    assert ledger.export()["reservations"] == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"solver": "adassp"}, pf.Incompatible),
        ({"solver": "noisy-sgd", "budget": pf.Budget(3.0)}, pf.Incompatible),
        ({"solver": "clipped-gradient-descent", "inference": True}, pf.Incompatible),
        ({"solver": "output-perturbation", "relation": "add_remove", "n_rows": N}, pf.Incompatible),
        ({"solver": "non-private"}, pf.Incompatible),
        ({"epsilon": 5.0}, pf.BudgetExceeded),
    ],
)
@pytest.mark.parametrize("as_formula", [True, False])
def test_public_facts_that_forbid_the_fit_forbid_the_looks(people, account, options, error, as_formula):
    given = {"scale": "private", "ledger": account, "dataset": "people"} | options

    def formula():
        pf.logit("high ~ age", people, schema=DRAFT, **given)

    def arrays():
        pf.LogisticRegression(classes=["no", "yes"], **given).fit(people["age"][:, None], people["high"])

    with pytest.raises(error):
        (formula if as_formula else arrays)()


@pytest.mark.parametrize(
    ("change", "formula", "error"),
    [
        ({"high": np.repeat(["Yes", "No"], N // 2)}, "high ~ age", pf.LabelError),
        (
            {"sex": np.array([[1, 2]] * N, dtype=object)[:, 0].astype(complex)},
            "high ~ age + sex",
            pf.SchemaError,
        ),
    ],
)
def test_tables_that_cannot_be_fitted_are_not_looked_at(people, account, change, formula, error):
    with pytest.raises(error):
        pf.logit(formula, people | change, schema=DRAFT, scale="private", ledger=account, dataset="people")


def test_too_few_rows_are_not_looked_at(account):
    rng = np.random.default_rng(0)
    levels = [f"g{k}" for k in range(600)]
    rows = {"g": rng.choice(levels, 700), "age": rng.normal(size=700), "wage": rng.normal(size=700)}
    draft = {
        "g": {"type": "categorical", "levels": levels},
        "age": {"type": "numeric"},
        "wage": {"type": "numeric"},
    }
    with pytest.raises(pf.TooLittleData, match="700 rows cannot support"):
        pf.ols("wage ~ C(g) + age", rows, schema=draft, scale="private", ledger=account, dataset="people")


def test_rows_on_a_cluster_are_fitted_alike_and_not_looked_at_in_vain(people, account):
    """How many there are is not known before a pass, so that what forbids the fit is found without."""
    dask = pytest.importorskip("dask")
    frames = pytest.importorskip("dask.dataframe")
    rows = pd.DataFrame({name: people[name][:6000] for name in ("age", "wage")})
    formula, options = "wage ~ age", {"schema": DRAFT, **SEEDED}
    with dask.config.set(scheduler="synchronous"):
        lying = frames.from_pandas(rows, npartitions=2)
        with pytest.raises(pf.BudgetExceeded):
            pf.ols(formula, lying, **options | {"epsilon": 5.0}, ledger=account, dataset="people")
        found = pf.ols(formula, lying, **options)
    expected = pf.ols(formula, rows, **options)
    assert found.form.learned == expected.form.learned
    np.testing.assert_allclose(found.params, expected.params, rtol=1e-9)


def test_a_grant_that_cannot_hold_the_fit_pays_for_no_look(people, tmp_path):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget.gdp(3.0))
    options = {"schema": DRAFT, "scale": "private", "ledger": ledger, "dataset": "people"}
    with pytest.raises(pf.BudgetExceeded):
        pf.ols("wage ~ age", people, solver="noisy-sgd", inference=False, **options)
    assert ledger.export()["reservations"] == []


def test_what_was_learned_of_other_columns_is_not_lost(people):
    rows = people | {"spare": np.zeros(N)}
    with pytest.raises(
        pf.TooLittleData, match=r"'spare' lie, or shows none but 0.*Learned.*'age' from .* to "
    ):
        pf.ols("wage ~ age + spare", rows, schema=DRAFT, **SEEDED)
    draft = DRAFT | {"age": {"type": "numeric", "lower": 200}}
    with pytest.raises(pf.TooLittleData, match="'age' are all the same, or beyond the bound"):
        pf.ols("wage ~ age", people, schema=draft, **SEEDED)


@pytest.mark.parametrize("term", ["I(age > 1000)", "np.maximum(age, 1000)", "np.minimum(age, -500)"])
def test_a_term_that_learned_bounds_make_constant_is_refused_once_they_are_known(people, tmp_path, term):
    ledger = pf.Ledger(tmp_path / "account.db")
    ledger.grant("people", pf.Budget(4.0, 1e-6))
    with pytest.raises(
        pf.FormulaError, match=r"does not vary.*learned, at a cost that is spent, was 'age' from "
    ):
        pf.ols(
            f"wage ~ {term}",
            people,
            schema=DRAFT,
            scale="private",
            epsilon=4.0,
            random_state=3,
            ledger=ledger,
            dataset="people",
        )
    (spend,) = ledger.export()["reservations"]
    assert spend["note"].startswith("bounds of columns")


def test_a_residual_scale_of_huber_is_a_number_or_bought(people):
    known = pf.huber("wage ~ age", people, schema=DRAFT | _within(people), scale=1.1, random_state=0)
    assert known.scale is None
    bought = pf.huber("wage ~ age", people, schema=DRAFT, **SEEDED)
    assert 0.8 < bought.scale < 1.6
    with pytest.raises(pf.InvalidArgument, match="scale must be positive"):
        pf.huber("wage ~ age", people, schema=DRAFT, scale=-1.0)


def _within(people):
    return {
        name: {"type": "numeric", "lower": 0, "upper": float(np.max(people[name]))}
        for name in ("age", "income", "wage", "visits", "spare")
    }
