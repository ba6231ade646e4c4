"""Tests, comparisons, predictions and marginal effects of a result, against statsmodels and simulation."""

import dataclasses
import json
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from scipy.special import expit, softmax
from statsmodels.api import OLS, Logit
from tests.small_sample import hc1

import privfit as pf
from privfit.errors import Incompatible, InvalidArgument

FORMULA = "y ~ age * C(job) + hours + I(hours ** 2)"
SCHEMA = {
    "age": {"type": "numeric", "lower": 20, "upper": 70},
    "hours": {"type": "numeric", "lower": 0, "upper": 60},
    "job": {"type": "categorical", "levels": ["a", "b", "c"]},
}
RESPONSES = {
    "logit": {"type": "numeric", "lower": 0, "upper": 1},
    "ols": {"type": "numeric", "lower": -50, "upper": 50},
    "poisson": {"type": "numeric", "lower": 0, "upper": 60},
}
PROFILES = pd.DataFrame(
    {"age": [30.0, 45.0, 60.0, 25.0], "hours": [10.0, 40.0, 20.0, 55.0], "job": ["a", "b", "c", "c"]}
)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(12)
    n = 3000
    table = pd.DataFrame(
        {"age": rng.uniform(21, 69, n), "hours": rng.uniform(1, 59, n), "job": rng.choice(["a", "b", "c"], n)}
    )
    eta = -0.5 + 0.02 * (table["age"] - 45) + 0.4 * (table["job"] == "b") - 0.01 * (table["hours"] - 30)
    table["logit"] = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float)
    table["ols"] = 3 * eta + rng.normal(size=n)
    table["poisson"] = np.minimum(rng.poisson(np.exp(0.5 * eta + 1)), 60).astype(float)
    table["class"] = np.array(["l", "m", "r"])[
        (eta + rng.logistic(size=n) > 0).astype(int) + (rng.random(n) < 0.3)
    ]
    return table


@pytest.fixture(scope="module", params=["logit", "ols", "poisson"])
def pair(request, people):
    """Our fit without noise and statsmodels' with the same sandwich."""
    name = request.param
    formula = FORMULA.replace("y", name, 1)
    fit = getattr(pf, name)
    ours = fit(formula, people, schema={**SCHEMA, name: RESPONSES[name]}, solver="non-private")
    family = {"logit": smf.logit, "ols": smf.ols, "poisson": smf.poisson}[name]
    options = {} if name == "ols" else {"disp": 0, "maxiter": 100}
    theirs = hc1(family(formula, people).fit(cov_type="HC0", use_t=False, **options))
    return ours, theirs


def test_linear_combinations_agree_with_statsmodels(pair):
    ours, theirs = pair
    text = "age - 2*hours = 0.1, C(job)[T.b] - C(job)[T.c]"
    names = list(theirs.params.index)
    R = np.zeros((2, len(names)))
    R[0, names.index("age")], R[0, names.index("hours")] = 1, -2
    R[1, names.index("C(job)[T.b]")], R[1, names.index("C(job)[T.c]")] = 1, -1
    found, expected = ours.t_test(text), theirs.t_test((R, np.array([0.1, 0.0])))
    np.testing.assert_allclose(found.params, expected.effect, rtol=1e-6)
    np.testing.assert_allclose(found.bse, expected.sd, rtol=1e-6)
    np.testing.assert_allclose(found.pvalues, expected.pvalue, rtol=1e-5)
    np.testing.assert_allclose(found.conf_int(0.9), expected.conf_int(alpha=0.1), rtol=1e-6)
    joint = theirs.wald_test((R, np.array([0.1, 0.0])), use_f=False, scalar=True)
    assert ours.wald_test(text).statistic == pytest.approx(float(joint.statistic), rel=1e-6)


def test_terms_agree_with_statsmodels(pair):
    ours, theirs = pair
    expected = theirs.wald_test_terms(skip_single=False, scalar=True).table.drop(index="Intercept")
    found = ours.wald_test_terms()
    assert set(found.terms) == set(expected.index)
    np.testing.assert_allclose(
        found.pvalues.loc[expected.index].to_numpy(float), expected["pvalue"].to_numpy(float), rtol=1e-5
    )
    assert found.summary_frame().loc["age:C(job)", "df"] == 2
    same = ours.compare_without("C(job)", "age:C(job)")
    assert same.df == 4
    assert ours.compare_without("C(job)", "`age`:C(job)").statistic == same.statistic
    assert ours.compare_without("C( job )", "C(job) : age").statistic == same.statistic
    assert (
        same.statistic
        == ours.wald_test(np.eye(8)[[k for k, n in enumerate(ours.names) if "job" in n]]).statistic
    )


