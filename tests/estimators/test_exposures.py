"""Fits of counts over exposures."""

import warnings

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import privfit as pf
from privfit.estimators.stand_in import stand_in_rows
from privfit.solvers import OutputPerturbation
from privfit.terms.encoder import FormulaEncoder
from tests.small_sample import hc1

from .kept import KEPT, cached

N = 4_000
SCHEMA = pf.Schema(
    {
        "visits": {"type": "numeric", "lower": 0, "upper": 60, "target": True},
        "years": {"type": "numeric", "lower": 0, "upper": 5},
        "age": {"type": "numeric", "lower": -3, "upper": 3},
        "ward": {"type": "categorical", "levels": ["a", "b", "c"]},
    }
)
EXACT = {"solver": "non-private"}


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(8)
    age, years = rng.normal(size=N).clip(-3, 3), rng.uniform(0.05, 5.0, N)
    ward = rng.integers(0, 3, N)
    visits = rng.poisson(years * np.exp(-1.0 + 0.3 * age + 0.5 * (ward == 1)))
    return pd.DataFrame(
        {"visits": visits.astype(float), "years": years, "age": age, "ward": np.array(list("abc"))[ward]}
    )


def reference(table, *, constant=True):
    wards = pd.get_dummies(table["ward"], drop_first=constant).astype(float)
    x = pd.concat([table[["age"]], wards], axis=1)
    model = sm.GLM(
        table["visits"],
        sm.add_constant(x) if constant else x,
        family=sm.families.Poisson(),
        exposure=table["years"].to_numpy(),
    )
    return model.fit(cov_type="HC0", tol=1e-13)


@pytest.mark.parametrize("constant", [True, False])
def test_the_exact_fit_is_that_of_statsmodels(table, constant):
    formula = "visits ~ age + C(ward)" + ("" if constant else " - 1")
    ours = pf.poisson(formula, table, schema=SCHEMA, exposure="years", **EXACT)
    theirs = hc1(reference(table, constant=constant))
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)


def test_a_column_that_the_schema_marks_is_no_predictor_and_needs_no_argument(table):
    marked = SCHEMA.with_roles(exposure="years")
    named = pf.poisson("visits ~ .", table, schema=SCHEMA, exposure="years", **EXACT)
    np.testing.assert_array_equal(
        pf.poisson("visits ~ .", table, schema=marked, **EXACT).params, named.params
    )
    assert named.params.index.tolist() == ["Intercept", "age", "ward[T.b]", "ward[T.c]"]
    fitted = pf.PoissonRegressor(schema=marked, **EXACT).fit(table)
    np.testing.assert_allclose(np.append(fitted.intercept_, fitted.coef_), named.params, rtol=1e-8)
    fitted = pf.PoissonRegressor(schema=SCHEMA, exposure="years", **EXACT).fit(table, table["visits"])
    np.testing.assert_allclose(np.append(fitted.intercept_, fitted.coef_), named.params, rtol=1e-8)
    assert pf.ols("visits ~ .", table, schema=marked, solver="non-private").params.index.tolist() == [
        "Intercept", "age", "ward[T.b]", "ward[T.c]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "options",
    [{}, {"delta": 0.0}, {"inference": False}, {"solver": "newton"}, {"solver": "gradient-descent"}],
    ids=["default", "pure", "prediction", "newton", "gradient-descent"],
)
def test_private_fits_are_near_the_exact_one(table, options):
    private = pf.poisson(
        "visits ~ age + ward",
        table,
        schema=SCHEMA,
        exposure="years",
        epsilon=100.0,
        random_state=1,
        **options,
    )
    np.testing.assert_allclose(private.params, reference(table).params, atol=0.25)


def test_predictions_are_for_an_exposure_of_one(table):
    fitted = pf.PoissonRegressor(schema=SCHEMA, exposure="years", **EXACT).fit(table)
    people = table.drop(columns=["visits", "years"])
    expected = reference(table).predict(exposure=np.ones(N))
    np.testing.assert_allclose(fitted.predict(people), expected, rtol=1e-6)
    np.testing.assert_allclose(fitted.result_.predict(people.head()), expected[:5], rtol=1e-6)


def test_scores_are_those_of_counts_over_their_exposures(table):
    fitted = pf.PoissonRegressor(schema=SCHEMA, exposure="years", **EXACT).fit(table)
    residual = table["visits"] - reference(table).fittedvalues
    expected = 1.0 - (residual**2).sum() / ((table["visits"] - table["visits"].mean()) ** 2).sum()
    assert fitted.score(table) == pytest.approx(expected, rel=1e-6)
    with pytest.raises(pf.SchemaError, match="'years' holds a missing exposure"):
        fitted.score(table.assign(years=0.0))
    with pytest.raises(pf.SchemaError, match="years"):
        fitted.score(table.drop(columns="years"))


