"""Plans of fits that learn bounds: what is expected of open columns, rehearsed looks, plans against fits."""

import numpy as np
import pandas as pd
import pytest

import privfit as pf
from privfit.data.draft import Draft
from privfit.errors import InvalidArgument, SchemaError
from privfit.estimators.assumptions import Assumptions
from privfit.estimators.expected import expected
from privfit.estimators.forecast import FEWEST_REHEARSALS
from privfit.privacy.composition import compose

DRAFT = {
    "age": {"type": "numeric", "lower": 20, "upper": 80},
    "income": {"type": "numeric", "lower": 0},
    "year": {"type": "numeric"},
    "gain": {"type": "numeric", "lower": 0, "transform": "log1p"},
    "root": {"type": "numeric", "transform": "sqrt"},
    "debt": {"type": "numeric", "upper": 0},
    "job": {"type": "categorical", "levels": ["a", "b", "c"]},
    "high": {"type": "categorical", "levels": ["no", "yes"]},
    "wage": {"type": "numeric", "lower": 0},
    "visits": {"type": "numeric", "lower": 0},
}

INCOME = {"sd": {"income": 15_000.0}, "center": {"income": 40_000.0}}


def bounds(name, *, response="high", kind="class", **guesses):
    """Return the expected bounds of an open column, and the assumptions that follow."""
    completed, assumptions = expected(Draft.of(DRAFT), [name], response, kind, Assumptions(**guesses))
    entry = completed.declarations[name]
    return (entry["lower"], entry["upper"]), assumptions


def people(seed, n=4000):
    rng = np.random.default_rng(seed)
    income = np.abs(rng.normal(40_000, 15_000, n))
    wage = 20 + 2e-4 * (income - 40_000) + 5 * rng.normal(size=n)
    odds = 5e-5 * (income - 40_000)
    return {
        "income": income,
        "year": rng.normal(2000, 11, n),
        "high": np.where(rng.random(n) < 1 / (1 + np.exp(-odds)), "yes", "no"),
        "wage": np.maximum(wage, 0),
        "visits": rng.poisson(3.0 * np.exp(odds - 0.28)).astype(float),
    }


@pytest.mark.parametrize(
    ("name", "guesses", "found"),
    [
        ("income", INCOME, (0, 85_000)),
        ("income", {"sd": {"income": 15_000.0}}, (0, 90_000)),
        ("income", {"sd": {"income": 5_000.0}, "center": {"income": 40_000.0}}, (0, 55_000)),
        ("year", {"sd": {"year": 10.0}}, (-30, 30)),
        ("year", {"sd": {"year": 10.0}, "center": {"year": 2000.0}}, (1970, 2030)),
        ("debt", {"sd": {"debt": 10.0}}, (-60, 0)),
        ("gain", {"sd": {"gain": 1.0}}, (0, 410)),  # e^6 - 1 = 402.4
        ("root", {"sd": {"root": 1.0}}, (0, 36)),
    ],
)
def test_columns_reach_three_standard_deviations_from_their_middle_within_what_is_declared(
    name, guesses, found
):
    assert bounds(name, **guesses)[0] == found


def test_responses_reach_four_residual_standard_deviations_and_counts_ten_times_their_mean():
    numbers = {"response": "wage", "kind": "numeric", "residual_sd": 5.0}
    assert bounds("wage", **numbers, mean=30.0)[0] == (0, 50)
    found, assumptions = bounds("wage", **numbers)
    assert found == (0, 40)
    assert assumptions.mean == 20.0
    assert bounds("visits", response="visits", kind="count", mean=3.0)[0] == (0, 30)
    assert bounds("visits", response="visits", kind="count", mean=0.05)[0] == (0, 2)


def test_what_is_left_open_is_in_the_middle_of_what_is_expected():
    assert bounds("income", sd={"income": 15_000.0})[1].center == {"income": 45_000.0}
    _, assumptions = bounds("gain", sd={"gain": 1.0})
    assert assumptions.center["gain"] == pytest.approx(np.expm1(3.0))
    assert bounds("year", sd={"year": 1.0, "age": 4.0}, center={"age": 30.0})[1].center == {
        "age": 30.0,
        "year": 0.0,
    }