def test_predictions_agree_with_statsmodels(pair):
    ours, theirs = pair
    found = ours.get_prediction(PROFILES).summary_frame(0.9)
    np.testing.assert_allclose(found["mean"], theirs.predict(PROFILES), rtol=1e-6)
    expected = theirs.get_prediction(PROFILES).summary_frame(alpha=0.1)
    se = expected["mean_se" if "mean_se" in expected else "se"]
    np.testing.assert_allclose(found["mean_se"], se, rtol=1e-5)
    if isinstance(theirs.model, OLS):
        np.testing.assert_allclose(found["mean_ci_lower"], expected["mean_ci_lower"], rtol=1e-6)
    else:  # ends carried over from the linear predictor
        line = theirs.get_prediction(PROFILES, which="linear").summary_frame(alpha=0.1)
        inverse = expit if isinstance(theirs.model, Logit) else np.exp
        np.testing.assert_allclose(found["mean_ci_lower"], inverse(line["ci_lower"]), rtol=1e-6)
        np.testing.assert_allclose(found["mean_ci_upper"], inverse(line["ci_upper"]), rtol=1e-6)


def test_average_effects_agree_with_statsmodels(people):
    """A simulated table stands in for a public one."""
    schema = {**SCHEMA, "logit": RESPONSES["logit"]}
    formula = "logit ~ age + hours + C(job)"
    ours = pf.logit(formula, people, schema=schema, solver="non-private").get_margeff(people)
    fit = hc1(smf.logit(formula, people).fit(cov_type="HC0", disp=0))
    theirs = fit.get_margeff(at="overall").summary_frame()
    for name in ("age", "hours"):
        assert ours.params[name] == pytest.approx(theirs.loc[name, "dy/dx"], rel=1e-6)
        assert ours.bse[name] == pytest.approx(theirs.loc[name, "Std. Err."], rel=1e-6)
    base, other = people.assign(job="a"), people.assign(job="c")
    difference = (fit.predict(other) - fit.predict(base)).mean()
    assert ours.params["job[c - a]"] == pytest.approx(difference, rel=1e-6)


def test_an_effect_takes_all_terms_of_a_covariate_together(people):
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    fit = pf.ols(FORMULA.replace("y", "ols", 1), people, schema=schema, solver="non-private")
    found = fit.get_margeff(PROFILES, ["hours"])
    b = fit.params
    expected = b["hours"] + 2 * b["I(hours ** 2)"] * PROFILES["hours"].mean()
    assert found.params["hours"] == pytest.approx(expected, rel=1e-6)
    weights = np.array(
        [1.0 if n == "hours" else 2 * PROFILES["hours"].mean() * ("**" in n) for n in fit.names]
    )
    assert found.bse["hours"] == pytest.approx(np.sqrt(weights @ fit.cov_params() @ weights), rel=1e-6)


TRANSFORMED = {
    "wage": {"type": "numeric", "lower": 1, "upper": 2e6, "transform": "log"},
    "gain": {"type": "numeric", "lower": 0, "upper": 1e6, "transform": "log1p"},
    "dose": {"type": "numeric", "lower": 0, "upper": 100, "transform": "sqrt"},
    "high": {"type": "numeric", "lower": 0, "upper": 1, "target": True},
}


def test_what_is_of_a_transformed_response_says_so():
    people = {"pay": np.exp(np.linspace(1.0, 3.0, 500)), "age": np.linspace(20, 80, 500)}
    age, pay = {"type": "numeric", "lower": 20, "upper": 80}, {"type": "numeric", "lower": 1, "upper": 50}
    said = "on the scale of log(pay)"
    for entry, expected in ((pay, False), (pay | {"transform": "log"}, True)):
        schema = {"age": age, "pay": entry}
        found = pf.quantile("pay ~ age", people, schema=schema, solver="non-private")
        for result in (found, pf.FitResult.from_json(found.to_json())):
            at = {"age": [30.0, 40.0]}
            for table in (result.get_prediction(at), result.get_margeff(at)):
                assert (said in " ".join(str(table).split())) == expected