def test_an_m_estimator_scores_counts_over_their_exposures_too(table):
    people = table.drop(columns="ward")
    marked = pf.Schema({name: SCHEMA[name] for name in people.columns}).with_roles(exposure="years")
    named = pf.PoissonRegressor(schema=marked, **EXACT).fit(people)
    loss = pf.losses.Poisson(float(np.log(60.25)), 60.0)
    fitted = pf.MEstimator(loss=loss, schema=marked, **EXACT).fit(people)
    np.testing.assert_allclose(fitted.coef_, named.coef_, rtol=1e-6)
    assert fitted.score(people) == pytest.approx(named.score(people), rel=1e-6)
    with pytest.raises(pf.SchemaError, match="'years' holds a missing exposure"):
        fitted.score(people.assign(years=0.0))


def test_predictions_and_effects_say_that_they_are_for_an_exposure_of_one(table, tmp_path):
    found = pf.poisson("visits ~ age", table, schema=SCHEMA, exposure="years", random_state=2)
    found.to_json(tmp_path / "fit.json")
    note = "All is for years of 1; over another exposure it is that many times as much."
    for result in (found, pf.FitResult.from_json(tmp_path / "fit.json")):
        assert note in result.get_prediction(table.head()).notes
        assert note in str(result.get_margeff(table.head()).summary())
    plain = pf.poisson("visits ~ age", table, schema=SCHEMA, random_state=2)
    assert not any("years" in line for line in plain.get_prediction(table.head()).notes)


@pytest.mark.parametrize("solver", ["auto", "non-private"])
def test_the_unit_of_exposures_does_not_matter_without_an_intercept(table, solver):
    """Levels add up to a constant, which makes up for it."""
    found = []
    for unit in (1.0, 1e-4):
        schema = pf.Schema(SCHEMA.to_dict() | {"years": {"type": "numeric", "lower": 0, "upper": 5 / unit}})
        rows = table.assign(years=table["years"] / unit)
        formula = "visits ~ 0 + C(ward) + age"
        fit = pf.poisson(
            formula, rows, schema=schema, exposure="years", solver=solver, epsilon=8.0, random_state=1
        )
        found.append((fit.params.to_numpy(), fit.bse.to_numpy()))
    shift = np.array([np.log(1e-4)] * 3 + [0.0])
    np.testing.assert_allclose(found[1][0], found[0][0] + shift, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6)


def test_a_ridge_without_an_intercept_leaves_exposures_as_they_are(table):
    options = {"schema": SCHEMA, "exposure": "years", "l2": 0.1, **EXACT}
    found = pf.poisson("visits ~ 0 + C(ward)", table, **options).params
    rows = table.assign(wards=pd.Categorical(table["ward"]).codes)
    means = [rows["visits"][rows["wards"] == k].sum() for k in range(3)]
    years = [rows["years"][rows["wards"] == k].sum() for k in range(3)]
    for theta, mean, over in zip(found, means, years, strict=True):
        assert (over * np.exp(theta) - mean) / N + 0.1 * theta == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("budget", [pf.Budget(4.0, 1e-6), pf.Budget(4.0)], ids=["delta", "pure"])
@pytest.mark.parametrize("inference", [True, False])
def test_bounds_of_exposures_may_be_loose(budget, inference):
    """Exposures of about 55, declared to 1,000 and to 100,000: the constant is for their mean in any case."""
    rng, n = np.random.default_rng(5), 20_000
    x, years = rng.normal(size=n).clip(-4, 4), np.exp(rng.normal(4.0, 0.7, n)).clip(1.0, 1000.0)
    rows = pd.DataFrame({"x": x, "years": years, "y": rng.poisson(years * 0.01 * np.exp(0.3 * x))})
    number = {"type": "numeric", "lower": -4, "upper": 4}
    for upper in (1e3, 1e5):
        schema = {"x": number, "y": number | {"lower": 0, "upper": 50}}
        schema["years"] = {"type": "numeric", "lower": 0, "upper": upper}
        found = pf.poisson(
            "y ~ x", rows, schema=schema, exposure="years", budget=budget, inference=inference, random_state=6
        )
        assert abs(found.params["Intercept"] - np.log(0.01)) < 0.1
        assert abs(found.params["x"] - 0.3) < 0.1
        if inference:
            assert (found.bse < 0.05).all()