def test_a_public_table_tells_bounds():
    table = pd.DataFrame({"income": [None, 1_000.0, 83_000.0, -5.0], "year": [1990, 1990, 2004, 2010]})
    assert bounds("income", reference=table)[0] == (0, 83_000)
    found, assumptions = bounds("year", reference=table)
    assert found == (1990, 2010)
    assert assumptions.center is None


@pytest.mark.parametrize(
    ("name", "more", "error", "message"),
    [
        ("income", {}, InvalidArgument, "sd: the bounds of 'income' are open"),
        ("income", {"sd": {"year": 1.0}}, InvalidArgument, "Assumptions.sd={'income': ...}."),
        (
            "wage",
            {"response": "wage", "kind": "numeric"},
            InvalidArgument,
            "residual_sd: the bounds of 'wage'",
        ),
        ("visits", {"response": "visits", "kind": "count"}, InvalidArgument, "mean: the bound of the counts"),
        (
            "income",
            {"sd": {"income": 1.0}, "center": {"income": -1.0}},
            InvalidArgument,
            "center of 'income' must",
        ),
        (
            "wage",
            {"response": "wage", "kind": "numeric", "residual_sd": 1.0, "mean": [0.5, 0.5]},
            InvalidArgument,
            "mean must be a number",
        ),
        ("income", {"reference": {"income": [-3.0, -1.0]}}, InvalidArgument, "or beyond the bound"),
        (
            "year",
            {"sd": {"year": 1.0}, "center": {"year": 1e18}},
            InvalidArgument,
            "'year' is a single number",
        ),
        ("income", {"reference": {"income": [None, None]}}, SchemaError, "'income' of the reference table"),
        ("income", {"reference": {"year": [3.0, 1.0]}}, InvalidArgument, "or a public reference table"),
    ],
)
def test_nothing_is_expected_without_a_guess(name, more, error, message):
    with pytest.raises(error, match=message):
        bounds(name, **more)


@pytest.mark.usefixtures("few_rehearsals")
@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("budget", [pf.Budget(2.0, 1e-6), pf.Budget(8.0, 0.0)], ids=str)
def test_the_plan_is_the_one_that_the_fit_follows(relation, budget):
    arguments = {
        "schema": DRAFT,
        "budget": budget,
        "scale": "private",
        "scale_share": 0.2,
        "relation": relation,
    }
    planned = pf.plan(
        "high ~ income + year",
        n=4000,
        model="logit",
        assumptions=pf.Assumptions(sd={"income": 15_000.0, "year": 10.0}, center={"year": 2000.0}),
        **arguments,
    )
    known = {} if relation == "replace" else {"n_rows": 4000}
    fitted = pf.logit("high ~ income + year", people(1), random_state=1, **arguments, **known)
    assert fitted.plan == planned.plan
    assert [release.kind for release in planned.plan.releases[:4]].count("places") == 3
    looks = planned.plan.releases[:3]
    if budget.delta:
        assert sum(look.mu**2 for look in looks) == pytest.approx(0.2 * planned.plan.mu**2, rel=1e-3)
    else:  # as for two releases, whose noise adds up to least in proportion to the roots
        assert sum(look.epsilon for look in looks) == pytest.approx(8.0 / 3.0, rel=1e-3)
    assert compose(planned.plan.events).within(budget)


@pytest.mark.usefixtures("few_rehearsals")
def test_of_counts_whose_bound_is_learned_the_plan_costs_what_the_fit_does():
    arguments = {"schema": DRAFT, "epsilon": 4.0, "scale": "private"}
    guesses = pf.Assumptions(mean=3.0, **INCOME)
    planned = pf.plan("visits ~ income", n=4000, model="poisson", assumptions=guesses, **arguments)
    fitted = pf.poisson("visits ~ income", people(1), random_state=1, **arguments)
    ours, theirs = planned.plan.releases, fitted.plan.releases
    assert [(one.kind, one.size, one.mu) for one in ours] == [(one.kind, one.size, one.mu) for one in theirs]
    assert any(one.sd != other.sd for one, other in zip(ours, theirs, strict=True))
    assert "(of counts, the plan's noise is for 30)" in planned.assumptions