@pytest.mark.parametrize("fit", ["formula", "estimator"])
def test_effects_of_transformed_columns_are_in_the_raw_unit(fit):
    rng = np.random.default_rng(3)
    n = 2000
    rows = pd.DataFrame({"wage": np.exp(rng.uniform(0, 14, n)), "gain": np.expm1(rng.uniform(0, 13, n))})
    rows["dose"] = rng.uniform(1e-3, 100, n)
    eta = -2 + 0.3 * np.log(rows["wage"]) - 0.1 * np.log1p(rows["gain"]) - 0.1 * np.sqrt(rows["dose"])
    rows["high"] = (rng.random(n) < expit(eta)).astype(float)
    schema = pf.Schema(TRANSFORMED)
    ours = (
        pf.logit("high ~ wage + gain + dose", rows, schema=schema, solver="non-private")
        if fit == "formula"
        else pf.LogisticRegression(schema=schema, solver="non-private").fit(rows).result_
    )
    reference = smf.logit("high ~ np.log(wage) + np.log1p(gain) + np.sqrt(dose)", rows).fit(disp=0)
    at = pd.DataFrame({"wage": [1.0, 3.0, 1e5], "gain": [0.0, 2.0, 1e5], "dose": [1e-6, 1.0, 50.0]})
    found = ours.get_margeff(at)
    chance = reference.predict(at)
    inner = {"wage": 1 / at["wage"], "gain": 1 / (1 + at["gain"]), "dose": 0.5 / np.sqrt(at["dose"])}
    for k, (name, slope) in enumerate(inner.items(), start=1):
        exact = (chance * (1 - chance) * reference.params.iloc[k] * slope).mean()
        assert found.params[name] == pytest.approx(exact, rel=1e-6)
    root = ours.get_margeff(at.assign(dose=[0.0, 1.0, 2.0]), ["dose"])
    assert np.isnan(root.params["dose"])
    assert np.isnan(root.bse["dose"])


def test_effects_take_missing_cells_for_their_fill(people):
    schema = {**SCHEMA, "logit": RESPONSES["logit"], "age": {**SCHEMA["age"], "missing": 45}}
    fit = pf.logit("logit ~ age + hours", people, schema=schema, solver="non-private")
    holes = pd.DataFrame({"age": ["30", None, "?"], "hours": [10.0, 20.0, 30.0]})
    found = fit.get_margeff(holes, ["age"])
    filled = fit.get_margeff(holes.assign(age=[30.0, 45.0, 45.0]), ["age"])
    assert found.params["age"] == filled.params["age"]
    assert np.isfinite(found.bse["age"])


def test_several_classes(people):
    schema = {**SCHEMA, "class": {"type": "categorical", "levels": ["l", "m", "r"]}}
    fit = pf.logit("class ~ age + C(job)", people, schema=schema, solver="non-private")
    theirs = smf.mnlogit(
        "code ~ age + C(job)", people.assign(code=people["class"].map({"l": 0, "m": 1, "r": 2}))
    ).fit(disp=0)
    found = fit.get_prediction(PROFILES)
    for ask in (found.conf_int, found.summary_frame, found.summary):
        with pytest.raises(InvalidArgument, match=r"level=0\.95"):
            ask(0.05)
    np.testing.assert_allclose(found.predicted.reshape(-1, 3), theirs.predict(PROFILES).to_numpy(), rtol=1e-5)
    assert found.names[1] == "0 P(m)"
    shuffled = PROFILES.set_axis(pd.Index([7, 3, 3, "x"], name="id"))
    labelled, wide = fit.get_prediction(shuffled), fit.predict(shuffled)
    pd.testing.assert_index_equal(wide.index, shuffled.index)
    frame = labelled.summary_frame()
    assert frame.index.names == ["id", "class"]
    assert frame.index.tolist()[3:6] == [(3, "P(l)"), (3, "P(m)"), (3, "P(r)")]
    pd.testing.assert_index_equal(labelled.conf_int().index, frame.index)
    np.testing.assert_array_equal(frame["mean"].to_numpy(), wide.to_numpy().ravel())
    assert frame["mean"].to_dict()["x", "P(m)"] == wide.loc["x", "P(m)"]
    assert "\nx P(m) " in str(labelled)
    effects = fit.get_margeff(PROFILES, ["age"])
    assert effects.params.sum() == pytest.approx(0.0, abs=1e-12)
    assert fit.wald_test_terms().summary_frame()["df"].tolist() == [2, 4]