def test_few_long_exposures_do_not_pull_the_estimate():
    """A level of 2 % has exposures thirty times as long, whose counts are far beyond a lowered bound."""
    rng, n = np.random.default_rng(5), 20_000
    fleet, x = rng.random(n) < 0.02, rng.normal(size=n).clip(-4, 4)
    years = np.where(fleet, 30.0, 1.0) * rng.uniform(0.5, 1.0, n)
    rows = pd.DataFrame({"g": np.where(fleet, "fleet", "car"), "x": x, "years": years})
    rows["y"] = rng.poisson(years * 0.5 * np.exp(0.3 * x))
    schema = {
        "x": {"type": "numeric", "lower": -4, "upper": 4},
        "g": {"type": "categorical", "levels": ["car", "fleet"]},
        "years": {"type": "numeric", "lower": 0, "upper": 30},
        "y": {"type": "numeric", "lower": 0, "upper": 200},
    }
    finite = 0
    for seed in range(10):
        fit = pf.poisson(
            "y ~ x + C(g)", rows, schema=schema, exposure="years", epsilon=1.0, random_state=seed
        )
        away = np.abs(fit.params[["Intercept", "x"]] - [np.log(0.5), 0.3])
        assert (away < 5.0 * fit.bse[["Intercept", "x"]]).all()
        finite += (fit.bse[["Intercept", "x"]] < 0.05).all()
    assert finite >= 7