@pytest.mark.usefixtures("few_rehearsals")
def test_a_root_of_less_than_nothing_is_nothing():
    """Half of the assumed responses are below 0 before the square; they are 0 in plans of both kinds."""
    schema = {"year": {"type": "numeric"}, "area": {"type": "numeric", "lower": 0, "upper": 16}}
    schema["area"] |= {"transform": "sqrt"}
    options = {"n": 20_000, "model": "ols", "epsilon": 2.0}
    guesses = pf.Assumptions(sd={"year": 10.0}, mean=0.0, residual_sd=1.0)
    learned = pf.plan("area ~ year", schema=schema, scale="private", assumptions=guesses, **options)
    bounded = schema | {"year": {"type": "numeric", "lower": -30, "upper": 30}}
    declared = pf.plan("area ~ year", schema=bounded, assumptions=guesses, **options)
    for one in (learned, declared):
        assert "response about 0.446 with standard deviation 0.65" in one.assumptions


@pytest.mark.parametrize("model", ["logit", "ols", "poisson"])
def test_a_forecast_is_what_fits_within_learned_bounds_report(model, monkeypatch):
    """Median widths of 12 fits within 15 % of the forecast; it has no chance but the noise's fixed seeds."""
    monkeypatch.setattr("privfit.estimators.forecast.MOST_REHEARSALS", FEWEST_REHEARSALS)
    target = {"logit": "high", "ols": "wage", "poisson": "visits"}[model]
    formula, options = f"{target} ~ income", {"schema": DRAFT, "epsilon": 4.0, "scale": "private"}
    fit = {"logit": pf.logit, "ols": pf.ols, "poisson": pf.poisson}[model]
    ends = [fit(formula, people(seed), random_state=seed, **options).conf_int() for seed in range(12)]
    found = np.median([interval["upper"] - interval["lower"] for interval in ends], axis=0)
    guesses = pf.Assumptions(
        mean={"logit": 0.5, "ols": 20.0, "poisson": 3.0}[model],
        coefficients={"income": 2e-4 if model == "ols" else 5e-5},
        residual_sd=5.0,
        **INCOME,
    )
    planned = pf.plan(formula, n=4000, model=model, assumptions=guesses, **options)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(planned.width, found, rtol=0.15)
    assert "income about 40000 with standard deviation 15000" in planned.assumptions
    learned = "income" if model == "logit" else f"income, {target}"
    assert f"bounds of {learned} as each fit learns them" in planned.assumptions


@pytest.mark.usefixtures("few_rehearsals")
def test_a_forecast_of_the_same_rows_is_the_same_in_any_unit():
    def planned(unit):
        guesses = pf.Assumptions(sd={"income": 15_000.0 * unit}, center={"income": 40_000.0 * unit})
        return pf.plan(
            "high ~ income", n=20_000, schema=DRAFT, model="logit", scale="private", assumptions=guesses
        )

    widths, others = planned(1.0).width, planned(1024.0).width
    assert others["income"] * 1024.0 == pytest.approx(widths["income"], rel=0.1)  # ends are rounded to digits
    assert others["Intercept"] == pytest.approx(widths["Intercept"], rel=0.1)


@pytest.mark.usefixtures("few_rehearsals")
def test_fits_that_are_refused_have_no_interval():
    guesses = pf.Assumptions(sd={"income": 15_000.0, "year": 10.0})
    planned = pf.plan(
        "high ~ income + year",
        n=300,
        schema=DRAFT,
        model="logit",
        epsilon=0.05,
        scale="private",
        assumptions=guesses,
    )
    assert np.isinf(planned.width).all()
    assert (planned.table()["finite"] == 0.0).all()


@pytest.mark.usefixtures("few_rehearsals")
def test_a_reference_with_everything_needs_no_guess():
    found = pf.plan(
        "wage ~ income + year",
        n=4000,
        schema=DRAFT,
        model="ols",
        scale="private",
        assumptions=pf.Assumptions(reference=people(5)),
    )
    assert np.isfinite(found.width).all()
    assert "reference table" in found.assumptions