@pytest.mark.parametrize(
    "index",
    [
        pd.Index([12, 5, 40, 3]),
        pd.Index(["b", "a", "a", "c"], name="who"),
        pd.date_range("2020-01-01", periods=4, tz="UTC"),
        pd.MultiIndex.from_tuples([("a", 1), ("a", 2), ("b", 1), ("b", 2)], names=["site", "visit"]),
    ],
    ids=["numbers", "repeated text", "dates", "levels"],
)
def test_predictions_have_the_index_of_the_frame(people, index):
    """Assigned as a column of the frame they come from, they stand in the rows that they are for."""
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    fit = pf.ols("ols ~ age + C(job)", people, schema=schema, solver="non-private")
    rows = PROFILES.set_axis(index)
    means, found = fit.predict(rows), fit.get_prediction(rows)
    pd.testing.assert_index_equal(means.index, index)
    np.testing.assert_array_equal(means.to_numpy(), fit.predict(PROFILES).to_numpy())
    for frame in (found.conf_int(), found.summary_frame(0.9)):
        pd.testing.assert_index_equal(frame.index, index)
    pd.testing.assert_series_equal(found.summary_frame()["mean"], means)
    first = "a 1" if index.nlevels == 2 else str(index[0])
    assert found.names[0] == first
    assert f"\n{first} " in str(found)


def test_effects_leave_out_jumps_and_say_so(people):
    """On the edge of a comparison as beside it: the slope of the line, not the height of the step."""
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    formula = "ols ~ age + hours + I(hours > 40) + I((age >= 65) * hours)"
    fit = pf.ols(formula, people, schema=schema, solver="non-private")
    at = pd.DataFrame({"age": [30.0, 64.9, 65.0, 30.0], "hours": [39.0, 40.0, 40.0, 41.0]})
    found, b = fit.get_margeff(at), fit.params
    expected = {"age": b["age"], "hours": b["hours"] + b["I((age >= 65) * hours)"] / 4}
    np.testing.assert_allclose(found.params, list(expected.values()), rtol=1e-12)
    assert "Effects of age, hours leave out jumps: comparisons" in " ".join(str(found).split())
    assert "jumps" not in str(pf.ols("ols ~ age", people, schema=schema).get_margeff(at))
    alone = pf.ols("ols ~ age + I(hours > 40)", people, schema=schema).get_margeff(at)
    assert alone.params["hours"] == 0.0
    of_factor = pf.ols("ols ~ age + I((job == 'b') > 0)", people, schema=schema)
    assert "jumps" not in str(of_factor.get_margeff(at.assign(job="a")))
    assert np.isnan(alone.bse["hours"])
    assert "jumps" in str(alone)
    assert "jumps" not in str(
        pf.ols("ols ~ age + I(hours > 40)", people, schema=schema).get_margeff(at, ["age"])
    )


@pytest.mark.parametrize("upper", [1e3, 1e8, 1e12])
def test_effects_do_not_depend_on_how_wide_the_bounds_are(people, upper):
    """Of a function in the formula those of a declared transform, to rounding."""
    schema = {"hours": {"type": "numeric", "lower": 0, "upper": upper}, "ols": RESPONSES["ols"]}
    fit = pf.ols("ols ~ np.log1p(hours)", people, schema=schema, solver="non-private")
    for hours in (0.0, 1.0, 500.0):
        effect = fit.get_margeff(pd.DataFrame({"hours": [hours]})).params["hours"]
        assert effect == pytest.approx(fit.params["np.log1p(hours)"] / (1 + hours), rel=1e-12)


def test_predictions_of_what_has_no_index_are_counted(people):
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    fit = pf.ols("ols ~ age + hours", people, schema=schema, solver="non-private")
    chosen = PROFILES[["age", "hours"]]
    given = (chosen.to_numpy(), dict(chosen), pl.from_pandas(chosen), chosen)
    for one in given:
        pd.testing.assert_index_equal(fit.predict(one).index, pd.RangeIndex(4))
        pd.testing.assert_index_equal(fit.get_prediction(one).summary_frame().index, pd.RangeIndex(4))