@pytest.mark.parametrize("value", [np.nan, 0.0, -3.0])
def test_rows_without_an_exposure_do_not_count(table, value):
    gone = table.assign(years=np.where(np.arange(N) % 3 == 0, value, table["years"]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pf.poisson("visits ~ age + ward", gone, schema=SCHEMA, exposure="years", **EXACT)
    rest = reference(table[np.arange(N) % 3 != 0])
    np.testing.assert_allclose(found.params, rest.params, rtol=1e-6, atol=1e-8)


def test_exposures_beyond_the_bounds_are_moved_to_them(table):
    narrow = pf.Schema(SCHEMA.to_dict() | {"years": {"type": "numeric", "lower": 1.0, "upper": 3.0}})
    found = pf.poisson("visits ~ age + ward", table, schema=narrow, exposure="years", **EXACT)
    moved = reference(table.assign(years=table["years"].clip(1.0, 3.0)))
    np.testing.assert_allclose(found.params, moved.params, rtol=1e-6, atol=1e-8)


def test_persons_with_several_rows_have_exposures_too(table):
    rows = table.assign(person=np.arange(N) // 4)
    ours = pf.poisson("visits ~ age", rows, schema=SCHEMA, exposure="years", unit="person", **EXACT)
    groups = {"groups": rows["person"], "use_correction": False}
    model = sm.GLM(
        rows["visits"],
        sm.add_constant(rows[["age"]]),
        family=sm.families.Poisson(),
        exposure=rows["years"].to_numpy(),
    )
    theirs = hc1(model.fit(cov_type="cluster", cov_kwds=groups, tol=1e-13), N // 4)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(ours.bse, theirs.bse, rtol=1e-5)


def test_rows_with_survey_weights_have_exposures_too(table):
    rows = table.assign(w=np.random.default_rng(1).uniform(0.2, 1.0, N))
    schema = pf.Schema(SCHEMA.to_dict() | {"w": {"type": "numeric", "lower": 0, "upper": 1}})
    ours = pf.poisson("visits ~ age", rows, schema=schema, exposure="years", weights="w", **EXACT)
    theirs = sm.GLM(
        rows["visits"],
        sm.add_constant(rows[["age"]]),
        family=sm.families.Poisson(),
        exposure=rows["years"].to_numpy(),
        freq_weights=rows["w"],
    ).fit(tol=1e-13)
    np.testing.assert_allclose(ours.params, theirs.params, rtol=1e-6, atol=1e-8)


def test_the_result_says_what_counts_are_over_and_is_kept(table, tmp_path):
    found = pf.poisson("visits ~ age", table, schema=SCHEMA, exposure="years", random_state=2)
    assert ("Exposure", "years") in [tuple(line) for line in found.summary().header]
    found.to_json(tmp_path / "fit.json")
    again = pf.FitResult.from_json(tmp_path / "fit.json")
    assert again.plan.exposure == "years"
    pd.testing.assert_series_equal(again.predict(table.head()), found.predict(table.head()))


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_takes_exposures_to_be_alike(table):
    options = {"schema": SCHEMA, "model": "poisson", "assumptions": pf.Assumptions(mean=2.0)}
    planned = pf.plan("visits ~ age", n=N, exposure="years", **options)
    assert planned.plan.exposure == "years"
    words = "a mean count of 2.0 over years of 2.5, all alike, for which intervals are shortest: sd says how"
    assert words in planned.assumptions
    alike = pf.plan("visits ~ age", n=N, **options).width["age"]
    np.testing.assert_allclose(planned.width["age"], alike, rtol=0.1)  # there is one look more
    wanted = {"width": {"age": 0.2}, **options}
    needed = pf.sample_size("visits ~ age", exposure="years", **wanted).n_rows
    assert needed == pytest.approx(pf.sample_size("visits ~ age", **wanted).n_rows, rel=0.2)
    with pytest.raises(pf.InvalidArgument, match="exposure goes with model='poisson'"):
        pf.plan("visits ~ age", n=N, schema=SCHEMA, model="ols", exposure="years")


def assumed(**guesses):
    """Return stand-in rows of counts over years."""
    marked = SCHEMA.with_roles(exposure="years")
    encoder = FormulaEncoder("visits ~ age", marked, target_kind="count")
    return stand_in_rows(encoder, marked, pf.Assumptions(**guesses))


@pytest.mark.parametrize("guess", [{"sd": {"years": 0.5}}, {"spread": {"years": 0.1}}])
def test_a_plan_takes_exposures_to_be_as_uneven_as_they_are_said_to_be(guess):
    rows = assumed(mean=2.0, signal=0.0, center={"years": 1.0}, **guess)
    years = np.exp(rows.offset)
    np.testing.assert_allclose([years.mean(), years.std(), rows.y.mean()], [1.0, 0.5, 2.0], rtol=0.02)
    by_years = np.polynomial.Polynomial.fit(years, rows.y, 1).convert().coef
    np.testing.assert_allclose(by_years, [0.0, 2.0], atol=0.1)
    assert np.ptp(assumed(mean=2.0, spread=0.1).offset) == 0.0


@pytest.mark.parametrize(
    ("guess", "message"),
    [
        ({"center": {"years": 0.0}}, "center of 'years' must be positive"),
        ({"center": {"years": 5.5}}, "within its bounds, 0 and 5, got 5.5"),
        ({"sd": {"years": 2.6}}, "at most half its declared range, 2.5, got 2.6"),
    ],
)
def test_exposures_that_cannot_be_are_refused(guess, message):
    with pytest.raises(pf.InvalidArgument, match=message):
        assumed(mean=2.0, **guess)


def test_a_plan_takes_exposures_from_a_reference_that_has_them(table):
    rows = assumed(reference=table[["age", "years"]], mean=2.0)
    np.testing.assert_allclose(np.exp(rows.offset), table["years"])
    awkward_rows = assumed(reference=awkward(table))
    kept = np.isfinite(awkward(table)["years"]) & (awkward(table)["years"] > 0.0)
    np.testing.assert_array_equal(awkward_rows.y, table["visits"][kept])
    np.testing.assert_allclose(np.exp(assumed(reference=table[["age"]], mean=2.0).offset), 2.5)


@pytest.mark.usefixtures("few_rehearsals")
def test_few_long_exposures_make_plans_of_longer_intervals():
    options = {"n": 20_000, "schema": SCHEMA, "model": "poisson", "exposure": "years", "epsilon": 4.0}
    alike, uneven = (
        pf.plan(
            "visits ~ age", **options, assumptions=pf.Assumptions(mean=0.5, center={"years": 0.5}, **more)
        )
        for more in ({}, {"sd": {"years": 1.0}})
    )
    assert "over years of 0.476 with standard deviation 0.73" in uneven.assumptions
    assert (uneven.width / alike.width).min() > 1.2


@pytest.mark.usefixtures("few_rehearsals")
def test_a_plan_without_a_constant_has_exposures_of_their_length():
    options = {"n": 20_000, "schema": SCHEMA, "model": "poisson", "exposure": "years"}
    short, long = (
        pf.plan(
            "visits ~ 0 + age",
            **options,
            assumptions=pf.Assumptions(mean=2.0, signal=0.3, center={"years": each}),
        )
        for each in (0.5, 4.0)
    )
    assert "a mean count of 0.52 over years of 0.5," in short.assumptions
    assert "a mean count of 4.2 over years of 4," in long.assumptions
    assert long.width["age"] < 0.7 * short.width["age"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"exposure": "yeras"}, "'yeras' is not in the schema; did you mean 'years'"),
        ({"exposure": "ward"}, 'exposures need type="numeric"'),
        ({"exposure": "visits"}, "the schema marks it as the response"),
        ({"exposure": "years", "weights": "years"}, "cannot be both"),
        ({"exposure": 3}, "exposure must be"),
        ({"exposure": "years", "solver": OutputPerturbation()}, "exposure='years'"),
        ({"exposure": "age"}, "exposures need lower >= 0"),
    ],
)
def test_what_is_no_exposure_is_refused(table, options, message):
    with pytest.raises(pf.PrivfitError, match=message):
        pf.poisson("visits ~ ward", table, schema=SCHEMA, **options)


def awkward(table):
    """Return the table with exposures that are missing, none, beyond their bounds, and far from usual."""
    table = table.copy()
    table.loc[:4, "years"] = [np.nan, 0.0, -1.0, 1e6, 1e-9]
    return table


def short_partitions(table, _):
    """Return twenty partitions of five rows, of which some lack a level, before one with the others."""
    apart = [dd.from_pandas(table[:100], npartitions=20), dd.from_pandas(table[100:], npartitions=1)]
    return dd.concat(apart)


STORES = KEPT | {"short partitions": short_partitions}


@pytest.mark.parametrize("where", STORES)
@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("visits ~ age + C(ward)", {}),
        ("visits ~ age - 1", {}),
        ("visits ~ age", {"delta": 0.0}),
        ("visits ~ age", {"solver": "newton", "inference": False}),
        ("visits ~ age", {"solver": "non-private"}),
    ],
    ids=["default", "no intercept", "pure", "newton", "exact"],
)
def test_a_cache_and_a_cluster_keep_exposures(table, formula, options, where, tmp_path):
    rows = awkward(table)
    common = {"schema": SCHEMA, "exposure": "years", **options}
    if options.get("solver") != "non-private":
        common |= {"epsilon": 5.0, "random_state": 1}
    whole = pf.poisson(formula, rows, **common)
    kept = pf.poisson(formula, STORES[where](rows, tmp_path), **common)
    assert kept.plan == whole.plan
    np.testing.assert_allclose(kept.estimate, whole.estimate, rtol=1e-8, atol=1e-8)
    if options.get("inference", True):
        np.testing.assert_allclose(kept.bse, whole.bse, rtol=1e-6)