@pytest.mark.usefixtures("few_rehearsals")
def test_rows_budgets_and_splits_are_found_with_learned_bounds():
    common = {
        "schema": DRAFT,
        "model": "logit",
        "scale": "private",
        "assumptions": pf.Assumptions(mean=0.5, **INCOME),
    }
    needed = pf.sample_size("high ~ income", width=5e-6, **common)
    assert needed.planned.width["income"] <= 5e-6
    bounded = {"high": DRAFT["high"], "income": {"type": "numeric", "lower": 0, "upper": 85_000}}
    declared = pf.sample_size("high ~ income", width=5e-6, **common | {"scale": None, "schema": bounded})
    assert declared.n_rows < needed.n_rows < 1.5 * declared.n_rows
    assert pf.sample_size("high ~ income", width=5e-6, n=2 * needed.n_rows, **common).budget.epsilon < 1.0
    split = pf.shortest_split("high ~ income", n=5000, **common)
    assert isinstance(split, pf.BudgetSplit)


@pytest.mark.usefixtures("few_rehearsals")
def test_a_draft_serves_formulas_that_read_none_of_its_open_columns():
    planned = pf.plan("high ~ age", n=4000, schema=DRAFT, model="logit", scale="private")
    assert all(release.kind != "places" for release in planned.plan.releases)
    assert "as each fit learns" not in planned.assumptions


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale": "public"}, "scale must be None or 'private'"),
        ({"scale": "private", "scale_share": 1.0}, "scale_share must lie in"),
        ({"scale": "private", "schema": {"high": DRAFT["high"], "age": DRAFT["age"]}}, "leave scale out"),
        ({"scale": 2.0}, "scale goes with model='huber'"),
        ({"scale": 2.0, "model": pf.losses.Logistic()}, "scale goes with model='huber'; a loss has its own"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        pf.plan("high ~ age", n=500, **{"schema": DRAFT, "model": "logit", **arguments})


def test_names_are_checked_before_what_is_open():
    guesses = Assumptions(sd={"yaer": 10.0})
    with pytest.raises(SchemaError, match="'yaer' is not in the schema; did you mean 'year'"):
        pf.plan("high ~ year", n=500, schema=DRAFT, model="logit", scale="private", assumptions=guesses)


def test_a_term_that_is_constant_within_what_is_assumed_says_what_that_was():
    guesses = Assumptions(sd={"year": 1.0})
    with pytest.raises(pf.errors.FormulaError, match=r"assumed is 'year' from -3 to 3: change what is"):
        pf.plan(
            "high ~ I(year > 1000)",
            n=500,
            schema=DRAFT,
            model="logit",
            scale="private",
            assumptions=guesses,
        )


@pytest.mark.usefixtures("few_rehearsals")
def test_a_public_scale_of_residuals_is_planned_as_it_is_fitted():
    schema = {"year": {"type": "numeric", "lower": 1970, "upper": 2030}}
    schema["wage"] = {"type": "numeric", "lower": 0, "upper": 100}
    planned = pf.plan("wage ~ year", n=4000, schema=schema, model="huber", scale=5.0)
    fitted = pf.huber("wage ~ year", people(1), schema=schema, scale=5.0, random_state=1)
    assert fitted.plan == planned.plan


def test_accuracy_is_of_declared_bounds():
    with pytest.raises(InvalidArgument, match="accuracy is of coordinates within declared bounds"):
        pf.sample_size("high ~ income", accuracy=0.1, schema=DRAFT, model="logit", scale="private")
    with pytest.raises(SchemaError, match="'income': upper is missing"):
        pf.sample_size("high ~ income", accuracy=0.1, schema=DRAFT, model="logit")


@pytest.mark.usefixtures("few_rehearsals")
def test_units_and_weights_are_planned_as_fits_have_them():
    table = people(2) | {"person": np.arange(4000) // 2, "weight": np.full(4000, 1.5)}
    schema = DRAFT | {"weight": {"type": "numeric", "lower": 0, "upper": 3}}
    arguments = {
        "schema": schema,
        "epsilon": 4.0,
        "scale": "private",
        "unit": "person",
        "rows_per_unit": 2,
        "weights": "weight",
    }
    guesses = pf.Assumptions(sd={"year": 11.0}, center={"year": 2000.0}, residual_sd=5.0)
    planned = pf.plan("wage ~ year", n=2000, model="ols", assumptions=guesses, **arguments)
    fitted = pf.ols("wage ~ year", table, random_state=1, **arguments)
    assert fitted.plan == planned.plan
    assert planned.plan.unit == "person"
    assert np.isfinite(planned.width).all()
    with pytest.raises(SchemaError, match="its bounds are not learned"):
        pf.plan("wage ~ income", n=2000, model="ols", **arguments | {"weights": "year"})