def test_pickled_and_read_back(people):
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    fit = pf.ols("ols ~ np.log1p(hours) + C(job)", people, schema=schema, epsilon=5, random_state=1)
    again = pickle.loads(pickle.dumps(fit))  # noqa: S301 -- our own
    read = pf.FitResult.from_json(fit.to_json())
    for one in (again, read):
        for ask in ("get_prediction", "get_margeff"):
            pd.testing.assert_frame_equal(
                getattr(one, ask)(PROFILES).summary_frame(), getattr(fit, ask)(PROFILES).summary_frame()
            )
        pd.testing.assert_series_equal(one.wald_test_terms().pvalues, fit.wald_test_terms().pvalues)


def test_refusals(people):
    schema = {**SCHEMA, "logit": RESPONSES["logit"]}
    fit = pf.logit("logit ~ age + C(job)", people, schema=schema, random_state=1)
    with pytest.raises(InvalidArgument, match=r"terms of the model: Intercept, age, C\(job\)"):
        fit.compare_without("hours")
    with pytest.raises(InvalidArgument, match="adjust must be"):
        fit.t_test(adjust="none")
    with pytest.raises(InvalidArgument, match="at is needed: a public table"):
        fit.get_margeff()
    for of_statsmodels in ("overall", "mean", "median", "zero", "all"):
        with pytest.raises(InvalidArgument, match="at is needed: a public table"):
            fit.get_margeff(at=of_statsmodels)
    with pytest.raises(InvalidArgument, match="variables names 'hours'"):
        fit.get_margeff(PROFILES, ["hours"])
    for variables, kind in (("job", "str"), (3, "int"), ({"job"}, "set")):
        with pytest.raises(InvalidArgument, match=f"variables must be a list of column names, got {kind}"):
            fit.get_margeff(PROFILES, variables)
    for variables, hint in (
        (["np.log(age)"], "; pass 'age'"),
        (["C(job)"], "; pass 'job'"),
        (["C(job)[T.b]:age"], "; pass 'job'"),
        (["ages"], "; did you mean 'age'?"),
        (["Intercept"], "; known are 'age', 'job'"),
    ):
        with pytest.raises(InvalidArgument) as caught:
            fit.get_margeff(PROFILES, variables)
        said = f"variables names {variables[0]!r}, which is no raw column of the model{hint}"
        assert str(caught.value) == said
    with pytest.raises(InvalidArgument, match="did you mean 'age'"):
        fit.wald_test("agee = 0")
    with pytest.raises(InvalidArgument, match="variables names 3"):
        fit.get_margeff(PROFILES, [3])
    with pytest.raises(InvalidArgument, match="variables must name at least one"):
        fit.get_margeff(PROFILES, [])
    with pytest.raises(pf.SchemaError, match="job"):
        fit.get_prediction(PROFILES[["age"]])
    bare = pf.logit("logit ~ age", people, schema=schema, random_state=1, inference=False)
    for ask in (bare.t_test, bare.wald_test_terms, lambda: bare.get_prediction(PROFILES)):
        with pytest.raises(Incompatible, match="inference=True"):
            ask()
    margin = pf.svm("logit ~ age", people, schema=schema, random_state=1)
    for ask in (margin.get_prediction, margin.get_margeff):
        with pytest.raises(Incompatible, match=f"^{ask.__name__} needs a model of a mean.*decision_function"):
            ask(PROFILES)


def test_tables_as_text_and_html(people):
    schema = {**SCHEMA, "logit": RESPONSES["logit"]}
    fit = pf.logit("logit ~ age + C(job)", people, schema=schema, epsilon=8, random_state=1)
    for shown in (
        fit.t_test(adjust="bonferroni"),
        fit.wald_test_terms(adjust="holm"),
        fit.wald_test("age = 0"),
        fit.get_prediction(PROFILES),
        fit.get_margeff(PROFILES),
    ):
        text, html = str(shown), shown._repr_html_()
        assert "NOT PRIVATE" in text.splitlines()[0]
        assert html.count('class="mark"') == 2
        assert "<table>" in html
        assert "<dl>" not in html
    simultaneous, single = fit.t_test(adjust="bonferroni").conf_int(), fit.conf_int()
    assert ((simultaneous["upper"] - simultaneous["lower"]) > (single["upper"] - single["lower"])).all()