def test_estimators_keep_exposures_on_a_cluster(table):
    model = pf.PoissonRegressor(schema=SCHEMA, exposure="years", **EXACT)
    whole = model.fit(table, "visits").coef_
    spread = dd.from_pandas(table, npartitions=3)
    np.testing.assert_allclose(model.fit(spread, "visits").coef_, whole, rtol=1e-9)
    apart = spread[["years", "age", "ward"]]
    np.testing.assert_allclose(model.fit(apart, spread["visits"]).coef_, whole, rtol=1e-9)
    numbers = SCHEMA.part(("visits", "years", "age"))
    array = da.from_array(table[["age"]].to_numpy(), chunks=(1000, -1))
    counts = da.from_array(table["visits"].to_numpy(), chunks=1000)
    with pytest.raises(pf.SchemaError, match="'years'"):
        model.set_params(schema=numbers).fit(array, counts)


def test_cached_rows_without_exposures_are_others(table, tmp_path):
    """The schema has the same fingerprint whatever its columns are for."""
    rows = cached(table, tmp_path, folder=tmp_path / "kept")
    rated = pf.poisson("visits ~ age", rows, schema=SCHEMA, exposure="years", **EXACT)
    plain = pf.poisson("visits ~ age", rows, schema=SCHEMA, **EXACT)
    assert rated.params["Intercept"] < plain.params["Intercept"] - 0.5
    np.testing.assert_allclose(
        rated.params,
        pf.poisson("visits ~ age", table, schema=SCHEMA, exposure="years", **EXACT).params,
        rtol=1e-3,
    )
    assert len(list((tmp_path / "kept").glob("*.rows"))) == 2


def test_arrays_and_streams_have_no_exposures(table):
    with pytest.raises(pf.InvalidArgument, match="exposure names a column of a table with a schema"):
        pf.PoissonRegressor(exposure="years", count_bound=20).fit(table[["age"]].to_numpy(), table["visits"])
    marked = SCHEMA.with_roles(exposure="years")
    online = pf.PoissonRegressor(schema=marked, solver=pf.solvers.OnlineToBatch(), inference=False)
    with pytest.raises(pf.Incompatible, match="exposure"):
        online.fit(pf.RowStream([table], n_rows=N))