@pytest.mark.statistical
def test_joint_tests_keep_their_size():
    """P-values of 80 tests of a true null, taken together after Fisher; false-alarm rate 1e-6 for each kind.

    Standard errors off by a factor of two fail with a chance of .999. Noise is most of the variance here.
    """
    schema = {
        "x": {"type": "numeric", "lower": -1, "upper": 1},
        "g": {"type": "categorical", "levels": ["a", "b", "c"]},
        "y": {"type": "numeric", "lower": 0, "upper": 1},
    }
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], 2 * 80)
    found = {"term": [], "combination": []}
    for seed in range(80):
        rng = np.random.default_rng([4, seed])
        n = 4000
        table = {"x": rng.uniform(-1, 1, n), "g": rng.choice(["a", "b", "c"], n)}
        table["y"] = (rng.random(n) < 1 / (1 + np.exp(-0.5 * table["x"]))).astype(float)
        fit = pf.logit("y ~ x + C(g)", table, schema=schema, epsilon=1.5, random_state=seed)
        found["term"].append(fit.compare_without("C(g)").pvalue)
        found["combination"].append(fit.t_test("C(g)[T.b] - C(g)[T.c]").pvalues.iloc[0])
    together = {kind: -2.0 * np.sum(np.log(pvalues)) for kind, pvalues in found.items()}
    assert all(low <= one <= high for one in together.values()), together


def test_a_fit_without_inference_predicts(people):
    schema = {**SCHEMA, **RESPONSES, "class": {"type": "categorical", "levels": ["l", "m", "r"]}}
    for name, response in (("logit", "logit"), ("poisson", "poisson"), ("ols", "ols"), ("logit", "class")):
        fit = getattr(pf, name)
        formula = f"{response} ~ age + C(job)"
        bare = fit(formula, people, schema=schema, inference=False, random_state=1)
        full = fit(formula, people, schema=schema, random_state=1)
        kind = pd.Series if response != "class" else pd.DataFrame
        assert isinstance(bare.predict(PROFILES), kind)
        expected = full.get_prediction(PROFILES).predicted
        np.testing.assert_array_equal(full.predict(PROFILES).to_numpy().ravel(), expected)
        assert bare.predict(PROFILES).shape == full.predict(PROFILES).shape
    assert list(bare.predict(PROFILES).columns) == ["P(l)", "P(m)", "P(r)"]
    np.testing.assert_allclose(bare.predict(PROFILES).sum(axis=1), 1.0)
    plain = pf.ols("ols ~ age", people, schema=schema, inference=False, random_state=1)
    at = plain.predict({"age": [30.0, 60.0]})
    np.testing.assert_allclose(at, plain.params["Intercept"] + plain.params["age"] * np.array([30.0, 60.0]))
    with pytest.raises(Incompatible, match="from JSON of an earlier version"):
        dataclasses.replace(plain, encoder=None).predict(PROFILES)


@pytest.mark.parametrize("name", ["ols", "logit", "poisson", "class"])
def test_a_model_with_an_intercept_alone_predicts(people, name):
    schema = {**SCHEMA, **RESPONSES, "class": {"type": "categorical", "levels": ["l", "m", "r"]}}
    fit = getattr(pf, "logit" if name == "class" else name)(f"{name} ~ 1", people, schema=schema, epsilon=9)
    for one in (fit, pf.FitResult.from_json(fit.to_json())):
        values = one.predict(PROFILES.set_axis([9, 4, 4, 2]))
        assert values.index.tolist() == [9, 4, 4, 2]
        assert np.ptp(values.to_numpy(), axis=0).max() == 0.0
        np.testing.assert_array_equal(one.get_prediction(PROFILES).predicted, values.to_numpy().ravel())
        assert len(one.decision_function(PROFILES)) == 4
        with pytest.raises(
            InvalidArgument, match="get_margeff needs a covariate, and the model has an inter"
        ):
            one.get_margeff(PROFILES)
    if name == "ols":
        np.testing.assert_array_equal(values, fit.params["Intercept"])


def test_other_names_of_statsmodels_are_explained(people):
    fit = pf.ols("ols ~ age", people, schema={**SCHEMA, "ols": RESPONSES["ols"]}, epsilon=9)
    predictions, effects = fit.get_prediction(PROFILES), fit.get_margeff(PROFILES)
    for table, name, said in (
        (effects, "margeff", "params"),
        (effects, "margeff_se", "bse"),
        (predictions, "predicted_mean", "predicted"),
        (predictions, "se_mean", "se"),
    ):
        with pytest.raises(AttributeError, match=f"has no attribute '{name}': it is called {said}$"):
            getattr(table, name)
        assert hasattr(table, said)
    with pytest.raises(AttributeError, match=r"no attribute 'bse'$"):
        predictions.bse  # noqa: B018
    for call in (predictions.conf_int, predictions.summary_frame, predictions.summary, effects.summary_frame):
        with pytest.raises(InvalidArgument, match=r"alpha=0\.05 is level=0\.95"):
            call(alpha=0.05)


def test_a_stream_is_for_estimators(people):
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    with pytest.raises(InvalidArgument, match="a RowStream goes with estimators"):
        pf.ols("ols ~ age", pf.RowStream([people], n_rows=len(people)), schema=schema)


@pytest.mark.parametrize("quantile", [0.5, 0.9])
def test_quantiles_are_not_called_means(people, quantile):
    schema = {**SCHEMA, "ols": RESPONSES["ols"]}
    fit = pf.quantile("ols ~ age + C(job)", people, schema=schema, quantile=quantile, epsilon=9)
    name = f"quantile({quantile:g})"
    for one in (fit, pf.FitResult.from_json(fit.to_json())):
        assert one.predict(PROFILES).name == name
        found = one.get_prediction(PROFILES)
        assert list(found.summary_frame()) == ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper"]
        text = " ".join(str(found).split())
        assert f"Predicted quantiles ({quantile:g})" in text
        assert "Intervals are for the quantile at these covariates" in text
        assert "mean" not in text
    record = json.loads(fit.to_json())
    del record["result"]["form"]["quantile"]  # as written before it was kept
    assert pf.FitResult.from_json(json.dumps(record)).predict(PROFILES).name == "mean"
    hidden = dataclasses.replace(fit, cov_noise=np.diag([0.0, 0.0, np.inf, 0.0]))
    assert "nothing can be concluded about this quantile" in " ".join(
        str(hidden.get_prediction(PROFILES)).split()
    )
    assert pf.ols("ols ~ age", people, schema=schema).predict(PROFILES).name == "mean"


@pytest.mark.parametrize("wrap", [lambda loss: loss, pf.losses.Schweppe])
def test_an_estimator_of_a_check_loss_predicts_quantiles(people, wrap):
    x, y = people[["age", "hours"]] / 100, people["ols"] / 50
    loss = wrap(pf.losses.SmoothedQuantile(0.25, 0.1))
    result = pf.MEstimator(loss=loss, random_state=0).fit(x, y).result_
    assert result.predict(x[:2]).name == "quantile(0.25)"


def test_which_quantile_is_checked(people):
    form = pf.ols("ols ~ age", people, schema={**SCHEMA, "ols": RESPONSES["ols"]}).form
    for wrong in (
        {"quantile": 1.0},
        {"quantile": 0.0},
        {"quantile": np.nan},
        {"quantile": 0.5, "link": "log"},
    ):
        with pytest.raises(InvalidArgument, match="quantile must lie between 0 and 1"):
            dataclasses.replace(form, **wrong)


def test_a_support_vector_machine_predicts_classes(people):
    """By formula as by the estimator, in the spelling of the schema; the estimator sorts the classes."""
    levels = {"type": "categorical", "levels": ["stay", "go"], "target": True}
    named = people.assign(choice=np.where(people["logit"] > 0, "go", "stay"))
    schema = {"age": SCHEMA["age"], "hours": SCHEMA["hours"], "choice": levels}
    rows = PROFILES.set_axis([9, 4, 4, 2])
    found = pf.svm("choice ~ age + hours", named, schema=schema, solver="non-private", inference=False)
    estimator = pf.LinearSVC(schema=pf.Schema(schema), solver="non-private").fit(named)
    classes, decisions = found.predict(rows), found.decision_function(rows)
    assert set(classes) == {"stay", "go"}
    assert (classes.name, decisions.name) == ("choice", "decision")
    np.testing.assert_array_equal(classes, estimator.predict(rows))
    np.testing.assert_allclose(decisions, -estimator.decision_function(rows), rtol=1e-5)
    np.testing.assert_array_equal(classes == "go", decisions > 0)
    for one in (classes, decisions):
        assert one.index.tolist() == [9, 4, 4, 2]
    numbers = pf.svm(
        "logit ~ age + hours", people, schema={**SCHEMA, "logit": RESPONSES["logit"]}, solver="non-private"
    )
    assert numbers.predict(rows).tolist() == (classes == "go").astype(int).tolist()


def test_the_linear_predictor_of_other_models(people):
    schema = {**SCHEMA, **RESPONSES, "class": {"type": "categorical", "levels": ["l", "m", "r"]}}
    for name, inverse in (("logit", expit), ("poisson", np.exp), ("ols", np.asarray)):
        fit = getattr(pf, name)(f"{name} ~ age + C(job)", people, schema=schema, solver="non-private")
        np.testing.assert_allclose(inverse(fit.decision_function(PROFILES)), fit.predict(PROFILES))
    fit = pf.logit("class ~ age", people, schema=schema, solver="non-private")
    found = fit.decision_function(PROFILES)
    assert list(found.columns) == ["l", "m", "r"]
    np.testing.assert_allclose(found.sum(axis=1), 0.0, atol=1e-12)
    np.testing.assert_allclose(softmax(found, axis=1), fit.predict(PROFILES))


def test_a_loss_of_counts_that_defines_no_mean_has_a_linear_predictor(people):
    schema = {**SCHEMA, "poisson": {**RESPONSES["poisson"], "target": True}}
    fit = pf.ols("poisson ~ age", people, schema=schema, solver="non-private")
    bare = dataclasses.replace(fit, form=dataclasses.replace(fit.form, link="none"))
    with pytest.raises(Incompatible, match=r"^predict needs a mean or classes.*decision_function"):
        bare.predict(PROFILES)
    np.testing.assert_array_equal(bare.decision_function(PROFILES), fit.predict(PROFILES))


def test_tables_at_covariates_explain_infinite_standard_errors(people):
    schema = {**SCHEMA, "logit": RESPONSES["logit"]}
    fit = pf.logit("logit ~ age + C(job)", people, schema=schema, epsilon=8, random_state=1)
    hidden = dataclasses.replace(fit, cov_noise=np.diag([0.0, 0.0, np.inf, 0.0]))
    at = PROFILES[:2]
    far = dataclasses.replace(fit, estimate=np.full(4, 1e4))
    noise = (
        "std err inf: the privacy noise left no usable standard error, or the method has not come near the "
        "optimum, so nothing can be concluded about"
    )
    flat = "std err nan: the curve is too flat or too steep there"

    def words(result, ask):
        return " ".join(str(getattr(result, ask)(at)).split())

    for ask, about in (("get_prediction", "this mean"), ("get_margeff", "this effect")):
        assert f"{noise} {about}. More rows" in words(hidden, ask)
        assert flat in words(far, ask)
        for absent in ("std err inf", "std err nan"):
            assert absent not in words(fit, ask)


@pytest.mark.parametrize("size", [1e4, -1e4])
@pytest.mark.parametrize("name", ["logit", "poisson"])
def test_nothing_is_concluded_where_the_curve_is_flat_or_overflows(people, name, size):
    """Coefficients far out, of which nothing is known: an effect of 0 with no error would be a finding."""
    schema = {**SCHEMA, name: RESPONSES[name]}
    fit = getattr(pf, name)(f"{name} ~ age", people, schema=schema, epsilon=0.01, random_state=1)
    far = dataclasses.replace(fit, estimate=np.array([size, size]))
    effects = far.get_margeff(PROFILES)
    assert not np.isfinite(effects.bse).any()
    assert (effects.pvalues == 1.0).all()
    assert (effects.conf_int().abs() == np.inf).all(axis=None)
    predictions = far.get_prediction(PROFILES)
    assert not np.isfinite(predictions.se).any()
    widest = predictions.conf_int()
    assert (widest["lower"] == 0.0).all()
    assert (widest["upper"] == (1.0 if name == "logit" else np.inf)).all()
